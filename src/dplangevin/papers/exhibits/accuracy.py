"""Figures of accuracy on convex problems, against epsilon and against hyperparameters.

All functions are pure functions of a frame of runs (`read.read_runs`) and of settings from `conf/exhibit`.
Every point is a mean over repeats with a 95 % Student interval.

The x axis is logarithmic in epsilon. The axis along the top shows ln epsilon, which the papers use. By
default epsilon is the promised ε (column `epsilon`, the budget of the run). With `proven=True` it is the
proven ε (column `epsilon_proven`, from the tight accountant).
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

from dplangevin.papers.exhibits import style
from dplangevin.papers.exhibits.style import Look, entry, hollow_entries, lay_out, look, markers
from dplangevin.papers.statistics import compare, difference, summary, trusted, variant_settings
from dplangevin.text import number, numbers, span

REFERENCES = ("nonprivate", "sgld", "majority")
TICKS = [m * 10.0**k for k in range(-6, 5) for m in (1, 3)]
VERTICAL: dict[str, Any] = {"color": "#AAAAAA", "ls": "-", "lw": 3.0, "zorder": 0.5}


# Against epsilon


def over_epsilon(
    runs: pd.DataFrame, *, methods: Sequence[str], title: str = "", proven: bool = False
) -> Figure:
    """Draw test accuracy against epsilon on one data set, in one panel.

    Parameters
    ----------
    runs : DataFrame
        Rows of `read.read_runs` on one data set. The reference methods in it (non-private, SGLD without
        privacy, majority class) are drawn as horizontal lines.
    methods : Sequence of str
        Methods to draw, in the order of the legend.
    proven : bool
        Use the proven ε for the x axis instead of the promised ε.

    Raises
    ------
    ValueError
        `runs` has several data sets, or a method has no rows.
    """
    names = runs.dataset.unique()
    if len(names) != 1:
        raise ValueError(
            f"one panel shows one data set, found {list(names)}: use `over_epsilon_by_dataset` for several"
        )
    return _panels(runs, {names[0]: ""}, methods, title, proven, (7.2, 4.0))


def over_epsilon_by_dataset(
    runs: pd.DataFrame,
    *,
    panels: Mapping[str, str],
    methods: Sequence[str],
    title: str = "",
    proven: bool = False,
) -> Figure:
    """Draw test accuracy against epsilon, with one panel for each data set.

    The other arguments are those of `over_epsilon`.

    Parameters
    ----------
    panels : Mapping of str to str
        Data set -> title of its panel.
    """
    return _panels(runs, panels, methods, title, proven, (10.5, 4.0))


def _panels(
    runs: pd.DataFrame,
    panels: Mapping[str, str],
    methods: Sequence[str],
    title: str,
    proven: bool,
    size: tuple[float, float],
) -> Figure:
    """Return the figure of `over_epsilon` or of `over_epsilon_by_dataset`; `size` is in inches."""
    table = require(summary(runs), methods)
    x = "ln_epsilon_tight" if proven else "ln_epsilon"
    with style.settings():
        figure = Figure(figsize=size, layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels)))
        for ax, (dataset, name) in zip(axes, panels.items(), strict=True):
            _curves(ax, table[table.dataset.eq(dataset)], methods, x)
            ax.set_title(name)
            ax.set_xlabel(epsilon_label(runs, proven))
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
    proven: bool = False,
) -> Figure:
    """Draw test accuracy against epsilon on one data set, with one panel for each group of methods.

    Bars, and the bands of the references, are one standard deviation over repeats, as li2019 reports them.
    `proven` is as for `over_epsilon`.

    Parameters
    ----------
    runs : DataFrame
        Rows of `read.read_runs` on one data set.
    panels : Mapping of str to Sequence of str
        Panel title -> methods in the panel.
    mark : float
        Promised ε of a vertical line, > 0. An axis of proven ε has the line at the same value.
    mark_label : str
        Legend entry of that line.

    Raises
    ------
    ValueError
        `runs` has several data sets, or a method has no accuracy rows.
    """
    if len(names := runs.dataset.unique()) != 1:
        raise ValueError(f"the panels show one data set, found {list(names)}")
    methods = list(dict.fromkeys(method for group in panels.values() for method in group))
    table = require(summary(runs), methods)
    table = table.assign(low=table["mean"] - table.sd, high=table["mean"] + table.sd)
    x = "ln_epsilon_tight" if proven else "ln_epsilon"
    with style.settings():
        figure = Figure(figsize=(10.5, 4.9), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels), sharey=True, sharex=True))
        for ax, (name, group) in zip(axes, panels.items(), strict=True):
            _curves(ax, table, group, x)
            ax.axvline(np.log(mark), **VERTICAL)
            ax.set(title=name, xlabel=epsilon_label(runs, proven))
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
    proven: bool = False,
) -> Figure:
    """Draw one method at several values of one setting, with one panel for each data set.

    `proven` is as for `over_epsilon`.

    Parameters
    ----------
    runs : DataFrame
        Rows of `read.read_runs`.
    method : str
    setting : str
        Name of the setting in the column `variant`.
    values : Sequence of str
        Values of the setting. `style.LOOKS` has the look of each curve under "<method>:<value>".
    scaling : str
        Only runs with this scaling of the rows are drawn.
    panels : Mapping of str to str
        Data set -> title of its panel.
    """
    rows = runs[runs.method.eq(method) & runs.scaling.eq(scaling)].copy()
    rows["method"] = [f"{method}:{variant_settings(variant)[setting]}" for variant in rows.variant]
    rows["variant"] = ""
    names = [f"{method}:{value}" for value in values]
    return over_epsilon_by_dataset(rows, panels=panels, methods=names, title=title, proven=proven)


def panel_by_setting(
    runs: pd.DataFrame,
    *,
    setting: str,
    methods: Sequence[str],
    panels: Mapping[str, str],
    title: str = "",
    proven: bool = False,
) -> Figure:
    """Draw several methods on one data set, with one panel for each value of a setting.

    `proven` is as for `over_epsilon`.

    Parameters
    ----------
    runs : DataFrame
        Rows of `read.read_runs` on one data set.
    setting : str
        Name of the setting in the column `variant`.
    methods : Sequence of str
        Methods to draw in every panel.
    panels : Mapping of str to str
        Value of the setting -> title of its panel.
    """
    rows = runs.copy()
    rows["dataset"] = [variant_settings(variant)[setting] for variant in rows.variant]
    rows["variant"] = ""
    return over_epsilon_by_dataset(rows, panels=panels, methods=methods, title=title, proven=proven)


def _curves(ax: Axes, table: pd.DataFrame, methods: Sequence[str], x: str) -> None:
    """Draw the summary `table` of one data set against the column `x` (ln_epsilon or ln_epsilon_tight).

    Each method has narrower interval bars than the method drawn before it. Bars at the same x thus stay
    visible.
    """
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
    """Label an axis of ln epsilon: below with epsilon, and along the top with ln epsilon as in the papers."""
    ax.set_xlim(*ax.get_xlim())
    low, high = ax.get_xlim()
    inside = [e for e in TICKS if low <= np.log(e) <= high]
    if len(inside) > 7:
        inside = [e for e in inside if f"{e:e}".startswith("1")]
    ax.set_xticks(np.log(inside), [number(e) for e in inside])
    top = ax.secondary_xaxis("top")
    whole = MaxNLocator(7, integer=True).tick_values(low, high)
    free = high - 0.08 * (high - low)  # the label "ln ε" covers what is to the right of this
    top.set_xticks([value for value in whole if low <= value < free])
    top.tick_params(colors=style.GREY, length=2, labelsize=7)
    top.spines["top"].set_color(style.GREY)
    ax.text(1.0, 1.015, "ln ε", transform=ax.transAxes, color=style.GREY, fontsize=8, ha="right")


# Against hyperparameters

ADJACENCIES = {"replace_one": ("-", "replace-one"), "add_remove": ("--", "add/remove")}
CLIPPED_REFERENCES = ("sgld", "majority")
APART = 0.06  # shift between methods in ln(clip), so that their intervals do not overlap


def clipping(
    runs: pd.DataFrame,
    *,
    methods: Sequence[str],
    scalings: Mapping[str, str],
    title: str = "",
) -> Figure:
    """Draw test accuracy against the clip norm, as a grid of scalings (rows) and budgets (columns).

    A budget is a promised ε. The x axis is logarithmic. There is one curve for each method (colour) and each
    adjacency that the budget is meant for (line style). Non-private SGLD and the majority class are
    horizontal lines in the row of the scaling that they were run with.

    Parameters
    ----------
    runs : DataFrame
        Rows of `read.read_runs` on one data set. Variants of the methods are "clip=...;adjacency=...".
    methods : Sequence of str
        Methods to draw.
    scalings : Mapping of str to str
        Scaling -> description of what it does.

    Raises
    ------
    ValueError
        A method has no rows, or its variants do not name clip and adjacency.
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
    """Return the summary of `methods`, with columns clip and adjacency taken from the variants."""
    table = require(summary(runs[runs.method.isin(methods)]), methods)
    settings = [variant_settings(variant) for variant in table.variant]
    if any("clip" not in setting or "adjacency" not in setting for setting in settings):
        raise ValueError(f"variants must name clip and adjacency: {sorted(set(table.variant))}")
    clips, adjacencies = ([setting[key] for setting in settings] for key in ("clip", "adjacency"))
    return table.assign(clip=[float(clip) for clip in clips], adjacency=adjacencies)


def _over_clip(ax: Axes, panel: pd.DataFrame, methods: Sequence[str]) -> None:
    """Draw one panel of `clipping`."""
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
    """Draw test accuracy of OPS against the radius D of its ball, beside ObjPert with several ridges.

    The figure is a grid. Rows are pairs of data set and row scaling; columns are budgets. The x axis is
    logarithmic. OPS has one curve for each bound. ObjPert has one horizontal line with a band for each ridge.
    Both are for neighbours of the kind `adjacency`. For every other adjacency, ObjPert at its best ridge is
    one grey line.

    Markers below the curves show the radii at which some bound of OPS is significantly more accurate than ObjPert.
    Settings that are not trusted (`papers.statistics.trusted`) are drawn. They are never the best ridge and enter no
    comparison.

    Parameters
    ----------
    runs : DataFrame
        Rows of `read.read_runs`. Variants are "bound=...;radius=..." for OPS and "ridge=..." for ObjPert.
    bounds : Sequence of str
        Bounds of OPS to draw.
    datasets : Mapping of str to str
        Data set -> its name in the panel titles.
    adjacency : str
        "replace_one" or "add_remove".
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
    """Return the summary of the private runs with columns radius, ridge, bound and adjacency."""
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
    """Draw one panel of `sensitivity`, without the markers of `_mark_wins`."""
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
    """Mark the radii at which some bound of OPS is significantly more accurate than ObjPert.

    A filled mark means more accurate than the best ridge; a hollow mark means more accurate than at least one
    ridge.
    """
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
            if compare(difference(curves["ops", variant], curves["objpert", rival], "promised")).above
        }
        if beaten:
            face = "black" if rivals.iloc[0] in beaten else "white"
            place = ax.get_xaxis_transform()
            ax.plot(radius, 0.04, "^", ms=5, color="black", mfc=face, mew=0.8, transform=place, clip_on=False)


def _bound_look(bound: str) -> Look:
    """Return the look of OPS with one bound."""
    line, marker = BOUND_LINES[bound]
    return Look(f"OPS, bound: {bound}", look("ops").colour, marker, line, 4)


def _ridge_look(ridges: Sequence[float], ridge: float) -> Look:
    """Return the look of ObjPert with one ridge."""
    colour, line = RIDGE_LINES[list(ridges).index(ridge) % len(RIDGE_LINES)]
    return Look(f"ObjPert, ridge {number(ridge)}", colour, "", line)


# Checks and captions, from the runs


def require(table: pd.DataFrame, methods: Iterable[str], what: str = "accuracy rows") -> pd.DataFrame:
    """Return the table, after a check that it has rows of every method.

    Parameters
    ----------
    table : DataFrame
        Has a column `method`.
    methods : Iterable of str
        Methods that must be present.
    what : str
        What the rows are, for the error message.

    Raises
    ------
    ValueError
        A method has no rows. The message names all such methods.
    """
    if absent := [method for method in methods if method not in set(table.method)]:
        raise ValueError(f"no {what} for {absent}: list their runs under files in conf/exhibit")
    return table


def of_private(runs: pd.DataFrame, column: str) -> str:
    """Return the value of `column` in the private rows, as text.

    Several values are joined by " / ", so that a figure never hides a mixture.
    """
    values = runs[np.isfinite(runs.epsilon)][column].unique()
    return " / ".join(number(v) if isinstance(v, float) else str(v) for v in values)


def epsilon_label(runs: pd.DataFrame, proven: bool) -> str:
    """Return the label of the epsilon axis, with adjacency and δ of the runs if it shows the proven ε."""
    if not proven:
        return "privacy loss ε"
    adjacency = of_private(runs, "adjacency_proven").replace("_", "-")
    return f"tight ε ({adjacency}, δ = {of_private(runs, 'delta')})"


def caption(runs: pd.DataFrame, table: pd.DataFrame, spread: str = "95 % t-interval") -> str:
    """Return one line with the number of repeats, δ and the adjacency of the runs.

    Parameters
    ----------
    runs : DataFrame
        Rows of `read.read_runs`.
    table : DataFrame
        Summary of `runs` with the column `repeats`.
    spread : str
        What the bars show.
    """
    return (
        f"Mean and {spread} over {span(table.repeats)} repeats. δ = {of_private(runs, 'delta')} where the method uses "
        f"one, adjacency {of_private(runs, 'adjacency').replace('_', '-')}."
    )


def not_drawn(rows: pd.DataFrame, x: str) -> str:
    """Return a line that counts the points of each method that are not drawn, or "" if all are drawn.

    A logarithmic axis cannot show a point without a finite, positive epsilon.

    Parameters
    ----------
    rows : DataFrame
        Summary of the private methods.
    x : str
        Column of ln epsilon.
    """
    counts = rows[~np.isfinite(rows[x])].groupby("method", sort=False).size()
    listed = ", ".join(f"{look(str(method)).label} {n}" for method, n in counts.items())
    return f"\nPoints without a finite, positive tight ε are not drawn: {listed}." if listed else ""
