"""The papers' formulas against exact computations; a ratio is the computed value over the value that a bound allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dplangevin.papers.exhibits import tables
from dplangevin.papers.statistics import matches
from dplangevin.text import short

Lines = Sequence[Mapping[str, Any]]  # {label, where}; `where` selects rows, see `papers.statistics.matches`


def _statements(frame: pd.DataFrame, lines: Lines) -> pd.DataFrame:
    rows = {line["label"]: frame[matches(frame, line["where"])] for line in lines}
    return pd.concat([of.assign(statement=label) for label, of in rows.items()])


def cases(frame: pd.DataFrame, *, lines: Lines, smallest: float) -> pd.DataFrame:
    """Return the ratios behind each statement, how many are above 1, and where they are shown: from `smallest` on."""
    rows = _statements(frame, lines).dropna(subset="ratio")
    of = rows.groupby("statement").ratio
    above = of.transform(lambda ratio: f"{ratio.gt(1).sum()} of {len(ratio)} above")
    return rows.assign(above=above, shown=rows.ratio.clip(lower=smallest))


def ratios(frame: pd.DataFrame, *, lines: Lines) -> pd.DataFrame:
    """Return the number of cases of each statement, how many are above 1, and their smallest, median and largest."""
    of = _statements(frame, lines).groupby("statement", sort=False).ratio
    above = of.agg(lambda ratio: ratio.gt(1).sum())
    return of.agg(["size", "min", "median", "max"]).assign(above=above).reset_index()


def li2019_page(frame: pd.DataFrame, *, notes: str, title: str = "") -> str:
    """Return a Markdown page with one line for each panel, case, schedule, neighbour relation and term."""
    keys = ["panel", "case", "schedule", "adjacency", "term"]
    lines = []
    for key, rows in frame.fillna(dict.fromkeys(keys, "")).groupby(keys, sort=False):
        ends = [rows[column].agg(end) for column in ("x", "value", "ratio") for end in ("min", "max")]
        lines.append([*map(str, key), str(len(rows)), *("" if pd.isna(end) else short(end) for end in ends)])
    columns = ["panel", "case", "schedule", "neighbours", "term", "cases", "x from", "to"]
    columns += ["value from", "to", "ratio from", "to"]
    text = tables.fill(notes, frame[frame.panel.eq("printed")])
    return "\n".join([f"# {title}\n\n{text}\n", *tables.table(columns, lines, left=5), ""])
