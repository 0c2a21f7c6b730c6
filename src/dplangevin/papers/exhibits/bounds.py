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

from dplangevin.papers.exhibits import style, tables
from dplangevin.papers.exhibits.style import Look, entry, lay_out
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.papers.statistics import matches
from dplangevin.text import number, short

Lines = Sequence[Mapping[str, Any]]  # {label, where}; `where` selects rows, see `papers.statistics.matches`
HELD = Look("case within the bound", "#0072B2", "o", "", 4.0)
FAILED = Look("case above the bound", "#D55E00", "D", "", 5.0)


def strips(frame: pd.DataFrame, *, lines: Lines, smallest: float, text: str, title: str = "") -> Figure:
    """Draw every ratio on a log axis, with one row for each statement and a line at 1.

    To the right of a row stands how many of its cases are above the bound.

    - `frame`: Rows of an analysis with the column `ratio`. A ratio of nan is not drawn.
    - `lines`: {label, where}, from top to bottom. `where` maps columns to the values of the rows of a line.
    - `smallest`: Left end of the axis, > 0. Smaller ratios are drawn there.
    - `text`: First sentences of the caption.
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


def _short(value: float) -> str:
    return "" if pd.isna(value) else short(float(value))


# wang2015

WANG2015_BOUNDS = {  # kind -> statement. The statement holds in a case if value/bound is at most 1.
    "theorem 1, 4LR": "Theorem 1: 4LR",
    "proposition 3": "Proposition 3: (1 + e^ε)δ",
    "lemma 4": "Lemma 4: 2γε",
    "remark 1": "Remark 1: 2c",
    "theorem 4, one step": "proof of Theorem 4: one step",
    "phase transition": "α-phase: t ≤ αNT/τ",
    "lemma 5, replaced, as printed": "Lemma 5: ε, one replaced",
    "lemma 5, added or removed, as printed": "Lemma 5: ε, one added or removed",
    "lemma 6": "Lemma 6: 7L²/(n − 1)",
    "rate, l2": "ℓ2 rate: √d",
    "rate, l2, scale": "ℓ2 rate: ‖I⁻¹‖_F",
    "rate, linf": "ℓ∞ rate: no d",
}
WANG2015_OTHERS = {
    "theorem 3, bias": "Theorem 3: bias of θ² over η",
    "lemma 5, replaced, 2 log(1/δ) under the root": "Lemma 5 with 2 log(1/δ): ε, one replaced",
    "lemma 5, added or removed, 2 log(1/δ) under the root": "Lemma 5 with 2 log(1/δ): ε, one added or removed",
    "wald, type I": "Wald's test: type I error over .05",
    "wald, power": "Wald's test: power over its limit",
    "one pass": "τ for one pass over N",
    "thermostat, temperature": "SGNHT: temperature",
    "thermostat, ηV": "SGNHT: ηV",
    "thermostat, reached": "SGNHT: relaxation times within NT/τ steps",
}
WANG2015_NOTES = """\
SGNHT is simulated. Every other value is a closed form, an enumeration or a quadrature. A ratio is the value over the
paper's bound. Where the paper states a limit and no bound, the ratio is over the limit. Where it states neither, the
ratio is the value. An upper bound holds in the cases computed if the largest ratio is at most 1. This does not prove
the bound."""


def wang2015_page(frame: pd.DataFrame, *, title: str = "") -> str:
    """Return a Markdown page with the smallest and largest ratio of each statement, then all rows."""
    lines = []
    for kind, name in (WANG2015_BOUNDS | WANG2015_OTHERS).items():
        ratios = frame[frame.kind.eq(kind)].ratio
        lines.append([name, f"{len(ratios)}", short(ratios.min()), short(ratios.max())])
    summary = tables.table(["statement", "cases", "smallest ratio", "largest ratio"], lines, left=1)
    columns: dict[str, Cell] = {"kind": cell("kind"), "case": cell("case")}
    columns |= {name: cell(name, _short) for name in ("x", "value", "bound", "ratio")}
    cases = tables.rows_table(frame, columns, left=2)
    return tables.page(title, [WANG2015_NOTES, "", *summary, "", "## All cases", "", *cases])


# li2019

LI2019_NOTES = """\
Each line compares a formula of the paper with an exact computation. The ratio is the exact value over the formula.

- lemma: exact moments at the worst λ ≥ 1, over Lemma 2 (without its O(q³)) and over Remark 1.
- theorems: the proven ε of all iterates over the theorem's ε, with the constant c of its proof or twice that.
- printed: the exact ε over the theorem's where conditions 1 and 2 hold as printed. The term has c² or c₂², and c₁ is
  from {c_1}.
- step: the largest step by the moments accountant over that of the proof. Case "factor": Theorem 3's step over
  wang2015's, in units of T^(1/3) log(T/δ).
- conditions: the step over its limit. Case "rates": the steps that the printed condition admits over those with
  σ ≥ 1, and the smallest step that Lemma 2 needs over the printed one.
- extension: δ of two steps over that of Algorithm 1.
- average: terms of the bound on the mean squared error.
- other panels: `papers/analyses/li2019_bounds.py` describes them."""


def li2019_page(frame: pd.DataFrame, *, title: str = "") -> str:
    """Return a Markdown page with one line for each panel, case, schedule, neighbour relation and term."""
    keys = ["panel", "case", "schedule", "adjacency", "term"]
    lines = []
    for key, rows in frame.fillna(dict.fromkeys(keys, "")).groupby(keys, sort=False):
        ends = [rows[column].agg(end) for column in ("x", "value", "ratio") for end in ("min", "max")]
        lines.append([*map(str, key), str(len(rows)), *map(_short, ends)])
    c_1 = frame[frame.panel.eq("printed")].x
    notes = LI2019_NOTES.format(c_1=" to ".join(number(value) for value in sorted({c_1.min(), c_1.max()})))
    columns = ["panel", "case", "schedule", "neighbours", "term", "cases", "x from", "to"]
    columns += ["value from", "to", "ratio from", "to"]
    return tables.page(title, [notes, "", *tables.table(columns, lines, left=5)])


# ryffel2022

RYFFEL2022_NOTES = """\
Each case is computed exactly and meets the hypotheses of its statement. A ratio is its privacy loss, variance or
excess risk over the bound that is printed for it. For the utility of the theorems it is over the bound of the proof."""


def ryffel2022_page(frame: pd.DataFrame, *, lines: Lines, title: str = "") -> str:
    """Return a Markdown page with the cases and ratios of each line; the arguments are those of `strips`."""
    rows = []
    for line in lines:
        ratios = frame[matches(frame, line["where"])].ratio
        ends = [_short(ratios.agg(end)) for end in ("min", "median", "max")]
        rows.append([line["label"], str(len(ratios)), str(int(ratios.gt(1).sum())), *ends])
    columns = ["statement", "cases", "above the bound", "smallest", "median", "largest"]
    return tables.page(title, [RYFFEL2022_NOTES, "", *tables.table(columns, rows, left=1)])
