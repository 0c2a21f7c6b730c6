"""Checks of arguments, which raise ValueError with a message that names the argument and its value.

>>> positive(step=0.5, clip=1.0)
>>> positive(step=-1.0)
Traceback (most recent call last):
    ...
ValueError: step must be positive and finite, not -1.0
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin

DOMAINS: Mapping[str, Callable[[float], bool]] = {
    "positive": lambda value: value > 0,
    "positive and finite": lambda value: value > 0 and math.isfinite(value),
    "finite and >= 0": lambda value: value >= 0 and math.isfinite(value),
    "in (0, 1)": lambda value: 0 < value < 1,
    "in [0, 1)": lambda value: 0 <= value < 1,
}
_SETTINGS = {  # the settings of methods in each domain
    "positive": "full_step_noise",
    "positive and finite": "clip noise_multiplier noise_std radius refresh samples spread step steps",
    "finite and >= 0": "l2 precision ridge",
    "in (0, 1)": "alpha friction share",
    "in [0, 1)": "burn_in momentum",
}
DOMAIN_OF = {name: domain for domain, names in _SETTINGS.items() for name in names.split()}


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


def settings(of: Any, **domains: str) -> None:
    """Raise ValueError unless each field of a dataclass has a value of its Literal, or is in its name's domain.

    `domains` come before those of `DOMAIN_OF`.  None is allowed where the annotation allows it.
    """
    for field in fields(of):
        name, value, kinds = field.name, getattr(of, field.name), (field.type, *get_args(field.type))
        if value is None and (NoneType in kinds or isinstance(field.type, str)):  # a text is not evaluated
            continue
        known = [each for kind in kinds if get_origin(kind) is Literal for each in get_args(kind)]
        if known:
            require(value in known, f"{name} must be one of {', '.join(map(str, known))}, not {value!r}")
        elif domain := domains.get(name, DOMAIN_OF.get(name)):
            inside = isinstance(value, Real) and DOMAINS[domain](float(value))
            require(inside, f"{name} must be {domain}, not {value!r}")


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
