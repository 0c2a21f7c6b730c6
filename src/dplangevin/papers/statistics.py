"""Every statistic behind the exhibits and the claims.

On convex problems methods are compared by the paired difference at each repeat and budget, averaged over budgets, with
a Student interval over repeats. Networks are compared by Welch (1947), or within each seed where runs share its noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtr, stdtrit

LEVEL = 0.95  # confidence level of every interval, unless another is given
AXES = ("promised", "proven")
NEAR = 5e-3  # in ln epsilon: up to this far outside a curve, the value at its end is used
MAJORITY = "majority_accuracy"
SUMMARY_COLUMNS = [
    "dataset", "method", "variant", "scaling", "epsilon", "ln_epsilon", "epsilon_promised", "epsilon_proven",
    "ln_epsilon_proven", "mean", "sd", "low", "high", "repeats", "diverged",
    "violated",
]  # fmt: skip


class NoCommonRange(ValueError):
    """The error that two methods share no budget, or no range of proven ε."""


class Interval(NamedTuple):
    """A mean with its confidence limits, which are nan for a single value."""

    mean: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Interval:
        return cls(*[float(value)] * 3)

    def columns(self) -> dict[str, float]:
        return {"value": self.mean, "low": self.low, "high": self.high}


class Comparison(NamedTuple):
    """A paired difference compared with a threshold."""

    interval: Interval  # of the mean difference over points
    above: list[float]  # ε at which the difference alone is significantly above the threshold, by Holm
    below: list[float]
    points: int  # number of points
    repeats: int  # number of repeats


def t_interval(values: np.ndarray | pd.Series, level: float = LEVEL) -> Interval:
    """Return the Student interval `mean +- t_{(1+level)/2, n-1} s / sqrt(n)` over n independent, finite values."""
    array = np.asarray(values, dtype=float)
    if array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"an interval needs finite values, found {array.tolist()}: check the run file")
    mean = float(array.mean())
    if array.size == 1:
        return Interval(mean, math.nan, math.nan)
    half = float(stdtrit(array.size - 1, (1 + level) / 2) * array.std(ddof=1) / np.sqrt(array.size))
    return Interval(mean, mean - half, mean + half)


def finite_interval(values: pd.Series) -> Interval:
    """Return `t_interval` of the finite values, without diverged chains; all nan if there are none."""
    finite = values[np.isfinite(values)]
    return t_interval(finite) if len(finite) else Interval(math.nan, math.nan, math.nan)


def welch(terms: Sequence[tuple[float, pd.Series]]) -> Interval:
    """Return the 95 % interval (Welch 1947, Satterthwaite) of a sum of weight times mean; no limits for one seed."""
    mean, error, freedom = _welch(terms)
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error if error else error
    return Interval(mean, mean - half, mean + half)


def welch_p(terms: Sequence[tuple[float, pd.Series]], threshold: float) -> float:
    """Return the two-sided p-value that the sum of `welch` equals `threshold`; nan if a mean has one seed."""
    mean, error, freedom = _welch(terms)
    if error == 0:
        return float(mean == threshold)
    return float(2 * stdtr(freedom, -abs(mean - threshold) / error))


def _welch(terms: Sequence[tuple[float, pd.Series]]) -> tuple[float, float, float]:
    """Return the sum, its standard error (nan if a mean has one seed) and the degrees of freedom."""
    mean = float(sum(weight * values.mean() for weight, values in terms))
    if min(len(values) for _, values in terms) < 2:
        return mean, math.nan, math.nan
    variances = [weight**2 * float(values.var(ddof=1)) / len(values) for weight, values in terms]
    if sum(variances) == 0:
        return mean, 0.0, math.inf
    shares = [part**2 / (len(values) - 1) for part, (_, values) in zip(variances, terms, strict=True)]
    return mean, math.sqrt(sum(variances)), sum(variances) ** 2 / sum(shares)


def paired_p(first: pd.Series, second: pd.Series | float) -> float:
    """Return the two-sided p-value of the paired t-test over repeats: 1 for equal values, nan for a single repeat."""
    gap = (first - second).dropna().to_numpy(float)
    if len(gap) < 2:
        return math.nan
    if gap.std(ddof=1) == 0:
        return float(gap[0] == 0)
    return float(2 * stdtr(len(gap) - 1, -abs(gap.mean()) / (gap.std(ddof=1) / np.sqrt(len(gap)))))


def holm(p: Sequence[float]) -> np.ndarray:
    """Return p-values adjusted for their number (Holm 1979); those <= a have a family-wise error of a."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values)
    adjusted = np.empty(len(values))
    adjusted[order] = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return np.minimum(adjusted, 1.0)


def power_law(rows: pd.DataFrame, x: str) -> Interval:
    """Return the exponent p of `value ~ x^p` with its 95 % interval, by weighted least squares on the logarithms."""
    z = ndtri((1 + LEVEL) / 2)
    error = (rows.high - rows.low) / (2 * z * rows.value)
    weight = 1 / error.to_numpy(float) ** 2
    at, logs = np.log(rows[x].to_numpy(float)), np.log(rows.value.to_numpy(float))
    centred = at - weight @ at / weight.sum()
    square = float(weight @ centred**2)
    slope = float(weight @ (centred * logs)) / square
    half = float(z) / math.sqrt(square)
    return Interval(slope, slope - half, slope + half)


def select(
    runs: pd.DataFrame, dataset: str, method: str, experiment: str, metric: str = "accuracy", variant: str = "",
) -> pd.DataFrame:  # fmt: skip
    """Return the rows of one metric of one method on one data set; all variants, if none is the given one."""
    keep = (
        runs.metric.eq(metric)
        & runs.dataset.eq(dataset)
        & runs.method.eq(method)
        & runs.experiment.eq(experiment)
    )
    if not keep.any():
        raise ValueError(
            f"no {metric} of {method!r} on {dataset!r} in {experiment!r}: name it under `runs:` of the paper in "
            "conf/claim"
        )
    rows = runs[keep]
    return rows[rows.variant.eq(variant)] if variant and rows.variant.eq(variant).any() else rows


def curve(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Return the accuracy by repeat (rows) and ln epsilon (ascending columns; inf if not private) on one of AXES."""
    if axis not in AXES:
        raise ValueError(f"axis {axis!r} is unknown: use one of {AXES}")
    kinds = rows[["variant", "scaling"]].drop_duplicates()
    if len(kinds) > 1:
        raise ValueError(f"one curve needs one variant and scaling, found {kinds.to_dict('records')}")
    wide = rows.pivot(index="seed", columns="epsilon", values="value")
    if np.isinf(wide.columns).all():
        return wide
    if axis == "proven":
        wide.columns = wide.columns.map(rows.groupby("epsilon").epsilon_proven.max().to_dict())
        wide = wide.T.groupby(level=0).mean().T
    epsilons = wide.columns.to_numpy(float)
    keep = (epsilons > 0) & np.isfinite(epsilons)
    wide = wide.loc[:, keep]
    wide.columns = pd.Index(np.log(epsilons[keep]).round(12))
    return wide.sort_index(axis=1)


def read_off(table: pd.DataFrame, epsilon: float) -> pd.Series:
    """Return the values of a `curve` by repeat at one epsilon > 0, interpolated linearly in ln epsilon."""
    if table.shape[1] == 0:
        raise NoCommonRange("no point has a finite, positive proven epsilon")
    x, point = table.columns.to_numpy(float), np.log(epsilon)
    if not np.isinf(x).all() and not x.min() - NEAR <= point <= x.max() + NEAR:
        raise NoCommonRange(f"{epsilon:g} is outside [{np.exp(x.min()):.3g}, {np.exp(x.max()):.3g}]")
    return _interpolate(table, np.array([point])).iloc[:, 0]


def _interpolate(table: pd.DataFrame, points: np.ndarray) -> pd.DataFrame:
    """Return the values of a curve at several ln epsilon, interpolated linearly."""
    if np.isinf(table.columns).all():
        values = np.repeat(table.to_numpy(), len(points), axis=1)
    else:
        values = np.array([np.interp(points, table.columns.to_numpy(float), row) for row in table.to_numpy()])
    return pd.DataFrame(values, index=table.index, columns=points)


def difference(first: pd.DataFrame, second: pd.DataFrame, axis: str, factor: float = 1.0) -> pd.DataFrame:
    """Return the paired difference first - second, by repeat (rows) and ln epsilon of `first` (columns).

    On the promised axis with factor 1, only shared budgets count; else curves are interpolated in the range that they
    share. The accuracy of the second method is taken at factor * epsilon.
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
        raise NoCommonRange("one method has no point with a finite, positive proven epsilon")
    if any(reference):
        points = (two if reference[0] else one).columns.to_numpy(float)
    elif axis == "promised" and factor == 1.0:
        points = one.columns.intersection(two.columns).to_numpy(float)
    else:
        both = (one.columns.union(two.columns) if axis == "proven" else one.columns).to_numpy(float)
        low, high = max(one.columns.min(), two.columns.min()), min(one.columns.max(), two.columns.max())
        points = both[(both >= low) & (both <= high)]
    if len(points) == 0:
        ranges = [f"[{np.exp(t.columns.min()):.3g}, {np.exp(t.columns.max()):.3g}]" for t in (one, two)]
        raise NoCommonRange(f"the ranges of epsilon {ranges[0]} and {ranges[1]} share no point")
    gap = _interpolate(one, points) - _interpolate(two, points)
    if gap.dropna().empty:
        raise NoCommonRange("in every repeat a chain has diverged")
    return gap


def compare(gap: pd.DataFrame, threshold: float = 0.0, level: float = LEVEL) -> Comparison:
    """Compare a `difference` with a threshold by its mean, and at each point with 5 % error over all points (Holm).

    A repeat in which a chain has diverged (nan) counts at no point. Else a method is spared the budgets where it fails.
    """
    gap = gap.dropna()
    tested = holm([paired_p(gap[point], threshold) for point in gap.columns])
    sure = [
        (float(np.exp(x)), float(gap[x].mean()))
        for x, p in zip(gap.columns, tested, strict=True)
        if p <= 1 - LEVEL
    ]
    above = [epsilon for epsilon, mean in sure if mean > threshold]
    below = [epsilon for epsilon, mean in sure if mean < threshold]
    mean = t_interval(gap.mean(axis=1), level)
    return Comparison(mean, above, below, gap.shape[1], gap.shape[0])


def matches(frame: pd.DataFrame, where: Mapping[str, Any]) -> pd.Series:
    """Return a mask of the rows in which every column of `where` has its value, or a value of its list."""
    here = pd.Series(True, index=frame.index)
    for column, value in where.items():
        here &= frame[column].isin(value if isinstance(value, list) else [value])
    return here


def variant_settings(variant: str) -> dict[str, str]:
    """Return the settings in a variant string: "bound=range;radius=10.0" gives {"bound": "range", "radius": "10.0"}."""
    pairs = [piece.partition("=") for piece in variant.split(";") if piece]
    if any(not sep for _, sep, _ in pairs):
        raise ValueError(f"variant {variant!r} is not key=value joined by ';'")
    return {key: value for key, _, value in pairs}


def trusted(rows: pd.DataFrame, value: str = "value") -> pd.Series:
    """Return a mask of rows whose guarantee holds and whose chains have not diverged, which alone are compared."""
    holds = rows.violated.eq("") & np.isfinite(rows[value])
    return holds & rows.diverged.eq(0) if "diverged" in rows else holds


def summary(runs: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """Return mean, sd and 95 % Student interval of a metric over repeats; the majority class becomes a method."""
    selected = runs[runs.metric.isin([metric, MAJORITY] if metric == "accuracy" else [metric])].copy()
    selected.loc[selected.metric.eq(MAJORITY), "method"] = "majority"
    keys = ["dataset", "method", "variant", "scaling", "epsilon"]
    # Every non-private method has a row with the share of the majority class, and one is enough.
    again = selected.method.eq("majority") & selected.duplicated([*keys, "seed", "value"])
    selected = selected[~again]
    twice = selected.duplicated([*keys, "seed"])
    if twice.any():
        raise ValueError(
            f"a run is listed twice: {selected[twice].iloc[0][[*keys, 'seed']].to_dict()} occurs more than once"
        )
    rows, priced = [], ("epsilon_promised", "epsilon_proven", "violated")
    for _, group in selected.groupby(keys, sort=False):
        finite = group.value[np.isfinite(group.value)]
        first = group.iloc[0]
        row: dict[str, Any] = {name: first[name] for name in (*keys, *priced)}
        row |= {"ln_epsilon": _ln(row["epsilon"]), "ln_epsilon_proven": _ln(row["epsilon_proven"])}
        row |= {**finite_interval(group.value)._asdict(), "sd": float(finite.std(ddof=1))}
        rows.append({**row, "repeats": len(finite), "diverged": len(group) - len(finite)})
    table = pd.DataFrame(rows, columns=SUMMARY_COLUMNS)
    return table.sort_values(keys, kind="stable", ignore_index=True)


def _ln(epsilon: float) -> float:
    """Return the natural logarithm; 0 gives -inf, inf gives inf and nan gives nan, without a warning."""
    return math.nan if math.isnan(epsilon) else math.log(epsilon) if epsilon > 0 else -math.inf


def seed_summaries(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield a summary over seeds that have not diverged of every setting, defined by `keys`, and its rows."""
    for values, group in frame.groupby([*keys], sort=False, dropna=False):
        if group.seed.duplicated().any():
            raise ValueError(f"a seed of run {group.run.iloc[0]} occurs twice: check its result file")
        finite = group[np.isfinite(group.accuracy)]
        interval = finite_interval(group.accuracy)
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        row |= {"accuracy": interval.mean, "sd": finite.accuracy.std(ddof=1)}
        row |= {"low": interval.low, "high": interval.high, "seeds": len(finite)}
        yield {**row, "log_loss": finite.log_loss.mean(), "violated": group.violated.iloc[0]}, group


def sort_by(table: pd.DataFrame, **orders: Sequence[Any]) -> pd.DataFrame:
    """Return the rows sorted by columns whose values have the given orders (empty: their own), others last."""
    ranks = {column: {value: i for i, value in enumerate(order)} for column, order in orders.items()}

    def rank(column: pd.Series) -> pd.Series:
        return column.map(of) if (of := ranks[str(column.name)]) else column

    return table.sort_values([*orders], key=rank, kind="stable", ignore_index=True)
