"""Figures of accuracy on convex problems, against epsilon and against hyperparameters.

All functions are pure functions of a frame of runs (`read.read_runs`) and of settings from `conf/exhibit`.
Every point is a mean over repeats with a 95 % Student interval. The x axis is logarithmic in epsilon: the promised ε
(the budget of the run), or the proven ε if `proven`. The axis along the top shows ln epsilon, which the papers use.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dplangevin.papers.exhibits.figures import heat, lines
from dplangevin.papers.statistics import (
    compare,
    difference,
    matches,
    summary,
    t_interval,
    trusted,
    variant_settings,
)
from dplangevin.reporting import style
from dplangevin.reporting.words import SCALINGS, look, relations
from dplangevin.text import number, span

REFERENCES = ("nonprivate", "sgld", "majority")
TICKS = [m * 10.0**k for k in range(-6, 5) for m in (1, 3)]

# Against epsilon


def over_epsilon(
    runs: pd.DataFrame,
    *,
    methods: Sequence[str],
    panels: Mapping[str, str],
    panel_setting: str = "",
    curve_setting: str = "",
    scaling: str = "",
    note: str = "",
    title: str = "",
    proven: bool = False,
) -> Figure:
    """Draw test accuracy against epsilon, and the reference methods in `runs` as horizontal lines.

    `panels` maps data sets to titles. With `panel_setting`, a setting in the column `variant`, it maps the values of
    that setting, and all panels have the same axes. With `curve_setting`, which is such a setting or "run", `methods`
    are "<method>:<value>". A `scaling` draws only its runs.
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
    table = summary(runs[runs.dataset.isin([*panels])])
    table = table[table.method.isin([*methods, *REFERENCES])]
    private = table[table.method.isin(methods)]
    if absent := [*filter(lambda method: method not in set(table.method), methods)]:
        raise ValueError(f"no rows for {absent}: list their runs under files in conf/exhibit")
    if private.duplicated(["dataset", "method", "epsilon"]).any():
        raise ValueError(f"a method has several variants, one curve shows one: {set(private.variant)}")
    x = "ln_epsilon_proven" if proven else "ln_epsilon"
    marks: list[dict[str, Any]] = []
    for i, method in enumerate([*methods, *(name for name in REFERENCES if name in set(table.method))]):
        mark = {"where": {"method": method}, "method": method, "bar": 3.7 - 0.9 * min(i, 3)}
        level = method in REFERENCES
        label = look(method).label if level or np.isfinite(table[x][table.method.eq(method)]).any() else ""
        marks.append({**mark, "label": label, "level": level})
    xlabel = "promised ε"
    if proven:
        adjacency = relations(of_private(runs, "adjacency_proven"))
        xlabel = f"proven ε ({adjacency}, δ = {of_private(runs, 'delta')})"
    text = caption(runs, table) + chosen(runs, methods) + not_drawn(private, x) + (note and f"\n{note}")
    one = len(panels) == 1
    figure = lines(
        table,
        text=text,
        marks=marks,
        panels=[{"where": {"dataset": dataset}, "title": name} for dataset, name in panels.items()],
        axes={"x": x, "y": "mean", "low": "low", "high": "high", "xlabel": xlabel},
        size=(7.8 if one else 10.5, 4.3),
        grid={"sharex": bool(panel_setting), "sharey": bool(panel_setting)},
        side=one,
        title=title,
    )
    figure.axes[0].set_ylabel("test accuracy")
    for ax in [*figure.axes]:
        epsilon_axis(ax)
    return figure


def _values(runs: pd.DataFrame, setting: str) -> pd.Series:
    return runs.variant.map(lambda variant: variant_settings(variant)[setting])


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


KEYS = ["dataset", "method", "variant", "scaling", "epsilon"]


def sensitivity(
    runs: pd.DataFrame,
    *,
    bounds: Sequence[str],
    datasets: Mapping[str, str],
    adjacency: str,
    text: str,
    title: str = "",
) -> Figure:
    """Draw the accuracy of OPS minus that of ObjPert as heat maps, with one column of maps for each budget.

    The last column of the lower maps is ObjPert for the neighbours other than `adjacency`, at its best ridge. Settings
    that are not trusted (`papers.statistics.trusted`) are never the best, and have no cell. Variants are
    "bound=...;radius=..." for OPS and "ridge=..." for ObjPert. `datasets` maps data sets to their names.
    """
    settings = _with_radii_and_ridges(runs, bounds)
    table, budgets = settings[trusted(settings, "mean")], sorted(settings.epsilon.unique())
    ours, others = {"adjacency": adjacency}, sorted({*settings.adjacency} - {adjacency})
    radii = [(f"D = {number(r)}", {"radius": r}, ours) for r in sorted(settings.radius.dropna().unique())]
    values = sorted(settings.ridge.dropna().unique())
    ridges: list[Any] = [(f"λ = {number(r)}", {}, {"ridge": r, **ours}) for r in values]
    ridges += [(f"best,\n{other.replace('_', '/')}", {}, {"adjacency": other}) for other in others]
    places = [
        (f"{name}, {scaling} rows, {bound} bound", {"dataset": dataset, "scaling": scaling}, bound)
        for dataset, name in datasets.items()
        for scaling in sorted(settings[settings.dataset.eq(dataset)].scaling.unique(), reverse=True)
        for bound in bounds
    ]
    cells: list[dict[str, Any]] = []
    for epsilon, place, column in product(budgets, places, [*radii, *ridges]):
        here = table[matches(table, {"epsilon": epsilon, **place[1]})]
        ops = here[matches(here, {"method": "ops", "bound": place[2], **column[1]})]
        objpert = here[matches(here, {"method": "objpert", **column[2]})]
        if len(ops) and len(objpert):
            names = {"epsilon": epsilon, "row": place[0], "column": column[0]}
            cells.append({**names, **_gap(runs, ops, objpert)})
    maps = product(([name for name, *_ in radii], [name for name, *_ in ridges]), budgets)
    return heat(
        pd.DataFrame(cells, columns=["epsilon", "row", "column", "shade", "text", "bold"]),
        rows=[name for name, *_ in places],
        panels=[
            {"where": {"epsilon": e}, "columns": names, "title": f"ε = {number(e)}"} for names, e in maps
        ],
        across=len(budgets),
        colours=LinearSegmentedColormap.from_list(
            "", [look("objpert").colour, "#FFFFFF", look("ops").colour]
        ),
        limits=(-5.0, 5.0),
        text=text.format(neighbours=relations(adjacency), repeats=span(settings.repeats)),
        title=title,
    )


def _gap(runs: pd.DataFrame, first: pd.DataFrame, second: pd.DataFrame) -> dict[str, Any]:
    """Return the cell of the best row of a summary minus the best of another, in points, bold if significant."""
    best: list[Any] = [each.nlargest(1, "mean")[KEYS].iloc[0].to_dict() for each in (first, second)]
    accuracies = [runs[matches(runs, {"metric": "accuracy", **keys})] for keys in best]
    compared = compare(difference(accuracies[0], accuracies[1], "promised"))
    gap = 100 * compared.interval.mean
    text = f"{gap:+.1f}".replace("-", "−") if abs(gap) >= 0.05 else "0.0"
    return {"shade": gap, "text": text, "bold": bool(compared.above or compared.below)}


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


def of_private(runs: pd.DataFrame, column: str) -> str:
    """Return the distinct values of `column` in the private rows, joined by " / "."""
    values = runs[np.isfinite(runs.epsilon)][column].unique()
    return " / ".join(number(v) if isinstance(v, float) else str(v) for v in values)


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


def with_choices(runs: pd.DataFrame) -> pd.DataFrame:
    """Return `summary` with the column choices, a sentence on the settings of all methods."""
    return summary(runs).assign(choices=chosen(runs, runs.method.unique()).strip())


def not_drawn(rows: pd.DataFrame, x: str) -> str:
    """Return a line that counts the rows of each method whose ln ε, column `x`, is not finite, or ""."""
    counts = rows[~np.isfinite(rows[x])].groupby("method", sort=False).size()
    texts = [f"{look(str(method)).label} {n}" for method, n in counts.items()]
    return f"\nPoints without a finite, positive proven ε are not drawn: {', '.join(texts)}." if texts else ""
