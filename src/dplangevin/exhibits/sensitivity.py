"""The figure of a sensitivity run: OPS against the ball radius beside ObjPert at each ridge, per data set,
row scaling and budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from dplangevin.comparison import compare, difference
from dplangevin.exhibits import style
from dplangevin.exhibits.figures import caption, frame, hollow_handle
from dplangevin.exhibits.tables import summary, variant_settings

BOUND_LINES = {"paper": ("-", "o"), "range": ("--", "D")}
GREY = "#777777"
RIDGE_LINES = [("#F2A03D", "-"), ("#D55E00", "--"), ("#8C3B00", "-."), ("#4A1F00", (0, (6, 2)))]
NOTE = (
    "\n▲ OPS is more accurate than ObjPert at its best ridge; △ than ObjPert at one ridge at least"
    " (paired by repeat, 95 % t-interval)."
)


def sensitivity(
    runs: pd.DataFrame,
    *,
    bounds: Sequence[str],
    datasets: Mapping[str, str],
    adjacency: str,
    title: str = "",
) -> Figure:
    """Grid of panels: rows are data set x row scaling, columns budgets; x the radius D of OPS's ball (log
    scale), y test accuracy.

    OPS has one curve per `bounds` entry (variant "bound=...;radius=..."), ObjPert one line with band per
    ridge (variant "ridge=..."), both for neighbours as `adjacency` says; ObjPert calibrated for another
    adjacency is one grey line, at its best ridge. Markers under the curves tell at which radii OPS's better
    bound beats ObjPert. datasets: data set -> name in the panel title.
    """
    everything = _with_settings(runs, bounds)
    table = everything[everything.adjacency.eq(adjacency)]
    others = everything[everything.adjacency.ne(adjacency)]
    rows = [
        (d, s) for d in datasets for s in sorted(table[table.dataset.eq(d)].scaling.unique(), reverse=True)
    ]
    budgets = sorted(table.epsilon.unique())
    ridges = sorted(table.ridge.dropna().unique())
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(3.2 * len(budgets) + 0.8, 2.2 * len(rows) + 1.2), layout="constrained")
        axes = figure.subplots(len(rows), len(budgets), squeeze=False, sharex=True, sharey="row")
        for i, (dataset, scaling) in enumerate(rows):
            here = table[table.dataset.eq(dataset) & table.scaling.eq(scaling)]
            for ax, epsilon in zip(axes[i], budgets, strict=True):
                panel = here[here.epsilon.eq(epsilon)]
                _panel(ax, panel, bounds, ridges)
                rivals = others[
                    others.dataset.eq(dataset) & others.scaling.eq(scaling) & others.epsilon.eq(epsilon)
                ]
                for best in rivals.groupby("adjacency")["mean"].max():
                    ax.axhline(best, color=GREY, ls=":", lw=1.1, zorder=2)
                _wins(ax, runs[runs.dataset.eq(dataset) & runs.scaling.eq(scaling)], panel)
                ax.set_title(
                    f"{datasets[dataset]}, rows scaled “{scaling}”, ε = {style.number(epsilon)}", fontsize=8.5
                )
            axes[i][0].set_ylabel("test accuracy")
        for ax in axes[-1]:
            ax.set_xlabel("radius D of OPS's ball")
        handles = _handles(bounds, ridges, sorted(others.adjacency.unique()))
        handles += [hollow_handle()] if table.violated.ne("").any() else []
        text = caption(runs[runs.adjacency.eq(adjacency)], table) + NOTE
        frame(figure, title, text, handles)
    return figure


def _with_settings(runs: pd.DataFrame, bounds: Sequence[str]) -> pd.DataFrame:
    table = summary(runs)
    settings = [variant_settings(variant) for variant in table.variant]
    for key in ("radius", "ridge"):
        table[key] = [float(s[key]) if key in s else np.nan for s in settings]
    table["bound"] = [s.get("bound", "") for s in settings]
    adjacency = runs.drop_duplicates(["method", "variant"]).set_index(["method", "variant"]).adjacency
    table["adjacency"] = adjacency.loc[list(zip(table.method, table.variant, strict=True))].to_numpy()
    drawn = (table.method.eq("ops") & table.bound.isin(bounds) & table.radius.notna()) | table.ridge.notna()
    table = table[drawn & np.isfinite(table.epsilon)]
    for method, keys in (("ops", ["bound", "radius"]), ("objpert", ["ridge"])):
        rows = table[table.method.eq(method)]
        if rows.empty:
            raise ValueError(f"no sensitivity rows of {method} that vary {keys}: check conf/experiment")
        if rows.duplicated(["dataset", "scaling", "epsilon", "adjacency", *keys]).any():
            raise ValueError(f"variants of {method} differ in more than {keys}: {sorted(set(rows.variant))}")
    return table


def _panel(ax: Axes, panel: pd.DataFrame, bounds: Sequence[str], ridges: Sequence[float]) -> None:
    ops = style.look("ops")
    for bound in bounds:
        rows = panel[panel.bound.eq(bound)].sort_values("radius")
        line, marker = BOUND_LINES[bound]
        ax.plot(rows.radius, rows["mean"], color=ops.colour, ls=line, zorder=3)
        ax.fill_between(rows.radius, rows.low, rows.high, color=ops.colour, alpha=style.BAND_ALPHA, lw=0)
        for hollow, part in rows.groupby(rows.violated.ne("")):
            face = "white" if hollow else ops.colour
            ax.plot(
                part.radius, part["mean"], ls="", marker=marker, color=ops.colour, mfc=face, ms=4, zorder=4
            )
    for ridge, mean, low, high in panel.loc[panel.ridge.notna(), ["ridge", "mean", "low", "high"]].to_numpy(
        float
    ):
        colour, line = _ridge_look(ridges, ridge)
        ax.axhline(mean, color=colour, ls=line, lw=1.1, zorder=2)
        if high > low:
            ax.axhspan(low, high, color=colour, alpha=0.10, lw=0)
    radii = sorted(panel.radius.dropna().unique())
    ax.set_xscale("log")
    ax.set_xticks(radii, [style.number(radius) for radius in radii])
    ax.xaxis.set_minor_locator(NullLocator())


def _wins(ax: Axes, runs: pd.DataFrame, panel: pd.DataFrame) -> None:
    """Mark the radii at which some bound of OPS beats ObjPert: filled against its most accurate ridge, hollow
    against any."""
    rivals = panel[panel.ridge.notna()].sort_values("mean", ascending=False).variant
    accuracy = runs[runs.metric.eq("accuracy") & runs.epsilon.eq(panel.epsilon.iloc[0])]
    curves = dict(list(accuracy.groupby(["method", "variant"])))
    for radius in panel.radius.dropna().unique().tolist():
        variants = panel[panel.radius.eq(radius)].variant
        beaten = {
            rival
            for rival in rivals
            for variant in variants
            if compare(difference(curves["ops", variant], curves["objpert", rival], "asked")).above
        }
        if beaten:
            face = "black" if rivals.iloc[0] in beaten else "white"
            place = ax.get_xaxis_transform()
            ax.plot(radius, 0.04, "^", ms=5, color="black", mfc=face, mew=0.8, transform=place, clip_on=False)


def _handles(bounds: Sequence[str], ridges: Sequence[float], others: Sequence[str]) -> list[Line2D]:
    ops = style.look("ops")
    handles = []
    for bound in bounds:
        line, marker = BOUND_LINES[bound]
        label = f"OPS, bound: {bound}"
        handles.append(Line2D([], [], color=ops.colour, ls=line, marker=marker, ms=4, label=label))
    for ridge in ridges:
        colour, line = _ridge_look(ridges, ridge)
        handles.append(Line2D([], [], color=colour, ls=line, label=f"ObjPert, ridge {style.number(ridge)}"))
    for other in others:
        label = f"ObjPert for {other.replace('_', '/')} neighbours, best ridge"
        handles.append(Line2D([], [], color=GREY, ls=":", label=label))
    return handles


def _ridge_look(ridges: Sequence[float], ridge: float) -> tuple[str, Any]:
    return RIDGE_LINES[list(ridges).index(ridge) % len(RIDGE_LINES)]
