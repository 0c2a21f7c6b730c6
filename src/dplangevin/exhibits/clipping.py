"""How a method's accuracy depends on its clip norm, the scaling of the rows and the adjacency: small multiples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame, hollow_handle
from dplangevin.exhibits.tables import summary, variant_settings

ADJACENCIES = {"replace_one": "-", "add_remove": "--"}
NAMES = {"replace_one": "replace-one", "add_remove": "add/remove"}
REFERENCES = ("sgld", "majority")
APART = 0.06  # in ln(clip), so that the intervals of the methods do not lie on each other


def clipping(
    runs: pd.DataFrame,
    *,
    methods: Sequence[str],
    scalings: Mapping[str, str],
    title: str = "",
) -> Figure:
    """Grid of panels: rows are scalings (name -> what it does), columns the budgets asked for; x the clip norm (log
    scale), y test accuracy; a curve per method (colour) and adjacency that the budget is meant for (line).

    runs: variants "clip=...;adjacency=..." of the methods on one data set; non-private SGLD and the majority class are
    drawn as lines in the rows of the scaling that they were run with. Raises ValueError where a method has no rows.
    """
    table = with_settings(runs, methods)
    references = summary(runs)
    references = references[references.method.isin(REFERENCES)]
    budgets = sorted(table.epsilon.unique())
    with matplotlib.rc_context(style.RC):
        size = (2.7 * len(budgets) + 0.8, 2.1 * len(scalings) + 1.2)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(scalings), len(budgets), squeeze=False, sharex=True, sharey="row")
        for row, (scaling, name) in zip(axes, scalings.items(), strict=True):
            for ax, epsilon in zip(row, budgets, strict=True):
                panel = table[table.scaling.eq(scaling) & table.epsilon.eq(epsilon)]
                draw(ax, panel, methods)
                here = references[references.scaling.eq(scaling)]
                for method, mean in zip(here.method, here["mean"].astype(float), strict=True):
                    look = style.look(method)
                    ax.axhline(mean, color=look.colour, ls=look.line, lw=1.1, zorder=1)
                ax.set_title(f"{name}, ε = {style.number(epsilon)}", fontsize=8.5)
            row[0].set_ylabel("test accuracy")
        for ax in axes[-1]:
            ax.set_xlabel("clip norm L")
        ticks = sorted(table["clip"].unique())
        axes[0][0].set_xticks(ticks, [style.number(clip) for clip in ticks])
        axes[0][0].xaxis.set_minor_locator(NullLocator())
        frame(figure, title, note(runs, table), handles(table, methods, references))
    return figure


def with_settings(runs: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """The summary of `methods` with the columns clip and adjacency that their variants name."""
    table = summary(runs[runs.method.isin(methods)])
    settings = [variant_settings(variant) for variant in table.variant]
    if absent := [m for m in methods if m not in set(table.method)]:
        raise ValueError(f"no accuracy rows for {absent}: list their runs under files in conf/exhibit")
    if any("clip" not in setting or "adjacency" not in setting for setting in settings):
        raise ValueError(f"variants must name clip and adjacency: {sorted(set(table.variant))}")
    table["clip"] = [float(setting["clip"]) for setting in settings]
    table["adjacency"] = [setting["adjacency"] for setting in settings]
    return table


def draw(ax: Axes, panel: pd.DataFrame, methods: Sequence[str]) -> None:
    ax.set_xscale("log")
    curves = panel.groupby(["method", "adjacency"], sort=False)
    for (method, adjacency), rows in curves:
        look, line = style.look(str(method)), ADJACENCIES[str(adjacency)]
        rows = rows.sort_values("clip")
        shift = APART * (2 * methods.index(str(method)) - len(methods) + 1) / 2
        x = rows["clip"] * np.exp(shift)
        ax.plot(x, rows["mean"], color=look.colour, ls=line, zorder=3)
        ax.vlines(x, rows.low, rows.high, color=style.tint(look.colour), lw=2.0, zorder=2)
        for hollow, part in rows.groupby(rows.violated.ne("")):
            face = "white" if hollow else look.colour
            at = part["clip"] * np.exp(shift)
            ax.plot(at, part["mean"], ls="", marker=look.marker, color=look.colour, mfc=face, ms=4, zorder=4)


def handles(table: pd.DataFrame, methods: Sequence[str], references: pd.DataFrame) -> list[Line2D]:
    found = []
    for method in methods:
        look = style.look(method)
        found.append(Line2D([], [], color=look.colour, marker=look.marker, ms=4, label=look.label))
    for adjacency, line in ADJACENCIES.items():
        if table.adjacency.eq(adjacency).any():
            name = f"budget for {NAMES[adjacency]} neighbours"
            found.append(Line2D([], [], color="#777777", ls=line, label=name))
    for method in REFERENCES:
        if references.method.eq(method).any():
            look = style.look(method)
            found.append(Line2D([], [], color=look.colour, ls=look.line, label=look.label))
    return [*found, hollow_handle()] if table.violated.ne("").any() else found


def note(runs: pd.DataFrame, table: pd.DataFrame) -> str:
    """Repeats and delta, and what is left out of the figure."""
    deltas = "/".join(style.number(delta) for delta in sorted(runs.delta.unique()))
    counts = "/".join(str(count) for count in sorted(table.repeats.unique()))
    return f"Mean and 95 % t-interval over {counts} repeats, δ = {deltas}. The budget is the ε asked for."
