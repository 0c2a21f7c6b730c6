"""The figure and the page that compare ryffel2022's bounds with exact cases.

They show each statement's exact values divided by its bound, as points and as a table. All functions are pure
functions of the rows of `papers.analyses.ryffel2022_bounds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import style, tables
from dplangevin.papers.exhibits.style import Look, entry
from dplangevin.papers.statistics import matches
from dplangevin.text import short

SMALLEST = 1e-4  # left end of the axis of exact/bound; smaller ratios are drawn here
KEPT = Look("exact case, bound kept", "#0072B2", "o", "", 4.0)
EXCEEDED = Look("exact case above the bound", "#D55E00", "D", "", 5.0)
TEXT = (
    "Each point is one exact case that meets the hypotheses: its privacy loss, variance or excess risk over the bound "
    "that is printed for it\n(of the theorems' utility: the bound of the proof). Nothing is estimated, so there are no "
    "error bars; ratios below 1e-4 are drawn there."
)
Lines = Sequence[Mapping[str, Any]]  # {label, where}; `where` selects rows, see `papers.statistics.matches`


def _parts(frame: pd.DataFrame, lines: Lines) -> Iterator[tuple[str, pd.DataFrame]]:
    """Return the label and the rows of each line. A line may have no rows."""
    for line in lines:
        yield line["label"], frame[matches(frame, line["where"])]


def figure(frame: pd.DataFrame, *, lines: Lines, title: str = "") -> Figure:
    """Draw the ratios exact/bound on a log axis, with one row for each line and the bound at 1.

    Parameters
    ----------
    frame : DataFrame
        Rows of `papers.analyses.ryffel2022_bounds`.
    lines : Sequence of Mapping
        {label, where}, from top to bottom. `where` selects the rows of a line: column -> value or list of
        values.
    """
    with style.settings():
        drawn = Figure(figsize=(9.0, 1.8 + 0.3 * len(lines)), layout="constrained")
        ax = drawn.subplots()
        for y, (_, rows) in enumerate(_parts(frame, lines)):
            for of, part in ((KEPT, rows[rows.ratio.le(1)]), (EXCEEDED, rows[rows.ratio.gt(1)])):
                at = np.maximum(part.ratio, SMALLEST)
                ax.plot(at, np.full(len(part), y), of.marker, color=of.colour, ms=of.size, alpha=0.6)
        ax.axvline(1.0, color="#000000", lw=1.0)
        ax.set(xscale="log", ylim=(len(lines) - 0.5, -0.5), xlabel="exact value over the bound")
        ax.set_yticks(range(len(lines)), [line["label"] for line in lines])
        return style.lay_out(drawn, title, TEXT, [entry(KEPT), entry(EXCEEDED)])


def page(frame: pd.DataFrame, *, lines: Lines, title: str = "") -> str:
    """Return a Markdown page with one row for each line.

    A row has the number of cases, the number of cases above the bound, and the smallest, median and largest
    exact/bound. The arguments are those of `figure`.
    """
    rows = [
        [label, str(len(part)), str(int(part.ratio.gt(1).sum())), *_spread(part.ratio)]
        for label, part in _parts(frame, lines)
    ]
    columns = ["statement", "cases", "above the bound", "smallest", "median", "largest"]
    return tables.page(title, [TEXT.replace("\n", " "), "", *tables.table(columns, rows, left=1)])


def _spread(ratios: pd.Series) -> list[str]:
    """Return the smallest, median and largest ratio as texts."""
    if ratios.empty:
        return ["", "", ""]
    return [short(value) for value in (ratios.min(), ratios.median(), ratios.max())]
