"""Figures and pages that compare the papers' formulas with exact computations in small cases.

A ratio is a measured value over the value that the paper allows. A bound holds in the cases computed if no
ratio is above 1. All functions are pure functions of the rows of `papers.analyses`
(`wang2015_bounds`, `li2019_bounds` and `ryffel2022_bounds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import tables
from dplangevin.papers.exhibits.figures import dots
from dplangevin.papers.statistics import matches
from dplangevin.text import number, short

Lines = Sequence[Mapping[str, Any]]  # {label, where}; `where` selects rows, see `papers.statistics.matches`
DOTS: list[dict[str, Any]] = [
    {"query": "ratio <= 1", "label": "case within the bound", "colour": "#0072B2", "marker": "o", "size": 4},
    {"query": "ratio > 1", "label": "case above the bound", "colour": "#D55E00", "marker": "D"},
]


def strips(frame: pd.DataFrame, *, lines: Lines, smallest: float, text: str, title: str = "") -> Figure:
    """Draw the column `ratio` on a log axis, a row for each statement, with how many cases are above the bound.

    Ratios below `smallest` are drawn there; `text` begins the caption.
    """
    statements = []
    for line in lines:
        cases = frame[matches(frame, line["where"]) & frame.ratio.notna()]
        if cases.empty:
            raise ValueError(f"no ratio for the statement {line['label']!r}: check conf/exhibit")
        above = f"{cases.ratio.gt(1).sum()} of {len(cases)} above"
        statements.append(cases.assign(statement=line["label"], above=above))
    rows = pd.concat(statements)
    axis = {
        "x": "shown",
        "xscale": "log",
        "xlabel": "measured value / allowed value (log axis; 1 = as much as the paper allows)",
        "guides": [{"x": 1, "line": "-"}],
        "marks": [mark for mark in DOTS if len(rows.query(mark["query"]))],
    }
    return dots(
        rows.assign(shown=rows.ratio.clip(lower=smallest)),
        label="{statement}",
        right="{above}",
        by=["statement"],
        text=f"{text.rstrip()} Ratios below {number(smallest)} are drawn at {number(smallest)}.",
        panels=[axis],
        title=title,
    )


def ratios_page(
    frame: pd.DataFrame,
    *,
    lines: Lines,
    columns: Mapping[str, str],
    notes: str,
    cases: Mapping[str, str] | None = None,
    title: str = "",
) -> str:
    """Return a page with a row for each statement, and all `cases` with columns as in `tables.table_page`.

    `columns` maps headings to "above", the number of ratios above 1, or an aggregate of the ratios, such as "max".
    """
    rows = []
    for line in lines:
        ratios = frame[matches(frame, line["where"])].ratio
        values = (int(ratios.gt(1).sum()) if how == "above" else ratios.agg(how) for how in columns.values())
        rows.append([line["label"], *map(short, values)])
    text = [notes, "", *tables.table(["statement", *columns], rows, left=1)]
    if cases:
        text += ["", "## All cases", "", *tables.rows_table(frame, tables.cells(cases), left=2)]
    return tables.page(title, text)


def li2019_page(frame: pd.DataFrame, *, notes: str, title: str = "") -> str:
    """Return a Markdown page with one line for each panel, case, schedule, neighbour relation and term."""
    keys = ["panel", "case", "schedule", "adjacency", "term"]
    lines = []
    for key, rows in frame.fillna(dict.fromkeys(keys, "")).groupby(keys, sort=False):
        ends = [rows[column].agg(end) for column in ("x", "value", "ratio") for end in ("min", "max")]
        lines.append([*map(str, key), str(len(rows)), *("" if pd.isna(end) else short(end) for end in ends)])
    c_1 = frame[frame.panel.eq("printed")].x
    notes = notes.format(c_1=" to ".join(number(value) for value in sorted({c_1.min(), c_1.max()})))
    columns = ["panel", "case", "schedule", "neighbours", "term", "cases", "x from", "to"]
    columns += ["value from", "to", "ratio from", "to"]
    return tables.page(title, [notes, "", *tables.table(columns, lines, left=5)])
