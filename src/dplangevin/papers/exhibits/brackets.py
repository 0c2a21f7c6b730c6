"""A figure and a page of attack ε over proven ε, for every private method.

Both are pure functions of the rows of `papers.analyses.brackets`.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dplangevin.papers.claims import words
from dplangevin.papers.claims.words import at_least, at_most
from dplangevin.papers.exhibits import style, tables
from dplangevin.papers.exhibits.style import Look, entry, lay_out, look
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.text import epsilon, number, short

COLOURS = ("#0072B2", "#009E73", "#E69F00", "#D55E00")  # of the proven ε, in increasing order
MARKERS = ("o", "s", "^", "D")
TEXT = (
    "100 % means that attack and proof meet. All ε are at δ = {delta}. A linear model has 1,000 rows, and its "
    "attacks may choose any loss that the price admits. "
    "{exact} of {all} attacks are exact for their pair of data sets; the others have {confidence} confidence.{parts}"
)
PARTS = (
    " For {methods} the attack takes the worst pair of each released part separately. Their attack ε is a lower bound "
    "on the price of these parts. A single pair need not reach it."
)
NOTES = (
    "The proven ε is the smallest ε that our accountants prove (upper bound). The attack ε is a lower bound. All ε are "
    "at δ = {delta}. An attack on the hypotheses has a pair of data sets that differ in one record, and may choose any "
    "loss that the price admits. With 0 runs the ε of the pair is exact. With more runs the bound of "
    "`attacks.audit.known_ratio` has {confidence} confidence; its statistic is the exact log-likelihood ratio."
    "{parts} The median share is {median} % over the methods whose worst case is a pair of "
    "one-dimensional laws in each step; the smallest is {least} %."
)


def brackets(frame: pd.DataFrame, *, title: str) -> Figure:
    """Draw the share of the proven ε that an attack shows, one line for each method."""
    names, asked = list(dict.fromkeys(frame.method)), sorted(frame.epsilon_asked.unique())
    looks = [
        Look(
            f"proven ε at most {number(value)}", COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], "", 6.0
        )
        for i, value in enumerate(asked)
    ]
    with style.settings():
        figure = Figure(figsize=(8.4, 1.6 + 0.26 * len(names)), layout="constrained")
        ax = figure.subplots()
        for y, name in enumerate(names):
            ax.axhline(y, color="#eeeeee", lw=0.6, zorder=0)
            for of, value in zip(looks, asked, strict=True):
                shares = frame.ratio[frame.method.eq(name) & frame.epsilon_asked.eq(value)]
                ax.plot(shares, [y] * len(shares), **of.shape, zorder=3)
        ax.axvline(1.0, color="#000000", lw=1.0, zorder=1)
        ax.set(xlim=(-0.02, 1.04), ylim=(len(names) - 0.4, -0.6), xlabel="attack ε, in % of the proven ε")
        ax.set_yticks(range(len(names)), [label(name) for name in names])
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        return lay_out(figure, title, TEXT.format(**_facts(frame)), [*map(entry, looks)])


def label(name: str) -> str:
    """Return the label of a method, with what its name says after the first word."""
    method, _, rest = name.partition(" ")
    return f"{look(method).label}, {rest}" if rest else look(method).label


def _facts(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the numbers of the caption and of the notes."""
    runs, known = frame[frame.runs.gt(0)], frame[frame.one_dimensional.eq(1)].ratio
    confidence = runs.confidence.min() if len(runs) else 1.0
    parts = [words.method(name) for name in frame.method[frame.attacked.eq("parts")].unique()]
    return {
        "delta": number(frame.delta.iloc[0]),
        "exact": int(frame.runs.eq(0).sum()),
        "all": len(frame),
        "confidence": f"{100 * confidence:g} %",
        "median": f"{100 * known.median():.0f}",
        "least": f"{100 * known.min():.0f}",
        "parts": PARTS.format(methods=words.listed(parts)) if parts else "",
    }


def brackets_page(frame: pd.DataFrame, *, title: str) -> str:
    """Return a Markdown page with a row for each method and ε, and then how each method is attacked."""
    columns: dict[str, Cell] = {
        "method": lambda row: label(row.method),
        "neighbours": lambda row: words.NEIGHBOURS[row.neighbours],
        "promised ε": cell("epsilon_promised", epsilon),
        "proven ε": cell("epsilon_proven", at_most),
        "attack ε": cell("epsilon_attack", at_least),
        "share": lambda row: f"{100 * row.ratio:.0f} %",
        "runs": cell("runs", "{:,.0f}".format),
        "confidence": lambda row: "exact" if row.runs == 0 else f"{100 * row.confidence:g} %",
        "attack on": cell("attacked"),
    }
    lines = [NOTES.format(**_facts(frame)), "", *tables.rows_table(frame, columns, left=2)]
    lines += ["", "## How each method is attacked, and what is loose", ""]
    for name, rows in frame.groupby("method", sort=False):
        first = rows.iloc[0]
        shares = f"{short(100 * rows.ratio.min())} to {short(100 * rows.ratio.max())} %"
        lines.append(
            f"- {label(str(name))} ({shares}). Pair: {first.pair}. Statistic: {first.statistic}. {first.gap}"
        )
    return tables.page(title, lines)
