"""The figure and the page that compare li2019's formulas with exact computations.

All functions are pure functions of the rows of `papers.analyses.li2019_bounds`.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import style, tables
from dplangevin.papers.exhibits.style import GREY, Look, entry, lay_out
from dplangevin.text import number, short

NEIGHBOURS = {
    "add_remove": Look("a record added or removed", "#0072B2", "o"),
    "replace_one": Look("a record replaced", "#D55E00", "s"),
}
TERMS = {
    "noise": Look("minibatch noise", "#009E73", "^"),
    "bias": Look("bias", "#000000", "o"),
    "discretisation": Look("discretisation", "#CC79A7", "v"),
}
LAMBERT = Look("first form over second", "#E69F00", "D")
TEXT = (
    "Above 1 (grey): a bound fails (Lemma 2 without its O(q³), Theorems 3 and 4, conditions as printed, with full "
    "batches at η₁ = N/L²),\nor the decreasing steps' bound is the larger. Proposition 5 asks for a constant alone, "
    "which may depend on N. Proposition 7: both forms are said to be of one order; N = ∞, A = 1."
)
NOTES = """\
Each formula of the paper beside an exact computation: smallest and largest ratio of the two over the cases of a panel.
Lemma 2 (without its O(q³)) and Remark 1: exact moments at the worst λ ≥ 1. Theorems: tight ε of all iterates over the
theorem's, with the constant c of its proof or twice that. printed: exact ε over the theorem's where conditions 1 and 2
hold as printed, c² or c₂² in the term, c₁ from {c_1}. step: the largest by the moments accountant over the proof's;
factor: Theorem 3's over wang2015's, in T^(1/3) log(T/δ). conditions: step over its limit; rates: the steps admitted in
print over those with σ ≥ 1, and the least that Lemma 2 needs over the printed one. extension: δ of two steps over that
of Algorithm 1. average: terms of the bound on the mean squared error. Propositions as the analysis describes them."""


def figure(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw six panels of exact values over the paper's bounds.

    The panels are:

    - Lemma 2 against the sampling rate q;
    - Theorems 3 and 4 against epsilon;
    - conditions 1 and 2 as printed, against c_1;
    - bound (8) of decreasing steps over that of a fixed step, at equal privacy, against T;
    - bound (8) over Proposition 5, against T;
    - the ratio of the two forms of Proposition 7, against ln T.
    """
    with style.settings():
        drawn = Figure(figsize=(11.0, 7.0), layout="constrained")
        axes = drawn.subplots(2, 3)
        lemma = frame[frame.case.eq("Lemma 2")].groupby(["adjacency", "rate"]).ratio.max().reset_index()
        _points(axes[0, 0], lemma, "rate", "adjacency", NEIGHBOURS, "-")
        axes[0, 0].set(xlabel="sampling rate q", ylabel="moment/bound", title="Lemma 2", yscale="linear")
        theorems = frame[frame.panel.eq("theorems") & frame.term.eq("c") & frame.value.gt(0)]
        _points(axes[0, 1], theorems, "epsilon", "adjacency", NEIGHBOURS)
        axes[0, 1].set(
            xlabel="ε of the theorem", ylabel="tight ε/ε", title="Theorems 3 and 4, c of the proof"
        )
        _points(axes[0, 2], frame[frame.panel.eq("printed")], "x", "adjacency", NEIGHBOURS)
        axes[0, 2].set(xlabel="c₁", ylabel="exact ε/ε", title="Conditions 1 and 2 as printed")
        _points(axes[1, 0], frame[frame.case.eq("equal privacy")], "steps", "term", TERMS, "-")
        axes[1, 0].set(
            xlabel="steps T", ylabel="decreasing/fixed", title="Bound (8) at equal privacy", yscale="linear"
        )
        _points(axes[1, 1], frame[frame.case.eq("Proposition 5")], "steps", "term", TERMS, "-")
        axes[1, 1].set(xlabel="steps T", ylabel="(8)/printed, without N", title="Proposition 5, term by term")
        lambert = frame[frame.case.eq("Lambert")]
        _points(axes[1, 2], lambert, "x", "case", {"Lambert": LAMBERT}, "-")
        axes[1, 2].set(xlabel="ln T", ylabel="T^(1/5) ω^(4/5)/W^(1/5)", title="Proposition 7")
        looks = [*NEIGHBOURS.values(), *TERMS.values(), LAMBERT]
        return lay_out(drawn, title, TEXT, [entry(of, ls="") for of in looks])


def _points(ax: Axes, rows: pd.DataFrame, x: str, by: str, looks: dict[str, Look], line: str = "") -> None:
    """Draw the ratios against column `x` on log axes: one series for each value of column `by` in `looks`."""
    ax.axhline(1.0, color=GREY, lw=1.0, zorder=1)
    for name, of in looks.items():
        part = rows[rows[by].eq(name)].sort_values(x)
        ax.plot(part[x], part.ratio, **of._replace(line=line).shape)
    ax.set(xscale="log", yscale="log")


def page(frame: pd.DataFrame, *, title: str = "") -> str:
    """Return a Markdown page with one line for each panel, case, schedule, neighbour relation and term."""
    keys = ["panel", "case", "schedule", "adjacency", "term"]
    lines = []
    for key, rows in frame.fillna(dict.fromkeys(keys, "")).groupby(keys, sort=False):
        ends = [rows[column].agg(end) for column in ("x", "value", "ratio") for end in ("min", "max")]
        cells = ["" if pd.isna(end) else short(float(end)) for end in ends]
        lines.append([*map(str, key), str(len(rows)), *cells])
    c_1 = frame[frame.panel.eq("printed")].x
    notes = NOTES.format(c_1=" to ".join(number(value) for value in sorted({c_1.min(), c_1.max()})))
    columns = ["panel", "case", "schedule", "neighbours", "term", "cases", "x from", "to"]
    columns += ["value from", "to", "ratio from", "to"]
    return tables.page(title, [notes, "", *tables.table(columns, lines, left=5)])
