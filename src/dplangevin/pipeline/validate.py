"""Validation of config values against the annotations of the objects that they build.

`check` compares a value with an annotation by pydantic, and each entry with a `_target_` with the parameters of that
class or function. If the target is a dataclass or an attrs class, and each of its arguments is a value or such an
object, `check` also builds it, so that its `__post_init__` checks the values. It never calls functions.

>>> from collections.abc import Sequence
>>> check({"delta": 1, "steps": [1, float("nan")]}, key="privacy")
['privacy.delta = 1 must be a number in [0, 1)', 'privacy.steps[1] = nan is no value']
>>> check([1, "2"], Sequence[int] | None, "sizes")
["sizes[1] = '2' must be a valid integer (without quotes)"]
>>> check({"_target_": "dplangevin.problems.sampling.Sampling", "scheme": "full", "batch": -1}, key="sampling")
['sampling: scheme full takes all rows: leave out batch = -1']
"""

import inspect
import json
import math
import pkgutil
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails, PydanticCustomError

from dplangevin.text import meant

WORDS: set[str] = set()  # of all groups
HYDRA = ("_target_", "_partial_", "_convert_", "_recursive_", "_args_")
OPEN: Any = object()  # stands for an object that is not built here
PLAIN = (bool, int, float, str, NoneType)
QUOTED = ("bool_type", "int_type", "float_type")  # errors of a text where a number or true or false belongs


class Group(BaseModel, strict=True, extra="forbid"):
    """A mapping that builds no object; the fields of a subclass are the words of the mapping."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        WORDS.update(cls.model_fields)


def check(value: Any, hint: Any = Any, key: str = "") -> list[str]:
    """Return what is wrong with plain values, whose dotted name is `key`: a line for each, with key, value and domain.

    It imports what a `_target_` names, so it is for values of conf/, which is code.
    """
    faults = _mismatches(value, hint, key)
    _build(value, key, faults)
    return faults


def annotations(target: Any) -> dict[str, Any]:
    """Return parameter name -> annotation of a target; a name that is imported only for type checkers becomes Any."""
    if isinstance(target, type) and not is_dataclass(target):
        target = target.__init__  # type: ignore[misc]
    absent: dict[str, Any] = {}
    while True:
        try:
            return typing.get_type_hints(target, localns=absent, include_extras=True)
        except NameError as error:
            absent[str(error.name)] = Any


def _wrong_number(value: float, key: str) -> str:
    """Return what is wrong with a number that is nan, or that is called epsilon or delta and outside its domain."""
    words = re.sub(r"\[\d+\]", "", key).split(".")
    if math.isnan(value):
        return "is no value"
    if (words[-1] == "epsilon" or "epsilons" in words) and not value > 0:
        return "must be a number above 0"
    wrong = (words[-1] == "delta" or "deltas" in words) and not 0 <= value < 1
    return "must be a number in [0, 1)" * wrong


# Types


def _mismatches(value: Any, hint: Any, key: str, words: Iterable[str] = WORDS) -> list[str]:
    """Return what pydantic says of a plain value, one line for each key; `words` are the known keys."""
    lines: dict[str, dict[str, None]] = {}
    try:
        _adapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            start, reason = _described(each, value, key, words)
            lines.setdefault(start, {})[reason] = None
    return [start + " or ".join(reasons) for start, reasons in lines.items()]


def _described(error: ErrorDetails, given: Any, key: str, words: Iterable[str]) -> tuple[str, str]:
    """Return the start of the line, which names key and value, and the reason."""
    for step in error["loc"]:  # also names the member of a union, which is no key
        if isinstance(given, list) and isinstance(step, int) and step < len(given):
            key, given = f"{key}[{step}]", given[step]
        elif isinstance(given, Mapping) and step in given:
            key, given = _below(key, step), given[step]
    if error["type"] == "missing":
        return f"{_below(key, error['loc'][-1])} is missing", ""
    if error["type"] == "extra_forbidden":
        return f"{key}: nothing reads it{meant(str(error['loc'][-1]), words)}", ""
    reason = error["msg"].replace("Input should", "must").replace("String should", "must")
    quotes = " (without quotes)" if error["type"] in QUOTED and isinstance(given, str) else ""
    return f"{key} = {_shown(given)} ", reason + quotes


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_plain(hint))


def _plain(hint: Any) -> Any:
    """Return the annotation of the plain value: an object is an entry with a `_target_`."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return Any
    if hint in (None, ...) or hint in PLAIN or origin in (Annotated, Literal):
        return hint
    if origin in (Union, UnionType):
        return Union[tuple(map(_plain, args))]  # noqa: UP007
    if isinstance(origin, type) and issubclass(origin, Iterable):
        container: Any = origin
        return container[tuple(map(_plain, args))]
    if isinstance(hint, type) and issubclass(hint, BaseModel | list | dict):
        return hint
    return Annotated[Any, entry_of(getattr(hint, "__name__", str(hint)))]


def entry_of(name: str) -> PlainValidator:
    """Return the validator of an entry that builds an object, which messages call by this name."""

    def entry(value: Any) -> Any:
        if not (isinstance(value, Mapping) and "_target_" in value):
            raise PydanticCustomError("object", "must be an object ({name})", {"name": name})
        return value

    return PlainValidator(entry)


# Objects


def _build(value: Any, key: str, faults: list[str]) -> Any:
    """Return the value with its objects built, and add their faults; OPEN if an object is not built here."""
    if isinstance(value, list):
        items = [_build(each, f"{key}[{i}]", faults) for i, each in enumerate(value)]
        return OPEN if any(each is OPEN for each in items) else items
    if not isinstance(value, Mapping):
        if isinstance(value, int | float) and (why := _wrong_number(value, key)):
            faults.append(f"{key} = {value} {why}")
        return value
    before = len(faults)
    plain = {word: each for word, each in value.items() if word not in HYDRA}
    given = {word: _build(each, _below(key, word), faults) for word, each in plain.items()}
    closed = all(each is not OPEN for each in given.values())
    if "_target_" not in value:
        return given if closed else OPEN
    try:
        target: Any = pkgutil.resolve_name(value["_target_"])
        whole = isinstance(target, type) and (is_dataclass(target) or hasattr(target, "__attrs_attrs__"))
        whole = whole and not (value.get("_partial_") or "_args_" in value)
        arguments = _arguments(target, whole)
    except Exception as why:  # a module from anywhere can raise anything
        name, fix = f"{_below(key, '_target_')} = {_shown(value['_target_'])}", "in a folder on PYTHONPATH"
        faults.append(
            f"{name} cannot be imported and called ({why}): a module outside the package must be {fix}"
        )
        return OPEN
    faults += _mismatches(plain, arguments, key, {*inspect.signature(target).parameters, *WORDS})
    if whole and closed and len(faults) == before:
        try:
            return target(**given)
        except Exception as error:  # a class from anywhere can raise anything
            faults.append(f"{key}: {error}")
    return OPEN


@cache
def _arguments(target: Any, whole: bool) -> type[BaseModel]:
    """Return a model of the arguments of a class or a function; if `whole`, none may be missing."""
    parameters, hints = inspect.signature(target).parameters.values(), annotations(target)
    more = any(each.kind is each.VAR_KEYWORD for each in parameters)
    fields = dict[str, Any]()
    for i, each in enumerate(parameters):
        field = Field(... if whole and each.default is each.empty else None, alias=each.name)
        fields[f"p{i}"] = _plain(hints.get(each.name, Any)), field
    config = ConfigDict(strict=True, extra="allow" if more else "forbid")
    return create_model(target.__name__, __config__=config, **fields)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _below(key: str, name: Any) -> str:
    return f"{key}.{name}" if key else str(name)
