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

import builtins
import inspect
import json
import math
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import ConfigDict, PlainValidator, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from dplangevin.text import meant

HYDRA = ("_target_", "_partial_", "_convert_", "_recursive_", "_args_")
OPEN: Any = object()  # stands for an object that is not built here
SHOWN = 60  # characters of a value in a message
PLAIN = (bool, int, float, str, NoneType)
QUOTED = ("bool_type", "int_type", "float_type")  # errors of a text where a number or true or false belongs


class Group:
    """A mapping that builds no object: each subclass is a dataclass, and its fields are the words of the mapping."""

    __pydantic_config__: ClassVar = ConfigDict(strict=True, extra="forbid")
    words: ClassVar[set[str]] = set()  # of all groups

    def __init_subclass__(cls) -> None:
        Group.words.update(inspect.get_annotations(cls))


# The domain of all numbers at a key with this name, or below it
EPSILON = ("a number above 0", lambda value: value > 0)
DELTA = ("a number in [0, 1)", lambda value: 0 <= value < 1)
DOMAINS = {"epsilon": EPSILON, "epsilons": EPSILON, "delta": DELTA, "deltas": DELTA}


def check(value: Any, hint: Any = Any, key: str = "", *, objects: bool = True) -> list[str]:
    """Return what is wrong with plain values: one line per fault, with key, value and domain.

    - `key`: Dotted name of the value, for messages.
    - `objects`: Whether a `_target_` names an object, which `check` then imports. True only for values of conf/,
      which is code.
    """
    faults = [*_wrong_numbers(value, key), *_mismatches(value, hint, key)]
    if objects:
        _build(value, key, faults)
    return faults


def annotations(target: Any) -> dict[str, Any]:
    """Return parameter name -> annotation of a target; a name that is imported only for type checkers becomes Any."""
    if isinstance(target, type) and not is_dataclass(target):
        target = target.__init__  # type: ignore[misc]
    module = vars(sys.modules[target.__module__])
    return typing.get_type_hints(target, localns=_Else(module), include_extras=True)


class _Else(dict[str, Any]):
    """A namespace that returns Any for a name that neither the module nor Python has."""

    def __init__(self, module: Mapping[str, Any]) -> None:
        self.module = module

    def __missing__(self, name: str) -> Any:
        if name in self.module or hasattr(builtins, name):
            raise KeyError(name)
        return Any


# Numbers, whatever the annotation says


def _wrong_numbers(value: Any, key: str, domain: Any = None) -> Iterator[str]:
    """Yield a fault for each nan, and for each number outside the domain that its key names."""
    domain = DOMAINS.get(key.rpartition(".")[2], domain)
    if isinstance(value, Mapping):
        # a mapping that is called epsilon or delta is an entry of that name, and no list of numbers
        singular = key.rpartition(".")[2] in ("epsilon", "delta")
        below = None if singular or "_target_" in value else domain
        for word, each in value.items():
            yield from _wrong_numbers(each, _below(key, word), below)
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from _wrong_numbers(each, f"{key}[{i}]", domain)
    elif isinstance(value, float) and math.isnan(value):
        yield f"{key} = nan is no value"
    elif domain and isinstance(value, int | float) and not domain[1](value):
        yield f"{key} = {value} must be {domain[0]}"


# Types


def _mismatches(value: Any, hint: Any, key: str) -> list[str]:
    """Return what pydantic says of a plain value, one line for each key."""
    try:
        _adapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        lines: dict[str, list[str]] = {}
        for each in error.errors(include_url=False):
            start, reason = _described(each, value, key)
            lines.setdefault(start, []).append(reason)
        return [start + " or ".join(dict.fromkeys(reasons)) for start, reasons in lines.items()]
    return []


def _described(error: ErrorDetails, value: Any, key: str) -> tuple[str, str]:
    """Return the start of the line, which names key and value, and the reason."""
    given = value
    for step in error["loc"]:  # also names the member of a union, which is no key
        if isinstance(given, list) and isinstance(step, int) and step < len(given):
            key, given = f"{key}[{step}]", given[step]
        elif isinstance(given, Mapping) and step in given:
            key, given = _below(key, step), given[step]
    if error["type"] == "missing":
        return f"{_below(key, error['loc'][-1])} is missing", ""
    if error["type"] == "unexpected_keyword_argument":
        return f"{key}: nothing reads it{meant(str(error['loc'][-1]), Group.words)}", ""
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
    if isinstance(hint, type) and issubclass(hint, Group | list | dict):
        return hint

    def entry(value: Any) -> Any:
        if not (isinstance(value, Mapping) and "_target_" in value):
            name = getattr(hint, "__name__", hint)
            raise PydanticCustomError("object", "must be an object ({name})", {"name": str(name)})
        return value

    return Annotated[Any, PlainValidator(entry)]


# Objects


def _build(value: Any, key: str, faults: list[str]) -> Any:
    """Return the value with its objects built, and add their faults; OPEN if an object is not built here."""
    if isinstance(value, list):
        items = [_build(each, f"{key}[{i}]", faults) for i, each in enumerate(value)]
        return OPEN if any(each is OPEN for each in items) else items
    if not isinstance(value, Mapping):
        return value
    before = len(faults)
    given = {
        word: _build(each, _below(key, word), faults) for word, each in value.items() if word not in HYDRA
    }
    closed = all(each is not OPEN for each in given.values())
    if "_target_" in value:
        target = _target(value["_target_"], _below(key, "_target_"), faults)
        whole = isinstance(target, type) and (is_dataclass(target) or hasattr(target, "__attrs_attrs__"))
        whole = whole and not (value.get("_partial_") or "_args_" in value)
        if target is not OPEN:
            faults += _wrong_arguments(target, {word: value[word] for word in given}, key, whole)
        if not whole or not closed or len(faults) > before:
            return OPEN
        try:
            return target(**given)
        except Exception as error:  # a class from anywhere can raise anything
            faults.append(f"{key}: {error}")
    return given if closed else OPEN


def _target(name: Any, key: str, faults: list[str]) -> Any:
    """Return the class or function of that name; OPEN, with a fault, if it cannot be imported."""
    try:
        target = pkgutil.resolve_name(name)
    except Exception as why:  # a module from anywhere can raise anything
        faults.append(
            f"{key} = {_shown(name)} cannot be imported ({why}): a module outside the package must be in a folder "
            "on PYTHONPATH"
        )
        return OPEN
    if not callable(target):
        faults.append(f"{key} = {_shown(name)} must be a class or a function")
        return OPEN
    return target


def _wrong_arguments(
    target: Callable[..., Any], given: Mapping[str, Any], key: str, whole: bool
) -> Iterator[str]:
    """Yield what is wrong with the arguments of a class or a function; if `whole`, none may be missing."""
    name = f"{target.__module__}.{target.__qualname__}"
    parameters, hints = inspect.signature(target).parameters, annotations(target)
    more = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    for word, value in given.items():
        if word not in parameters and not more:
            yield f"{_below(key, word)}: {name} has no {word!r}{meant(str(word), parameters)}"
        yield from _mismatches(value, hints.get(word, Any), _below(key, word))
    required = [
        word
        for word, each in parameters.items()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    ]
    if whole and (absent := [word for word in required if word not in given]):
        yield f"{key}: {name} needs {', '.join(absent)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _below(key: str, name: Any) -> str:
    return f"{key}.{name}" if key else str(name)
