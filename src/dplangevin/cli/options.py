"""What several commands share: options as the fields of a dataclass, and the files and classes that they name."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from dplangevin.checks import require

Command = Callable[..., None]


def flag(name: str) -> str:
    """Return the option of a field, such as --noise-std."""
    return "--" + name.replace("_", "-")


def option(text: str, *names: str, **more: Any) -> Any:
    """Return a `typer.Option` with this help."""
    return typer.Option(*names, help=text, **more)


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


def separated(text: str) -> list[str]:
    """Return the words that commas separate."""
    return [word.strip() for word in text.split(",") if word.strip()]


def table_file(path: Path) -> Path:
    """Return the path of a table after checking that it is a regular file."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name the file of the table")
    if not path.exists():
        raise ValueError(f"there is no file {path}")
    if not path.is_file():
        raise ValueError(f"{path} is no regular file: save the table to one, since it is read more than once")
    return path


def imported(text: str, mark: str) -> Any:
    """Return the object that `text` names: a module, `mark` (a point or a colon), and the object's name.

    The module may be in the current folder.
    """
    module, _, name = text.rpartition(mark)
    if not (module and name):
        raise ValueError(f"{text!r} must be module{mark}Class, such as mine{mark}Learner")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module of a user can raise anything
        raise ValueError(
            f"cannot import {text!r} ({type(error).__name__}: {error}): is it in this folder or on PYTHONPATH? "
            "DPL_DEBUG=1 shows the line that fails"
        ) from error
    return found


def class_named(target: str) -> Any:
    """Return a user's method, given as module.Class."""
    method = imported(target, ".")
    require(isinstance(method, type), f"{target} is an object of {type(method).__name__}: name its class")
    for part in ("plan", "release", "budgeted"):
        text = f"{target} is no method: it has no {part}, see dplangevin.methods.Method"
        require(hasattr(method, part), text)
    return method
