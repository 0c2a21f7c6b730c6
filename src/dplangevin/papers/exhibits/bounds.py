"""Figures and pages that compare the papers' formulas with exact computations in small cases.

A ratio is a measured value over the value that the paper allows. A bound holds in the cases computed if no
ratio is above 1. All functions are pure functions of the rows of `papers.analyses`
(`wang2015_bounds`, `li2019_bounds` and `ryffel2022_bounds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import tables
from dplangevin.papers.statistics import matches
from dplangevin.reporting import style
from dplangevin.reporting.style import entry, lay_out
from dplangevin.reporting.words import Look
from dplangevin.text import number, short

Lines = Sequence[Mapping[str, Any]]  # {label, where}; `where` selects rows, see `papers.statistics.matches`
HELD = Look("case within the bound", "#0072B2", "o", "", 4.0)
FAILED = Look("case above the bound", "#D55E00", "D", "", 5.0)


def strips(frame: pd.DataFrame, *, lines: Lines, smallest: float, text: str, title: str = "") -> Figure:
    """Draw the column `ratio` on a log axis, a row for each statement, with how many cases are above the bound.

    Ratios below `smallest` are drawn there; `text` begins the caption.
    """
    with style.settings():
        figure = Figure(figsize=(9.5, 2.1 + 0.27 * len(lines)), layout="constrained")
        ax = figure.subplots()
        for y, line in enumerate(lines):
            ratios = frame[matches(frame, line["where"])].ratio.dropna()
            if ratios.empty:
                raise ValueError(f"no ratio for the statement {line['label']!r}: check conf/exhibit")
            _cases(ax, y, ratios, smallest)
        ax.axvline(1.0, color="#000000", lw=1.2)
        ax.set(xscale="log", ylim=(len(lines) - 0.5, -0.5))
        ax.set_xlabel("measured value / allowed value (log axis; 1 = as much as the paper allows)")
        ax.set_yticks(range(len(lines)), [line["label"] for line in lines])
        heading: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 8}
        ax.annotate("cases above", (1, 1), (6, 4), **heading)
        cut = f" Ratios below {number(smallest)} are drawn at {number(smallest)}."
        return lay_out(figure, title, text.rstrip() + cut, [entry(HELD), entry(FAILED)])


def _cases(ax: Axes, y: int, ratios: pd.Series, smallest: float) -> None:
    """Draw the cases of one statement at height y, and how many of them are above the bound."""
    for look, group in ((HELD, ratios[ratios.le(1)]), (FAILED, ratios[ratios.gt(1)])):
        ax.plot(group.clip(lower=smallest), np.full(len(group), y), alpha=0.6, **look.shape)
    above = int(ratios.gt(1).sum())
    colour = FAILED.colour if above else "#444444"
    at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    ax.annotate(f"{above} of {len(ratios)}", (1, y), (6, 0), va="center", fontsize=8, color=colour, **at)


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
