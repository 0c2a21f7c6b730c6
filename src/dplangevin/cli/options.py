"""What several commands share: options as the fields of a dataclass, and the classes that options name."""

from __future__ import annotations

import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from dplangevin.checks import require

Command = Callable[..., None]


def flag(name: str) -> str:
    """Return the option of a field, such as --public-rows."""
    return "--" + name.replace("_", "-")


def option(text: str, *names: str, **more: Any) -> Any:
    """Return a `typer.Option` with this help."""
    return typer.Option(*names, help=text, **more)


def with_options(options: type) -> Callable[[Command], Command]:
    """Return a decorator that gives a command an option for each field of a dataclass, its first argument."""
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


def separated(text: str) -> list[str]:
    """Return the words that commas separate."""
    return [word.strip() for word in text.split(",") if word.strip()]


def check_folder(out: Path, others: Iterable[str], what: str) -> None:
    """Raise ValueError for an --out that is a file, or that has files of others, which results may replace."""
    require(out.is_dir() or not out.exists(), f"--out {out} is a file: name a folder, which may be a new one")
    for name in sorted(others):
        raise ValueError(f"--out {out} has a file that is of no {what}, {name}: name another folder")


def imported(text: str) -> Any:
    """Return the object that module:name or module.name stands for; the module may be in the current folder."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        return pkgutil.resolve_name(text if ":" in text else ":".join(text.rsplit(".", 1)))
    except Exception as error:  # a module of a user can raise anything
        fix = "need module:Class, with the module in this folder or on PYTHONPATH"
        raise ValueError(f"cannot import {text!r} ({type(error).__name__}: {error}): {fix}") from error


def is_own(method: str) -> bool:
    """Return whether the name of a method stands for a class of the user."""
    return "." in method or ":" in method


def method_named(name: str) -> Any:
    """Return a method of the package by its name, or one of the user's by module.Class."""
    from dplangevin.methods.registry import named

    if not is_own(name):
        return named(name)
    kind = imported(name)
    try:
        method = kind()
    except Exception as error:  # a class of a user can raise anything
        fix = "it must make a method without arguments, so give each of its settings a default"
        raise ValueError(f"{name}() fails, {type(error).__name__}: {error}: {fix}") from error
    has = isinstance(kind, type) and all(hasattr(method, part) for part in ("plan", "release", "budgeted"))
    require(has, f"{name} is no method: need a class with plan, release and budgeted, see dplangevin.Method")
    return method


def config_of(value: Any, own: bool = True) -> Any:
    """Return the config that builds an object; without `own` the class alone builds one of the user's."""
    value = getattr(value, "tolist", lambda: value)()  # the class alone makes 0 of a number of numpy
    kind = type(value)
    if isinstance(value, list | tuple):
        return [config_of(each, own) for each in value]
    if kind.__module__ == "builtins":
        return value
    whole = own or kind.__module__.startswith("dplangevin.")
    parts = fields(value) if whole and hasattr(kind, "__dataclass_fields__") else ()
    settings = {part.name: config_of(getattr(value, part.name), own) for part in parts if part.init}
    return {"_target_": f"{kind.__module__}.{kind.__qualname__}", **settings}
