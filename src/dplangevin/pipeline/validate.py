"""Checks values of conf/ by pydantic, against `schema` and the annotations of the objects that they build.

A mapping with a `_target_` is checked against the parameters of that class or function. A dataclass is then built, so
that its `__post_init__` checks the values. Functions are never called.

>>> check({"_target_": "dplangevin.problems.sampling.Sampling", "scheme": "poisson", "batch": "2"}, key="sampling")
["sampling.batch = '2': Input should be a valid integer"]
"""

import inspect
import json
import math
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from pydantic import PlainValidator, TypeAdapter, ValidationError, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from dplangevin.text import meant

HYDRA = ("_target_", "_partial_", "_convert_")
TAKEN = ("backbone", "content", "made_by")  # words that readers take out; they add arguments instead
OPEN: Any = object()  # stands for an object that is not built here
PLAIN = (bool, int, float, str, NoneType, ...)
_adapter: Any = cache(TypeAdapter)


def _validated(hint: Any, value: Any) -> Any:
    """Return a value with its objects built; by JSON, in which a list can be a tuple."""
    return _adapter(hint).validate_json(json.dumps(value), strict=True)


def _free(value: Any) -> Any:
    """Return a value of any type with its objects built."""
    if isinstance(value, Mapping):
        return _entry(value) if "_target_" in value else _validated(Mapping[str, Free], value)
    return _validated(Sequence[Free], value) if isinstance(value, list) else value


def _entry(value: Any) -> Any:
    """Return the dataclass that a mapping with a `_target_` builds; OPEN for others."""
    if not (isinstance(value, Mapping) and "_target_" in value):
        raise PydanticCustomError("object", "Input should be an object, with a _target_")
    given = {word: each for word, each in value.items() if word not in HYDRA}
    try:
        target: Any = pkgutil.resolve_name(value["_target_"])
        whole = isinstance(target, type) and is_dataclass(target) and not value.get("_partial_")
        whole = whole and not given.keys() & TAKEN
        arguments = _validated(_arguments(target, whole), given)
        return target(**arguments) if whole and OPEN not in arguments.values() else OPEN
    except ValidationError:
        raise
    except Exception as why:  # a module from anywhere can raise anything
        raise PydanticCustomError("object", "{why}", {"why": str(why)}) from why


Entry = Annotated[Any, PlainValidator(_entry)]
Free = Annotated[Any, PlainValidator(_free)]


@cache
def _arguments(target: Any, whole: bool) -> Any:
    """Return the type of a target's arguments; if `whole`, none may be missing."""
    parameters, fields = signature(target).parameters.values(), dict[str, Any]()
    for each in parameters:
        needed = Required if whole and each.default is each.empty else NotRequired
        fields[each.name] = needed[_plain(each.annotation)]
    fields |= dict.fromkeys(TAKEN, NotRequired[str | None])
    more = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return with_config(extra="allow" if more else "forbid")(TypedDict("arguments", fields))  # type: ignore[operator]


def signature(target: Any, **absent: Any) -> inspect.Signature:
    """Return a target's signature with its annotations; one that is imported only for type checkers becomes Any."""
    try:
        return inspect.signature(target, locals=absent, eval_str=True)
    except NameError as error:
        return signature(target, **absent, **{str(error.name): Any})


def _plain(hint: Any) -> Any:
    """Return the annotation of the plain value, in which an object is an entry with a `_target_`."""
    origin = get_origin(hint)
    if hint in PLAIN or origin in (Annotated, Literal):
        return hint
    if hint in (Any, object, list, dict, tuple, inspect.Parameter.empty):
        return Free
    if origin in (None, Callable):
        return Entry
    return (Union if origin is UnionType else origin)[tuple(map(_plain, get_args(hint)))]


def check(value: Any, hint: Any = Free, key: str = "") -> list[str]:
    """Return what is wrong with plain values, whose dotted name is `key`: a line for each, with key and value.

    It imports what a `_target_` names, so it is for values of conf/, which is code.
    """
    faults = [*_wrong_numbers(value)]
    try:
        _validated(hint, value)
    except ValidationError as error:
        words = {*re.findall(r'"(\w+)":', json.dumps(value))}
        for each in error.errors(include_url=False):
            last = str(each["loc"][-1]) if each["loc"] else ""
            more = {"missing": f": {last}", "extra_forbidden": meant(last, words - {last})}
            faults.append((each["loc"], each["msg"] + more.get(each["type"], "")))
    return [*dict.fromkeys(f"{_at(path, value, key)}: {why}" for path, why in faults)]


def _wrong_numbers(value: Any, *path: int | str) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Yield path and fault of each number that is nan, or that is called epsilon or delta and outside its domain."""
    for name, each in enumerate(value) if isinstance(value, list) else getattr(value, "items", list)():
        yield from _wrong_numbers(each, *path, name)
    if isinstance(value, int | float):
        last = [name for name in path if isinstance(name, str)][-1:]
        if (last == ["epsilon"] or "epsilons" in path) and not value > 0:
            yield path, "must be a number above 0"
        elif (last == ["delta"] or "deltas" in path) and not 0 <= value < 1:
            yield path, "must be a number in [0, 1)"
        elif math.isnan(value):
            yield path, "must be a number"


def _at(path: Sequence[int | str], value: Any, key: str) -> str:
    """Return the dotted name of a part of a value, and that part unless it is a mapping."""
    for step in path:  # also names the member of a union, which is no key
        if isinstance(step, int) if isinstance(value, list) else isinstance(value, Mapping) and step in value:
            key, value = f"{key}.{step}".lstrip("."), value[step]
    return key if isinstance(value, Mapping) else f"{key} = {value!r}"
