"""What the owner of a table states in public about its columns: `schema.yaml`, and the template of one.

A schema says for every column of a table what is known of it without looking at the rows::

    target: diagnosis
    classes: [benign, malignant]       # or range: {low: 0, high: 350}, of a target that is a number
    delimiter: ","
    missing: {marks: ["", NA], as: error}   # or category, a value of its own; or midpoint
    ranges_from_data: false
    columns:
      age: {low: 0, high: 120}         # numbers; values outside are clipped
      ward: {values: [A, B, C]}        # categories
      nurse: {values: [x, y], missing: category}
      id: drop

Ranges and categories that are read off private rows can give them away, so that a guarantee no longer holds: a schema
with `ranges_from_data: true` says so, and every result that rests on it repeats it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from omegaconf import OmegaConf

from dplangevin import typed, yaml_file
from dplangevin.data import DataError
from dplangevin.data.loaders.table import Filling, Table, filling, meant, number

OPEN = "???"  # what the owner has still to say
MARKS = ("", "NA", "NaN", "nan", "null", "?")
DELIMITERS = (",", ";", "\t", "|")
FEW, MANY = (
    10,
    100,
)  # whole numbers that are classes, at most; values of a text that are no categories, at least
FROM_DATA = "ranges and categories read off the data, not accounted"
Value = str | int | float | bool  # as it is written in the table


@dataclass(frozen=True)
class Words(typed.Group):
    """The words of a schema."""

    target: str
    columns: Mapping[str, Any]
    classes: Sequence[Value] | None = None
    range: Mapping[str, float | str] | None = None
    delimiter: str = ","
    missing: Mapping[str, str | Sequence[Value]] | None = None
    ranges_from_data: bool = False


WORDS = {word.name for word in fields(Words)}


@dataclass(frozen=True)
class Schema:
    """A schema whose values are all stated.

    columns: name -> {low, high}, {values} or "drop", in the order of the features.  classes, or range (low, high): of
    the target.  marks, missing_as: see `loaders.table.load`.
    """

    target: str
    columns: Mapping[str, Any]
    classes: Sequence[str] | None
    range: Mapping[str, float] | None
    delimiter: str = ","
    marks: Sequence[str] = MARKS
    missing_as: Mapping[str, Filling] = field(default_factory=dict)
    ranges_from_data: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str) -> "Schema":
        """ValueError, naming `where` and the column, for what is open, unknown or out of its domain."""
        if unknown := sorted(map(str, set(given) - WORDS)):
            raise ValueError(f"{where}: unknown word {unknown[0]!r}{meant(unknown[0], sorted(WORDS))}")
        if not isinstance(given.get("target"), str) or not isinstance(given.get("columns"), Mapping):
            raise ValueError(f"{where}: need target, the name of a column, and columns, name: what it has")
        if holes := [name for name, value in _stated(given) if OPEN in _texts(value)]:
            raise ValueError(
                f"{where}: {', '.join(holes[:FEW])}{f' and {len(holes) - FEW} more' if len(holes) > FEW else ''} still "
                f"{'has' if len(holes) == 1 else 'have'} {OPEN}: state them from public knowledge, or drop the column, "
                "or read them off the data with --ranges-from-data, which no guarantee covers"
            )
        if (given.get("classes") is None) == (given.get("range") is None):
            raise ValueError(f"{where}: give classes of the target, or its range, one of them")
        _typed(dict(given), Words, where)
        if len(given.get("delimiter", ",")) != 1:
            raise ValueError(f"{where}: delimiter = {given['delimiter']!r} must be one character")
        missing = given.get("missing") or {}
        if set(missing) - {"marks", "as"}:
            raise ValueError(f"{where}: missing = {missing!r} must be {{marks: [...], as: ...}}")
        word = filling("missing", missing.get("as", "error"))
        columns, missing_as = {}, {}
        for name, entry in given["columns"].items():
            name = str(name)
            if name == given["target"]:
                raise ValueError(f"{where}: {name} is the target: leave it out of columns")
            if entry != "drop":
                known = isinstance(entry, Mapping) and set(entry) - {"missing"} in (
                    {"low", "high"},
                    {"values"},
                )
                if not known:
                    raise ValueError(
                        f"{where}, column {name}: {entry!r} must be {{low: ..., high: ...}}, {{values: [...]}} or drop"
                    )
                if "low" in entry:
                    entry = _numbers(entry, f"{where}, column {name}")
                else:
                    _typed(entry["values"], Sequence[Value], where, f"column {name}, values")
                    entry = dict(entry)
                missing_as[name] = filling(name, entry.pop("missing", word))
            columns[name] = entry
        if all(entry == "drop" for entry in columns.values()):
            raise ValueError(f"{where}: no column is left to learn from")
        range_of = given.get("range")
        if range_of is not None:
            if set(range_of) != {"low", "high"}:
                raise ValueError(f"{where}, range: {range_of!r} must be {{low: ..., high: ...}}")
            range_of = _numbers(range_of, f"{where}, range")
        return cls(
            given["target"], columns, given.get("classes"), range_of, given.get("delimiter", ","),
            [str(mark) for mark in missing.get("marks", MARKS)], missing_as, bool(given.get("ranges_from_data")),
        )  # fmt: skip

    @property
    def assumptions(self) -> list[str]:
        """What every result that rests on this schema repeats."""
        return [FROM_DATA] if self.ranges_from_data else []

    def loader(self) -> dict[str, Any]:
        """The arguments of `dplangevin.data.loaders.table.load` that it decides."""
        used = {name: entry for name, entry in self.columns.items() if entry != "drop"}
        return {
            "_target_": "dplangevin.data.loaders.table.load",
            "_convert_": "all",
            "label": self.target,
            **({"classes": self.classes} if self.range is None else {"target": self.range}),
            "delimiter": self.delimiter,
            "columns": list(used),
            "scale": {name: entry for name, entry in used.items() if "low" in entry},
            "categories": {name: entry["values"] for name, entry in used.items() if "values" in entry},
            "missing": list(self.marks),
            "missing_as": dict(self.missing_as),
        }


def _typed(value: Any, hint: Any, where: str, key: str = "") -> None:
    """ValueError for a value that is not what is asked for.  A schema comes with data: nothing in it names code."""
    if faults := typed.check(value, hint, key, objects=False):
        raise ValueError(f"{where}: {faults[0]}")


def _numbers(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The entry with low and high as numbers; they may be in quotes."""
    found = dict(entry)
    for name in ("low", "high"):
        try:
            found[name] = number(str(found[name]))
        except (KeyError, ValueError):
            raise ValueError(f"{where}: {entry!r} needs low and high, numbers") from None
    if not found["low"] < found["high"]:
        raise ValueError(f"{where}: low = {found['low']:g} must be below high = {found['high']:g}")
    return found


def _stated(given: Mapping[str, Any]) -> list[tuple[str, Any]]:
    target = [(given["target"], given.get("classes")), (given["target"], given.get("range"))]
    return [*target, *((str(name), entry) for name, entry in given["columns"].items())]


def _texts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [*value]
    return [value]


def read(path: Path) -> dict[str, Any]:
    """The file as plain values, `???` among them.  ValueError, with the line, for what is no sound YAML mapping."""
    given: Any = OmegaConf.to_container(yaml_file.read(path), resolve=False)
    return {str(name): value for name, value in given.items()}


# Reading a table


class Seen(NamedTuple):
    """What the rows of one column have: whether all values are numbers, the smallest and the largest; different texts,
    no more than MANY of them are counted; whether one is missing."""

    numeric: bool
    low: float
    high: float
    texts: list[str]
    missing: bool

    @property
    def constant(self) -> bool:
        return self.low == self.high if self.numeric else len(self.texts) < 2


def delimiter_of(path: Path) -> str:
    """The character that the first line has most often."""
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as handle:
            line = handle.readline()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    return max(DELIMITERS, key=line.count)


def seen(path: Path, delimiter: str, marks: Sequence[str] = MARKS) -> dict[str, Seen]:
    """Every column of a table, read a piece at a time."""
    found: dict[str, Seen] = {}
    for table in Table.chunks(path, delimiter=delimiter):
        for name in table.columns:
            old = found.get(name, Seen(True, np.inf, -np.inf, [], False))
            found[name] = _more(old, table, name, frozenset(marks))
    return found


def _more(old: Seen, table: Table, name: str, marks: frozenset[str]) -> Seen:
    texts = [text.strip() for text in table.columns[name]]
    there = [text for text in texts if text not in marks]
    low, high, numeric = old.low, old.high, old.numeric
    if numeric and there:
        try:
            values = [number(text) for text in there]
            low, high = min(low, *values[:1], *values), max(high, *values)
        except ValueError:
            numeric = False
    known = dict.fromkeys(old.texts)
    if len(known) <= MANY:
        known |= dict.fromkeys(there)
    return Seen(numeric, low, high, [*known][: MANY + 1], old.missing or len(there) < len(texts))


def template(path: Path, target: str, fill: bool = False) -> dict[str, Any]:
    """A schema of the table: names and kinds of its columns; ranges and categories open, or with `fill` read off the
    rows.

    A text with more than MANY different values is dropped, and with `fill` a column that is constant.  DataError, with
    what may have been meant, for a target that is no column; for one without two different values.
    """
    delimiter = delimiter_of(path)
    columns = seen(path, delimiter)
    if target not in columns:
        raise DataError(f"{path}: no column {target!r} in the header{meant(target, [*columns])}")
    if len(columns) < 2:
        raise DataError(
            f"{path}: no column beside the target {target!r} (the values are separated by {delimiter!r}?)"
        )
    outcome = columns.pop(target)
    if outcome.constant:
        raise DataError(
            f"{path}, column {target}: every row has {_only(outcome)}, so there is nothing to learn"
        )
    whole = (
        outcome.numeric and len(outcome.texts) <= FEW and all(float(t).is_integer() for t in outcome.texts)
    )
    given: dict[str, Any] = {"target": target}
    if whole or not outcome.numeric:
        if len(outcome.texts) > MANY:
            raise DataError(
                f"{path}, column {target}: more than {MANY} different texts: neither classes nor numbers"
            )
        given["classes"] = sorted(outcome.texts, key=float if whole else str) if fill else OPEN
    else:
        given["range"] = {"low": outcome.low, "high": outcome.high} if fill else {"low": OPEN, "high": OPEN}
    gaps = any(column.missing for column in columns.values())
    given["delimiter"] = delimiter
    given["missing"] = {"marks": [*MARKS], "as": "category" if fill and gaps else "error"}
    given["ranges_from_data"] = fill
    given["columns"] = {name: _entry(column, fill) for name, column in columns.items()}
    return given


def _entry(column: Seen, fill: bool) -> Any:
    if column.numeric:
        values = {"low": column.low, "high": column.high} if fill else {"low": OPEN, "high": OPEN}
        return "drop" if fill and column.constant else values
    if len(column.texts) > MANY or (fill and column.constant):
        return "drop"
    return {"values": sorted(column.texts) if fill else OPEN}


def _only(column: Seen) -> str:
    return repr(column.texts[0]) if column.texts else "no value"


def filled(given: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The schema with what is open read off the rows, and marked so."""
    read_off = template(path, given["target"], fill=True)

    def close(value: Any, found: Any) -> Any:
        if value == OPEN:
            return found
        if isinstance(value, Mapping) and OPEN in value.values():
            return found if found == "drop" else {**value, **{k: found[k] for k in value if value[k] == OPEN}}
        return value

    columns = {name: close(value, read_off["columns"].get(name)) for name, value in given["columns"].items()}
    outcome = {name: close(given[name], read_off.get(name)) for name in ("classes", "range") if name in given}
    return {**given, **outcome, "columns": columns, "ranges_from_data": True}


def to_yaml(given: Mapping[str, Any], source: str) -> str:
    """The schema as a commented file."""
    how = (
        "# Ranges and categories were READ OFF THE DATA, which no guarantee covers: replace them by public knowledge."
        if given["ranges_from_data"]
        else "# Replace every ??? from public knowledge, not by looking at the rows. Numbers outside are clipped."
    )
    lines = [f"# Schema of {source}.", how]
    lines.append("# Columns: {low: 0, high: 1} for numbers, {values: [a, b]} for categories, or drop.")
    for name in ("target", "classes", "range", "delimiter"):
        if name in given:
            lines.append(f"{name}: {_flow(given[name])}")
    lines.append(
        f"missing: {_flow(given['missing'])}  # as: error, category (a value of its own) or midpoint"
    )
    lines += [f"ranges_from_data: {_flow(given['ranges_from_data'])}", "columns:"]
    lines += [f"  {_flow(name)}: {_flow(entry)}" for name, entry in given["columns"].items()]
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if value == "drop":
        return value
    return json.dumps(value, ensure_ascii=False)
