"""Figures as pure functions: long run frame + settings from `conf/exhibit` -> matplotlib Figure. Nothing here
reads or saves.

Every point is a mean over repeats with a 95 % Student interval. The x axis is the natural log of epsilon, as
in the papers, with epsilon itself along the top; `audited=True` puts the epsilon of the tight accountant
there instead of the one asked for.
"""

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
from dplangevin.exhibits.tables import summary

REFERENCES = ("nonprivate", "sgld", "majority")
TOP_TICKS = [m * 10.0**k for k in range(-6, 5) for m in (1, 3)]


def accuracy_vs_epsilon(
    runs: pd.DataFrame, *, methods: Sequence[str], title: str = "", audited: bool = False
) -> Figure:
    """One panel: test accuracy against privacy loss on the data set of `runs`, which must be one.

    methods: those drawn, in the order of the legend; nonprivate and the majority class are drawn as lines
    where `runs` has them.
    """
    names = runs.dataset.unique()
    if len(names) != 1:
        raise ValueError(f"one panel shows one data set, found {list(names)}: use `plain` for several")
    return _panels(runs, {names[0]: ""}, methods, title, audited, (7.2, 4.0))


def plain(
    runs: pd.DataFrame,
    *,
    panels: Mapping[str, str],
    methods: Sequence[str],
    title: str = "",
    audited: bool = False,
) -> Figure:
    """One panel per data set, `panels`: data set -> panel title; otherwise as `accuracy_vs_epsilon`."""
    return _panels(runs, panels, methods, title, audited, (10.5, 4.0))


def _panels(
    runs: pd.DataFrame,
    panels: Mapping[str, str],
    methods: Sequence[str],
    title: str,
    audited: bool,
    size: tuple[float, float],
) -> Figure:
    table = summary(runs)
    if absent := [m for m in methods if m not in set(table.method)]:
        raise ValueError(f"no accuracy rows for {absent}: list their runs under files in conf/exhibit")
    x = "ln_epsilon_tight" if audited else "ln_epsilon"
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=size, layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels)))
        for ax, (dataset, name) in zip(axes, panels.items(), strict=True):
            draw_panel(ax, table[table.dataset.eq(dataset)], methods, x)
            ax.set_title(name)
            ax.set_xlabel(xlabel(runs, audited))
        axes[0].set_ylabel("test accuracy")
        drawn = table[table.method.isin([*methods, *REFERENCES]) & table.dataset.isin(list(panels))]
        handles = [handle(method) for method in [*methods, *REFERENCES] if method in set(drawn.method)]
        private = drawn[drawn.method.isin(methods)]
        if private.violated.ne("").any():
            handles.append(hollow_handle())
        text = caption(runs, table) + undrawn(private, x)
        frame(figure, title, text, handles, side=len(panels) == 1)
    return figure


def draw_panel(ax: Axes, table: pd.DataFrame, methods: Sequence[str], x: str) -> None:
    """Draw the summary `table` of one data set into `ax`; x: the column ln_epsilon or ln_epsilon_tight."""
    for i, method in enumerate(methods):
        rows = table[table.method.eq(method) & np.isfinite(table[x]) & table["mean"].notna()].sort_values(x)
        if rows[["variant", "scaling"]].drop_duplicates().shape[0] > 1:
            raise ValueError(
                f"{method} has several variants, one curve shows one: {sorted(set(rows.variant))}"
            )
        look = style.look(method)
        ax.plot(rows[x], rows["mean"], color=look.colour, ls=look.line, zorder=3)
        ax.vlines(rows[x], rows.low, rows.high, color=style.tint(look.colour), lw=_bar_width(i, len(methods)))
        for hollow, part in rows.groupby(rows.violated.ne("")):
            face = "white" if hollow else look.colour
            ax.plot(part[x], part["mean"], ls="", color=look.colour, mfc=face, zorder=4, **_marker(look))
    for method in REFERENCES:
        rows = table.loc[table.method.eq(method), ["mean", "low", "high"]]
        for mean, low, high in rows.to_numpy(float):
            look = style.look(method)
            ax.axhline(mean, color=look.colour, ls=look.line, lw=1.1, zorder=1)
            if high > low:
                ax.axhspan(low, high, color=look.colour, alpha=0.1, lw=0, zorder=0)
    top_axis(ax)


def _bar_width(i: int, n: int) -> float:
    """Intervals narrow in drawing order, so that those at the same x stay apart to the eye."""
    return 1.0 + 0.9 * (n - 1 - i)


def top_axis(ax: Axes) -> None:
    """Epsilon itself along the top of an axis of ln epsilon."""
    ax.set_xlim(*ax.get_xlim())
    low, high = ax.get_xlim()
    inside = [e for e in TOP_TICKS if low <= np.log(e) <= high]
    if len(inside) > 7:
        inside = [e for e in inside if f"{e:e}".startswith("1")]
    top = ax.secondary_xaxis("top")
    top.set_xticks(np.log(inside), [style.number(e) for e in inside])
    top.tick_params(colors="#888888", length=2, labelsize=7)
    top.spines["top"].set_color("#888888")
    ax.text(1.0, 1.015, "ε", transform=ax.transAxes, color="#888888", fontsize=8, ha="right")


def _marker(look: style.Look) -> dict[str, Any]:
    return {"marker": look.marker, "ms": look.size}


def handle(method: str) -> Line2D:
    """The legend entry of a method."""
    look = style.look(method)
    return Line2D([], [], color=look.colour, ls=look.line, label=look.label, **_marker(look))


def _private(runs: pd.DataFrame, column: str) -> str:
    """The one value of `column` over the private rows; several are joined, so that a figure never hides a
    mixture."""
    values = runs[np.isfinite(runs.epsilon)][column].unique()
    return " / ".join(style.number(v) if isinstance(v, float) else str(v) for v in values)


def _adjacency(runs: pd.DataFrame, column: str = "adjacency") -> str:
    return _private(runs, column).replace("_", "-")


def xlabel(runs: pd.DataFrame, audited: bool) -> str:
    """Name of the axis of epsilon, read off the runs."""
    if not audited:
        return "privacy loss: ln ε"
    return (
        "audited privacy loss: ln ε\n"
        f"(tight accountant, {_adjacency(runs, 'adjacency_tight')}, δ = {_private(runs, 'delta')})"
    )


def caption(runs: pd.DataFrame, table: pd.DataFrame, spread: str = "95 % t-interval") -> str:
    """Repeats, delta and adjacency in one line, read off the runs."""
    repeats = " to ".join(str(r) for r in sorted({table.repeats.min(), table.repeats.max()}))
    return (
        f"Mean and {spread} over {repeats} repeats. "
        f"δ = {_private(runs, 'delta')} where the method uses one, adjacency {_adjacency(runs)}."
    )


def undrawn(rows: pd.DataFrame, x: str) -> str:
    """Says how many points of each method have no place on a logarithmic axis."""
    counts = rows[~np.isfinite(rows[x])].groupby("method", sort=False).size()
    listed = ", ".join(f"{style.look(str(method)).label} {n}" for method, n in counts.items())
    return f"\nPoints without a finite, positive audited ε are not drawn: {listed}." if listed else ""


def hollow_handle() -> Line2D:
    """The legend entry that says what a hollow marker means."""
    return Line2D([], [], color="#555555", marker="o", mfc="white", ls="", label=style.HOLLOW_LABEL)


def frame(figure: Figure, title: str, text: str, handles: Sequence[Line2D], side: bool = False) -> None:
    """Title above; below the panels of a constrained-layout figure the legend (or right of them: `side`) and
    the caption `text`."""
    height, columns = figure.get_figheight(), 4
    room = (0.10 + 0.14 * (text.count("\n") + 1)) / height
    figure.text(0.01, 0.05 / height, text, va="bottom", ha="left", **style.CAPTION)
    figure.suptitle(title, fontsize=11)
    if side:
        figure.legend(handles=handles, loc="outside right center")
    else:
        figure.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, room), ncols=columns)
        room += (0.14 + 0.17 * -(-len(handles) // columns)) / height
    figure.set_layout_engine("constrained", rect=(0, room, 1, 1 - room))
