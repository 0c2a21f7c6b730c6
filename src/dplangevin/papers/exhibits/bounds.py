"""Figures and pages that compare the papers' formulas with exact computations in small cases.

A ratio is an exact value over the bound of the paper. The bound holds in the cases computed where no ratio is
above 1. All functions are pure functions of the rows of `papers.analyses.{wang2015,li2019,ryffel2022}_bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import style, tables
from dplangevin.papers.exhibits.style import GREY, Look, entry, lay_out
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.papers.statistics import matches
from dplangevin.text import number, short

Lines = Sequence[Mapping[str, Any]]  # {label, where}; `where` selects rows, see `papers.statistics.matches`


def _cases(ax: Axes, y: int, ratios: pd.Series, looks: Sequence[Look], smallest: float, **drawn: Any) -> None:
    """Draw the cases of one statement at height y, those above 1 in the second look; `smallest` cuts them."""
    for look, group in zip(looks, (ratios[ratios.le(1)], ratios[ratios.gt(1)]), strict=True):
        ax.plot(group.clip(lower=smallest), np.full(len(group), y), **(look.shape | {"ls": ""} | drawn))


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
HELD, FAILED = Look("at most the bound", "#0072B2", "o", "-"), Look("above the bound", "#D55E00", "s", "-")
SGLD_NOISE = {
    "noise N(0, η), as printed": Look("SGLD, noise N(0, η) as printed", "#D55E00", "s", "-"),
    "noise N(0, 2η)": Look("SGLD, noise N(0, 2η)", "#0072B2", "o", "-"),
}
LARGEST = Look("mean largest coordinate over that at d = 1", "#CC79A7", "D", "-")
TEMPERATURE = Look("SGNHT, temperature", "#009E73", "^", "-")
DIVERGED = Look("SGNHT, share of chains diverged", "#000000", "v", "--")
WANG2015_TEXT = """\
Top left: value over bound in every case of a statement (range and cases). Top right: relative bias of θ² against the
step; O(η) asks for slope 1. Bottom left: ℓ∞ length of a posterior sample's error, said not to depend on d. Bottom
right: SGNHT with Theorem 4's noise on a normal posterior; dotted: ηV = 1."""
WANG2015_NOTES = """\
Every value is a closed form, an enumeration or a quadrature, except that SGNHT is simulated. A ratio is the value over
the paper's bound. It is over the limit where the paper states a limit, and over 1 where it states neither. An upper
bound holds in the cases computed if the largest ratio is at most 1. This does not prove the bound."""


def wang2015(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw four panels: ratios to upper bounds, bias of SGLD, largest coordinate, and SGNHT."""
    with style.settings():
        figure = Figure(figsize=(9.5, 8.0), layout="constrained")
        (bounds, bias), (largest, thermostat) = figure.subplots(2, 2)

        def draw(ax: Axes, rows: pd.DataFrame, column: str, look: Look) -> None:
            rows = rows.sort_values("x")
            ax.plot(rows.x, rows[column], **look.shape)

        for y, kind in enumerate(WANG2015_BOUNDS):
            ratios = frame[frame.kind.eq(kind)].ratio
            bounds.hlines(y, max(ratios.min(), 1e-3), ratios.max(), color=GREY, lw=1.2)
            _cases(bounds, y, ratios, (HELD, FAILED), 1e-3, ms=3.5)
        bounds.axvline(1, color="black", lw=0.9)
        bounds.set_yticks(range(len(WANG2015_BOUNDS)), list(WANG2015_BOUNDS.values()))
        bounds.invert_yaxis()
        bounds.set(xscale="log", xlabel="value / bound (values below .001 at .001)")
        for name, look in SGLD_NOISE.items():
            draw(bias, frame[frame.kind.eq("theorem 3, bias") & frame.case.eq(name)], "value", look)
        bias.set(xscale="log", yscale="log", xlabel="step size η", ylabel="|bias of θ²| / E θ²")
        draw(largest, frame[frame.kind.eq("rate, linf")], "ratio", LARGEST)
        largest.axhline(1, color="black", lw=0.9)
        largest.set(
            xscale="log", xlabel="dimension d", ylabel="mean largest coordinate / d = 1", ylim=(0, None)
        )
        draw(thermostat, frame[frame.kind.eq("thermostat, temperature")], "value", TEMPERATURE)
        draw(thermostat, frame[frame.kind.eq("thermostat, diverged")], "value", DIVERGED)
        limit = frame[frame.kind.eq("thermostat, ηV")]
        thermostat.axvline(float(np.sqrt((limit.value * limit.x**2).iloc[0])), color="black", lw=0.9, ls=":")
        thermostat.axhline(1, color="black", lw=0.9, zorder=0)
        thermostat.set(xscale="log", xlabel="ε", ylabel="temperature; share diverged", ylim=(-0.05, 1.25))
        looks = (HELD, FAILED, *SGLD_NOISE.values(), LARGEST, TEMPERATURE, DIVERGED)
        return lay_out(figure, title, WANG2015_TEXT, [entry(look) for look in looks])


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

NEIGHBOURS = {
    "add_remove": Look("a record added or removed", "#0072B2", "o"),
    "replace_one": Look("a record replaced", "#D55E00", "s"),
}
TERMS = {
    "noise": Look("minibatch noise", "#009E73", "^"),
    "bias": Look("bias", "#000000", "o"),
    "discretisation": Look("discretisation", "#CC79A7", "v"),
}
LAMBERT = {"Lambert": Look("first form over second", "#E69F00", "D")}
LI2019_TEXT = (
    "Above 1 (grey): a bound fails (Lemma 2 without its O(q³), Theorems 3 and 4, conditions as printed, with full "
    "batches at η₁ = N/L²),\nor the decreasing steps' bound is the larger. Proposition 5 asks for a constant alone, "
    "which may depend on N. Proposition 7: both forms are said to be of one order; N = ∞, A = 1."
)
LI2019_NOTES = """\
Each line compares a formula of the paper with an exact computation: the smallest and the largest ratio of the two over
the cases of a panel. Lemma 2 (without its O(q³)) and Remark 1: exact moments at the worst λ ≥ 1. theorems: the proven
ε of all iterates over the theorem's ε, with the constant c of its proof or twice that. printed: the exact ε over the
theorem's where conditions 1 and 2 hold as printed, with c² or c₂² in the term and c₁ from {c_1}. step: the largest
step by the moments accountant over the proof's; factor: Theorem 3's over wang2015's, in T^(1/3) log(T/δ). conditions:
the step over its limit; rates: the steps that the printed condition admits over those with σ ≥ 1, and the smallest
that Lemma 2 needs over the printed one. extension: δ of two steps over that of Algorithm 1. average: terms of the
bound on the mean squared error. Propositions: as `papers/analyses/li2019_bounds.py` describes them."""


def li2019(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw six panels of exact values over the paper's bounds; their titles name the statements."""
    lemma = frame[frame.case.eq("Lemma 2")].groupby(["adjacency", "rate"]).ratio.max().reset_index()
    theorems = frame[frame.panel.eq("theorems") & frame.term.eq("c") & frame.value.gt(0)]
    printed = frame[frame.panel.eq("printed")]
    steps, proposition, lambert = (
        frame[frame.case.eq(case)] for case in ("equal privacy", "Proposition 5", "Lambert")
    )
    panels: list[tuple[pd.DataFrame, str, str, dict[str, Look], str, dict[str, str]]] = [
        (lemma, "rate", "adjacency", NEIGHBOURS, "-",
         {"xlabel": "sampling rate q", "ylabel": "moment/bound", "title": "Lemma 2", "yscale": "linear"}),
        (theorems, "epsilon", "adjacency", NEIGHBOURS, "",
         {"xlabel": "ε of the theorem", "ylabel": "tight ε/ε", "title": "Theorems 3 and 4, c of the proof"}),
        (printed, "x", "adjacency", NEIGHBOURS, "",
         {"xlabel": "c₁", "ylabel": "exact ε/ε", "title": "Conditions 1 and 2 as printed"}),
        (steps, "steps", "term", TERMS, "-",
         {"xlabel": "steps T", "ylabel": "decreasing/fixed", "title": "Bound (8) at equal privacy",
          "yscale": "linear"}),
        (proposition, "steps", "term", TERMS, "-",
         {"xlabel": "steps T", "ylabel": "(8)/printed, without N", "title": "Proposition 5, term by term"}),
        (lambert, "x", "case", LAMBERT, "-",
         {"xlabel": "ln T", "ylabel": "T^(1/5) ω^(4/5)/W^(1/5)", "title": "Proposition 7"}),
    ]  # fmt: skip
    with style.settings():
        figure = Figure(figsize=(11.0, 7.0), layout="constrained")
        for ax, (rows, x, by, looks, line, labels) in zip(figure.subplots(2, 3).flat, panels, strict=True):
            ax.axhline(1.0, color=GREY, lw=1.0, zorder=1)
            for name, look in looks.items():
                curve = rows[rows[by].eq(name)].sort_values(x)
                ax.plot(curve[x], curve.ratio, **look._replace(line=line).shape)
            ax.set(**{"xscale": "log", "yscale": "log", **labels})
        handles = [entry(look, ls="") for look in (NEIGHBOURS | TERMS | LAMBERT).values()]
        return lay_out(figure, title, LI2019_TEXT, handles)


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

SMALLEST = 1e-4  # left end of the axis of exact/bound; smaller ratios are drawn here
RYFFEL2022_LOOKS = (
    Look("exact case, bound kept", "#0072B2", "o", "", 4.0),
    Look("exact case above the bound", "#D55E00", "D", "", 5.0),
)
RYFFEL2022_TEXT = (
    "Each point is one exact case that meets the hypotheses: its privacy loss, variance or excess risk over the bound "
    "that is printed for it\n(of the theorems' utility: the bound of the proof). Nothing is estimated, so there are no "
    "error bars; ratios below 1e-4 are drawn there."
)


def ryffel2022(frame: pd.DataFrame, *, lines: Lines, title: str = "") -> Figure:
    """Draw the ratios exact/bound on a log axis, with one row for each line and the bound at 1.

    Parameters
    ----------
    lines : Sequence of Mapping
        {label, where}, from top to bottom. `where` maps columns to the values of the rows of a line.
    """
    with style.settings():
        figure = Figure(figsize=(9.0, 1.8 + 0.3 * len(lines)), layout="constrained")
        ax = figure.subplots()
        for y, line in enumerate(lines):
            ratios = frame[matches(frame, line["where"])].ratio
            _cases(ax, y, ratios, RYFFEL2022_LOOKS, SMALLEST, alpha=0.6)
        ax.axvline(1.0, color="#000000", lw=1.0)
        ax.set(xscale="log", ylim=(len(lines) - 0.5, -0.5), xlabel="exact value over the bound")
        ax.set_yticks(range(len(lines)), [line["label"] for line in lines])
        return lay_out(figure, title, RYFFEL2022_TEXT, [entry(look) for look in RYFFEL2022_LOOKS])


def ryffel2022_page(frame: pd.DataFrame, *, lines: Lines, title: str = "") -> str:
    """Return a Markdown page with the cases and ratios of each line; the arguments are those of `ryffel2022`."""
    rows = []
    for line in lines:
        ratios = frame[matches(frame, line["where"])].ratio
        ends = [_short(ratios.agg(end)) for end in ("min", "median", "max")]
        rows.append([line["label"], str(len(ratios)), str(int(ratios.gt(1).sum())), *ends])
    columns = ["statement", "cases", "above the bound", "smallest", "median", "largest"]
    notes = RYFFEL2022_TEXT.replace("\n", " ")
    return tables.page(title, [notes, "", *tables.table(columns, rows, left=1)])
