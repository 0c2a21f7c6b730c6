"""Reader of YAML files that refuses unsafe ones with file, line and reason.

It refuses a file that is not YAML in UTF-8, is not a mapping, or is too large or too deep. It refuses a key
that occurs twice, and a tag. It refuses a number that would become 0, infinite, or another number (YAML 1.1
has octal and sexagesimal numbers).

It counts the values behind aliases before any code follows them. So a file of a few lines cannot stand for
a billion values.
"""

import io
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

LARGEST = 100_000  # values of a file, including those that aliases repeat
DEEPEST = 50  # levels of nesting
NUMBER = re.compile(r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][-+]?\d+)?")
OTHER_BASES = re.compile(  # numbers in base 8 or 60, in YAML 1.1
    r"[-+]?(?:0[0-7_]+|[1-9][\d_]*(?::[0-5]?\d)+|\d[\d_]*(?::[0-5]?\d)+\.[\d_]*)"
)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ConfigError(ValueError):
    """`conf/`, an override or `params.yaml` cannot be used.

    The message names the key, or the line, and the fix.
    """


def read(path: str | Path) -> DictConfig:
    """Return the mapping in a file.

    Everything reads YAML with this function, because PyYAML takes `1e-5` for a string.
    """
    text = sound(path)
    try:
        found = OmegaConf.load(io.StringIO(text))
    except yaml.YAMLError as error:
        raise ConfigError(said(error, path)) from error
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(found, DictConfig):
        raise ConfigError(f"{path} is not a mapping: it needs lines of `name: value`")
    return found


def texts(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a file with every value as the text that is written there."""
    try:
        found = yaml.load(sound(path, numbers=False), Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ConfigError(said(error, path)) from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is not a mapping: it needs lines of `name: value`")
    return found


def sound(path: str | Path, numbers: bool = True) -> str:
    """Return the text of a file after checking it; build no values.

    Parameters
    ----------
    path : str or Path
        The file.
    numbers : bool
        Whether unquoted values that look like numbers are numbers. If so, they are checked as numbers.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}, line {line}: byte {content[error.start]:#x} is not UTF-8: save the file as UTF-8"
        ) from error
    try:
        _count(yaml.parse(text, Loader=LOADER), numbers)
    except yaml.YAMLError as error:
        raise ConfigError(said(error, path, text)) from error
    return text


def inexact(text: str) -> str:
    """Return what is wrong with a number that overflows or underflows as a float.

    Return "" for any other text.
    """
    if not NUMBER.fullmatch(text):
        return ""
    value = float(text.replace("_", ""))
    if math.isinf(value):
        return f"{text} is too large for a number: it would be infinite"
    if value == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        return f"{text} is too small for a number: it would be 0"
    return ""


def said(error: yaml.YAMLError, path: str | Path | None = None, text: str = "") -> str:
    """Return file, line and problem; the path is taken from the error if none is given."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return f"{path}, line {line}: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{path}: {error}"
    mark, began = error.problem_mark, error.context_mark
    around = f" ({error.context} from line {began.line + 1} on)" if error.context and began else ""
    return f"{path or mark.name}, line {mark.line + 1}: {error.problem}{around}"


def _based(text: str) -> str:
    """Return what is wrong with a number that YAML 1.1 reads in base 8 or 60; "" for any other text."""
    if not OTHER_BASES.fullmatch(text):
        return ""
    return f"{text} would be read in base {60 if ':' in text else 8}: write it in base 10, or in quotes if it is a text"


@dataclass
class _Open:
    """A list or mapping whose end has not been reached.

    Attributes
    ----------
    anchor : str or None
        Name that aliases refer to.
    at_key : bool
        Whether the next node is a key, in a mapping.
    values : int
        Number of values so far, including itself.
    """

    anchor: str | None
    mapping: bool
    at_key: bool
    values: int = 1
    keys: set[str] = field(default_factory=set)


def _count(events: Iterable[yaml.Event], numbers: bool = True) -> None:
    """Raise MarkedYAMLError at the first event that the module docstring refuses."""
    sizes: dict[str, int] = {}  # anchor -> number of values that its alias stands for
    around: list[_Open] = []
    documents = 0
    for event in events:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            _require(documents == 1, "a second document begins, a file has one", event)
        if isinstance(event, yaml.CollectionStartEvent | yaml.ScalarEvent):
            _require(not event.tag, f"tag {event.tag}: there are plain values only", event)
        if isinstance(event, yaml.CollectionStartEvent):
            around.append(_Open(event.anchor, mapping, at_key=mapping))
            _require(len(around) <= DEEPEST, f"more than {DEEPEST} levels", event)
            continue
        if isinstance(event, yaml.ScalarEvent):
            why = inexact(event.value) or _based(event.value) if numbers and event.implicit[0] else ""
            _require(not why, why, event)
            anchor, values = event.anchor, 1
        elif isinstance(event, yaml.AliasEvent):
            _require(event.anchor in sizes, f"alias *{event.anchor} stands for nothing before it", event)
            anchor, values = None, sizes[event.anchor]
        elif isinstance(event, yaml.CollectionEndEvent):
            done = around.pop()
            anchor, values = done.anchor, done.values
        else:
            continue
        if anchor:
            sizes[anchor] = values
        if not around:
            continue
        here = around[-1]
        here.values += values
        _require(
            here.values <= LARGEST, f"more than {LARGEST} values, with all that its aliases repeat", event
        )
        if here.at_key and isinstance(event, yaml.ScalarEvent):
            _require(event.value not in here.keys, f"the key {event.value!r} is there twice", event)
            here.keys.add(event.value)
        here.at_key = here.mapping and not here.at_key


def _require(condition: bool, text: str, event: yaml.Event) -> None:
    if not condition:
        raise yaml.MarkedYAMLError(problem=text, problem_mark=event.start_mark)
