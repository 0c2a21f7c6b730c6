"""What the rows of a table contain, column by column: numbers or texts, range, missing values, what does not fit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from dplangevin.data.archives import DataError
from dplangevin.data.csv_table import COMMA, GROUPED, Format, Table, no_column, shown

MARKS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?")
OTHER_MARKS = {  # these mean "missing" if all other values of the column are numbers
    ".", "-", "--", "---", "–", "—", "*", "None", "none", "N.A.", "n.a.", "na", "nil", "missing", "unknown", "Unknown",
    "#VALUE!", "#DIV/0!", "#REF!", "#NUM!", "#NAME?",
}  # fmt: skip
MANY = 100  # a column with more different texts has no categories


class Column:
    """What the rows contain in one column.

    - `texts`: Different values that are not missing, each with the line of its first row; at most MANY + 1 of them.
    - `others`: As `texts`, at most MANY that are not numbers; `numbers` counts the rows of those that are.
    - `counting`: Whether every value is the number of its row, counted from 0 or 1.
    """

    def __init__(self, name: str, table: Table, marks: Sequence[str]) -> None:
        values = table.columns[name]
        counts, lines = Counter(values), dict(zip(reversed(values), reversed(table.lines), strict=True))
        self.name, self.path, self.form = name, table.path, table.form
        self.marks_seen = counts.keys() & {*marks}
        self.missing = sum(map(counts.pop, self.marks_seen))
        self.present = counts.total()
        numbers, others = dict[str, float](), dict[str, int]()
        for text in counts:
            try:
                numbers[text] = self.form.number(text)
            except ValueError:
                others[text] = lines[text]
        self.texts = {text: lines[text] for text in islice(counts, MANY + 1)}
        self.others = dict(islice(others.items(), MANY))
        self.numbers = sum(counts[text] for text in numbers)
        self.low, self.high = min(numbers.values(), default=0.0), max(numbers.values(), default=0.0)
        self.whole = all(map(float.is_integer, numbers.values()))
        self.counting = len(values) > 2 and any(
            all(text == str(k) for text, k in zip(values, count(start), strict=False)) for start in (0, 1)
        )

    def at(self, text: str) -> str:
        line = (self.texts | self.others)[text]
        return f"{self.path}, line {line}, column {shown(self.name)}: {text!r}"

    @property
    def where(self) -> str:
        return f"{self.path}, column {shown(self.name)}"

    @property
    def numeric(self) -> bool:
        return self.numbers == self.present > 0

    @property
    def many(self) -> bool:
        return len(self.texts) > MANY

    def kind(self) -> str:
        """Return "number", "category" or "empty".

        A DataError: at least half of the values are numbers and the others are not, or these have digits in groups.
        """
        if self.numeric or not self.present:
            return "number" if self.present else "empty"
        if 2 * self.numbers < self.present and not all(map(GROUPED.fullmatch, self.others)):
            return "category"
        text = next(iter(self.others))
        raise DataError(
            f"{self.at(text)} is not a number, as {self.numbers} of {self.present} values are: "
            f"{self.form.why_not(text)}; or give --categories {quote(self.name)}"
        )


class Reading(NamedTuple):
    """What a table contains; each note is a decision that was made by looking at the rows."""

    table: Table
    marks: Sequence[str]
    columns: dict[str, Column]
    notes: Sequence[str]

    def column(self, name: str) -> Column:
        if name not in self.columns:
            raise DataError(no_column(self.table.path, name, [*self.columns]))
        return self.columns[name]


GUESSED = Format(delimiter="", decimal="")


def read(
    path: Path, form: Format = GUESSED, marks: Sequence[str] = MARKS, more_marks: bool = False
) -> Reading:
    """Read every column of a table.

    A delimiter or decimal mark of "" is found from the file; with `more_marks`, marks of missing values in columns of
    numbers, too. A number that can be read in two ways is a DataError.
    """
    table, notes = Table.read(path, form=form._replace(decimal=form.decimal or ".").check()), dict[str, str]()
    columns = _columns(table, marks)
    others = [text for column in columns.values() for text in column.others]
    if not form.decimal and form.thousands != "," and any(map(COMMA.fullmatch, others)):
        commas = replace(table, form=table.form._replace(decimal=","))
        if note := _commas(columns, converted := _columns(commas, marks)):
            table, columns, notes = commas, converted, {"": note}
    if more_marks and (found := _more_marks(columns)):
        marks, notes = [*marks, *found], notes | found
        columns = _columns(table, marks)
    return Reading(table, marks, columns, [*notes.values()])


def _columns(table: Table, marks: Sequence[str]) -> dict[str, Column]:
    return {name: Column(name, table, marks) for name in table.columns}


def _commas(points: dict[str, Column], commas: dict[str, Column]) -> str:
    """Return why the decimal mark is a comma, or "" if it is not; raise DataError if both marks make sense.

    With it, a column has more numbers than before, which are at least half of its values.
    """
    gained = [
        column
        for name, column in points.items()
        if commas[name].numbers > column.numbers and 2 * commas[name].numbers >= column.present
    ]
    texts = [(text, column) for column in gained for text in column.others if COMMA.fullmatch(text)]
    if not texts:
        return ""
    text, column = next((each for each in texts if not GROUPED.fullmatch(each[0])), texts[0])
    if GROUPED.fullmatch(text):
        raise DataError(f"{column.at(text)} can be read in two ways: give --thousands , or --decimal ,")
    for name, other in points.items():
        for point, line in commas[name].others.items() if other.numeric else ():
            raise DataError(
                f"{column.at(text)} has a decimal comma, but line {line}, column {shown(name)} has {point!r}: write "
                "numbers one way"
            )
    return f"Decimal mark: a comma, as in {text!r} (line {column.others[text]}, column {shown(column.name)})."


def _more_marks(columns: dict[str, Column]) -> dict[str, str]:
    """Return the texts in columns of numbers that can only stand for missing values, each with a sentence."""
    return {
        text: f"Missing values: {text!r}, too (line {line}, column {shown(column.name)})."
        for column in reversed(columns.values())
        if column.numbers and column.others.keys() <= OTHER_MARKS
        for text, line in column.others.items()
    }
