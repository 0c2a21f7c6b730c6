"""Pairs of neighbouring tables on which private learners are known to go wrong.

Record 0 differs. Features are within the row bound B, and labels among the classes. The record points in the direction
in which the other rows vary, and so resist it, least.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dplangevin.checks import count, positive, require
from dplangevin.privacy import Adjacency

RECORDS = 6  # of the small built table: few records, so that one of them counts
INNER = 0.1  # norm of the other rows of the small table, in units of the bound
LONG = 60  # records of the long built table: what depends on all of them grows with their number
FAN = 1.0  # largest angle between a row of the long table and the direction of its class, in radians
BEYOND = 10.0  # a row beyond the bound is longer by this factor


class Table(NamedTuple):
    """Rows (n, features), and their labels (n,), of classes or numbers."""

    X: np.ndarray
    y: np.ndarray

    def without(self) -> "Table":
        return Table(self.X[1:], self.y[1:])

    def replaced(self, row: np.ndarray, label: Any) -> "Table":
        x, y = self.X.copy(), self.y.copy()
        x[0] = row
        y = np.concatenate([np.asarray([label]), y[1:]])
        return Table(x, y)


class TablePair(NamedTuple):
    """Two neighbouring tables, and how they differ."""

    name: str
    first: Table
    second: Table


def built(classes: Sequence[Any] | None, row_bound: float) -> Table:
    """Return a small table of short rows with labels in turn.  Classes None: labels are numbers."""
    angle = np.arange(RECORDS) * 2 * np.pi / RECORDS
    x = INNER * row_bound * np.column_stack([np.cos(angle), np.sin(angle)]).round(3)
    ends = [-1.0, 1.0] if classes is None else classes
    return Table(x, np.asarray([ends[i % len(ends)] for i in range(RECORDS)]))


def long_pairs(classes: Sequence[Any] | None, row_bound: float, adjacency: Adjacency) -> list[TablePair]:
    """Return pairs of built tables of 60 rows, each the worst case of a fault that grows with the number of rows.

    The rows of a class point in about one direction, as long as the bound; record 0 in that of the last class.
    """
    ends = [-1.0, 1.0] if classes is None else [*classes]
    at = np.arange(LONG) % len(ends)
    angle = 2 * np.pi * (at + 1) / len(ends) + FAN * np.linspace(-1, 1, LONG)
    x = row_bound * np.column_stack([np.cos(angle), np.sin(angle)]).round(3)
    along, labels = np.array([row_bound, 0.0]), np.asarray(ends)
    x *= np.minimum(1.0, row_bound / np.linalg.norm(x, axis=1, keepdims=True))
    y, low, high = labels[at], labels[0], labels[-1]  # more classes than rows: no row has the last
    rare = np.where((np.arange(LONG) != 1) & (y == high), low, y)
    rare[1] = high
    half = LONG // 2
    cancel, labels = np.concatenate([x[:half], -x[:half]]), np.tile(y[:half], 2)
    cancel[[0, 1, half, half + 1]] = 0.0
    cancel[1], labels[1] = -along / 2, high  # which is the sum of all rows but record 0
    lone = np.where(np.arange(LONG)[:, None] == 1, -along, x)
    tables = Table(x, y), Table(x / 2, y), Table(lone, rare), Table(cancel, labels)
    records = ((along, low), (along, high)), ((along, high), (0 * along, high)), ((along, high), (along, low))
    names = [
        f"{what} among {LONG}" for what in ("wrong label", "longest row", "rare class", "rows that cancel")
    ]
    if adjacency == "replace_one":
        both = [[table.replaced(*each) for each in two] for table, two in zip(tables, records, strict=False)]
        return [TablePair(name, first, second) for name, (first, second) in zip(names, both, strict=False)]
    first = [table.replaced(*two[0]) for table, two in zip(tables, (*records, records[2]), strict=True)]
    return [
        TablePair(f"one record less: {name}", t, t.without()) for name, t in zip(names, first, strict=True)
    ]


def checked(table: Table, row_bound: float) -> Table:
    """Return the table as arrays.  Raise ValueError if it has no neighbours within the bound."""
    positive(row_bound=row_bound)
    x, y = np.asarray(table.X, float), np.asarray(table.y)
    require(x.ndim == 2 and y.shape == x.shape[:1], f"X {x.shape} and y {y.shape} must be (n, d) and (n,)")
    count(3, records=len(x))
    require(bool(np.isfinite(x).all()), "X must be finite: fill or leave out missing values")
    known = all(label is not None and label == label for label in y.tolist())  # nan is not equal to itself
    require(known, "y must have no missing labels: leave out their rows")
    if all(isinstance(label, str) for label in y.tolist()):  # pandas has them as objects
        y = y.astype(str)
    longest = float(np.linalg.norm(x, axis=1).max())
    require(
        longest <= row_bound * (1 + 1e-9),
        f"the longest row has norm {longest:.4g}: scale X by public numbers, or set row_bound",
    )
    return Table(x, y)


def pairs(
    table: Table, row_bound: float, adjacency: Adjacency, regression: bool = False, any_row: bool = False
) -> list[TablePair]:
    """Return pairs of neighbouring tables. Record 0 is replaced or, under add_remove, missing.

    `any_row` adds a row beyond the bound, and a label that no other record has; learners that claim less may refuse.
    """
    x = table.X - table.X.mean(0)
    along = np.linalg.eigh(x[1:].T @ x[1:]).eigenvectors[:, 0]
    along = row_bound * np.where(np.abs(along) < 1e-9, 0.0, along)
    zero, (low, high) = np.zeros_like(along), _ends(table.y, regression)
    alone = Table(table.X, np.full_like(table.y, low))
    unseen = "never seen" if table.y.dtype.kind in "US" else table.y.max() + 1

    def pair(name: str, *records: tuple[np.ndarray, Any], base: Table = table) -> TablePair:
        tables = [base.replaced(*record) for record in records]
        return TablePair(name, tables[0], tables[1] if len(tables) > 1 else tables[0].without())

    if adjacency == "replace_one":
        flat = Table(np.outer(table.X @ along, along) / (along @ along), table.y)
        across = zero.copy()
        if len(along) > 1:
            across[:2] = -along[1], along[0]
            across *= np.linalg.norm(along) / np.maximum(np.linalg.norm(across), 1e-300)
        found = [
            pair("flipped label", (along, low), (along, high)),
            pair("outlier at the bound, other side", (along, high), (-along, high)),
            pair("outlier at the bound or a row of 0", (along, high), (zero, high)),
            pair("absent class", (along, high), (along, low), base=alone),
            pair("duplicate row", (table.X[1], table.y[1]), (-along, table.y[1])),
            pair("row that alone fills a direction", (across, high), (zero, high), base=flat),
            pair("row beyond the bound", (along, high), (BEYOND * along, high)),
            pair("label never seen", (along, high), (along, unseen)),
        ]
    else:
        others = [np.flatnonzero(table.y[1:] == label)[:1] + 1 for label in (low, high)]
        few = np.concatenate([[0], *others]).astype(int)
        found = [
            pair("one record less: outlier at the bound", (along, high)),
            pair("one record less: outlier, other side", (-along, high)),
            pair("one record less: outlier, other label", (along, low)),
            pair("one record less: duplicate row", (table.X[1], table.y[1])),
            pair("one record less: row of 0", (zero, high)),
            pair("one record less: absent class", (along, high), base=alone),
            pair("one of three records less", (along, high), base=Table(table.X[few], table.y[few])),
            pair("one record less: row beyond the bound", (BEYOND * along, high)),
            pair("one record less: label never seen", (along, unseen)),
        ]
    left = ["absent class"] * regression + ["beyond", "never seen"] * (not any_row)
    left += ["fills a direction"] * (len(along) == 1)
    return [each for each in found if not any(words in each.name for words in left)]


def _ends(y: np.ndarray, regression: bool) -> tuple[Any, Any]:
    """Return two labels: the extremes of numbers, or the first two classes."""
    if regression:
        return y.min(), y.max()
    found = np.unique(y)
    require(len(found) > 1, "y has one class: give records of at least two")
    return found[0], found[1]
