"""A sweep: one metric against the fields that an experiment varies (`vary:`), at fixed promised or proven ε.

Rows on the axis "promised" are points as they were run. Rows on the axis "proven" are interpolated linearly in ln ε.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dplangevin.checks import require
from dplangevin.papers.exhibits.figures import lines
from dplangevin.papers.statistics import NoCommonRange, curve, finite_interval, read_off, variant_settings
from dplangevin.reporting.words import look
from dplangevin.text import meant, number, numbers, short, span

POINT = ["experiment", "dataset", "scaling", "run", "method", "variant"]
COLUMNS = ["epsilon_promised", "epsilon_proven", "epsilon_attack"]
SHADES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#332288", "#56B4E9", "#8C510A")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
INTERVAL = {"x": "at", "y": "mean", "low": "low", "high": "high"}


def table(
    runs: pd.DataFrame, *, metric: str = "accuracy", epsilons: Sequence[float] = (1.0,)
) -> pd.DataFrame:
    """Return a row for every point of the sweep, at its budgets and at those `epsilons` that its proven ε reach."""
    rows = runs[runs.metric.eq(metric)]
    known = sorted(set(runs.metric))
    there = f"{meant(metric, known)}: there are {', '.join(known)}"
    require(not rows.empty, f"the sweep has no metric {metric!r}{there}")
    rows_of_points, fields = [], dict[str, None]()
    for values, group in rows.groupby(POINT, sort=False):
        settings = variant_settings(str(values[-1]))
        fields |= dict.fromkeys(settings)
        point = {**dict(zip(POINT, values, strict=True)), **settings}
        rows_of_points += [{**point, **row} for row in [*_promised(group), *_proven(group, epsilons)]]
    require(bool(fields), "nothing is varied: write `vary` in the experiment (docs/pipeline.md)")
    out = pd.DataFrame(rows_of_points)
    for name in fields:  # numbers if all its values are, else texts; nan or "" where a run lacks it
        try:
            out[name] = out[name].astype(float)
        except ValueError:
            out[name] = out[name].fillna("")
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
        around = [away[away <= 0].max(), away[away >= 0].min()]
        notes = "; ".join(filter(None, dict.fromkeys(usable.violated[away.isin(around)])))
        prices = {"epsilon_promised": promised, "epsilon_proven": epsilon, "epsilon_attack": math.nan}
        yield {"axis": "proven", **prices, **_interval(values), "violated": notes}


def _interval(values: pd.Series) -> dict[str, Any]:
    finite = values[np.isfinite(values)]
    counts = {"repeats": len(finite), "diverged": len(values) - len(finite)}
    return {**finite_interval(values)._asdict(), "sd": float(finite.std(ddof=1)), **counts}


def figure(
    runs: pd.DataFrame,
    *,
    metric: str = "accuracy",
    epsilons: Sequence[float] = (1.0,),
    x: str | None = None,
    title: str = "",
) -> Figure:
    """Draw the metric against a varied field `x`, by default that with the most values, with a panel for each fixed ε.

    Each run has a line for each setting of its other fields, across the panel if it lacks the field `x`.
    """
    points = table(runs, metric=metric, epsilons=epsilons)
    names = [str(name) for name in points]
    fields = names[len(POINT) - 1 : names.index("axis")]
    x = x or max(fields, key=lambda name: points[name][_has(points[name])].nunique())
    require(x in fields, f"x = {x!r} is not varied{meant(x, fields)}: there are {', '.join(fields)}")
    values = [*points[x][_has(points[x])].unique()]
    joined = all(isinstance(value, float) for value in values)
    values = sorted(values) if joined else values
    columns = [*_columns(points, epsilons)]
    frame = pd.concat([rows.assign(column=name) for name, rows in columns])
    frame["at"] = frame[x].map({value: float(i) for i, value in enumerate(values)})
    differing = [name for name in ["dataset", "scaling", *fields] if name != x and points[name].nunique() > 1]
    deltas = " / ".join(map(number, runs.delta[np.isfinite(runs.epsilon)].unique()))
    text = f"Mean and 95 % t-interval over {span(points.repeats)} seeds; δ = {deltas}."
    text += f" Data: {', '.join(points.dataset.unique())}."
    text += " At a proven ε: read off between the budgets of a point, linearly in ln ε."
    if outside := set(epsilons) - {*points.epsilon_proven[points.axis.eq("proven")]}:
        text += f" No point has budgets on both sides of a proven ε of {numbers(outside)}."
    ticks = {
        "xticks": range(len(values)),
        "xticklabels": [*map(_text, values)],
        "xlim": (-0.5, len(values) - 0.5),
    }
    return lines(
        frame,
        text=text,
        marks=[*_marks(frame, x, differing, "-" if joined else "")],
        panels=[{"where": {"column": name}, "title": name, "xlabel": _label(x)} for name, _ in columns],
        axes={**INTERVAL, **ticks, "ylabel": _label(metric)},
        size=(4.0 * len(columns) + 0.6, 4.3),
        columns=len(columns),
        grid={"sharey": True},
        title=f"{title}: {' and '.join(map(_label, [x, *differing]))}",
    )


def _marks(frame: pd.DataFrame, x: str, differing: Sequence[str], line: str) -> Iterator[dict[str, Any]]:
    """Yield a mark for each run and setting of its `differing` fields; a run without the field `x` is a level."""
    looks = itertools.cycle(zip(SHADES, MARKERS, itertools.cycle(("--", ":", "-."))))
    for key, rows in frame.groupby(["run", *differing], sort=False, dropna=False):
        of = dict(zip(["run", *differing], key, strict=True))
        known = rows[[name for name in differing if _has(rows[name]).all()]].iloc[0]
        run, method = of["run"], rows.method.iloc[0]
        names = [look(method).label if run == method else str(run)]
        names += [f"{_label(str(name))} = {_text(value)}" for name, value in known.items()]
        (colour, marker, dashes), flat = next(looks), not _has(rows[x]).any()
        own = {"level": True, "line": dashes} if flat else {"marker": marker, "line": line}
        drawn = np.isfinite(rows["mean"]).any()
        yield {"where": of, "colour": colour, "size": 5.5, "label": ", ".join(names) if drawn else "", **own}


def _columns(points: pd.DataFrame, epsilons: Sequence[float]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield title and rows of each panel; the middle budget has one if no promised ε is in `epsilons`."""
    asked = points.axis.eq("promised")
    free = asked & np.isinf(points.epsilon_promised)
    promised = sorted(points.epsilon_promised[asked & ~free].unique())
    for epsilon in [e for e in epsilons if e in promised] or promised[len(promised) // 2 :][:1] or [math.inf]:
        title = f"promised ε = {number(epsilon)}" if promised else "no privacy"
        yield title, points[(asked & points.epsilon_promised.eq(epsilon)) | free]
    for epsilon in epsilons:
        here = ~asked & points.epsilon_proven.eq(epsilon)
        if here.any():
            yield f"proven ε = {number(epsilon)}", points[here | free]


def _has(values: Any) -> Any:
    """Return a mask of the rows whose run has the field."""
    return values.notna() & values.ne("")


def _label(name: str) -> str:
    return name.removeprefix("dataset.").removeprefix("problem.").replace("_", " ")


def _text(value: Any) -> str:
    return short(value) if isinstance(value, float) else str(value)
