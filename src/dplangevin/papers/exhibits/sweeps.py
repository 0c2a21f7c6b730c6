"""A sweep: one metric against the fields that an experiment varies (`vary:`), at fixed promised or proven ε.

The table has two kinds of rows. Rows on the axis "promised" are points as they were run, with their prices. Rows on the
axis "proven" are values at a given proven ε: each seed is interpolated linearly in ln ε between the budgets of the
point. The figure shows only numbers of that table. Means are over seeds, with a 95 % Student interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from dplangevin.papers.exhibits.accuracy import of_private
from dplangevin.papers.statistics import NoCommonRange, curve, finite_interval, read_off, variant_settings
from dplangevin.reporting import style
from dplangevin.reporting.style import entry, hollow_entries, lay_out
from dplangevin.reporting.words import PRICES, Look, look
from dplangevin.text import meant, number, numbers, short, span

POINT = ["experiment", "dataset", "scaling", "run", "method", "variant"]
COLUMNS = ["epsilon_promised", "epsilon_proven", "epsilon_attack"]
SHADES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#332288", "#56B4E9", "#8C510A")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
LINE_SHIFT = 0.008  # between lines, as a share of the width of the axis
OTHER = {"promised": "epsilon_proven", "proven": "epsilon_promised"}
ATTACK: dict[str, Any] = {**PRICES["attack"].shape, "zorder": 5}
SAME: dict[str, Any] = {"color": style.GREY, "ls": "--", "lw": 0.9, "zorder": 1}
LOG = 8.0  # largest over smallest positive value at which an axis becomes logarithmic


def table(
    runs: pd.DataFrame, *, metric: str = "accuracy", epsilons: Sequence[float] = (1.0,)
) -> pd.DataFrame:
    """Return a row for every point of the sweep, at its budgets and at those `epsilons` that its proven ε reach."""
    rows = runs[runs.metric.eq(metric)]
    if rows.empty:
        known = sorted(set(runs.metric))
        near = meant(metric, known)
        raise ValueError(f"the sweep has no metric {metric!r}{near}: there are {', '.join(known)}")
    rows_of_points, fields = [], dict[str, None]()
    for values, group in rows.groupby(POINT, sort=False):
        settings = variant_settings(str(values[-1]))
        fields |= dict.fromkeys(settings)
        point = {**dict(zip(POINT, values, strict=True)), **settings}
        rows_of_points += [{**point, **row} for row in [*_promised(group), *_proven(group, epsilons)]]
    if not fields:
        raise ValueError("nothing is varied: write `vary` in the experiment (docs/pipeline.md)")
    out = pd.DataFrame(rows_of_points)
    for name in fields:
        out[name] = _typed(out[name])
    last = ["axis", *COLUMNS, "metric", "mean", "sd", "low", "high", "repeats", "diverged", "violated"]
    return out.assign(metric=metric)[[*POINT[:-1], *fields, *last]]


def _promised(group: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for epsilon, rows in group.groupby("epsilon", sort=True):
        first = rows.iloc[0]
        prices = {"epsilon_promised": epsilon, **{name: first[name] for name in COLUMNS[1:]}}
        yield {"axis": "promised", **prices, **_interval(rows.value), "violated": first.violated}


def _proven(group: pd.DataFrame, epsilons: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield a row for each of `epsilons` inside the range of the proven ε; a run without privacy has none."""
    if np.isinf(group.epsilon).all():
        return
    by_price, first = curve(group, "proven"), group.drop_duplicates("epsilon")
    for epsilon in epsilons:
        try:
            values = read_off(by_price, epsilon)
        except NoCommonRange:
            continue
        usable = first[first.epsilon_proven.gt(0) & np.isfinite(first.epsilon_proven)]
        usable = usable.sort_values("epsilon_proven")
        away = np.log(usable.epsilon_proven / epsilon)
        promised = math.exp(np.interp(0.0, away, np.log(usable.epsilon)))
        around = [away[away <= 0].max() if (away <= 0).any() else away.min()]
        around += [away[away >= 0].min() if (away >= 0).any() else away.max()]
        notes = "; ".join(filter(None, dict.fromkeys(usable.violated[away.isin(around)])))
        prices = {"epsilon_promised": promised, "epsilon_proven": epsilon, "epsilon_attack": math.nan}
        yield {"axis": "proven", **prices, **_interval(values), "violated": notes}


def _interval(values: pd.Series) -> dict[str, Any]:
    """Return mean, 95 % interval, sd and counts of the finite values."""
    finite = values[np.isfinite(values)]
    counts = {"repeats": len(finite), "diverged": len(values) - len(finite)}
    return {**finite_interval(values)._asdict(), "sd": float(finite.std(ddof=1)), **counts}


def _typed(values: pd.Series) -> pd.Series:
    """Return a varied field as numbers if all its values are, else as text; nan or "" where a run lacks it."""
    try:
        return values.astype(float)
    except ValueError:
        return values.fillna("")


class _Layout:
    """The roles of the varied fields: one is on the x axis, one may have colours, the others have rows of panels."""

    def __init__(self, points: pd.DataFrame, x: str | None) -> None:
        self.points, names = points, list(points.columns)
        fields = {name: _distinct(points[name]) for name in names[len(POINT) - 1 : names.index("axis")]}
        swept = {name: values for name, values in fields.items() if len(values) > 1} or fields
        self.x = x or max(swept, key=lambda name: len(swept[name]))
        if self.x not in fields:
            raise ValueError(f"x = {x!r} is not varied{meant(self.x, fields)}: there are {', '.join(fields)}")
        drawn = points[_has(points[self.x])]
        others = [name for name in swept if name != self.x and _has(drawn[name]).any()]
        one = drawn.run.nunique() == 1
        self.hue = others[0] if one and others else None
        self.facets = ["dataset", "scaling", *(name for name in others if name != self.hue)]
        products = itertools.product(*(_distinct(points[name]) for name in self.facets))
        panels = [dict(zip(self.facets, values, strict=True)) for values in products]
        self.panels = [panel for panel in panels if len(self.of(panel))]
        self.values = fields[self.x]
        self.colours = dict(zip(_distinct(points[self.hue]), itertools.cycle(SHADES))) if self.hue else {}
        self.without: list[str] = []  # runs that are not drawn, because they vary other fields
        flat: list[str] = []
        for run, rows in points.groupby("run", sort=False):
            if not _has(rows[self.x]).any():
                varied = any(rows[name].nunique() > 1 for name in swept if name not in others)
                (self.without if varied else flat).append(str(run))
        self.dashes = dict(zip(flat, itertools.cycle((":", "--", "-."))))

    def of(self, panel: Mapping[str, Any]) -> pd.DataFrame:
        """Return the points of a panel. A run that lacks a field of the panels is in all of them."""
        keep = pd.Series(True, index=self.points.index)
        for name, value in panel.items():
            keep &= self.points[name].eq(value) | ~_has(self.points[name])
        return self.points[keep]

    def name(self, panel: Mapping[str, Any]) -> str:
        """Return the title of a panel: the values by which it differs from the other panels."""
        words = [f"{_label(name)} {_text(value)}" for name, value in panel.items() if name not in POINT]
        differing = [n for n in ("dataset", "scaling") if len({each[n] for each in self.panels}) > 1]
        return ", ".join([*(f"{name} {panel[name]}" for name in differing), *words])

    def lines(self, rows: pd.DataFrame) -> Iterator[tuple[Look, pd.DataFrame, float]]:
        """Yield look, rows and offset (in distances between lines) of the lines of a panel.

        A run that lacks the field x is a horizontal line, with offset 0.
        """
        keys = ["run", *([self.hue] if self.hue else [])]
        groups = [(key, line) for key, line in rows.groupby(keys, sort=False, dropna=False)]
        curves = [key for key, line in groups if _has(line[self.x]).any()]
        for key, line in groups:
            (run, *value), method = key, line.method.iloc[0]
            of = look(method) if run == method else look(method)._replace(label=str(run))
            if value and value[0] in self.colours:
                name = f"{_label(self.hue or '')} = {_text(value[0])}"
                marker = MARKERS[list(self.colours).index(value[0]) % len(MARKERS)]
                of = Look(name, self.colours[value[0]], marker, "-", 5.5)
            shift = curves.index(key) - (len(curves) - 1) / 2 if key in curves else 0.0
            yield of._replace(line=self.dashes.get(str(run), of.line)), line, shift

    def entries(self) -> list[Line2D]:
        """Return the legend entries."""
        looks = {of.label: of for of, line, _ in self.lines(self.points) if _has(line[self.x]).any()}
        handles = [entry(of) for of in looks.values()]
        for run, dash in self.dashes.items():
            of = look(self.points.method[self.points.run.eq(run)].iloc[0])
            colour = style.GREY if self.hue else of.colour
            handles.append(Line2D([], [], color=colour, ls=dash, label=of.label))
        return handles


def figure(
    runs: pd.DataFrame,
    *,
    metric: str = "accuracy",
    epsilons: Sequence[float] = (1.0,),
    x: str | None = None,
    title: str = "",
) -> Figure:
    """Draw the metric against a varied field `x`, by default that with the most values, at fixed ε (columns).

    Each run with the field is a line, or of one run each value of a second field. Other fields have rows of panels. The
    last row has the other ε of the points above.
    """
    points = table(runs, metric=metric, epsilons=epsilons)
    layout, columns = _Layout(points, x), list(_columns(points, epsilons))
    axis = _Axis(layout.values)
    with style.settings():
        heights = [1.0] * len(layout.panels) + [0.6]
        size = (4.0 * len(columns) + 0.6, 2.7 * len(layout.panels) + 3.0)
        drawing = Figure(figsize=size, layout="constrained")
        shape: dict[str, Any] = {"squeeze": False, "sharex": True, "sharey": "row", "height_ratios": heights}
        axes = drawing.subplots(len(heights), len(columns), **shape)
        for row, panel in zip(axes, layout.panels, strict=False):
            for ax, (kind, epsilon, name) in zip(row, columns, strict=True):
                here = _at(layout.of(panel), kind, epsilon)
                for of, line, shift in layout.lines(here):
                    if _has(line[layout.x]).any():
                        at = axis.place(line[layout.x], shift)
                        _draw(ax, at, line["mean"], line, of, joined=axis.names is None)
                    elif line.run.iloc[0] not in layout.without:
                        interval = line[["mean", "low", "high"]].to_numpy(float)[0]
                        style.reference_line(ax, interval[[0, 0, 0]] if layout.hue else interval, of)
                ax.set_title("\n".join(filter(None, [name, layout.name(panel)])))
            row[0].set_ylabel(metric.replace("_", " "))
        for ax, (kind, epsilon, _) in zip(axes[-1], columns, strict=True):
            for of, line, shift in layout.lines(_at(points, kind, epsilon)):
                line = line[_has(line[layout.x])]
                at, other = axis.place(line[layout.x], shift), OTHER[kind]
                rows = line.assign(**{other: line[other].where(line[other].gt(0) & np.isfinite(line[other]))})
                joined = axis.names is None and len(layout.panels) == 1
                _draw(ax, at, rows[other], rows.drop(columns=["low", "high"]), of._replace(size=4), joined)
                ax.plot(at, line.epsilon_attack, **ATTACK)
            ax.axhline(epsilon, **SAME)
            ax.set_title("their proven ε" if kind == "promised" else "their promised ε", fontsize=8.5)
            ax.set_xlabel(_label(layout.x))
        axes[-1][0].set_yscale("log")
        axes[-1][0].set_ylabel("ε")
        _epsilon_ticks(axes[-1][0])
        for ax in axes.flat:
            axis.apply(ax)
        handles = [*layout.entries(), Line2D([], [], **SAME, label="the ε of the panel above")]
        if points.epsilon_attack.notna().any():
            handles.append(Line2D([], [], **ATTACK, label="shown by an attack: at least"))
        handles += hollow_entries(points.violated)
        text = f"Mean and 95 % t-interval over {span(points.repeats)} seeds; δ = {of_private(runs, 'delta')}."
        text += " At a proven ε: read off between the budgets of a point, linearly in ln ε."
        if layout.without:
            text += f" Not drawn, since they vary other fields: {', '.join(layout.without)}."
        if outside := set(epsilons) - {epsilon for kind, epsilon, _ in columns if kind == "proven"}:
            text += f" No point has budgets on both sides of a proven ε of {numbers(outside)}."
        name = f"{title}: {_label(layout.x)}" + (f" and {_label(layout.hue)}" if layout.hue else "")
        return lay_out(drawing, name, text, handles)


def _draw(ax: Axes, at: pd.Series, y: pd.Series, rows: pd.DataFrame, of: Look, joined: bool) -> None:
    """Draw points with their intervals if `rows` have any; `joined` adds a line through them."""
    order = at[y.notna()].sort_values().index
    at, y, rows = at[order], y[order], rows.loc[order]
    if joined:
        ax.plot(at, y, color=of.colour, ls=of.line, zorder=3)
    elif not of.marker:
        of = of._replace(marker="o")
    if "low" in rows:
        ax.vlines(at, rows.low, rows.high, color=style.tint(of.colour), lw=2.2, zorder=2)
    style.markers(ax, at, y, rows.violated, of)


def _epsilon_ticks(ax: Axes) -> None:
    """Set the ticks of a y axis of epsilon, and extend it to a factor of at least 5."""
    low, high = ax.get_ylim()
    more = max(1.15, math.sqrt(5 * low / high))
    low, high = low / more, high * more
    ax.set_ylim(low, high)
    inside = [value for value in style.EPSILON_TICKS if low <= value <= high]
    if len(inside) > 5:
        inside = [value for value in inside if f"{value:e}".startswith("1")]
    ax.set_yticks(inside, [number(value) for value in inside])
    ax.yaxis.set_minor_locator(NullLocator())


class _Axis:
    """The x axis of the figure: positions of the values of the varied field, scale, limits and ticks."""

    def __init__(self, values: Sequence[Any]) -> None:
        numeric = all(isinstance(value, float) for value in values)
        self.names = None if numeric else [str(value) for value in values]
        self.values: list[Any] = sorted(values) if numeric else list(values)
        low, high = (self.values[0], self.values[-1]) if numeric else (0.0, 0.0)
        self.log = low > 0 and high / low >= LOG
        scaling: Any = (np.log, np.exp) if self.log else (np.asarray, np.asarray)
        self.to, self.back = scaling
        self.low, self.high = self.to(low), self.to(high)

    def place(self, values: pd.Series, shift: float) -> pd.Series:
        """Return positions, moved by `shift` distances between lines so that their intervals do not overlap."""
        if self.names is not None:
            return values.map({value: i + 0.08 * shift for i, value in enumerate(self.values)}).astype(float)
        moved = self.to(values.astype(float)) + LINE_SHIFT * shift * (self.high - self.low)
        return pd.Series(self.back(moved), index=values.index)

    def apply(self, ax: Axes) -> None:
        """Set scale, limits and ticks of the axis."""
        if self.names is not None:
            long = sum(map(len, self.names)) > 36
            turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if long else {}
            ax.set_xticks(range(len(self.names)), self.names, **turned)
            ax.set_xlim(-0.5, len(self.names) - 0.5)
            return
        width, shown = self.high - self.low, self.values[:1]
        for value in self.values[1:]:
            if self.to(value) - self.to(shown[-1]) >= 0.09 * width:  # closer labels would overlap
                shown.append(value)
        room = 0.05 * width or 0.5
        if self.log:
            ax.set_xscale("log")
        ax.set_xlim(self.back(self.low - room), self.back(self.high + room))
        ax.set_xticks(shown, [short(value) for value in shown])
        ax.xaxis.set_minor_locator(NullLocator())


def _columns(points: pd.DataFrame, epsilons: Sequence[float]) -> Iterator[tuple[str, float, str]]:
    """Yield axis, epsilon and title of each column; the middle budget has one if no promised ε is in `epsilons`."""
    budgets = points.epsilon_promised[points.axis.eq("promised") & np.isfinite(points.epsilon_promised)]
    promised = sorted(budgets.unique())
    for epsilon in [e for e in epsilons if e in promised] or promised[len(promised) // 2 :][:1] or [math.inf]:
        yield "promised", epsilon, f"promised ε = {number(epsilon)}" if promised else "no privacy"
    for epsilon in epsilons:
        if (points.axis.eq("proven") & points.epsilon_proven.eq(epsilon)).any():
            yield "proven", epsilon, f"proven ε = {number(epsilon)}"


def _at(points: pd.DataFrame, kind: str, epsilon: float) -> pd.DataFrame:
    free = points.axis.eq("promised") & np.isinf(points.epsilon_promised)
    return points[(points.axis.eq(kind) & points[f"epsilon_{kind}"].eq(epsilon)) | free]


def _has(values: pd.Series) -> pd.Series:
    """Return a mask of the rows whose run has the field."""
    return values.notna() & values.ne("")


def _distinct(values: pd.Series) -> list[Any]:
    """Return the distinct values of a field, or [""] if no run has it."""
    return list(values[_has(values)].unique()) or [""]


def _label(name: str) -> str:
    """Return the name of a field as words, without the prefix "dataset." or "problem."."""
    return name.removeprefix("dataset.").removeprefix("problem.").replace("_", " ")


def _text(value: Any) -> str:
    return short(value) if isinstance(value, float) else str(value)
