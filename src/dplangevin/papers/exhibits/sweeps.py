"""A sweep: one metric against the fields that an experiment varies (`vary:`), at fixed promised or proven ε.

The table has two kinds of rows. Rows on the axis "promised" are points as they were run, with their prices. Rows on the
axis "proven" are values at a given proven ε: each seed is interpolated linearly in ln ε between the budgets of the
point. The figure shows only numbers of that table. Means are over seeds, with a 95 % Student interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dplangevin.papers.exhibits.accuracy import of_private
from dplangevin.papers.exhibits.figures import lines
from dplangevin.papers.statistics import (
    NoCommonRange,
    curve,
    finite_interval,
    matches,
    read_off,
    variant_settings,
)
from dplangevin.reporting.words import look
from dplangevin.text import meant, number, numbers, short, span

POINT = ["experiment", "dataset", "scaling", "run", "method", "variant"]
COLUMNS = ["epsilon_promised", "epsilon_proven", "epsilon_attack"]
SHADES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#332288", "#56B4E9", "#8C510A")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
SHIFT = 0.05  # between lines, as a share of the distance between values
INTERVAL = {"x": "at", "y": "mean", "low": "low", "high": "high"}


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
    values of `x` stand at equal distances.
    """
    points = table(runs, metric=metric, epsilons=epsilons)
    x, hue, facets, without = _roles(points, x)
    points = points[~points.run.isin(without)]
    columns = list(_columns(points, epsilons))
    frame = pd.concat(
        [_at(points, kind, e).assign(column=name) for kind, e, name in columns], ignore_index=True
    )
    curves, levels = _marks(frame, x, hue)
    for i, mark in enumerate(curves):
        frame.loc[matches(frame, mark["where"]), "shift"] = i - (len(curves) - 1) / 2
    values = _distinct(frame[x])
    joined = all(isinstance(value, float) for value in values)
    values = sorted(values) if joined else values
    frame["at"] = frame[x].map({value: float(i) for i, value in enumerate(values)}) + SHIFT * frame["shift"]
    dots: list[dict[str, Any]] = [{**mark, "line": ""} for mark in curves]
    rows = _rows_of_panels(frame, facets)
    panels: list[dict[str, Any]] = [
        {"where": {**where, "column": column}, "title": f"{column}\n{name}".rstrip(), **INTERVAL}
        for where, name in rows
        for _, _, column in columns
    ]
    for panel in panels[:: len(columns)]:
        panel["ylabel"] = _label(metric)
    for panel in panels[-len(columns) :]:
        panel["xlabel"] = _label(x)
    text = f"Mean and 95 % t-interval over {span(points.repeats)} seeds; δ = {of_private(runs, 'delta')}."
    text += " At a proven ε: read off between the budgets of a point, linearly in ln ε."
    if without:
        text += f" Not drawn, since they vary other fields: {', '.join(without)}."
    if outside := set(epsilons) - {epsilon for kind, epsilon, _ in columns if kind == "proven"}:
        text += f" No point has budgets on both sides of a proven ε of {numbers(outside)}."
    return lines(
        frame,
        text=text,
        marks=[*(curves if joined else dots), *levels],
        panels=panels,
        axes=_x_axis(values),
        size=(4.0 * len(columns) + 0.6, 2.7 * len(rows) + 1.6),
        columns=len(columns),
        grid={"sharex": True, "sharey": "row"},
        title=f"{title}: {_label(x)}" + (f" and {_label(hue)}" if hue else ""),
    )


def _roles(points: pd.DataFrame, x: str | None) -> tuple[str, str, list[str], list[str]]:
    """Return the field on the x axis, that with colours or "", those with panels, and the runs that are not drawn."""
    names = list(points.columns)
    fields = {name: _distinct(points[name]) for name in names[len(POINT) - 1 : names.index("axis")]}
    if x and x not in fields:
        raise ValueError(f"x = {x!r} is not varied{meant(x, fields)}: there are {', '.join(fields)}")
    swept = [name for name, values in fields.items() if len(values) > 1] or [*fields]
    x = x or max(swept, key=lambda name: len(fields[name]))
    drawn = points[_has(points[x])]
    others = [name for name in swept if name != x and _has(drawn[name]).any()]
    without = [
        str(run)
        for run, rows in points.groupby("run", sort=False)
        if not _has(rows[x]).any() and any(rows[name].nunique() > 1 for name in swept if name not in others)
    ]
    hue = others.pop(0) if others and drawn.run.nunique() == 1 else ""
    return x, hue, ["dataset", "scaling", *others], without


def _marks(frame: pd.DataFrame, x: str, hue: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the marks of runs that have the field x, and of others, which are horizontal lines."""
    keys = ["run", hue] if hue else ["run"]
    looks = (
        dict(zip(_distinct(frame[hue]), itertools.cycle(zip(SHADES, MARKERS, strict=True)))) if hue else {}
    )
    dashes = itertools.cycle((":", "--", "-."))
    curves, levels = [], []
    for key, rows in frame.groupby(keys, sort=False, dropna=False):
        (run, *value), method = key, rows.method.iloc[0]
        mark: dict[str, Any] = {"where": dict(zip(keys, key, strict=True)), "method": method}
        mark["marker"] = look(method).marker or "o"
        names = [look(method).label if run == method else str(run)]
        if value and value[0] in looks:
            colour, marker = looks[value[0]]
            mark |= {"colour": colour, "marker": marker, "line": "-", "size": 5.5}
            names.append(f"{_label(hue)} = {_text(value[0])}")
        flat = not _has(rows[x]).any()
        label = ", ".join(names if flat else names[-1:])
        mark["label"] = label if np.isfinite(rows["mean"]).any() else ""
        if flat:
            levels.append({**mark, "level": True, "line": next(dashes)})
        else:
            curves.append(mark)
    return curves, levels


def _x_axis(values: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of `Axes.set` for an x axis with these values at equal distances."""
    step = 1 + len(values) // 12  # more names would overlap
    names = [_text(value) for value in values]
    long = sum(map(len, names)) > 36
    names = ["\n" * (long * i % 2) + name for i, name in enumerate(names)]  # long names stand in two lines
    ticks = {"xticks": range(0, len(names), step), "xticklabels": names[::step]}
    return {**ticks, "xlim": (-0.5, len(names) - 0.5)}


def _rows_of_panels(frame: pd.DataFrame, facets: Sequence[str]) -> list[tuple[dict[str, Any], str]]:
    """Return the rows of the frame that each row of panels shows, and its title.

    A run that lacks a field of the panels is in all of them.
    """
    values = {name: _distinct(frame[name]) for name in facets}
    found = []
    for panel in itertools.product(*values.values()):
        of = dict(zip(facets, panel, strict=True))
        where = {name: [value, "", math.nan] for name, value in of.items()}
        if matches(frame, where).any():
            differing = [name for name in ("dataset", "scaling") if len(values[name]) > 1]
            words = [f"{_label(name)} {_text(value)}" for name, value in of.items() if name not in POINT]
            found.append((where, ", ".join([*(f"{name} {of[name]}" for name in differing), *words])))
    return found


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
