"""Options that several commands share, as the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

Command = Callable[..., None]


def flag(name: str) -> str:
    """Return the command-line option of a field, such as --noise-std."""
    return "--" + name.replace("_", "-")


def with_options(options: type) -> Callable[[Command], Command]:
    """Return a decorator that gives a command an option for each field of a dataclass.

    The decorated command receives an instance of the dataclass as its first argument.
    """
    shared = inspect.signature(options, eval_str=True).parameters

    def decorate(command: Command) -> Command:
        own = [*inspect.signature(command, eval_str=True).parameters.values()][1:]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared.values())]

        @wraps(command)
        def run(**values: Any) -> None:
            command(options(**{name: values.pop(name) for name in shared}), **values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def budgets(text: str) -> list[float]:
    """Return the budgets of --epsilon, ascending; raise ValueError for other texts."""
    try:
        return sorted({float(each) for each in text.split(",")})
    except ValueError:
        raise ValueError(f"--epsilon {text}: need numbers separated by commas, such as 0.1,1,10") from None
