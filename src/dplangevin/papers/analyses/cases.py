"""Rows of exact cases: a computed number, the number in the paper, and the ratio of both."""

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def table(columns: Row, cases: Iterable[Row], value: str = "value") -> list[Row]:
    """Return one row for each case, with all columns.

    - `columns`: column -> its entry in cases that do not give one. The column "ratio" is `value` over "bound".
    - `cases`: the given columns of each case.
    - `value`: name of the column with the computed number.
    """
    rows = [{**columns, **case} for case in cases]
    return [{**row, "ratio": row[value] / row["bound"]} for row in rows]
