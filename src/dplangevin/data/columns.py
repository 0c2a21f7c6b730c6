"""What the rows of a table contain, column by column: numbers or texts, range, missing values, what does not fit."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from dplangevin.data.archives import DataError
from dplangevin.data.csv_table import NO_NUMBER, Format, Table, no_column, shown

MARKS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?")
MANY = 100  # a column with more different texts has no categories
# A number in another format than that of the table: with a point or a comma, or with marks between thousands
OTHER_NUMBER = re.compile(
    r"[-+]?(?:\d*[.,]\d+|\d+[.,]|\d{1,3}(?:([\s'’.,_])\d{3})(?:\1\d{3})*(?:[.,]\d+)?)(?:[eE][-+]?\d+)?"
)


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
        self.many = len(self.texts) > MANY
        self.others = dict(islice(others.items(), MANY))
        self.numbers = sum(counts[text] for text in numbers)
        self.numeric = self.numbers == self.present > 0
        self.alike = self.numbers + sum(counts[text] for text in others if OTHER_NUMBER.fullmatch(text))
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

    def values(self) -> list[str]:
        """Return the texts in order; numbers ascend."""
        return sorted(self.texts, key=lambda text: (self.form.number(text) if self.numeric else 0.0, text))

    def kind(self) -> str:
        """Return "number", "category" or "empty"; DataError if only some of the values are numbers, at least half."""
        if self.numeric or not self.present:
            return "number" if self.present else "empty"
        if 2 * self.alike < self.present:
            return "category"
        text = next(iter(self.others))
        raise DataError(
            f"{self.at(text)} {NO_NUMBER}, or --categories {quote(self.name)} if all values are categories"
        )


class Reading(NamedTuple):
    """What a table contains; `marks` stand for missing values."""

    table: Table
    marks: Sequence[str]
    columns: dict[str, Column]

    def column(self, name: str) -> Column:
        if name not in self.columns:
            raise DataError(no_column(self.table.path, name, [*self.columns]))
        return self.columns[name]


GUESSED = Format(delimiter="")


def read(path: Path, form: Format = GUESSED, marks: Sequence[str] = MARKS) -> Reading:
    """Read every column of a table."""
    table = Table.read(path, form=form.check())
    return Reading(table, marks, {name: Column(name, table, marks) for name in table.columns})
