"""Validation of config values against the annotations of the objects that they build.

`check` compares an entry with a `_target_` with the parameters of that class or function: by name, and as
deep as the annotations go. If the target is a dataclass and all its required fields are there, `check` also
builds it, so that its `__post_init__` checks the values. `check` never calls functions. A `Group` describes
an entry that builds no object.

>>> from collections.abc import Sequence
>>> check({"delta": "1e-5", "steps": [1, float("nan")]}, key="privacy")
["privacy.delta = '1e-5' must be a number in [0, 1) (without quotes)", 'privacy.steps[1] = nan is no value']
>>> check([1, 2.5], Sequence[int] | None, "sizes")
['sizes[1] = 2.5 must be a whole number']
>>> check({"_target_": "dplangevin.problems.sampling.Sampling", "scheme": "full", "batch": -1}, key="sampling")
['sampling: scheme full takes all rows: leave out batch = -1']
"""

import builtins
import inspect
import math
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from dplangevin.text import meant

HYDRA = ("_target_", "_partial_", "_convert_", "_recursive_", "_args_")
OPEN: Any = object()  # stands for an object that is not built here
SHOWN = 60  # characters of a value in a message
SCALARS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    NoneType: "null",
}


class Group:
    """A mapping that builds no object.

    Each subclass is a dataclass, and its fields are the words that code reads.
    Other words are allowed, because interpolations may use them. A word that is nearly a field is an error.
    """


class Domain(NamedTuple):
    """A set of numbers.

    Attributes
    ----------
    holds : callable
        Whether a number lies in the set.
    words : str
        The set in words, for messages.
    """

    holds: Callable[[float], bool]
    words: str


# Keys whose numbers have the same domain everywhere; a plural key may also have a mapping of numbers
EPSILON, DELTA = Domain(lambda value: value > 0, "above 0"), Domain(lambda value: 0 <= value < 1, "in [0, 1)")
DOMAINS = {"epsilon": EPSILON, "epsilons": EPSILON, "delta": DELTA, "deltas": DELTA}


def check(value: Any, hint: Any = Any, key: str = "", *, objects: bool = True) -> list[str]:
    """Return what is wrong with plain values: one line per fault, with key, value and domain.

    Parameters
    ----------
    value : object
        The value: a scalar, list or mapping.
    hint : type annotation
        What the value must be.
    key : str
        Dotted name of the value, for messages.
    objects : bool
        Whether a `_target_` names an object, which `check` then imports. Use True only for values of conf/,
        because conf/ is code.
    """
    reader = _Reader(objects)
    reader.made(value, hint, key)
    return reader.faults


def annotations(target: Any) -> dict[str, Any]:
    """Return parameter name -> annotation of a class or a function.

    A name that is imported only for type checkers becomes Any.
    """
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


class _Reader:
    """A walk through plain values that collects faults and builds the dataclasses among them."""

    def __init__(self, objects: bool) -> None:
        self.objects = objects
        self.faults: list[str] = []
        self.opened = 0  # number of objects that were not built

    def made(self, value: Any, hint: Any, key: str, domain: Domain | None = None) -> Any:
        """Return the value that the plain value stands for; OPEN if it is wrong or not built here."""
        word = key.rpartition(".")[2]
        if not (isinstance(value, Mapping) and word in ("epsilon", "delta")):
            domain = DOMAINS.get(word, domain)
        if isinstance(value, float) and math.isnan(value):
            return self.fault(f"{key} = nan is no value")
        if self.objects and isinstance(value, Mapping) and "_target_" in value:
            found = self.object(value, key)
            if found is not OPEN and not any(_takes(kind, found) for kind in _kinds(hint)):
                return self.fault(f"{key} = {value['_target_']} must be {_words(hint)}")
            return found
        kind = next((each for each in _kinds(hint) if _is(value, each)), None)
        if kind is None or (domain and not _inside(value, domain)):
            wanted = f"a number {domain.words}" if domain else _words(hint)
            quoted = " (without quotes)" if isinstance(value, str) and _number(value, hint, domain) else ""
            return self.fault(f"{key} = {_shown(value)} must be {wanted}{quoted}")
        if isinstance(value, Mapping):
            if isinstance(kind, type) and issubclass(kind, Group):
                return self.group(value, kind, key)
            name_hint, item = (*get_args(kind), Any, Any)[:2]
            for name in value:
                if not any(_is(name, each) for each in _kinds(name_hint)):
                    self.fault(f"{key}: the name {name!r} must be {_words(name_hint)}")
            return {name: self.made(each, item, _below(key, name), domain) for name, each in value.items()}
        if isinstance(value, list):
            items = [self.made(value[i], each, f"{key}[{i}]", domain) for i, each in _items(kind, len(value))]
            if len(items) < len(value):
                return self.fault(f"{key} = {_shown(value)} must be {_words(hint)} of {len(items)}")
            return tuple(items) if get_origin(kind) is tuple else items
        return value

    def object(self, entry: Mapping[Any, Any], key: str) -> Any:
        """Return the object that an entry with a `_target_` builds.

        Return OPEN unless that is a dataclass or attrs class whose required fields are all there.
        """
        name, before, opened = entry["_target_"], len(self.faults), self.opened
        target = self.target(name, _below(key, "_target_"))
        if target is OPEN:
            return OPEN
        taken, hints = inspect.signature(target).parameters, annotations(target)
        more = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values())
        given = {}
        for word, value in entry.items():
            if word in HYDRA:
                continue
            if word not in taken and not more:
                self.fault(f"{_below(key, word)}: {name} has no {word!r}{meant(str(word), taken)}")
            given[word] = self.made(value, hints.get(word, Any), _below(key, word))
        value_object = isinstance(target, type) and (
            is_dataclass(target) or hasattr(target, "__attrs_attrs__")
        )
        partly = entry.get("_partial_") or "_args_" in entry
        if value_object and not partly:
            required = [
                word
                for word, each in taken.items()
                if each.default is each.empty and each.kind is not each.VAR_KEYWORD
            ]
            if absent := [word for word in required if word not in given]:
                self.fault(f"{key}: {name} needs {', '.join(absent)}")
            if len(self.faults) == before and self.opened == opened:
                try:
                    return target(**given)
                except Exception as error:  # a class from anywhere can raise anything
                    return self.fault(f"{key}: {error}")
        self.opened += 1
        return OPEN

    def target(self, name: Any, key: str) -> Any:
        """Return the class or function of that name; OPEN, with a fault, if it cannot be imported."""
        try:
            found = pkgutil.resolve_name(name)
        except Exception as why:  # a module from anywhere can raise anything
            return self.fault(
                f"{key} = {_shown(name)} cannot be imported ({why}): a module outside the package must be in a folder "
                "on PYTHONPATH"
            )
        return (
            found if callable(found) else self.fault(f"{key} = {_shown(name)} must be a class or a function")
        )

    def group(self, entry: Mapping[Any, Any], kind: Any, key: str) -> Any:
        """Return the `Group` of a mapping; OPEN, with its faults, if a field is wrong or missing."""
        before, hints = len(self.faults), annotations(kind)
        given = {}
        for word, value in entry.items():
            if word not in hints and (near := meant(str(word), hints)):
                self.fault(f"{_below(key, word)}: nothing reads it{near}")
            given[word] = self.made(value, hints.get(word, Any), _below(key, word))
        for field in fields(kind):
            if field.name not in given and field.default is MISSING and field.default_factory is MISSING:
                self.fault(f"{_below(key, field.name)} is missing: it must be {_words(hints[field.name])}")
        if len(self.faults) > before:
            return OPEN
        try:
            return kind(**{word: value for word, value in given.items() if word in hints})
        except ValueError as error:
            return self.fault(f"{key}: {error}" if key else str(error))

    def fault(self, text: str) -> Any:
        """Add a fault; return OPEN."""
        self.faults.append(text)
        return OPEN


def _kinds(hint: Any) -> Iterator[Any]:
    """Yield the alternatives of an annotation."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        for each in get_args(hint):
            yield from _kinds(each)
    elif isinstance(hint, TypeVar) or hint is object:
        yield Any
    else:
        yield NoneType if hint is None else hint


def _is(value: Any, kind: Any) -> bool:
    """Return whether a plain value is of a kind, without a look at its items."""
    origin = get_origin(kind) or kind
    if kind is Any:
        return True
    if origin is Literal:
        return any(value == each and type(value) is type(each) for each in get_args(kind))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(origin, type) or origin is Callable:
        return False
    if issubclass(origin, Group):
        return isinstance(value, Mapping)
    if isinstance(value, list):
        return _lists(origin)
    if isinstance(value, Mapping):
        return issubclass(origin, Mapping)
    return type(value) is origin


def _lists(kind: type) -> bool:
    """Return whether a list is of this kind; False for every protocol."""
    return kind is tuple or (not getattr(kind, "_is_protocol", False) and issubclass(list, kind))


def _takes(kind: Any, made: Any) -> bool:
    """Return whether a built object fits a kind; protocols are not checked."""
    origin = get_origin(kind) or kind
    if kind is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return origin is not Literal
    return isinstance(made, origin)


def _inside(value: Any, domain: Domain) -> bool:
    """Return whether a number lies in the domain; True for None, lists and mappings."""
    return value is None or isinstance(value, list | Mapping) or (_is(value, float) and domain.holds(value))


def _items(kind: Any, count: int) -> Iterator[tuple[int, Any]]:
    """Return position and annotation of the items of a list."""
    hints = get_args(kind)
    if get_origin(kind) is tuple and ... not in hints:
        return enumerate(hints[:count])
    return ((i, hints[0] if hints else Any) for i in range(count))


def _words(hint: Any) -> str:
    """Return in words what an annotation asks for."""
    return " or ".join(dict.fromkeys(map(_word, _kinds(hint))))


def _word(kind: Any) -> str:
    origin = get_origin(kind) or kind
    if kind in SCALARS:
        return SCALARS[kind]
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if isinstance(origin, type) and issubclass(origin, Group | Mapping):
        return "a mapping"
    if isinstance(origin, type) and _lists(origin):
        return "a list"
    return f"an object ({getattr(kind, '__name__', kind)})"


def _number(text: str, hint: Any, domain: Domain | None) -> bool:
    """Return whether a text is a finite number in a place that asks for a number."""
    try:
        finite = math.isfinite(float(text))
    except ValueError:
        return False
    return finite and (domain is not None or any(kind in (int, float) for kind in _kinds(hint)))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _below(key: str, name: Any) -> str:
    return f"{key}.{name}" if key else str(name)
