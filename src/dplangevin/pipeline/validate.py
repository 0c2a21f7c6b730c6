"""Checks values of conf/ by pydantic, against `schema` and the annotations of the objects that they build.

A mapping with a `_target_` is checked against the parameters of that class or function. A dataclass is then built, so
that its `__post_init__` checks the values. Functions are never called.

>>> check({"_target_": "dplangevin.problems.sampling.Sampling", "scheme": "poisson", "batch": "2"}, key="sampling.")
["sampling.batch = '2': Input should be a valid integer"]
"""

import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Field, PlainValidator, TypeAdapter, ValidationError, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from dplangevin.text import meant

HYDRA = ("_target_", "_partial_", "_convert_")
TAKEN = ("backbone", "content", "made_by")  # words that readers take out; they add arguments instead
Epsilon = Annotated[float, Field(gt=0)]
NUMBERS = {"epsilon": Epsilon, "delta": Annotated[float, Field(ge=0, lt=1)]}  # by the name of an argument
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
        whole = is_dataclass(target) and not value.get("_partial_") and not given.keys() & TAKEN
        arguments = _validated(_arguments(target), given)
        return target(**arguments) if whole and OPEN not in arguments.values() else OPEN
    except ValidationError:
        raise
    except Exception as why:  # a module from anywhere can raise anything
        raise PydanticCustomError("object", "{why}", {"why": str(why)}) from why


Entry = Annotated[Any, PlainValidator(_entry)]
Free = Annotated[Any, PlainValidator(_free)]


@cache
def _arguments(target: Any) -> Any:
    """Return the type of a target's arguments, all of them optional."""
    parameters = signature(target).parameters.values()
    fields = {each.name: _plain(each.annotation, each.name) for each in parameters}
    more = any(each.kind is each.VAR_KEYWORD for each in parameters)
    make: Any = with_config(extra="allow" if more else "forbid")
    return make(TypedDict("arguments", fields | dict.fromkeys(TAKEN, str | None), total=False))  # type: ignore[operator]


def signature(target: Any, **absent: Any) -> inspect.Signature:
    """Return a target's signature with its annotations; one that is imported only for type checkers becomes Any."""
    try:
        return inspect.signature(target, locals=absent, eval_str=True)
    except NameError as error:
        return signature(target, **absent, **{str(error.name): Any})


def _plain(hint: Any, name: str) -> Any:
    """Return the annotation of an argument's plain value, in which an object is an entry with a `_target_`."""
    origin = get_origin(hint)
    if hint is float:
        return NUMBERS.get(name.removesuffix("s"), float)
    if hint in PLAIN or origin in (Annotated, Literal):
        return hint
    if hint in (Any, object, list, dict, tuple, inspect.Parameter.empty):
        return Free
    if origin in (None, Callable):
        return Entry
    return (Union if origin is UnionType else origin)[tuple(_plain(each, name) for each in get_args(hint))]


def check(value: Any, hint: Any = Free, key: str = "") -> list[str]:
    """Return what is wrong with plain values: a line for each, with `key` and its dotted name, and the value.

    It imports what a `_target_` names, so it is for values of conf/, which is code.
    """
    text = json.dumps(value, ensure_ascii=False)
    words = {*re.findall(r'"([^"]+)":', text)}
    nan = re.findall(r'"([^"]+)": [^"{}]*\bNaN\b', text)  # which most types accept
    faults = [f"{key}{word} = nan: must be a number" for word in nan]
    try:
        _validated(hint, value)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            steps = [str(step) for step in each["loc"]]  # also the members of unions, which are no words
            at = (key + ".".join(step for step in steps if step in words or step.isdecimal())).rstrip(".")
            given = "" if isinstance(each["input"], Mapping) else f" = {each['input']!r}"
            last = steps[-1] if steps else ""
            more = {"missing": f": {last}", "extra_forbidden": meant(last, words - {last})}
            faults.append(f"{at}{given}: {each['msg']}{more.get(each['type'], '')}")
    return [*dict.fromkeys(faults)]
