"""A page of attack ε over proven ε, from the rows of `papers.analyses.brackets`."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dplangevin.papers.exhibits import tables
from dplangevin.papers.exhibits.tables import Cell, cell, method_label
from dplangevin.reporting import words
from dplangevin.reporting.words import at_least, at_most
from dplangevin.text import epsilon, number, short


def _facts(frame: pd.DataFrame, parts: str) -> dict[str, Any]:
    runs, known = frame[frame.runs.gt(0)], frame[frame.one_dimensional.eq(1)].ratio
    confidence = runs.confidence.min() if len(runs) else 1.0
    methods = [words.method(name) for name in frame.method[frame.attacked.eq("parts")].unique()]
    return {
        "delta": number(frame.delta.iloc[0]),
        "confidence": f"{100 * confidence:g} %",
        "median": f"{100 * known.median():.0f}",
        "least": f"{100 * known.min():.0f}",
        "parts": " " + parts.format(methods=words.listed(methods)) if methods else "",
    }


def brackets_page(frame: pd.DataFrame, *, notes: str, parts: str, title: str) -> str:
    """Return a Markdown page with a row for each method and ε, and then how each method is attacked.

    `notes` begins the page; if an attack is on parts, it has a sentence `parts`.
    """
    columns: dict[str, Cell] = {
        "method": lambda row: method_label(row.method),
        "neighbours": lambda row: words.NEIGHBOURS[row.neighbours],
        "promised ε": cell("epsilon_promised", epsilon),
        "proven ε": cell("epsilon_proven", at_most),
        "attack ε": cell("epsilon_attack", at_least),
        "share": lambda row: f"{100 * row.ratio:.0f} %",
        "runs": cell("runs", "{:,.0f}".format),
        "confidence": lambda row: "exact" if row.runs == 0 else f"{100 * row.confidence:g} %",
        "attack on": cell("attacked"),
    }
    lines = [notes.format(**_facts(frame, parts)), "", *tables.rows_table(frame, columns, left=2)]
    lines += ["", "## How each method is attacked, and what is loose", ""]
    for name, rows in frame.groupby("method", sort=False):
        first = rows.iloc[0]
        shares = f"{short(100 * rows.ratio.min())} to {short(100 * rows.ratio.max())} %"
        lines.append(
            f"- {method_label(str(name))} ({shares}). Pair: {first.pair}. Statistic: {first.statistic}. {first.gap}"
        )
    return tables.page(title, lines)
