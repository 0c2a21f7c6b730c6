"""What the rows of a table contain, column by column: numbers or texts, range, missing values, what does not fit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count, islice
from pathlib import Path
from typing import NamedTuple

from dplangevin.data.files import DataError
from dplangevin.data.table import (
    COMMA,
    GROUPED,
    POINT_GROUPED,
    Format,
    Table,
    decoded,
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
MANY = 100  # a column with more different texts has no categories


class Column:
    """What the rows contain in one column; after each text, the line of its first row.

    - `texts`: Different values that are not missing, in the order of the file; at most MANY + 1 of them.
    - `counts`: Number of rows that have each value in `texts`.
    - `marks_seen`: The marks of missing values that occur in the column.
    - `others`: At most MANY different values that are not numbers; `numbers` counts the rows of those that are.
    - `counting`: Whether every value is the number of its row, counted from 0 or 1.
    - `pointed`: Whether the points of all numbers, two or more, may be marks between thousands.
    """

    def __init__(self, name: str, table: Table, marks: Sequence[str]) -> None:
        values = table.columns[name]
        counts, lines = Counter(values), dict(zip(reversed(values), reversed(table.lines), strict=True))
        self.name, self.path, self.form, self.rows = name, table.path, table.form, len(values)
        self.marks_seen = counts.keys() & {*marks}
        self.missing = sum(counts.pop(mark) for mark in self.marks_seen)
        self.first_missing = min((lines[mark] for mark in self.marks_seen), default=0)
        self.texts = {text: lines[text] for text in islice(counts, MANY + 1)}
        self.counts = {text: counts[text] for text in self.texts}
        numbers, others, self.numbers = list[float](), dict[str, int](), 0
        for text, n in counts.items():
            try:
                numbers.append(self.form.number(text))
                self.numbers += n
            except ValueError:
                others[text] = lines[text]
        self.low, self.high = min(numbers, default=0.0), max(numbers, default=0.0)
        self.others = dict(islice(others.items(), MANY))
        self.counting = self.rows > 2 and any(
            all(text == str(k) for text, k in zip(values, count(start), strict=False)) for start in (0, 1)
        )
        pointed = [text for text in counts if "." in text]
        self.pointed = len(pointed) > 1 and all(map(POINT_GROUPED.fullmatch, pointed))

    def at(self, line: int) -> str:
        return f"{self.path}, line {line}, column {shown(self.name)}"

    @property
    def where(self) -> str:
        return f"{self.path}, column {shown(self.name)}"

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @property
    def numeric(self) -> bool:
        return self.numbers == self.present > 0

    @property
    def constant(self) -> bool:
        """Whether all rows have the same value; of numbers, in double precision."""
        same = self.low == self.high if self.numeric else len(self.texts) < 2
        return same and not (self.missing and self.present)

    @property
    def many(self) -> bool:
        """Whether there are more different texts than categories are allowed."""
        return len(self.texts) > MANY

    def kind(self) -> str:
        """Return "number", "category" or "empty".

        A DataError: at least half of the values are numbers and the others are not, or these have digits in groups.
        """
        if self.numeric or not self.present:
            return "number" if self.present else "empty"
        if 2 * self.numbers < self.present and not all(map(GROUPED.fullmatch, self.others)):
            return "category"
        (text, line), *more = self.others.items()
        texts = ", ".join(repr(other) for other, _ in more[:3]) + " and others" * (len(more) > 3)
        raise DataError(
            f"{self.at(line)}: {text!r} is not a number{f' (nor are {texts})' if more else ''}, as {self.numbers} of "
            f"{self.present} values are: {no_number(text, self.form)}; or give --categories {quoted(self.name)}"
        )


class Reading(NamedTuple):
    """What a table contains; each note is a decision that was made by looking at the rows."""

    path: Path
    form: Format
    rows: int
    lines: int
    marks: tuple[str, ...]
    columns: dict[str, Column]
    notes: tuple[str, ...] = ()


def read(
    path: Path,
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    decimal: str | None = None,
    thousands: str = "",
    marks: Sequence[str] = MARKS,
    more_marks: bool = False,
) -> Reading:
    """Read every column of a table.

    A delimiter or decimal mark of None is found from the file; with `more_marks`, marks of missing values in columns of
    numbers, too. A number that can be read in two ways is a DataError.
    """
    text = decoded(path, encoding)
    separator = delimiter_of(text) if delimiter is None else delimiter
    form, notes = Format(separator, encoding, decimal or ".", thousands).check(), dict[str, str]()
    table = Table.parsed(path, text, form)
    columns = _columns(table, marks)
    others = chain(*(column.others for column in columns.values()))
    if decimal is None and thousands != "," and any(map(COMMA.fullmatch, others)):
        commas = replace(table, form=form._replace(decimal=","))
        if note := _commas(columns, converted := _columns(commas, marks)):
            table, columns, notes = commas, converted, {"": note}
    if more_marks and (found := _more_marks(columns)):
        marks, notes = [*marks, *found], notes | found
        columns = _columns(table, marks)
    return Reading(
        path, table.form, len(table.lines), table.lines[-1], tuple(marks), columns, tuple(notes.values())
    )


def _columns(table: Table, marks: Sequence[str]) -> dict[str, Column]:
    return {name: Column(name, table, marks) for name in table.columns}


def _commas(points: dict[str, Column], commas: dict[str, Column]) -> str:
    """Return why the decimal mark is a comma, or "" if it is not; raise DataError if both marks make sense.

    With it, a column has more numbers than before, which are at least half of its values.
    """
    texts = {
        text: (column, line)
        for name, column in points.items()
        if commas[name].numbers > column.numbers and 2 * commas[name].numbers >= column.present
        for text, line in column.others.items()
        if COMMA.fullmatch(text)
    }
    if not texts:
        return ""
    sure = [text for text in texts if not GROUPED.fullmatch(text)]
    text = next(iter(sure or texts))
    column, line = texts[text]
    where = f"{column.at(line)}: {text!r}"
    if not sure:
        raise DataError(f"{where} can be read in two ways: give --thousands , or --decimal ,")
    for name, other in points.items():
        if other.numeric and (others := commas[name].others):
            point, at = next(iter(others.items()))
            raise DataError(
                f"{where} has a decimal comma, but line {at}, column {shown(name)} has {point!r}: write all numbers "
                "one way"
            )
    return f"Decimal mark: a comma, as in {text!r} (line {line}, column {shown(column.name)})."


def _more_marks(columns: dict[str, Column]) -> dict[str, str]:
    """Return the texts in columns of numbers that can only stand for missing values, each with a sentence."""
    notes: dict[str, str] = {}
    for column in columns.values():
        if column.numbers and column.others.keys() <= OTHER_MARKS:
            for text, line in column.others.items():
                where = f"line {line}, column {shown(column.name)}"
                notes.setdefault(text, f"Missing values: {text!r}, too ({where}).")
    return notes
