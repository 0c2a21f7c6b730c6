"""Rows of exact cases: a computed number, the number in the paper, and the ratio of both."""

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def table(columns: Row, cases: Iterable[Row], value: str = "value") -> list[Row]:
    """Return the cases with all `columns`, whose entries are defaults, and with "ratio", `value` over "bound"."""
    rows = [{**columns, **case} for case in cases]
    return [{**row, "ratio": row[value] / row["bound"]} for row in rows]
