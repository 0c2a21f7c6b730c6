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
      nurse: {values: [x, y], missing: category}   # overrides `as`
      pixel{1..64}: {low: 0, high: 16}   # pixel1 to pixel64
      id: drop                         # as if it were not named

A missing value is an error; or a category: one more feature, 1 where the value is missing, and the others are then 0;
or a midpoint: 0, the middle of low and high, and 1/K for each of K values.

In a file every value is read as it is written: yes, 1.50 and ${x} are texts. An entry is open if it is exactly ???.
Ranges and kinds that are read off private rows can reveal these rows. Every result that depends on them says so.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import yaml

from dplangevin.checks import require
from dplangevin.data import yaml_file
from dplangevin.data.columns import MARKS
from dplangevin.data.csv_table import PLAIN, Format, listed, meant, repeated, shown

OPEN = "???"  # an entry that the owner must still state
LEFT_OUT = "rows without a label left out: which rows have one is taken as public"
FROM_DATA = "ranges and categories read off the data, not accounted"
KINDS_FROM_DATA = (
    "kinds of columns, marks, whether values are missing, dropped columns read off the data, not accounted"
)
# field -> the assumption, if true
FLAGS = {"ranges_from_data": FROM_DATA, "kinds_from_data": KINDS_FROM_DATA}
FORMAT = Format._fields
Unlabelled = Literal["error", "drop"]
MISSING_AS = ("error", "category", "midpoint")


@dataclass(frozen=True)
class Schema:
    """A schema in which no entry is open; blanks around its texts do not count, and columns have their `missing`."""

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
        named = isinstance(self.target, str) and self.target and isinstance(self.columns, Mapping)
        require(bool(named), "need target, the name of a column, and columns, name: what it has")
        require(
            (self.classes is None) != (self.range is None), "give classes of the target, or its range, one"
        )
        _format(vars(self))
        checked: dict[str, Any] = {"target": self.target.strip(), "missing": _missing(vars(self))}
        checked["columns"] = _entries(self.columns, checked["target"], checked["missing"]["as"])
        for name in FLAGS:
            checked[name] = _one_of(("true", "false"), str(getattr(self, name)).lower(), name) == "true"
        _one_of(get_args(Unlabelled), self.unlabelled, "unlabelled")
        if self.classes is not None:
            checked["classes"] = _texts(self.classes, "classes", least=2)
        else:
            checked["range"] = _range(self.range, "range")
        vars(self).update(checked)

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str) -> "Schema":
        """Return the schema of a file's content; `where` is its name, which errors begin with."""
        entries = {word: value for word, value in given.items() if value not in (None, "") or word in FORMAT}
        entries = {"target": "", "columns": {}, **entries}
        stated = [(entries["target"], entries.get(word)) for word in ("classes", "range")]
        stated += entries["columns"].items() if isinstance(entries["columns"], Mapping) else ()
        try:
            for unknown in sorted(map(str, set(given) - {*WORDS})):
                raise ValueError(f"unknown word {unknown!r}{meant(unknown, WORDS)}")
            if holes := [str(name).strip() for name, entry in stated if is_open(entry)]:
                raise ValueError(
                    f"{listed(holes)} still {'has' if len(holes) == 1 else 'have'} {OPEN}: state them from public "
                    "knowledge, or drop the column, or read them off the data with --ranges-from-data, which no "
                    "guarantee covers"
                )
            return cls(**entries)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    @property
    def form(self) -> Format:
        return Format(*(getattr(self, word) for word in FORMAT))

    @property
    def marks(self) -> list[str]:
        return list(self.missing["marks"])

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


def is_open(entry: Any) -> bool:
    """Return whether the owner must still state an entry."""
    return entry == OPEN or (isinstance(entry, Mapping) and OPEN in [*map(str, entry.values())])


def form_of(given: Mapping[str, Any], where: str) -> tuple[Format, list[str]]:
    """Return the format of a table and its marks of missing values; raise ValueError as `Schema.of` does."""
    try:
        return _format(given), _missing(given)["marks"]
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _format(given: Mapping[str, Any]) -> Format:
    return Format(**{word: str(given[word]) for word in FORMAT if word in given}).check()


def _missing(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked marks of missing values, and what these become."""
    stated = given.get("missing") or {}
    right = isinstance(stated, Mapping) and {*stated} <= {"marks", "as"}
    require(right, f"missing = {stated!r} must be {{marks: [...], as: ...}}")
    marks = _texts(stated.get("marks", MARKS), "missing, marks")
    return {"marks": marks, "as": _one_of(MISSING_AS, stated.get("as", "error"), "missing, as")}


def _one_of(words: Sequence[str], value: Any, what: str) -> str:
    require(value in words, f"{what} = {value!r} must be {', '.join(words[:-1])} or {words[-1]}")
    return str(value)


def _entries(columns: Mapping[str, Any], target: str, missing_as: str) -> dict[str, Any]:
    """Return name -> checked entry of each column; pixel{1..3} becomes pixel1, pixel2, pixel3."""
    entries: dict[str, Any] = {}
    for key, entry in columns.items():
        names = [str(key).strip()]
        if found := re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}(.*)", names[0]):
            before, first, last, after = found.groups()
            names = [f"{before}{k}{after}" for k in range(int(first), int(last) + 1)]
        for name in names:
            require(name not in entries, f"column {shown(name)} is there twice")
            entries[name] = _entry(entry, missing_as, f"column {shown(name)}")
    require(target not in entries, f"{target} is the target: leave it out of columns")
    require(any(entry != "drop" for entry in entries.values()), "no column is left to learn from")
    return entries


def _entry(entry: Any, missing_as: str, what: str) -> Any:
    """Return "drop", or {low, high} or {values}, each with `missing`."""
    if entry == "drop":
        return entry
    stated = {**entry} if isinstance(entry, Mapping) else {}
    missing = {"missing": _one_of(MISSING_AS, stated.pop("missing", missing_as), f"{what}, missing")}
    if {*stated} == {"values"}:
        return {"values": _texts(stated["values"], f"{what}, values", least=1), **missing}
    fix = "must be {low: ..., high: ...}, {values: [...]} or drop"
    require({*stated} == {"low", "high"}, f"{what}: {entry!r} {fix}")
    return _range(stated, what) | missing


def _texts(values: Any, what: str, least: int = 0) -> list[str]:
    """Return stripped texts; raise ValueError unless `values` is a list of `least` or more different texts."""
    listing = isinstance(values, Sequence) and not isinstance(values, str)
    require(listing, f"{what}: {values!r} must be a list, such as [a, b]")
    for value in values:
        text = isinstance(value, str | int | float) and not isinstance(value, bool)
        require(text, f"{what}: {value!r} must be one text, in quotes, as the file writes it")
    texts = [str(value).strip() for value in values]
    for twice in repeated(texts):
        raise ValueError(f"{what}: {twice!r} is there twice")
    require(len(texts) >= least, f"{what} = {texts}: need {least} or more")
    return texts


def _range(entry: Any, what: str) -> dict[str, float]:
    """Return {low, high} with low < high, as numbers."""
    try:
        if {*entry} != {"low", "high"}:
            raise ValueError(entry)
        texts = [str(entry["low"]), str(entry["high"])]
        low, high = map(PLAIN.number, texts)
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"{what}: {entry!r} needs low and high, numbers") from None
    for why in filter(None, map(yaml_file.inexact, texts)):
        raise ValueError(f"{what}: {why}")
    require(low < high, f"{what}: low = {low:g} must be below high = {high:g}")
    return {"low": low, "high": high}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(given: Mapping[str, Any], source: str) -> str:
    """Return the schema of the table `source` as a file with comments."""
    lines = [
        f"# Schema of {source!r}: {{low: 0, high: 1}} for numbers, {{values: [a, b]}} for categories, or drop.",
        "# A missing value becomes an error, a category (a value of its own) or a midpoint.",
        "# Replace every ??? from public knowledge, not by looking at the rows. Numbers outside are clipped.",
    ]
    if given["ranges_from_data"]:
        lines[-1] = "# Ranges and categories were READ OFF THE DATA, which no guarantee covers: replace them."
    if given.get("kinds_from_data"):
        lines.append(
            "# Kinds, `missing` and dropped columns were read off the rows: check them, then say false."
        )
    order = [word for word in WORDS if word != "columns"] + ["columns"]
    ordered = {word: given[word] for word in order if word in given}
    text = yaml.dump(
        ordered, Dumper=_Dumper, default_flow_style=None, sort_keys=False, allow_unicode=True, width=10**9
    )
    return "\n".join([*lines, text])
