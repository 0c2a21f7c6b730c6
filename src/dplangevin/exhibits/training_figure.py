"""The figure of `li2019_tab1`: accuracy against tight ε, one panel per network, with the published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as put_frame
from dplangevin.exhibits.training_table import matches, summary

TICKS = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998]
LOGIT = (0.005, 0.9995)  # the ends of the axis: accuracies 0 and 1 have no place on it
EPSILON_TICKS = [m * 10.0**k for k in range(-3, 5) for m in (1, 2, 5)]
SINGLES = {"printed": "^", "reference": "p"}  # marker of a run that is one point, by block
UNPRINTED = "X"  # and of one for which no number was published
STAR: dict[str, Any] = {"marker": "*", "ms": 12.0, "mfc": "none", "ls": "", "mew": 1.2}
TEXT = (
    "Mean over seeds; bars: standard deviation (none for one seed). x: the tight price under add/remove, δ = {delta}; "
    "stars at the ε that was published.\nDotted: from there to the tight price of the same settings. Vertical axis: "
    "logit scale."
)


def chart(
    frame: pd.DataFrame,
    *,
    published: Sequence[Mapping[str, Any]],
    networks: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    title: str = "",
) -> Figure:
    """Accuracy against tight ε (add/remove, log axis), a panel for each network of the frame. frame, published, names:
    as for `training_table.summary`; networks: name of a network in the frame -> title of its panel."""
    table = summary(frame, published=published, names=names)
    table["accuracy"] = table.accuracy.clip(*LOGIT)
    present = [*dict.fromkeys([n for n in networks if n in set(table.network)] + list(table.network))]
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(3.9 * len(present) + 0.9, 4.9), layout="constrained")
        axes = figure.subplots(1, len(present), squeeze=False, sharey=True)[0]
        found: dict[str, Line2D] = {}
        for ax, network in zip(axes, present, strict=True):
            ax.set_yscale("logit")
            ax.set_xscale("log")
            found |= _panel(ax, table[table.network.eq(network)])
            found |= _stars(ax, table[table.network.eq(network)], published)
            ax.set_title(networks.get(network, network))
            ax.set_xlabel("tight ε (add/remove)")
            _epsilon_axis(ax)
        _accuracy_axis(axes[0], table)
        delta = "/".join(
            style.number(d) for d in sorted(table.delta[np.isfinite(table.epsilon_add_remove)].unique())
        )
        put_frame(figure, title, TEXT.format(delta=delta), list(found.values()))
    return figure


def _panel(ax: Axes, rows: pd.DataFrame) -> dict[str, Line2D]:
    """Curves of equal audited ε, lone points and non-private lines; returns their legend entries by label."""
    found: dict[str, Line2D] = {}
    for method, part in rows[rows.block.eq("equal")].groupby("method", sort=False):
        part, look = part.sort_values("epsilon_add_remove"), _look(str(method))
        ax.plot(part.epsilon_add_remove, part.accuracy, color=look.colour, ls=look.line, zorder=3)
        found[look.label] = _points(ax, part, look.colour, look.marker, look.size, look.label, look.line)
    for _, part in rows[rows.block.isin(list(SINGLES))].groupby("run", sort=False):
        marker = SINGLES[part.block.iloc[0]] if part.accuracy_paper.notna().any() else UNPRINTED
        colour, label = _look(part.method.iloc[0]).colour, part.label.iloc[0]
        found[label] = _points(ax, part, colour, marker, 7.0, label)
    for _, row in rows[rows.block.eq("nonprivate")].iterrows():
        look = _look(row.method)
        found[look.label] = ax.axhline(
            row.accuracy, color=look.colour, ls=look.line, lw=1.1, zorder=1, label=look.label
        )
    return found


def _points(
    ax: Axes, rows: pd.DataFrame, colour: str, marker: str, size: float, label: str, line: Any = ""
) -> Line2D:
    """Means with bars of one sd, hollow where a condition of the guarantee fails; returns the legend entry."""
    spread = rows[rows.sd.notna()]
    low, high = ((spread.accuracy + sign * spread.sd).clip(*LOGIT) for sign in (-1, 1))
    ax.vlines(spread.epsilon_add_remove, low, high, color=colour, lw=1.6, zorder=2)
    for hollow, part in rows.groupby(rows.violated.ne("")):
        look: dict[str, Any] = {"marker": marker, "ms": size, "mfc": "white" if hollow else colour}
        ax.plot(part.epsilon_add_remove, part.accuracy, ls="", color=colour, zorder=4, **look)
    return Line2D([], [], color=colour, ls=line, marker=marker, ms=size, label=label)


def _stars(ax: Axes, rows: pd.DataFrame, published: Sequence[Mapping[str, Any]]) -> dict[str, Line2D]:
    """Published numbers: open stars at the published ε, a dotted line from there to the tight price of the same
    settings, and a line for that without privacy. A number of a run is drawn where the run is, one of a method in every
    panel."""
    found: dict[str, Line2D] = {}
    for number in published:
        where, accuracy, here = number["where"], number["accuracy"], rows[matches(rows, number["where"])]
        if "epsilon" not in number:
            found["line"] = ax.axhline(accuracy, color="#999999", ls=":", lw=1.2, zorder=1)
            found["line"].set_label("Not private, published")
        elif "method" in where or len(here):
            colour = _look(where.get("method") or here.method.iloc[0]).colour
            ax.plot(number["epsilon"], accuracy, color=colour, zorder=5, **STAR)
            found["star"] = Line2D([], [], color="#555555", label="published, in the method's colour", **STAR)
            for price in here.epsilon_add_remove[here.block.eq("printed")]:
                ax.plot([price, number["epsilon"]], [accuracy] * 2, color=colour, ls=":", lw=1.2, zorder=2)
                ax.plot(price, accuracy, color=colour, zorder=5, **{**STAR, "ms": 7.0})
    return found


def _look(method: str) -> style.Look:
    """Squares for PATE, whose stars would be taken for published numbers."""
    return style.look("pate:network" if method == "pate" else method)


def _epsilon_axis(ax: Axes) -> None:
    low, high = ax.get_xlim()
    inside = [e for e in EPSILON_TICKS if low <= e <= high]
    ax.set_xticks(inside, [style.number(e) for e in inside])
    ax.set_xticks([], minor=True)


def _accuracy_axis(ax: Axes, table: pd.DataFrame) -> None:
    """Ticks in %, from the one below what is drawn to the one above."""
    ends = [table.accuracy + sign * table.sd for sign in (-1, 1)]
    drawn = pd.concat([table.accuracy, table.accuracy_paper, *ends]).dropna()
    low, high = drawn.clip(*LOGIT).min(), drawn.clip(*LOGIT).max()
    stops = [LOGIT[0], *TICKS, LOGIT[1]]
    bottom, top = max(t for t in stops if t <= low), min(t for t in stops if t >= high)
    inside = [t for t in TICKS if bottom <= t <= top]
    ax.set_yticks(inside, [f"{100 * t:g}" for t in inside])
    ax.set_yticks([], minor=True)
    ax.set_ylim(bottom, top)
    ax.set_ylabel("test accuracy (%)")
