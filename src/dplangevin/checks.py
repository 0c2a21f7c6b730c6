"""Checks of arguments: each raises ValueError with a message that names the argument and its value.

>>> positive(step=0.5, clip=1.0)
>>> positive(step=-1.0)
Traceback (most recent call last):
    ...
ValueError: step must be positive and finite, not -1.0
"""

import math


def require(condition: bool, message: str) -> None:
    """ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def positive(**values: float) -> None:
    """Each keyword must be a positive finite number; the error names the argument."""
    for name, value in values.items():
        require(value > 0 and math.isfinite(value), f"{name} must be positive and finite, not {value}")


def not_negative(**values: float) -> None:
    """Each keyword must be finite and >= 0; the error names the argument."""
    for name, value in values.items():
        require(value >= 0 and math.isfinite(value), f"{name} must be finite and >= 0, not {value}")
