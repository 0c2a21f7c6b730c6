"""Figures of accuracy on convex problems, against epsilon and against hyperparameters.

All functions are pure functions of a frame of runs (`read.read_runs`) and of settings from `conf/exhibit`.
Every point is a mean over repeats with a 95 % Student interval. The x axis is logarithmic in epsilon: the promised ε
(the budget of the run), or the proven ε if `proven`. The axis along the top shows ln epsilon, which the papers use.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dplangevin.papers.statistics import compare, difference, matches, summary, t_interval, trusted, variant_settings
from dplangevin.reporting import style
from dplangevin.reporting.style import entry, hollow_entries, lay_out
from dplangevin.reporting.words import look, relations
from dplangevin.text import number, span

REFERENCES = ("nonprivate", "sgld", "majority")
TICKS = [m * 10.0**k for k in range(-6, 5) for m in (1, 3)]

# Against epsilon


def over_epsilon(
    runs: pd.DataFrame,
    *,
    methods: Sequence[str],
    panels: Mapping[str, str] | None = None,
    panel_setting: str = "",
    curve_setting: str = "",
    scaling: str = "",
    note: str = "",
    title: str = "",
    proven: bool = False,
) -> Figure:
    """Draw test accuracy against epsilon, and the reference methods in `runs` as horizontal lines.

    `panels` maps data sets to titles; None draws the only data set. With `panel_setting`, a setting in the column
    `variant`, it maps the values of that setting, and all panels have the same axes. With `curve_setting`, which is
    such a setting or "run", `methods` are "<method>:<value>". A `scaling` draws only its runs.
    """
    if scaling:
        runs = runs[runs.scaling.eq(scaling)]
    if panel_setting:
        runs = runs.assign(dataset=_values(runs, panel_setting))
    if curve_setting:
        values = runs.run if curve_setting == "run" else _values(runs, curve_setting)
        runs = runs.assign(method=runs.method + ":" + values)
    if panel_setting or curve_setting:
        runs = runs.assign(variant="")
    if panels is None:
        panels = {_one_dataset(runs): ""}
    table, x = require(summary(runs), methods), "ln_epsilon_proven" if proven else "ln_epsilon"
    table = table[table.dataset.isin(list(panels))]
    with style.settings():
        figure = Figure(figsize=(7.2 if len(panels) == 1 else 10.5, 4.3), layout="constrained")
        shared: dict[str, Any] = {"sharex": bool(panel_setting), "sharey": bool(panel_setting)}
        axes = figure.subplots(1, len(panels), squeeze=False, **shared)[0]
        for ax, (dataset, name) in zip(axes, panels.items(), strict=True):
            _curves(ax, table[table.dataset.eq(dataset)], methods, x)
            ax.set(title=name, xlabel=epsilon_label(runs, proven))
        axes[0].set_ylabel("test accuracy")
        present = [method for method in [*methods, *REFERENCES] if method in set(table.method)]
        private = table[table.method.isin(methods)]
        handles = [*(entry(look(method)) for method in present), *hollow_entries(private.violated)]
        text = caption(runs, table) + chosen(runs, methods) + not_drawn(private, x)
        return lay_out(figure, title, text + (f"\n{note}" if note else ""), handles, side=len(panels) == 1)


def _values(runs: pd.DataFrame, setting: str) -> pd.Series:
    return runs.variant.map(lambda variant: variant_settings(variant)[setting])


def _one_dataset(runs: pd.DataFrame) -> str:
    if len(names := runs.dataset.unique()) != 1:
        raise ValueError(f"the figure shows one data set, found {list(names)}: give `panels`")
    return str(names[0])


def _curves(ax: Axes, table: pd.DataFrame, methods: Sequence[str], x: str) -> None:
    """Draw a summary of one data set; bars are narrower for each next method, so that all stay visible."""
    for i, method in enumerate(methods):
        rows = table[table.method.eq(method) & np.isfinite(table[x]) & table["mean"].notna()].sort_values(x)
        if rows[["variant", "scaling"]].drop_duplicates().shape[0] > 1:
            several = sorted(set(rows.variant))
            raise ValueError(f"{method} has several variants, one curve shows one: {several}")
        style.curve(ax, rows[x], rows, look(method), width=1.0 + 0.9 * (len(methods) - 1 - i))
    for method in REFERENCES:
        for interval in table.loc[table.method.eq(method), ["mean", "low", "high"]].to_numpy(float):
            style.reference_line(ax, interval, look(method))
    epsilon_axis(ax)


def epsilon_axis(ax: Axes) -> None:
    """Label an axis of ln ε: below with ε, and along the top with ln ε as in the papers."""
    ax.set_xlim(*ax.get_xlim())
    low, high = ax.get_xlim()
    inside = [e for e in TICKS if low <= np.log(e) <= high]
    if len(inside) > 7:
        inside = [e for e in inside if f"{e:e}".startswith("1")]
    ax.set_xticks(np.log(inside), [number(e) for e in inside])
    top = ax.secondary_xaxis("top")
    ticks = MaxNLocator(7, integer=True).tick_values(low, high)
    free = high - 0.08 * (high - low)  # the label "ln ε" covers what is to the right of this
    top.set_xticks([value for value in ticks if low <= value < free])
    top.tick_params(colors=style.GREY, length=2, labelsize=7)
    top.spines["top"].set_color(style.GREY)
    ax.text(1.0, 1.015, "ln ε", transform=ax.transAxes, color=style.GREY, fontsize=8, ha="right")


# Against hyperparameters


def gaps(runs: pd.DataFrame, *, first: str, second: str) -> pd.DataFrame:
    """Return the accuracy of `first` minus that of `second` in points, paired by seed, with 95 % t-intervals."""
    keys = ["scaling", "variant", "epsilon"]
    accuracy = runs[runs.metric.eq("accuracy")]
    by_method = accuracy.pivot(index=[*keys, "seed"], columns="method", values="value")
    pairs = (100 * (by_method[first] - by_method[second])).groupby(keys)
    rows = [
        {**dict(zip(keys, of, strict=True)), **t_interval(gap).columns(), "repeats": len(gap)}
        for of, gap in pairs
    ]
    return pd.DataFrame(rows)


GAP_LIMIT = 5.0  # percentage points at which the colours of a heat map end
GAP_COLOURS = LinearSegmentedColormap.from_list(
    "objpert to ops", [look("objpert").colour, "#FFFFFF", look("ops").colour]
)
UNTRUSTED = "#BBBBBB"
KEYS = ["dataset", "method", "variant", "scaling", "epsilon"]
MAP_LABELS = (
    "radius of OPS's ball; ObjPert is at its best ridge",
    "ridge of ObjPert; OPS is at its best radius",
)
SENSITIVITY_NOTE = (
    "\nA number is accuracy of OPS − accuracy of ObjPert, in points. Bold: the 95 % t-interval, paired by repeat, "
    "excludes 0. Rows: “unit” scales each to norm 1,\n“global” divides all by one constant. OPS has the paper's bound "
    "or the smaller one by range. The best is that of highest mean accuracy on these test sets."
)


def sensitivity(
    runs: pd.DataFrame, *, bounds: Sequence[str], datasets: Mapping[str, str], adjacency: str, title: str = ""
) -> Figure:
    """Draw the accuracy of OPS minus that of ObjPert as heat maps, with one column of maps for each budget.

    The last column of the lower maps is ObjPert for the neighbours other than `adjacency`, at its best ridge. Settings
    that are not trusted (`papers.statistics.trusted`) are never the best, and their cells are grey. Variants are
    "bound=...;radius=..." for OPS and "ridge=..." for ObjPert. `datasets` maps data sets to their names.
    """
    settings = _with_radii_and_ridges(runs, bounds)
    table = settings[trusted(settings, "mean")]
    radii = sorted(settings.radius.dropna().unique())
    ridges = sorted(settings.ridge.dropna().unique())
    budgets = sorted(settings.epsilon.unique())
    rows = {
        f"{name}, {scaling} rows, {bound} bound": (dataset, scaling, bound)
        for dataset, name in datasets.items()
        for scaling in sorted(settings[settings.dataset.eq(dataset)].scaling.unique(), reverse=True)
        for bound in bounds
    }
    others = [other for other in settings.adjacency.unique() if other != adjacency]
    with style.settings():
        columns = len(budgets) * max(len(radii), len(ridges) + len(others))
        figure = Figure(figsize=(1.6 + 0.37 * columns + 2.0, 2.6 + 0.5 * len(rows)), layout="constrained")
        maps = figure.subplots(2, len(budgets), squeeze=False, sharey=True)
        for (top, bottom), epsilon in zip(maps.T, budgets, strict=True):
            here = table[table.epsilon.eq(epsilon)]
            ops, objpert = here[here.method.eq("ops")], here[here.ridge.notna()]
            mine = objpert[objpert.adjacency.eq(adjacency)]
            by_radius = {f"D = {number(radius)}": (ops[ops.radius.eq(radius)], mine) for radius in radii}
            by_ridge = {number(ridge): (ops, mine[mine.ridge.eq(ridge)]) for ridge in ridges}
            for other in others:
                by_ridge[f"best,\n{other.replace('_', '/')}"] = ops, objpert[objpert.adjacency.eq(other)]
            _heat_map(top, runs, rows, by_radius)
            _heat_map(bottom, runs, rows, by_ridge)
            top.set_title(f"ε = {number(epsilon)}")
        for line, words in zip(maps, MAP_LABELS, strict=True):
            line[len(budgets) // 2].set_xlabel(words)
        bar = figure.colorbar(maps[0, 0].images[0], ax=maps, extend="both", shrink=0.5, aspect=30)
        bar.set_label("orange: ObjPert is more accurate; blue: OPS is (points)")
        text = f"Neighbours of both methods: {relations(adjacency)}. "
        text += f"Means over {span(settings.repeats)} repeats."
        return lay_out(figure, title, text + SENSITIVITY_NOTE, [])


def _heat_map(
    ax: Axes,
    runs: pd.DataFrame,
    rows: Mapping[str, tuple[str, str, str]],
    columns: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]],
) -> None:
    """Draw the best of OPS minus the best of ObjPert in points, with a number in each cell, bold if significant.

    `rows` maps labels to data set, scaling and bound, and `columns` to rows of a summary of OPS and of ObjPert.
    """
    gaps = np.full((len(rows), len(columns)), np.nan)
    for y, (dataset, scaling, bound) in enumerate(rows.values()):
        for x, (ops, objpert) in enumerate(columns.values()):
            first = ops[ops.dataset.eq(dataset) & ops.scaling.eq(scaling) & ops.bound.eq(bound)]
            second = objpert[objpert.dataset.eq(dataset) & objpert.scaling.eq(scaling)]
            if first.empty or second.empty:
                continue
            best: list[Any] = [each.nlargest(1, "mean")[KEYS].iloc[0].to_dict() for each in (first, second)]
            accuracies = [runs[matches(runs, {"metric": "accuracy", **keys})] for keys in best]
            compared = compare(difference(accuracies[0], accuracies[1], "promised"))
            gaps[y, x] = gap = 100 * compared.interval.mean
            sure = bool(compared.above or compared.below)
            colour = "#FFFFFF" if abs(gap) > 0.8 * GAP_LIMIT else "#000000" if sure else "#555555"
            words = f"{gap:+.1f}".replace("-", "−") if abs(gap) >= 0.05 else "0.0"
            weight = "bold" if sure else "normal"
            ax.text(x, y, words, ha="center", va="center", fontsize=6.5, weight=weight, color=colour)
    ax.set_facecolor(UNTRUSTED)
    colours: dict[str, Any] = {"cmap": GAP_COLOURS, "vmin": -GAP_LIMIT, "vmax": GAP_LIMIT}
    ax.imshow(gaps, aspect="auto", interpolation="nearest", **colours)
    ax.set_xticks(range(len(columns)), list(columns), fontsize=7)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.grid(visible=False)


def _with_radii_and_ridges(runs: pd.DataFrame, bounds: Sequence[str]) -> pd.DataFrame:
    """Return the summary of the private runs with columns radius, ridge, bound and adjacency."""
    table = summary(runs)
    settings = pd.DataFrame(map(variant_settings, table.variant), columns=["radius", "ridge", "bound"])
    table = table.join(settings.astype({"radius": float, "ridge": float}))
    adjacency = runs[["method", "variant", "adjacency"]].drop_duplicates(["method", "variant"])
    table = table.merge(adjacency, how="left", on=["method", "variant"])
    drawn = (table.method.eq("ops") & table.bound.isin(bounds) & table.radius.notna()) | table.ridge.notna()
    table = table[drawn & np.isfinite(table.epsilon)]
    for method, keys in (("ops", ["bound", "radius"]), ("objpert", ["ridge"])):
        rows = table[table.method.eq(method)]
        if rows.empty:
            raise ValueError(f"no sensitivity rows of {method} that vary {keys}: check conf/experiment")
        if rows.duplicated(["dataset", "scaling", "epsilon", "adjacency", *keys]).any():
            raise ValueError(f"variants of {method} differ in more than {keys}: {sorted(set(rows.variant))}")
    return table


# Checks and captions, from the runs

# Setting -> its name in a caption
CHOSEN = {"radius": "ball of radius", "prior": "Gaussian prior of precision", "ridge": "ridge", "l2": "ridge"}
SCALINGS = {"unit": "each row has norm 1", "global": "rows over one constant", "raw": "rows as they are"}


def require(table: pd.DataFrame, methods: Iterable[str]) -> pd.DataFrame:
    """Return the table if it has rows of every method, else raise ValueError."""
    if absent := [method for method in methods if method not in set(table.method)]:
        raise ValueError(f"no rows for {absent}: list their runs under files in conf/exhibit")
    return table


def of_private(runs: pd.DataFrame, column: str) -> str:
    """Return the distinct values of `column` in the private rows, joined by " / "."""
    values = runs[np.isfinite(runs.epsilon)][column].unique()
    return " / ".join(number(v) if isinstance(v, float) else str(v) for v in values)


def epsilon_label(runs: pd.DataFrame, proven: bool) -> str:
    """Return the label of the epsilon axis, with adjacency and δ of the runs if it shows the proven ε."""
    if not proven:
        return "promised ε"
    adjacency = relations(of_private(runs, "adjacency_proven"))
    return f"proven ε ({adjacency}, δ = {of_private(runs, 'delta')})"


def caption(runs: pd.DataFrame, table: pd.DataFrame) -> str:
    """Return the caption of a figure: repeats, meaning of the bars, δ, neighbours."""
    neighbours = relations(of_private(runs, "adjacency")).replace(" / ", " or ")
    delta = of_private(runs, "delta")
    return (
        f"Mean and 95 % t-interval over {span(table.repeats)} repeats. δ = {delta} where the method uses one. "
        f"Neighbours: {neighbours}."
    )


def chosen(runs: pd.DataFrame, methods: Iterable[str]) -> str:
    """Return radius, prior and ridge of the methods that have one setting of them, and the scaling of the rows."""
    users: dict[str, list[str]] = {}
    for method in methods:
        settings = runs[runs.method.eq(method)].settings.unique()
        values = json.loads(settings[0]) if len(settings) == 1 and settings[0] else {}
        values |= values.get("first", {})
        if values.get("bound") == "gdp":  # there is no ball
            values |= {"radius": None, "prior": values["precision"]}
        for key, name in CHOSEN.items():
            if values.get(key):
                users.setdefault(f"{name} {number(values[key])}", []).append(look(method).label)
    scalings = [SCALINGS[scaling] for scaling in runs[np.isfinite(runs.epsilon)].scaling.unique()]
    listed = [f"{value} for {' and '.join(labels)}" for value, labels in users.items()]
    return f"\nOur choices: {'; '.join(listed)}; {' or '.join(scalings)}." if listed else ""


def not_drawn(rows: pd.DataFrame, x: str) -> str:
    """Return a line that counts the rows of each method whose ln ε, column `x`, is not finite, or ""."""
    counts = rows[~np.isfinite(rows[x])].groupby("method", sort=False).size()
    return listed("Points without a finite, positive proven ε are not drawn", counts)


def listed(what: str, counts: pd.Series) -> str:
    """Return a line with a count for each method, or "" if there are no counts."""
    texts = [f"{look(str(method)).label} {int(n)}" for method, n in counts.items()]
    return f"\n{what}: {', '.join(texts)}." if texts else ""
