"""Figures of accuracy on convex problems against epsilon and against hyperparameters: pure functions of a run frame and
of settings from `conf/exhibit`.

Every point is a mean over repeats with a 95 % Student interval. The x axis is logarithmic in epsilon, with ln epsilon,
the papers' axis, along the top; `audited=True` puts the epsilon of the tight accountant there instead of the one asked
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from dplangevin.exhibits import style
from dplangevin.exhibits.style import Look, entry, hollow_entries, lay_out, look, markers
from dplangevin.statistics import compare, difference, summary, trusted, variant_settings
from dplangevin.text import number, numbers, span

REFERENCES = ("nonprivate", "sgld", "majority")
TICKS = [m * 10.0**k for k in range(-6, 5) for m in (1, 3)]
VERTICAL: dict[str, Any] = {"color": "#AAAAAA", "ls": "-", "lw": 3.0, "zorder": 0.5}


# Against epsilon


def over_epsilon(
    runs: pd.DataFrame, *, methods: Sequence[str], title: str = "", audited: bool = False
) -> Figure:
    """One panel: test accuracy against privacy loss on the data set of `runs`, which must be one.

    methods: those drawn, in the order of the legend; nonprivate and the majority class are drawn as lines where `runs`
    has them.
    """
    names = runs.dataset.unique()
    if len(names) != 1:
        raise ValueError(
            f"one panel shows one data set, found {list(names)}: use `over_epsilon_by_dataset` for several"
        )
    return _panels(runs, {names[0]: ""}, methods, title, audited, (7.2, 4.0))


def over_epsilon_by_dataset(
    runs: pd.DataFrame,
    *,
    panels: Mapping[str, str],
    methods: Sequence[str],
    title: str = "",
    audited: bool = False,
) -> Figure:
    """One panel per data set, `panels`: data set -> panel title; otherwise as `over_epsilon`."""
    return _panels(runs, panels, methods, title, audited, (10.5, 4.0))


def _panels(
    runs: pd.DataFrame,
    panels: Mapping[str, str],
    methods: Sequence[str],
    title: str,
    audited: bool,
    size: tuple[float, float],
) -> Figure:
    table = require(summary(runs), methods)
    x = "ln_epsilon_tight" if audited else "ln_epsilon"
    with style.settings():
        figure = Figure(figsize=size, layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels)))
        for ax, (dataset, name) in zip(axes, panels.items(), strict=True):
            _curves(ax, table[table.dataset.eq(dataset)], methods, x)
            ax.set_title(name)
            ax.set_xlabel(epsilon_label(runs, audited))
        axes[0].set_ylabel("test accuracy")
        drawn = table[table.method.isin([*methods, *REFERENCES]) & table.dataset.isin(list(panels))]
        handles = [entry(look(method)) for method in [*methods, *REFERENCES] if method in set(drawn.method)]
        private = drawn[drawn.method.isin(methods)]
        handles += hollow_entries(private.violated)
        return lay_out(figure, title, caption(runs, table) + not_drawn(private, x), handles, len(panels) == 1)


def against_baseline(
    runs: pd.DataFrame,
    *,
    panels: Mapping[str, Sequence[str]],
    mark: float,
    mark_label: str,
    title: str = "",
    audited: bool = False,
) -> Figure:
    """Test accuracy against privacy loss on one data set; `panels`: panel title -> methods drawn in it.

    Bars and the bands of the references are one standard deviation over repeats, as li2019 reports them. mark: the
    epsilon of a vertical line, in the units of the axis asked for and drawn on both. Raises ValueError for runs of
    several data sets, or methods without accuracy rows.
    """
    if len(names := runs.dataset.unique()) != 1:
        raise ValueError(f"the panels show one data set, found {list(names)}")
    methods = list(dict.fromkeys(method for group in panels.values() for method in group))
    table = require(summary(runs), methods)
    table = table.assign(low=table["mean"] - table.sd, high=table["mean"] + table.sd)
    x = "ln_epsilon_tight" if audited else "ln_epsilon"
    with style.settings():
        figure = Figure(figsize=(10.5, 4.9), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels), sharey=True, sharex=True))
        for ax, (name, group) in zip(axes, panels.items(), strict=True):
            _curves(ax, table, group, x)
            ax.axvline(np.log(mark), **VERTICAL)
            ax.set(title=name, xlabel=epsilon_label(runs, audited))
        axes[0].set_ylabel("test accuracy")
        present = [method for method in [*methods, *REFERENCES] if method in set(table.method)]
        handles = [entry(look(method)) for method in present]
        handles.append(Line2D([], [], **VERTICAL, label=mark_label))
        private = table[table.method.isin(methods)]
        text = caption(runs, table, "standard deviation (not an interval)") + not_drawn(private, x)
        return lay_out(figure, title, text, [*handles, *hollow_entries(private.violated)])


def by_setting(
    runs: pd.DataFrame,
    *,
    method: str,
    setting: str,
    values: Sequence[str],
    scaling: str,
    panels: Mapping[str, str],
    title: str = "",
    audited: bool = False,
) -> Figure:
    """One panel per data set; in each, `method` at every one of `values` of `setting`, rows scaled by `scaling`.

    The look of a curve is that of "<method>:<value>" in `style.LOOKS`.
    """
    rows = runs[runs.method.eq(method) & runs.scaling.eq(scaling)].copy()
    rows["method"] = [f"{method}:{variant_settings(variant)[setting]}" for variant in rows.variant]
    rows["variant"] = ""
    names = [f"{method}:{value}" for value in values]
    return over_epsilon_by_dataset(rows, panels=panels, methods=names, title=title, audited=audited)


def panel_by_setting(
    runs: pd.DataFrame,
    *,
    setting: str,
    methods: Sequence[str],
    panels: Mapping[str, str],
    title: str = "",
    audited: bool = False,
) -> Figure:
    """One panel per value of `setting` (value -> panel title) with all methods at that value, on one data set."""
    rows = runs.copy()
    rows["dataset"] = [variant_settings(variant)[setting] for variant in rows.variant]
    rows["variant"] = ""
    return over_epsilon_by_dataset(rows, panels=panels, methods=methods, title=title, audited=audited)


def _curves(ax: Axes, table: pd.DataFrame, methods: Sequence[str], x: str) -> None:
    """Draw the summary `table` of one data set; x: the column ln_epsilon or ln_epsilon_tight. Intervals narrow in
    drawing order, so that those at the same x stay apart to the eye."""
    for i, method in enumerate(methods):
        rows = table[table.method.eq(method) & np.isfinite(table[x]) & table["mean"].notna()].sort_values(x)
        if rows[["variant", "scaling"]].drop_duplicates().shape[0] > 1:
            raise ValueError(
                f"{method} has several variants, one curve shows one: {sorted(set(rows.variant))}"
            )
        style.curve(ax, rows[x], rows, look(method), width=1.0 + 0.9 * (len(methods) - 1 - i))
    for method in REFERENCES:
        for interval in table.loc[table.method.eq(method), ["mean", "low", "high"]].to_numpy(float):
            style.reference_line(ax, interval, look(method))
    epsilon_axis(ax)


def epsilon_axis(ax: Axes) -> None:
    """Label an axis of ln epsilon by epsilon, and along the top by ln epsilon, as the papers do."""
    ax.set_xlim(*ax.get_xlim())
    low, high = ax.get_xlim()
    inside = [e for e in TICKS if low <= np.log(e) <= high]
    if len(inside) > 7:
        inside = [e for e in inside if f"{e:e}".startswith("1")]
    ax.set_xticks(np.log(inside), [number(e) for e in inside])
    top = ax.secondary_xaxis("top")
    whole = MaxNLocator(7, integer=True).tick_values(low, high)
    free = high - 0.08 * (high - low)  # what is right of it is under "ln ε"
    top.set_xticks([value for value in whole if low <= value < free])
    top.tick_params(colors=style.GREY, length=2, labelsize=7)
    top.spines["top"].set_color(style.GREY)
    ax.text(1.0, 1.015, "ln ε", transform=ax.transAxes, color=style.GREY, fontsize=8, ha="right")


# Against hyperparameters

ADJACENCIES = {"replace_one": ("-", "replace-one"), "add_remove": ("--", "add/remove")}
CLIPPED_REFERENCES = ("sgld", "majority")
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
    table = _with_clips(runs, methods)
    references = summary(runs)
    references = references[references.method.isin(CLIPPED_REFERENCES)]
    budgets = sorted(table.epsilon.unique())
    with style.settings():
        size = (2.7 * len(budgets) + 0.8, 2.1 * len(scalings) + 1.2)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(scalings), len(budgets), squeeze=False, sharex=True, sharey="row")
        for row, (scaling, name) in zip(axes, scalings.items(), strict=True):
            for ax, epsilon in zip(row, budgets, strict=True):
                panel = table[table.scaling.eq(scaling) & table.epsilon.eq(epsilon)]
                _over_clip(ax, panel, methods)
                here = references[references.scaling.eq(scaling)]
                for method, mean in zip(here.method, here["mean"].astype(float), strict=True):
                    style.reference_line(ax, (mean, mean, mean), look(method))
                ax.set_title(f"{name}, ε = {number(epsilon)}", fontsize=8.5)
            row[0].set_ylabel("test accuracy")
        for ax in axes[-1]:
            ax.set_xlabel("clip norm L")
        values = sorted(table["clip"].unique())
        axes[0][0].set_xticks(values, [number(clip) for clip in values])
        axes[0][0].xaxis.set_minor_locator(NullLocator())
        handles = [entry(look(method), ls="-", ms=4) for method in methods]
        for adjacency, (line, name) in ADJACENCIES.items():
            if table.adjacency.eq(adjacency).any():
                label = f"budget for {name} neighbours"
                handles.append(Line2D([], [], color="#777777", ls=line, label=label))
        present = [method for method in CLIPPED_REFERENCES if references.method.eq(method).any()]
        handles += [entry(look(method)) for method in present]
        text = f"Mean and 95 % t-interval over {numbers(table.repeats)} repeats, δ = {numbers(runs.delta)}."
        text += " The budget is the ε asked for."
        return lay_out(figure, title, text, [*handles, *hollow_entries(table.violated)])


def _with_clips(runs: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """The summary of `methods` with the columns clip and adjacency that their variants name."""
    table = require(summary(runs[runs.method.isin(methods)]), methods)
    settings = [variant_settings(variant) for variant in table.variant]
    if any("clip" not in setting or "adjacency" not in setting for setting in settings):
        raise ValueError(f"variants must name clip and adjacency: {sorted(set(table.variant))}")
    clips, adjacencies = ([setting[key] for setting in settings] for key in ("clip", "adjacency"))
    return table.assign(clip=[float(clip) for clip in clips], adjacency=adjacencies)


def _over_clip(ax: Axes, panel: pd.DataFrame, methods: Sequence[str]) -> None:
    ax.set_xscale("log")
    for (method, adjacency), rows in panel.groupby(["method", "adjacency"], sort=False):
        rows = rows.sort_values("clip")
        x = rows["clip"] * np.exp(APART * (2 * methods.index(str(method)) - len(methods) + 1) / 2)
        line, _ = ADJACENCIES[str(adjacency)]
        style.curve(ax, x, rows, look(str(method))._replace(line=line, size=4))


BOUND_LINES = {"paper": ("-", "o"), "range": ("--", "D")}
RIDGE_LINES = [("#F2A03D", "-"), ("#D55E00", "--"), ("#8C3B00", "-."), ("#4A1F00", (0, (6, 2)))]
OTHER_ADJACENCY: dict[str, Any] = {"color": "#777777", "ls": ":"}
SENSITIVITY_NOTE = (
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
    """Grid of panels: rows are data set x row scaling, columns budgets; x the radius D of OPS's ball (log scale), y
    test accuracy.

    OPS has one curve per `bounds` entry (variant "bound=...;radius=..."), ObjPert one line with band per ridge (variant
    "ridge=..."), both for neighbours as `adjacency` says; ObjPert calibrated for another adjacency is one grey line, at
    its best ridge. Markers under the curves tell at which radii OPS's better bound beats ObjPert. Settings that are not
    `statistics.trusted` are drawn, but are no best ridge, and neither beat nor are beaten. datasets: data set -> name
    in the panel title.
    """
    everything = _with_radii_and_ridges(runs, bounds)
    table = everything[everything.adjacency.eq(adjacency)]
    others = everything[everything.adjacency.ne(adjacency)]
    rows = [
        (d, s) for d in datasets for s in sorted(table[table.dataset.eq(d)].scaling.unique(), reverse=True)
    ]
    budgets = sorted(table.epsilon.unique())
    ridges = sorted(table.ridge.dropna().unique())
    with style.settings():
        figure = Figure(figsize=(3.2 * len(budgets) + 0.8, 2.2 * len(rows) + 1.2), layout="constrained")
        axes = figure.subplots(len(rows), len(budgets), squeeze=False, sharex=True, sharey="row")
        for line, (dataset, scaling) in zip(axes, rows, strict=True):
            here, other, own = (
                part[part.dataset.eq(dataset) & part.scaling.eq(scaling)] for part in (table, others, runs)
            )
            for ax, epsilon in zip(line, budgets, strict=True):
                panel = here[here.epsilon.eq(epsilon)]
                _over_radius(ax, panel, bounds, ridges)
                rivals = other[other.epsilon.eq(epsilon) & trusted(other, "mean")]
                for best in rivals.groupby("adjacency")["mean"].max():
                    ax.axhline(best, **OTHER_ADJACENCY, lw=1.1, zorder=2)
                _mark_wins(ax, own, panel)
                ax.set_title(
                    f"{datasets[dataset]}, rows scaled “{scaling}”, ε = {number(epsilon)}", fontsize=8.5
                )
            line[0].set_ylabel("test accuracy")
        for ax in axes[-1]:
            ax.set_xlabel("radius D of OPS's ball")
        handles = [entry(_bound_look(bound)) for bound in bounds]
        handles += [entry(_ridge_look(ridges, ridge)) for ridge in ridges]
        for other in sorted(others.adjacency.unique()):
            label = f"ObjPert for {other.replace('_', '/')} neighbours, best ridge"
            handles.append(Line2D([], [], **OTHER_ADJACENCY, label=label))
        text = caption(runs[runs.adjacency.eq(adjacency)], table) + SENSITIVITY_NOTE
        return lay_out(figure, title, text, [*handles, *hollow_entries(table.violated)])


def _with_radii_and_ridges(runs: pd.DataFrame, bounds: Sequence[str]) -> pd.DataFrame:
    """The summary of private runs with the columns radius, ridge, bound (from their variants) and adjacency."""
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


def _over_radius(ax: Axes, panel: pd.DataFrame, bounds: Sequence[str], ridges: Sequence[float]) -> None:
    for bound in bounds:
        rows, of = panel[panel.bound.eq(bound)].sort_values("radius"), _bound_look(bound)
        ax.plot(rows.radius, rows["mean"], color=of.colour, ls=of.line, zorder=3)
        ax.fill_between(rows.radius, rows.low, rows.high, color=of.colour, alpha=style.BAND_ALPHA, lw=0)
        markers(ax, rows.radius, rows["mean"], rows.violated, of)
    lines = panel.loc[panel.ridge.notna(), ["ridge", "mean", "low", "high"]]
    for ridge, *interval in lines.to_numpy(float):
        style.reference_line(ax, interval, _ridge_look(ridges, ridge), zorder=2)
    radii = sorted(panel.radius.dropna().unique())
    ax.set_xscale("log")
    ax.set_xticks(radii, [number(radius) for radius in radii])
    ax.xaxis.set_minor_locator(NullLocator())


def _mark_wins(ax: Axes, runs: pd.DataFrame, panel: pd.DataFrame) -> None:
    """Mark the radii at which some bound of OPS beats ObjPert: filled against its most accurate ridge, hollow against
    any."""
    epsilon, panel = panel.epsilon.iloc[0], panel[trusted(panel, "mean")]
    rivals = panel[panel.ridge.notna()].sort_values("mean", ascending=False).variant
    accuracy = runs[runs.metric.eq("accuracy") & runs.epsilon.eq(epsilon)]
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


def _bound_look(bound: str) -> Look:
    line, marker = BOUND_LINES[bound]
    return Look(f"OPS, bound: {bound}", look("ops").colour, marker, line, 4)


def _ridge_look(ridges: Sequence[float], ridge: float) -> Look:
    colour, line = RIDGE_LINES[list(ridges).index(ridge) % len(RIDGE_LINES)]
    return Look(f"ObjPert, ridge {number(ridge)}", colour, "", line)


# What the runs say about themselves


def require(table: pd.DataFrame, methods: Iterable[str], what: str = "accuracy rows") -> pd.DataFrame:
    """The table. Raises ValueError naming the methods that it does not have."""
    if absent := [method for method in methods if method not in set(table.method)]:
        raise ValueError(f"no {what} for {absent}: list their runs under files in conf/exhibit")
    return table


def of_private(runs: pd.DataFrame, column: str) -> str:
    """The one value of `column` over the private rows; several are joined, so that a figure never hides a mixture."""
    values = runs[np.isfinite(runs.epsilon)][column].unique()
    return " / ".join(number(v) if isinstance(v, float) else str(v) for v in values)


def epsilon_label(runs: pd.DataFrame, audited: bool) -> str:
    """Name of the axis of epsilon, read off the runs."""
    if not audited:
        return "privacy loss ε"
    adjacency = of_private(runs, "adjacency_tight").replace("_", "-")
    return f"tight ε ({adjacency}, δ = {of_private(runs, 'delta')})"


def caption(runs: pd.DataFrame, table: pd.DataFrame, spread: str = "95 % t-interval") -> str:
    """Repeats, delta and adjacency in one line, read off the runs."""
    return (
        f"Mean and {spread} over {span(table.repeats)} repeats. δ = {of_private(runs, 'delta')} where the method uses "
        f"one, adjacency {of_private(runs, 'adjacency').replace('_', '-')}."
    )


def not_drawn(rows: pd.DataFrame, x: str) -> str:
    """Says how many points of each method have no place on a logarithmic axis."""
    counts = rows[~np.isfinite(rows[x])].groupby("method", sort=False).size()
    listed = ", ".join(f"{look(str(method)).label} {n}" for method, n in counts.items())
    return f"\nPoints without a finite, positive tight ε are not drawn: {listed}." if listed else ""
