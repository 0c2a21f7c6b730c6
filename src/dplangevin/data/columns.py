"""What the rows of a table contain, column by column: numbers or texts, range, missing values, what does not fit."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
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

    - `texts`: Different values that are not missing; `others`: those that are no numbers.
    - `counting`: Whether every value is the number of its row, counted from 0 or 1.
    """

    def __init__(self, name: str, table: Table, marks: Sequence[str]) -> None:
        self.name, self.table, values = name, table, table.columns[name]
        self.where = f"{table.path}, column {shown(name)}"
        counts = Counter(values)
        self.marks_seen = counts.keys() & {*marks}
        self.missing = sum(map(counts.pop, self.marks_seen))
        self.present = counts.total()
        known = dict[str, float]()
        for text in counts:
            with suppress(ValueError):
                known[text] = table.form.number(text)
        self.texts, self.others = [*counts], [text for text in counts if text not in known]
        self.numeric, self.many = len(known) == len(counts) > 0, len(counts) > MANY
        self.alike = sum(n for text, n in counts.items() if text in known or OTHER_NUMBER.fullmatch(text))
        self.low, self.high = min(known.values(), default=0.0), max(known.values(), default=0.0)
        self.whole = all(map(float.is_integer, known.values()))
        self.counting = len(values) > 2 and any(
            all(text == str(k) for text, k in zip(values, count(start), strict=False)) for start in (0, 1)
        )

    def at(self, text: str) -> str:
        return f"{self.table.at(self.name, text)}: {text!r}"

    def values(self) -> list[str]:
        """Return the texts in order; numbers ascend."""
        number = self.table.form.number
        return sorted(self.texts, key=lambda text: (number(text) if self.numeric else 0.0, text))

    def kind(self) -> str:
        """Return "number", "category" or "empty"; DataError if only some of the values are numbers, at least half."""
        if self.numeric or not self.present:
            return "number" if self.present else "empty"
        if 2 * self.alike < self.present:
            return "category"
        raise DataError(
            f"{self.at(self.others[0])} {NO_NUMBER}, --categories {quote(self.name)} for categories"
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
