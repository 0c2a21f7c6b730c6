"""`schema.yaml`: what the owner of a table states in public about its columns, without looking at the rows.

An example::

    target: diagnosis
    classes: [benign, malignant]       # or range: {low: 0, high: 350}, of a target that is a number
    delimiter: ","
    encoding: utf-8
    decimal: "."                       # or ","
    thousands: ""                      # or a mark between groups of three digits
    missing: {marks: ["", NA], as: error}   # or category, a value of its own; or midpoint
    unlabelled: error                  # or drop: rows without a label are left out
    ranges_from_data: false
    kinds_from_data: false
    columns:
      age: {low: 0, high: 120}         # numbers; values outside are clipped
      bmi: {mean: 24, sd: 4}           # numbers that no range bounds
      ward: {values: [A, B, C]}        # categories
      nurse: {values: [x, y], missing: category}
      id: drop

In a file every value is read as it is written: yes, 1.50 and ${x} are texts. An entry is open if it is
exactly ???; the owner must still state it.

Ranges and categories that are read off private rows can reveal these rows. A guarantee then no longer holds.
A schema with `ranges_from_data: true` says so, and every result that depends on it repeats it.  The same holds
for `kinds_from_data: true`: then kinds, marks, whether values are missing, and dropped columns were read off.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import yaml

from dplangevin.data import yaml_file
from dplangevin.data.columns import MARKS
from dplangevin.data.table import PLAIN, Format, listed, meant, repeated, shown

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
RANGES_READ = (
    "Ranges and categories were READ OFF THE DATA, which no guarantee covers: replace them by public "
    "knowledge."
)
RANGES_OPEN = (
    "Replace every ??? from public knowledge, not by looking at the rows. Numbers outside are clipped."
)
KINDS_READ = (
    "Kinds, `missing` and dropped columns were read off the rows: check them, too, from public knowledge."
)
FORMAT = Format._fields
Unlabelled = Literal["error", "drop"]
MISSING_AS = "error", "category", "midpoint"
RANGE, MOMENTS, VALUES = {"low", "high"}, {"mean", "sd"}, {"values"}  # what the entry of a column has


@dataclass(frozen=True)
class Schema:
    """A schema in which no entry is open; blanks around its texts do not count.

    - `columns`: Name -> entry, in the order of the features. The name pixel{1..64} stands for pixel1 to pixel64.
      {low, high} clips a number to [low, high] and maps it to [-1, 1]. {mean, sd} gives (number - mean)/sd. {values}
      gives an indicator, 0 or 1, of each value; any other value is an error. "drop" leaves the column out, as if it
      were not named. `missing` in an entry overrides missing["as"].
    - `classes`: The values of the target in order. Two: -1 and +1. K > 2: 0, ..., K - 1.
    - `range`: {low, high} of a target that is a number. Exactly one of `classes` and `range` is given.
    - `missing`: marks: the texts that stand for a missing value. as: what it becomes. "error": an error. "category":
      an extra feature, 1 where the value is missing. The column's other features are then 0. "midpoint": 0, which
      stands for the middle of low and high, or for the mean; 1/K for each of K values.
    - `unlabelled`: {"error", "drop"}. "error": a missing label is an error. "drop": the row is left out.
    - `ranges_from_data`: Whether ranges or categories were read off the rows.
    - `kinds_from_data`: Whether kinds of columns, marks, missing["as"] or dropped columns were.
    """

    target: str
    columns: Mapping[str, Any]
    classes: Sequence[Any] | None = None
    range: Mapping[str, Any] | None = None
    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    missing: Mapping[str, Any] = field(default_factory=dict)
    unlabelled: Unlabelled = "error"
    ranges_from_data: bool = False
    kinds_from_data: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.target, str) or not self.target or not isinstance(self.columns, Mapping):
            raise ValueError("need target, the name of a column, and columns, name: what it has")
        if (self.classes is None) == (self.range is None):
            raise ValueError("give classes of the target, or its range, one of them")
        _, marks = _form(vars(self))
        missing_as = _missing_as((self.missing or {}).get("as", "error"), "missing")
        checked: dict[str, Any] = {"target": self.target.strip()}
        checked["missing"] = {"marks": marks, "as": missing_as}
        checked["columns"] = _entries(self.columns, checked["target"], missing_as)
        for name in FLAGS:
            if (flag := str(getattr(self, name)).lower()) not in ("true", "false"):
                raise ValueError(f"{name} = {flag!r} must be true or false")
            checked[name] = flag == "true"
        if self.unlabelled not in get_args(Unlabelled):
            raise ValueError(f"unlabelled = {self.unlabelled!r} must be error or drop")
        if self.classes is not None:
            checked["classes"] = _texts(self.classes, "classes", least=2)
        if self.range is not None:
            checked["range"] = _numbers(self.range, RANGE, "range")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str) -> "Schema":
        """Return the schema of a file's content; `where` is its name, which errors begin with."""
        if unknown := sorted(map(str, set(given) - {*WORDS})):
            raise ValueError(f"{where}: unknown word {unknown[0]!r}{meant(unknown[0], WORDS)}")
        entries = {word: value for word, value in given.items() if value not in (None, "") or word in FORMAT}
        entries = {"target": "", "columns": {}, **entries}
        stated = [(entries["target"], entries.get(word)) for word in ("classes", "range")]
        stated += entries["columns"].items() if isinstance(entries["columns"], Mapping) else ()
        if holes := [str(name).strip() for name, entry in stated if is_open(entry)]:
            raise ValueError(
                f"{where}: {listed(holes)} still {'has' if len(holes) == 1 else 'have'} {OPEN}: state them from public "
                "knowledge, or drop the column, or read them off the data with --ranges-from-data, which no guarantee "
                "covers"
            )
        try:
            return cls(**entries)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    @property
    def form(self) -> Format:
        return Format(*(getattr(self, word) for word in FORMAT))

    @property
    def marks(self) -> list[str]:
        marks: list[str] = self.missing["marks"]
        return marks

    @property
    def assumptions(self) -> list[str]:
        read = [text for name, text in FLAGS.items() if getattr(self, name)]
        return [*read, *[LEFT_OUT] * (self.unlabelled == "drop")]

    @property
    def used(self) -> dict[str, Any]:
        """The columns that become features, each with its `missing`."""
        return {name: entry for name, entry in self.columns.items() if entry != "drop"}

    def given(self) -> dict[str, Any]:
        return {word: value for word, value in vars(self).items() if value is not None}


read = yaml_file.texts
WORDS = tuple(each.name for each in fields(Schema))


def form_of(given: Mapping[str, Any], where: str) -> tuple[Format, list[str]]:
    """Return the format of a table and its marks of missing values; raise ValueError as `Schema.of` does."""
    try:
        return _form(given)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _form(given: Mapping[str, Any]) -> tuple[Format, list[str]]:
    missing = given.get("missing") or {}
    if not isinstance(missing, Mapping) or set(missing) - {"marks", "as"}:
        raise ValueError(f"missing = {missing!r} must be {{marks: [...], as: ...}}")
    form = Format(**{word: str(given[word]) for word in FORMAT if word in given}).check()
    return form, _texts(missing.get("marks", MARKS), "missing, marks")


def _entries(columns: Mapping[str, Any], target: str, missing_as: str) -> dict[str, Any]:
    """Return name -> checked entry of each column; pixel{1..3} becomes pixel1, pixel2, pixel3."""
    entries: list[tuple[str, Any]] = []
    for key, entry in columns.items():
        names = [str(key).strip()]
        if found := re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}(.*)", names[0]):
            before, first, last, after = found.groups()
            names = [f"{before}{k}{after}" for k in range(int(first), int(last) + 1)]
        entries += [(name, entry) for name in names]
    if twice := repeated([name for name, _ in entries]):
        raise ValueError(f"column {shown(twice[0])} is there twice")
    if target in dict(entries):
        raise ValueError(f"{target} is the target: leave it out of columns")
    checked = {name: _entry(entry, missing_as, f"column {shown(name)}") for name, entry in entries}
    if all(entry == "drop" for entry in checked.values()):
        raise ValueError("no column is left to learn from")
    return checked


def _entry(entry: Any, missing_as: str, what: str) -> Any:
    if entry == "drop":
        return entry
    words = set(entry) - {"missing"} if isinstance(entry, Mapping) else set()
    if words not in (RANGE, MOMENTS, VALUES):
        raise ValueError(
            f"{what}: {entry!r} must be {{low: ..., high: ...}}, {{mean: ..., sd: ...}}, {{values: [...]}} or drop"
        )
    missing = {"missing": _missing_as(entry.get("missing", missing_as), what)}
    if words == VALUES:
        return {"values": _texts(entry["values"], f"{what}, values", least=1), **missing}
    return {**_numbers({word: entry[word] for word in entry if word in words}, words, what), **missing}


def _missing_as(word: Any, what: str) -> Any:
    if word not in MISSING_AS:
        raise ValueError(f"{what}: a missing value as {word!r} must be error, category or midpoint")
    return word


def is_open(entry: Any) -> bool:
    """Return whether the owner must still state an entry."""
    return entry == OPEN or (isinstance(entry, Mapping) and OPEN in [*map(str, entry.values())])


def _texts(values: Any, what: str, least: int = 0) -> list[str]:
    """Return stripped texts; raise ValueError unless `values` is a list of `least` or more different texts."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ValueError(f"{what}: {values!r} must be a list, such as [a, b]")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{what}: {value!r} must be one text, in quotes, as the file writes it")
    texts = [str(value).strip() for value in values]
    if twice := repeated(texts):
        raise ValueError(f"{what}: {twice[0]!r} is there twice")
    if len(texts) < least:
        raise ValueError(f"{what} = {texts}: need {least} or more")
    return texts


def _numbers(entry: Any, words: set[str], what: str) -> dict[str, float]:
    """Return {low, high} with low < high, or {mean, sd} with sd > 0, as numbers."""
    if not isinstance(entry, Mapping) or set(entry) != words:
        raise ValueError(f"{what}: {entry!r} must be {{low: ..., high: ...}}")
    if why := next(filter(None, (yaml_file.inexact(str(value)) for value in entry.values())), ""):
        raise ValueError(f"{what}: {why}")
    names = [word for word in ("low", "high", "mean", "sd") if word in words]
    try:
        numbers: dict[str, float] = {word: PLAIN.number(str(entry[word])) for word in names}
    except ValueError:
        raise ValueError(f"{what}: {entry!r} needs {' and '.join(names)}, numbers") from None
    if "low" in numbers and not numbers["low"] < numbers["high"]:
        raise ValueError(f"{what}: low = {numbers['low']:g} must be below high = {numbers['high']:g}")
    if "sd" in numbers and not numbers["sd"] > 0:
        raise ValueError(f"{what}: sd = {numbers['sd']:g} must be positive")
    return numbers


def to_yaml(given: Mapping[str, Any], source: str, reasons: Mapping[str, str] | None = None) -> str:
    """Return the schema as a commented file: `source` is the table, `reasons` say why columns are dropped."""
    ranges, kinds = given["ranges_from_data"], given.get("kinds_from_data", False)
    notes = {
        "missing": "  # as: error, category (a value of its own) or midpoint",
        "unlabelled": "  # error, or drop: rows without a label are left out",
        "kinds_from_data": "  # false once you have checked them" if kinds else "",
    }
    words = {word: _flow(value) for word, value in given.items() if word != "columns"}
    words |= {"kinds_from_data": _flow(kinds), "unlabelled": given.get("unlabelled", "error")}
    order = ("target", "classes", "range", *FORMAT, "missing", "unlabelled", *FLAGS)
    lines = [
        f"# Schema of {_flow(source)}.",
        f"# {RANGES_READ if ranges else RANGES_OPEN}",
        *[f"# {KINDS_READ}"] * bool(kinds),
        "# Columns: {low: 0, high: 1} for numbers, {values: [a, b]} for categories, or drop.",
        *(f"{word}: {words[word]}{notes.get(word, '')}" for word in order if word in words),
        "columns:",
    ]
    for name, entry in given["columns"].items():
        why = (reasons or {}).get(name)
        lines.append(f"  {_flow(name)}: {_flow(entry)}" + (f"  # {why}" if why else ""))
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if value == "drop":
        return "drop"
    text = yaml.dump(str(value), default_style='"', allow_unicode=True, width=10**9)
    return text.removesuffix("...\n").strip()
