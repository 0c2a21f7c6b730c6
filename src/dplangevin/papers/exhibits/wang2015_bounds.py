"""The figure and the page that compare wang2015's bounds, rates and limits with computations in small cases.

All functions are pure functions of the rows of `papers.analyses.wang2015_bounds`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import tables
from dplangevin.papers.exhibits.style import Look, entry, lay_out, settings
from dplangevin.text import short

UPPER = {  # kind -> statement. The statement holds in a case if value/bound is at most 1.
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
OTHERS = {
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
NOISES = {
    "noise N(0, η), as printed": Look("SGLD, noise N(0, η) as printed", "#D55E00", "s", "-"),
    "noise N(0, 2η)": Look("SGLD, noise N(0, 2η)", "#0072B2", "o", "-"),
}
LARGEST = Look("mean largest coordinate over that at d = 1", "#CC79A7", "D", "-")
TEMPERATURE = Look("SGNHT, temperature", "#009E73", "^", "-")
LOST = Look("SGNHT, share of chains diverged", "#000000", "v", "--")
TEXT = """\
Top left: value over bound in every case of a statement (range and cases). Top right: relative bias of θ² against the
step; O(η) asks for slope 1. Bottom left: ℓ∞ length of a posterior sample's error, said not to depend on d. Bottom
right: SGNHT with Theorem 4's noise on a normal posterior; dotted: ηV = 1."""
NOTES = """\
Every value is a closed form, an enumeration or a quadrature; SGNHT is simulated. Ratio: value over the paper's bound,
or its limit, or 1 where none is said. An upper bound holds in the cases computed where the largest ratio is at most 1;
that it is not violated there is no proof."""


def figure(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw four panels: ratios to upper bounds, bias of SGLD, largest coordinate, and SGNHT.

    The caption TEXT describes them.
    """
    with settings():
        drawn = Figure(figsize=(9.5, 8.0), layout="constrained")
        (bounds, bias), (largest, thermostat) = drawn.subplots(2, 2)
        _bounds(bounds, frame)
        for name, of in NOISES.items():
            rows = frame[frame.kind.eq("theorem 3, bias") & frame.case.eq(name)].sort_values("x")
            bias.plot(rows.x, rows.value, color=of.colour, marker=of.marker, ls=of.line, ms=5)
        bias.set(xscale="log", yscale="log", xlabel="step size η", ylabel="|bias of θ²| / E θ²")
        _curve(largest, frame[frame.kind.eq("rate, linf")], "ratio", LARGEST)
        largest.axhline(1, color="black", lw=0.9)
        largest.set(
            xscale="log", xlabel="dimension d", ylabel="mean largest coordinate / d = 1", ylim=(0, None)
        )
        _curve(thermostat, frame[frame.kind.eq("thermostat, temperature")], "value", TEMPERATURE)
        _curve(thermostat, frame[frame.kind.eq("thermostat, diverged")], "value", LOST)
        limit = frame[frame.kind.eq("thermostat, ηV")]
        thermostat.axvline(float(np.sqrt((limit.value * limit.x**2).iloc[0])), color="black", lw=0.9, ls=":")
        thermostat.axhline(1, color="black", lw=0.9, zorder=0)
        thermostat.set(xscale="log", xlabel="ε", ylabel="temperature; share diverged", ylim=(-0.05, 1.25))
        handles = [entry(of) for of in (HELD, FAILED, *NOISES.values(), LARGEST, TEMPERATURE, LOST)]
        return lay_out(drawn, title, TEXT, handles)


def _bounds(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw the range and the cases of value/bound for each statement of UPPER."""
    for y, kind in enumerate(UPPER):
        ratios = frame[frame.kind.eq(kind)].ratio
        ax.hlines(y, max(ratios.min(), 1e-3), ratios.max(), color="#888888", lw=1.2)
        for of, part in ((HELD, ratios[ratios.le(1)]), (FAILED, ratios[ratios.gt(1)])):
            at = part.clip(lower=1e-3)
            ax.plot(at, np.full(len(at), y), color=of.colour, marker=of.marker, ms=3.5, ls="")
    ax.axvline(1, color="black", lw=0.9)
    ax.set_yticks(range(len(UPPER)), list(UPPER.values()))
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel="value / bound (values below .001 at .001)")


def _curve(ax: Axes, rows: pd.DataFrame, column: str, of: Look) -> None:
    """Draw `column` of the rows against x."""
    rows = rows.sort_values("x")
    ax.plot(rows.x, rows[column], color=of.colour, marker=of.marker, ls=of.line, ms=of.size)


def page(frame: pd.DataFrame, *, title: str = "") -> str:
    """Return a Markdown page with the smallest and largest ratio of each statement, then all rows."""
    summary = []
    for kind, name in (UPPER | OTHERS).items():
        ratios = frame[frame.kind.eq(kind)].ratio
        summary.append([name, f"{len(ratios)}", short(ratios.min()), short(ratios.max())])
    rows = [
        [
            row.kind,
            row.case,
            *("" if pd.isna(n) else short(n) for n in (row.x, row.value, row.bound, row.ratio)),
        ]
        for _, row in frame.iterrows()
    ]
    lines = [
        NOTES,
        "",
        *tables.table(["statement", "cases", "smallest ratio", "largest ratio"], summary, left=1),
    ]
    columns = ["kind", "case", "x", "value", "bound", "ratio"]
    return tables.page(title, [*lines, "", "## All cases", "", *tables.table(columns, rows, left=2)])
