"""What the rows of a table contain, column by column: numbers or texts, range, missing values, what does not fit."""

import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from math import inf
from pathlib import Path

from dplangevin.data.files import DataError
from dplangevin.data.table import (
    COMMA,
    GROUPED,
    NO_NAME,
    PLAIN,
    POINT_GROUPED,
    SHOWN,
    UNITS,
    Format,
    Table,
    delimiter_of,
    no_number,
    quoted,
    shown,
)

MARKS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?")
OTHER_MARKS = {  # these mean "missing" if all other values of the column are numbers
    ".", "-", "--", "---", "–", "—", "*", "None", "none", "N.A.", "n.a.", "na", "nil", "missing", "unknown", "Unknown",
    "#VALUE!", "#DIV/0!", "#REF!", "#NUM!", "#NAME?",
}  # fmt: skip
LEAST_ROWS = 20  # a column with at least this many values, all of them different, has no categories
RARE = 5  # a class with fewer rows is reported
MANY = 100  # a column with more different texts has no categories


@dataclass
class Numbers:
    """The values of a column that are numbers, their range, and how many `others` are not.

    `texts` maps at most MANY different texts that are not numbers to their lines.
    """

    form: Format
    count: int = 0
    low: float = inf
    high: float = -inf
    others: int = 0
    texts: dict[str, int] = field(default_factory=dict)

    def add(self, values: Counter[str], lines: dict[str, int]) -> None:
        for text, n in values.items():
            try:
                value = self.form.number(text)
            except ValueError:
                self.others += n
                if len(self.texts) < MANY:
                    self.texts.setdefault(text, lines[text])
                continue
            self.count += n
            self.low, self.high = min(self.low, value), max(self.high, value)

    @property
    def first(self) -> tuple[str, int]:
        return next(iter(self.texts.items()))


@dataclass
class Column:
    """What the rows read so far contain in one column.

    - `texts`: Different values -> line, in the order of the file; at most MANY + 1 values.
    - `counts`: Number of rows that have each value in `texts`.
    - `marks_seen`: The marks of missing values that occur in the column.
    - `points`: Number of values whose point may be a mark between thousands. -1: one value shows that it is not.
    - `starts`: Each start in {0, 1} for which every value so far is start + its row index.
    """

    name: str
    numbers: Numbers
    rows: int = 0
    missing: int = 0
    first_missing: int | None = None
    texts: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    marks_seen: set[str] = field(default_factory=set)
    points: int = 0
    starts: set[int] = field(default_factory=lambda: {0, 1})

    def add(self, table: Table, marks: Collection[str]) -> None:
        values = table.columns[self.name]
        self.starts = {start for start in self.starts if _counts(values, start + self.rows)}
        self.rows += len(values)
        seen = Counter(values)
        gone = {text for text in seen if text in marks}
        lines = _first_lines(values, table.lines) if len(seen) > len(gone) else {}
        if gone:
            self.marks_seen |= gone
            self.missing += sum(seen.pop(text) for text in gone)
            if self.first_missing is None:
                self.first_missing = next(
                    line for line, text in zip(table.lines, values, strict=True) if text in gone
                )
        for text in seen:
            if len(self.texts) > MANY:
                break
            self.texts.setdefault(text, lines[text])
        self.counts.update({text: n for text, n in seen.items() if text in self.texts})
        pointed = [text for text in seen if "." in text]
        if self.points >= 0 and pointed:
            grouped = all(map(POINT_GROUPED.fullmatch, pointed))
            self.points = self.points + len(pointed) if grouped else -1
        self.numbers.add(seen, lines)

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @property
    def counting(self) -> bool:
        """Whether every value is the number of its row, counted from 0 or 1."""
        return bool(self.starts) and self.rows > 2

    @property
    def numeric(self) -> bool:
        return self.numbers.count == self.present > 0

    @property
    def constant(self) -> bool:
        """Whether all rows have the same value; of numbers, in double precision."""
        same = self.numbers.low == self.numbers.high if self.numeric else len(self.texts) < 2
        return same and not (self.missing and self.present)

    @property
    def many(self) -> bool:
        """Whether there are more different texts than categories are allowed."""
        return len(self.texts) > MANY


def _counts(values: Sequence[str], start: int) -> bool:
    return all(text == str(k) for text, k in zip(values, count(start), strict=False))


def _first_lines(values: Sequence[str], lines: Sequence[int]) -> dict[str, int]:
    return dict(zip(reversed(values), reversed(lines), strict=True))


@dataclass(frozen=True)
class Reading:
    """A table that was read once; each note is a decision that was made by looking at the rows."""

    path: Path
    form: Format
    rows: int
    lines: int
    marks: tuple[str, ...]
    columns: dict[str, Column]
    notes: tuple[str, ...] = ()

    def at(self, line: int, column: str) -> str:
        return f"{self.path}, line {line}, column {shown(column)}"


def read(
    path: Path,
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    decimal: str | None = None,
    thousands: str = "",
    marks: Sequence[str] = MARKS,
) -> Reading:
    """Read every column of a table, one chunk of rows at a time.

    A delimiter or decimal mark of None is found from the file. A number that can be read in two ways is a DataError.
    """
    separator = delimiter_of(path, encoding) if delimiter is None else delimiter
    form = Format(separator, encoding, decimal or ".", thousands).check()
    points = _read(path, form, tuple(marks))
    if decimal is not None or thousands == ",":
        return points
    if not any(map(COMMA.fullmatch, chain(*(column.numbers.texts for column in points.columns.values())))):
        return points
    commas = _read(path, form._replace(decimal=","), tuple(marks))
    better = [column for column in points.columns.values() if _better(commas.columns[column.name], column)]
    return _chosen(points, commas, better) if better else points


def _read(path: Path, form: Format, marks: tuple[str, ...]) -> Reading:
    columns: dict[str, Column] = {}
    rows, last = 0, 0
    for table in Table.chunks(path, form=form):
        for name in table.columns:
            columns.setdefault(name, Column(name, Numbers(form))).add(table, frozenset(marks))
        rows, last = rows + len(table.lines), table.lines[-1]
    return Reading(path, form, rows, last, marks, columns)


def _better(column: Column, before: Column) -> bool:
    """Return whether more values are numbers than before, and at least half of all values are numbers."""
    return column.numbers.count > before.numbers.count and 2 * column.numbers.count >= column.present


def _chosen(points: Reading, commas: Reading, better: Sequence[Column]) -> Reading:
    """Return the reading with a decimal comma; raise DataError if another reading also makes sense."""
    texts = {
        text: (column, line)
        for column in better
        for text, line in column.numbers.texts.items()
        if COMMA.fullmatch(text)
    }
    sure = [text for text in texts if not GROUPED.fullmatch(text)]
    text = next(iter(sure or texts))
    column, line = texts[text]
    where = f"{points.at(line, column.name)}: {text!r}"
    if not sure:
        raise DataError(f"{where} can be read in two ways: give --thousands , or --decimal ,")
    for name, other in points.columns.items():
        if other.numeric and commas.columns[name].numbers.others:
            point, at = commas.columns[name].numbers.first
            raise DataError(
                f"{where} has a decimal comma, but line {at}, column {shown(name)} has {point!r}: write all numbers "
                "one way"
            )
    note = f"Decimal mark: a comma, as in {text!r} (line {line}, column {shown(column.name)})."
    return replace(commas, notes=(note,))


def kind(reading: Reading, column: Column) -> str:
    """Return the kind of a column: "number", "category" or "empty".

    A DataError: at least half of the values are numbers and the others are not, or these have digits in groups.
    """
    if not column.present:
        return "empty"
    if column.numeric:
        return "number"
    if 2 * column.numbers.count < column.present and not all(map(GROUPED.fullmatch, column.numbers.texts)):
        return "category"
    (text, line), others = column.numbers.first, [*map(repr, column.numbers.texts)][1:]
    more = f" (nor are {', '.join(others[:3])}{' and others' if len(others) > 3 else ''})" if others else ""
    raise DataError(
        f"{reading.at(line, column.name)}: {text!r} is not a number{more}, as {column.numbers.count} of "
        f"{column.present} values are: {no_number(text, reading.form)}; or give --categories {quoted(column.name)}"
    )


def with_other_marks(reading: Reading) -> Reading:
    """Read the table again if a column of numbers has texts that can only stand for missing values."""
    new_marks: dict[str, str] = {}
    for column in reading.columns.values():
        texts = column.numbers.texts
        if column.numbers.count and texts and texts.keys() <= OTHER_MARKS:
            for text, line in texts.items():
                new_marks.setdefault(
                    text, f"Missing values: {text!r}, too (line {line}, column {shown(column.name)})."
                )
    if not new_marks:
        return reading
    again = _read(reading.path, reading.form, (*reading.marks, *new_marks))
    return replace(again, notes=(*reading.notes, *new_marks.values()))


def why_dropped(column: Column, of_kind: str) -> str:
    """Return why a column of this `kind` cannot be a feature, or "" if it can."""
    if column.name.endswith(NO_NAME):
        return "it has no name"
    if column.counting:
        return "it counts the rows"
    if of_kind == "empty":
        return "it has no value"
    return f"it has more than {MANY} different texts" if of_kind == "category" and column.many else ""


def why_useless(column: Column, categories: bool) -> str:
    """Return why the values of a column, which are private, make it useless as a feature, or ""."""
    if categories and len(column.texts) == column.present >= LEAST_ROWS:
        return "it has another text in every row"
    if not column.present or not column.constant:
        return ""
    return "it has one value" if len(column.texts) == 1 else "all its numbers round to one float64"


def mixed(column: Column, labels: bool = False) -> list[str]:
    """Return at most SHOWN sentences on what may be wrong with the texts of categories or, if `labels`, classes."""
    sentences, name = [], shown(column.name)
    if not column.numeric and column.numbers.count:
        sentences.append(
            f"{name} has texts and {column.numbers.count} numbers among {column.present} values: all are categories."
        )
    elif column.texts and all(map(UNITS.fullmatch, column.texts)):
        text, line = next(iter(column.texts.items()))
        sentences.append(
            f"{name} has texts such as {text!r} (line {line}): without units they would be numbers."
        )
    alike: dict[str, str] = {}
    for text in column.texts:
        same = alike.setdefault("".join(unicodedata.normalize("NFKC", text).casefold().split()), text)
        if same != text:
            sentences.append(
                f"{name} has {same!r} and {text!r} (line {column.texts[text]}), which differ in form alone: they are "
                "two categories."
            )
    rare = [text for text in column.texts if column.counts[text] < RARE] if labels else []
    if rare:
        texts = ", ".join(f"{t!r} ({column.counts[t]}, line {column.texts[t]})" for t in rare[:SHOWN])
        sentences.append(
            f"Classes with fewer than {RARE} rows: {texts}{' and others' if len(rare) > SHOWN else ''}."
        )
    return sentences[:SHOWN]


def doubtful(reading: Reading) -> list[str]:
    """Return at most SHOWN sentences about numbers that may mean something else."""
    sentences = []
    for column in reading.columns.values():
        if column.numeric and column.points > 1 and reading.form.decimal == ".":
            pointed = [(text, line) for text, line in column.texts.items() if "." in text]
            text, line = pointed[0] if pointed else next(iter(column.texts.items()))
            sentences.append(
                f"{shown(column.name)}: {text!r} (line {line}) is read as {float(text):g}. If points stand between "
                "thousands, give --decimal , --thousands ."
            )
    return sentences[:SHOWN]


def header_of_numbers(names: Sequence[str]) -> bool:
    """Return whether all names of a header are numbers, except the sequences 0, 1, 2, ... and 1, 2, 3, ..."""
    try:
        values = [PLAIN.number(name) for name in names]
    except ValueError:
        return False
    return values not in ([*range(len(names))], [*range(1, len(names) + 1)])
