"""Checks of arguments, which raise ValueError with a message that names the argument and its value.

>>> positive(step=0.5, clip=1.0)
>>> positive(step=-1.0)
Traceback (most recent call last):
    ...
ValueError: step must be positive and finite, not -1.0
"""

import math
from numbers import Integral, Real
from typing import Any


def require(condition: bool, message: str) -> None:
    """Raise ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def positive(**values: float) -> None:
    """Raise ValueError unless each keyword's value is positive and finite."""
    for name, value in values.items():
        require(value > 0 and math.isfinite(value), f"{name} must be positive and finite, not {value}")


def not_negative(**values: float) -> None:
    """Raise ValueError unless each keyword's value is finite and >= 0."""
    for name, value in values.items():
        require(value >= 0 and math.isfinite(value), f"{name} must be finite and >= 0, not {value}")


def count(least: int, **values: Any) -> None:
    """Raise ValueError unless each keyword's value is a whole number of at least `least`."""
    for name, value in values.items():
        number = isinstance(value, Integral) and not isinstance(value, bool)
        require(number and value >= least, f"{name} = {value!r} must be a whole number of at least {least}")


def real(**named: Any) -> float:
    """Return the value of the only keyword as a float; raise ValueError unless it is a real number."""
    ((name, value),) = named.items()
    kind = type(value).__name__
    number = isinstance(value, Real) and not isinstance(value, bool)
    require(number, f"{name} = {value!r} must be a number, not {kind}: give it as a float")
    return float(value)
