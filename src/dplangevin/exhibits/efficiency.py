"""The figure of wang2015's Propositions 2 and 4: error of one posterior sample over its asymptotic formula."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as finish

LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))
GREY = "#888888"
TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10]


def efficiency(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Left: mean squared error over ``(1 + 4B/eps) I^-1/n`` against n; right: its two parts over theirs against n rho.

    frame: rows of `analyses.wang2015_are`, at most four epsilons.
    """
    epsilons = sorted(frame.epsilon.unique())
    looks = dict(zip(epsilons, LOOKS, strict=False))
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(9.5, 4.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        handles = []
        for epsilon, (colour, marker) in looks.items():
            rows = frame[frame.epsilon.eq(epsilon)]
            curve(left, rows[rows.kind.eq("exact")], "records", colour, "-", "")
            curve(left, rows[rows.kind.eq("sample")], "records", colour, "", marker)
            ours = rows[rows.kind.eq("hmc")]
            shifted = ours.assign(records=ours.records * 1.15)  # beside the point of the exact draws
            curve(left, shifted, "records", colour, "", marker, hollow=True)
            curve(right, rows[rows.kind.eq("spread")], "tempered", colour, "-", marker)
            curve(right, rows[rows.kind.eq("mean")], "tempered", colour, ":", marker, hollow=True)
            label = f"ε = {style.number(epsilon)}: formula (1 + {style.short(1 / rows.rho.iloc[0])}) I⁻¹"
            handles.append(Line2D([], [], color=colour, marker=marker, ms=5, label=label))
        left.set(xlabel="records n", ylabel="squared error of one sample / formula")
        right.set(
            xlabel="n ρ, records times the exponent ρ = min(1, ε/4B)", ylabel="part of the error / formula"
        )
        left.set_title("Posterior sample", fontsize=9)
        right.set_title("Spread of the posterior, and error of its mean", fontsize=9)
        for ax in (left, right):
            ax.axhline(1, color="black", lw=0.9, zorder=1)
            ax.axhspan(0.95, 1.05, color="#eeeeee", zorder=0)
            ax.set(xscale="log", yscale="log")
            low, high = ax.get_ylim()
            ax.set_yticks([tick for tick in TICKS if low <= tick <= high])
            ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())
        handles += [
            Line2D([], [], color=GREY, ls="-", label="left: exact finite-n error; right: spread"),
            Line2D([], [], color=GREY, ls="", marker="o", ms=5, label="left: exact draws"),
            Line2D([], [], color=GREY, ls="", marker="o", ms=5, mfc="white", label="left: draws by HMC"),
            Line2D([], [], color=GREY, ls=":", marker="o", ms=5, mfc="white", label="right: mean"),
        ]
        finish(figure, title, caption(frame), handles)
    return figure


def curve(
    ax: Axes, rows: pd.DataFrame, x: str, colour: str, line: str, marker: str, hollow: bool = False
) -> None:
    """Values with their intervals against x."""
    rows = rows.sort_values(x)
    at, values = rows[x].to_numpy(float), rows.value.to_numpy(float)
    if marker:
        ax.vlines(at, rows.low, rows.high, color=colour, lw=1.4, zorder=3)
    face = "white" if hollow else colour
    ax.plot(at, values, color=colour, ls=line or "none", marker=marker, ms=4.5, mfc=face, lw=1.2, zorder=3)


def reached(rows: pd.DataFrame, tolerance: float) -> float:
    """The smallest n rho from which on all exact errors are within `tolerance` of the formula; nan if none is."""
    rows = rows[rows.kind.eq("exact")].sort_values("tempered")
    off = np.flatnonzero((rows.value - 1).abs().gt(tolerance))
    first = off[-1] + 1 if len(off) else 0
    return float(rows.tempered.iloc[first]) if first < len(rows) else float("nan")


def caption(frame: pd.DataFrame) -> str:
    draws = frame[frame.kind.eq("sample")].repeats.iloc[0]
    found = [
        f"{style.number(epsilon)}: {style.short(reached(frame[frame.epsilon.eq(epsilon)], 0.05))}"
        for epsilon in sorted(frame.epsilon.unique())
    ]
    return (
        f"Logistic regression in two dimensions on data drawn at a known θ₀, {draws:,} data sets per n; averages over "
        "both coordinates of I^(1/2)(θ − θ₀); bars: 95 % Student intervals;\nthe draws by HMC are set a little to the "
        "right of their n. Smallest n ρ of the grid from which on the exact error is within 5 % of the formula "
        f"(grey band),\nby ε: {', '.join(found)}."
    )
