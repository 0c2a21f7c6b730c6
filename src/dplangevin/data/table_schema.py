"""`schema.yaml`: what the owner of a table states in public about its columns, without looking at the rows.

An example::

    target: diagnosis
    classes: [benign, malignant]       # in order: -1 and +1, or 0, ..., K - 1
    range: {low: 0, high: 350}         # instead of classes: of a target that is a number
    delimiter: ","
    encoding: utf-8
    decimal: "."                       # or ","
    thousands: ""                      # or a mark between groups of three digits
    missing: {marks: ["", NA], as: error}   # what stands for a missing value, and what it becomes
    unlabelled: error                  # or drop: rows without a label are left out
    ranges_from_data: false            # true: ranges or categories were read off the rows
    kinds_from_data: false             # true: kinds, marks, `as` or dropped columns were
    columns:
      age: {low: 0, high: 120}         # numbers, clipped to this and mapped to [-1, 1]
      ward: {values: [A, B, C]}        # an indicator of each; any other value is an error
      pixel{1..64}: {low: 0, high: 16}   # pixel1 to pixel64
      id: drop                         # as if it were not named

A missing value is an error; or a category: one more feature, 1 where the value is missing, and the others are then 0;
or a midpoint: 0, the middle of low and high, and 1/K for each of K values. Ranges and kinds that are read off private
rows can reveal these rows, and every result that depends on them says so.
"""

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import yaml

from dplangevin.checks import require
from dplangevin.data import yaml_file
from dplangevin.data.columns import MARKS
from dplangevin.data.csv_table import PLAIN, Format, shown
from dplangevin.text import meant

OPEN = "???"  # an entry that the owner must still state
LEFT_OUT = "rows without a label left out: which rows have one is taken as public"
FROM_DATA = "ranges and categories read off the data, not accounted"
KINDS_FROM_DATA = (
    "kinds of columns, marks, whether values are missing, dropped columns read off the data, not accounted"
)
FLAGS = {
    "ranges_from_data": FROM_DATA,
    "kinds_from_data": KINDS_FROM_DATA,
}  # field -> the assumption, if true
FORMAT = Format._fields


@dataclass(frozen=True)
class Schema:
    """A schema in which no entry is open; blanks around its texts do not count."""

    target: str = ""
    classes: Sequence[Any] | None = None
    range: Mapping[str, Any] | None = None
    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    missing: Mapping[str, Any] = field(default_factory=dict)
    unlabelled: Literal["error", "drop"] = "error"
    ranges_from_data: bool = False
    kinds_from_data: bool = False
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = isinstance(self.target, str) and self.target and isinstance(self.columns, Mapping)
        require(bool(named), "need target, the name of a column, and columns, name: what it has")
        require((self.classes is None) != (self.range is None), "give classes of the target, or its range")
        self.form.check()
        checked: dict[str, Any] = {"target": self.target.strip(), "missing": _missing(vars(self))}
        checked["columns"] = _entries(self.columns, checked["target"])
        for name in FLAGS:
            checked[name] = _one_of(("true", "false"), str(getattr(self, name)).lower(), name) == "true"
        _one_of(("error", "drop"), self.unlabelled, "unlabelled")
        if self.classes is not None:
            checked["classes"] = _texts(self.classes, "classes", least=2)
        else:
            checked["range"] = _range(self.range, "range")
        vars(self).update(checked)

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str) -> "Schema":
        """Return the schema of a file's content; `where` is its name, which errors begin with."""
        entries = {word: value for word, value in given.items() if value not in (None, "") or word in FORMAT}
        try:
            for word in sorted(map(str, set(given) - {*WORDS})):
                raise ValueError(f"unknown word {word!r}{meant(word, WORDS)}")
            return cls(**entries)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    @property
    def form(self) -> Format:
        return Format(*(str(getattr(self, word)) for word in FORMAT))

    @property
    def marks(self) -> list[str]:
        return list(self.missing["marks"])

    @property
    def assumptions(self) -> list[str]:
        read = [text for name, text in FLAGS.items() if getattr(self, name)]
        return [*read, *[LEFT_OUT] * (self.unlabelled == "drop")]

    @property
    def used(self) -> dict[str, Any]:
        """The columns that become features."""
        return {name: entry for name, entry in self.columns.items() if entry != "drop"}

    def given(self) -> dict[str, Any]:
        return {word: value for word, value in vars(self).items() if value is not None}


read = yaml_file.texts
WORDS = tuple(each.name for each in fields(Schema))


def _missing(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked marks of missing values, and what these become."""
    stated = given.get("missing") or {}
    right = isinstance(stated, Mapping) and {*stated} <= {"marks", "as"}
    require(right, f"missing = {stated!r} must be {{marks: [...], as: ...}}")
    becomes = _one_of(("error", "category", "midpoint"), stated.get("as", "error"), "missing, as")
    return {"marks": _texts(stated.get("marks", MARKS), "missing, marks"), "as": becomes}


def _one_of(words: Sequence[str], value: Any, what: str) -> str:
    require(value in words, f"{what} = {value!r} must be one of {', '.join(words)}")
    return str(value)


def _entries(columns: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Return name -> "drop", {low, high} or {values} of each column; pixel{1..3} becomes pixel1, pixel2, pixel3."""
    entries: dict[str, Any] = {}
    for key, entry in columns.items():
        names, what = [str(key).strip()], f"column {shown(str(key).strip())}"
        if found := re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}(.*)", names[0]):
            before, first, last, after = found.groups()
            names = [f"{before}{k}{after}" for k in range(int(first), int(last) + 1)]
        if isinstance(entry, Mapping) and {*entry} == {"values"}:
            entry = {"values": _texts(entry["values"], f"{what}, values", least=1)}
        elif entry != "drop":
            entry = _range(entry, what, ", {values: [...]} or drop")
        require(entries.keys().isdisjoint(names), f"{what} is there twice")
        entries |= {name: copy(entry) for name in names}
    require(target not in entries, f"{target} is the target: leave it out of columns")
    require(any(entry != "drop" for entry in entries.values()), "no column is left to learn from")
    return entries


def _texts(values: Any, what: str, least: int = 0) -> list[str]:
    """Return stripped texts; raise ValueError unless `values` is a list of `least` or more different texts."""
    listing = isinstance(values, Sequence) and not isinstance(values, str)
    require(listing and len(values) >= least, f"{what} = {values!r} must be a list, such as [a, b]")
    texts = [str(value).strip() for value in values]
    for value, text in zip(values, texts, strict=True):
        known = isinstance(value, str | int | float) and not isinstance(value, bool)
        require(known, f"{what}: {value!r} must be one text, in quotes, as the file writes it")
        require(texts.count(text) == 1, f"{what}: {text!r} is there twice")
    return texts


def _range(entry: Any, what: str, other: str = "") -> dict[str, float]:
    """Return {low, high} with low < high, as numbers."""
    try:
        limits = {word: PLAIN.number(str(entry[word])) for word in ("low", "high")}
        right = {*entry} == {*limits} and limits["low"] < limits["high"]
    except (LookupError, TypeError, ValueError):
        right = False
    require(right, f"{what} = {entry!r} must be {{low: ..., high: ...}}, two numbers, low below high{other}")
    return limits


def to_yaml(given: Mapping[str, Any], source: str) -> str:
    """Return the schema of the table `source` as a file with comments."""
    lines = [
        f"# Schema of {source!r}: {{low: 0, high: 1}} for numbers, {{values: [a, b]}} for categories, or drop.",
        "# A missing value becomes an error, a category (a value of its own) or a midpoint.",
        "# State each ??? from public knowledge, not by looking at the rows. Numbers outside are clipped.",
        "# ..._from_data: true was READ OFF THE DATA, which no guarantee covers: check it, then write false.",
    ]
    options: Any = {"default_flow_style": None, "sort_keys": False, "allow_unicode": True, "width": 10**9}
    return "\n".join([*lines, yaml.safe_dump({**given}, **options)])
