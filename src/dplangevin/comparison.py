"""Paired comparisons of two methods' accuracies, budget by budget and over all budgets.

Two methods share data splits and test points within a repeat, so their accuracies are compared by the paired
difference `d[r, b] = accuracy_first[r, b] - accuracy_second[r, b]` (repeat r, budget b), averaged over
budgets within each repeat, with a Student interval over repeats. Budgets are either what was asked of the
mechanism (`axis="asked"`) or what the tight accountant finds it to cost (`axis="audited"`), where the
methods' points differ and each repeat's accuracy is interpolated linearly in ln epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

AXES = ("asked", "audited")
NEAR = 5e-3  # in ln epsilon: how far outside a curve it is still read off, at its end


class NoCommonRange(ValueError):
    """Two methods have no budget, or no range of audited epsilon, in common."""


class Interval(NamedTuple):
    """A mean (accuracy, unitless) with its confidence limits; the limits are nan for a single repeat."""

    mean: float
    low: float
    high: float


class Comparison(NamedTuple):
    """Interval of the mean paired difference, and the points where the difference alone is significantly
    above or below the bar."""

    interval: Interval
    above: list[float]
    below: list[float]
    points: int
    repeats: int


def t_interval(values: np.ndarray | pd.Series, level: float = 0.95) -> Interval:
    """Student interval `mean +- t_{(1+level)/2, n-1} s / sqrt(n)` over independent repeats. values: (n,),
    finite.

    Raises ValueError for no values or values that are not finite.
    """
    array = np.asarray(values, dtype=float)
    if array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"an interval needs finite values, found {array.tolist()}: check the run file")
    mean = float(array.mean())
    if array.size == 1:
        return Interval(mean, float("nan"), float("nan"))
    half = float(stats.t.ppf((1 + level) / 2, array.size - 1) * array.std(ddof=1) / np.sqrt(array.size))
    return Interval(mean, mean - half, mean + half)


def select(
    runs: pd.DataFrame,
    dataset: str,
    method: str,
    experiment: str,
    metric: str = "accuracy",
    variant: str = "",
) -> pd.DataFrame:
    """The rows of one metric of one method on one data set; of the `variant`, if the method was run in it.

    Raises ValueError when there are none.
    """
    keep = (
        runs.metric.eq(metric)
        & runs.dataset.eq(dataset)
        & runs.method.eq(method)
        & runs.experiment.eq(experiment)
    )
    if not keep.any():
        raise ValueError(
            f"no {metric} of {method!r} on {dataset!r} in {experiment!r}: name the run in conf/claim"
        )
    rows = runs[keep]
    return rows[rows.variant.eq(variant)] if variant and rows.variant.eq(variant).any() else rows


def curve(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Accuracy by repeat (rows) and ln epsilon (columns, ascending) on one axis; points with epsilon 0 or
    infinite are left out.

    A non-private method has only infinite budgets: its single column is labelled inf and holds at every
    budget. Raises ValueError for an unknown axis, or rows of more than one variant or scaling.
    """
    if axis not in AXES:
        raise ValueError(f"axis {axis!r} is unknown: use one of {AXES}")
    kinds = rows[["variant", "scaling"]].drop_duplicates()
    if len(kinds) > 1:
        raise ValueError(f"one curve needs one variant and scaling, found {kinds.to_dict('records')}")
    wide = rows.pivot(index="repeat", columns="epsilon", values="value")
    if np.isinf(wide.columns).all():
        return wide
    if axis == "audited":
        wide.columns = wide.columns.map(rows.groupby("epsilon").epsilon_tight.max().to_dict())
        wide = wide.T.groupby(level=0).mean().T
    epsilons = wide.columns.to_numpy(float)
    keep = (epsilons > 0) & np.isfinite(epsilons)
    wide = wide.loc[:, keep]
    wide.columns = pd.Index(np.log(epsilons[keep]).round(12))
    return wide.sort_index(axis=1)


def read_off(table: pd.DataFrame, epsilon: float) -> pd.Series:
    """Values by repeat at one epsilon > 0, interpolated linearly in ln epsilon; table: as from `curve`.

    Raises NoCommonRange where the curve ends below or begins above it, or has no point.
    """
    if table.shape[1] == 0:
        raise NoCommonRange("no point has a finite, positive audited epsilon")
    x, point = table.columns.to_numpy(float), np.log(epsilon)
    if not np.isinf(x).all() and not x.min() - NEAR <= point <= x.max() + NEAR:
        raise NoCommonRange(f"{epsilon:g} is outside [{np.exp(x.min()):.3g}, {np.exp(x.max()):.3g}]")
    return _on(table, np.array([point])).iloc[:, 0]


def paired_p(first: pd.Series, second: pd.Series) -> float:
    """Two-sided p-value of the paired t-test over repeats; 1 for equal values, nan for a single repeat."""
    gap = (first - second).dropna().to_numpy(float)
    if len(gap) < 2:
        return float("nan")
    if gap.std(ddof=1) == 0:
        return float(gap[0] == 0)
    return float(2 * stats.t.sf(abs(gap.mean()) / (gap.std(ddof=1) / np.sqrt(len(gap))), len(gap) - 1))


def holm(p: Sequence[float]) -> np.ndarray:
    """p-values adjusted for their number (Holm 1979): those <= a are significant with a family-wise error of a."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values)
    adjusted = np.empty(len(values))
    adjusted[order] = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return np.minimum(adjusted, 1.0)


def _on(table: pd.DataFrame, points: np.ndarray) -> pd.DataFrame:
    if np.isinf(table.columns).all():
        values = np.repeat(table.to_numpy(), len(points), axis=1)
    else:
        values = np.array([np.interp(points, table.columns.to_numpy(float), row) for row in table.to_numpy()])
    return pd.DataFrame(values, index=table.index, columns=points)


def difference(first: pd.DataFrame, second: pd.DataFrame, axis: str, factor: float = 1.0) -> pd.DataFrame:
    """Paired difference first - second, by repeat (rows) and ln epsilon of `first` (columns).

    first, second: accuracy rows as from `select`. factor: the second method is read off at factor * epsilon.
    On the asked axis with factor 1 only shared budgets count; otherwise the second (and on the audited axis
    also the first) curve is interpolated linearly in ln epsilon at every point of either curve inside the
    range they share. Raises NoCommonRange when they share none, ValueError when the repeats differ.
    """
    one, two = curve(first, axis), curve(second, axis)
    if not one.index.equals(two.index):
        raise ValueError(
            f"repeats differ, {one.index.tolist()} against {two.index.tolist()}: "
            "run both methods with the same repeats"
        )
    reference = [np.isinf(table.columns).all() for table in (one, two)]
    if not reference[1]:
        two.columns = (two.columns - np.log(factor)).round(12)
    if all(reference):
        raise NoCommonRange("neither method has a finite budget")
    if one.shape[1] == 0 or two.shape[1] == 0:
        raise NoCommonRange("one method has no point with a finite, positive audited epsilon")
    if any(reference):
        points = (two if reference[0] else one).columns.to_numpy(float)
    elif axis == "asked" and factor == 1.0:
        points = one.columns.intersection(two.columns).to_numpy(float)
    else:
        both = (one.columns.union(two.columns) if axis == "audited" else one.columns).to_numpy(float)
        low, high = max(one.columns.min(), two.columns.min()), min(one.columns.max(), two.columns.max())
        points = both[(both >= low) & (both <= high)]
    if len(points) == 0:
        ranges = [f"[{np.exp(t.columns.min()):.3g}, {np.exp(t.columns.max()):.3g}]" for t in (one, two)]
        raise NoCommonRange(f"the ranges of epsilon {ranges[0]} and {ranges[1]} share no point")
    gap = (_on(one, points) - _on(two, points)).dropna(axis=1, how="all")
    if gap.shape[1] == 0:
        raise NoCommonRange("every chain has diverged at every point")
    return gap


def compare(gap: pd.DataFrame, bar: float = 0.0, level: float = 0.95) -> Comparison:
    """Compare a paired difference (repeats x points) with `bar`: its mean over points, and each point by its
    own 95 % interval. Without the repeats in which a chain has diverged (nan)."""
    each = [t_interval(gap[point].dropna()) for point in gap.columns]
    epsilons = [float(np.exp(point)) for point in gap.columns]
    above = [e for e, i in zip(epsilons, each, strict=True) if i.low > bar]
    below = [e for e, i in zip(epsilons, each, strict=True) if i.high < bar]
    return Comparison(t_interval(gap.mean(axis=1).dropna(), level), above, below, gap.shape[1], gap.shape[0])
