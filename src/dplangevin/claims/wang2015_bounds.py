"""Rules for claims of wang2015: on exact rows (`analyses.wang2015_bounds`, `analyses.temperature`), and on rows that
carry 95 % intervals (`analyses.wang2015_fig2`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd

from dplangevin.claims.verdicts import (
    CONTRADICTED,
    EXACT,
    INTERVAL,
    NOT_REPRODUCED,
    REPRODUCED,
    Asked,
    Bounds,
    Verdict,
    Where,
    result,
    rows_where,
)
from dplangevin.statistics import Interval

LIMITS = ["value", "low", "high"]


def exact(
    frame: pd.DataFrame, *, of: Callable[[pd.DataFrame], Verdict], what: str, strict: bool = False
) -> Verdict:
    """Another rule on rows whose values are closed forms, enumerations or converged quadratures: its verdict, measured
    exactly, with `what` the values are before its reason. strict: for a bound, which one case above it refutes: what is
    not reproduced is contradicted."""
    found = of(frame)
    if strict and found["verdict"] == NOT_REPRODUCED:
        found = {**found, "verdict": CONTRADICTED}
    return {**found, "reason": f"{what}: {found['reason']}", "measure": "exact"}


def covered(frame: pd.DataFrame, *, where: Where, bounds: Bounds, what: str) -> Verdict:
    """The 95 % interval of each row `where` lies within `bounds` (ends may be null). Contradicted if none meets them,
    else not reproduced. ours: the value that is furthest from the middle of its bounds, with its own interval."""
    rows = rows_where(frame, where).dropna(subset=LIMITS)
    return _covered([Interval(*row) for row in rows[LIMITS].to_numpy(float)], bounds, what)


def covered_ratio(
    frame: pd.DataFrame, *, top: Where, bottom: Where, keys: Sequence[str], bounds: Bounds, what: str
) -> Verdict:
    """As `covered`, of the ratio of two positive rows matched on `keys`. Its interval divides the ends of the two 95 %
    intervals crosswise, so that it covers at least 90 %, and 95 % where their errors are not opposed."""
    above, below = (rows_where(frame, where).dropna(subset=LIMITS) for where in (top, bottom))
    pairs = above.merge(below, on=list(keys), suffixes=("_top", "_bottom"))
    upper, lower = (pairs[[f"{name}_{end}" for name in LIMITS]].to_numpy(float) for end in ("top", "bottom"))
    ratios = upper / lower[:, [0, 2, 1]]
    return _covered([Interval(*row) for row in ratios], bounds, what)


def _covered(found: Sequence[Interval], bounds: Bounds, what: str) -> Verdict:
    low, high = asked = Asked.within(bounds)
    inside = [low <= one.low and one.high <= high for one in found]
    apart = [one.high < low or one.low > high for one in found]
    middle = (low + high) / 2 if math.isfinite(low + high) else low if math.isfinite(low) else high
    ours = max(found, key=lambda one: max(abs(one.low - middle), abs(one.high - middle)))
    verdict = REPRODUCED if all(inside) else CONTRADICTED if all(apart) else NOT_REPRODUCED
    reason = (
        f"{what}: 95 % interval within [{low:g}, {high:g}] for {sum(inside)} of {len(found)}, outside it for "
        f"{sum(apart)}; the furthest {ours.mean:.3g} [{ours.low:.3g}, {ours.high:.3g}]"
    )
    return result(ours, verdict, reason, INTERVAL, asked=asked)


def nearer_to_one(
    frame: pd.DataFrame, *, first: Where, second: Where, keys: Sequence[str], what: str
) -> Verdict:
    """In each group of `keys` the largest distance of `first` from 1 is below that of `second`. Shown where it is so
    for all values within their 95 % intervals; contradicted if the opposite is shown in each group. ours: first over
    second, where that is largest; low and high: from the ends of the intervals."""
    ratios = []
    one, other = (rows_where(frame, where).dropna(subset=LIMITS) for where in (first, second))
    groups = dict(list(other.groupby(list(keys))))
    for name, part in one.groupby(list(keys)):
        near, far = _distance(part), _distance(groups[name])
        over = zip(near, (far.mean, far.high, far.low), strict=True)
        ratios.append(Interval(*(top / bottom if bottom else math.inf for top, bottom in over)))
    ours = max(ratios, key=lambda ratio: ratio.mean)
    shown = sum(ratio.high < 1 for ratio in ratios)
    opposite = sum(ratio.low > 1 for ratio in ratios)
    verdict = (
        REPRODUCED if shown == len(ratios) else CONTRADICTED if opposite == len(ratios) else NOT_REPRODUCED
    )
    reason = (
        f"{what}: below 1 beyond the 95 % intervals in {shown} of {len(ratios)} comparisons, above it in {opposite}; "
        f"the largest {ours.mean:.3g} [{ours.low:.3g}, {ours.high:.3g}]"
    )
    return result(ours, verdict, reason, INTERVAL, asked=Asked(high=1.0))


def _distance(rows: pd.DataFrame) -> Interval:
    """The largest |value - 1| of the rows, and the least and the most that it can be within their intervals."""
    least = [max(low - 1, 1 - high, 0.0) for low, high in rows[["low", "high"]].to_numpy(float)]
    most = [max(abs(low - 1), abs(high - 1)) for low, high in rows[["low", "high"]].to_numpy(float)]
    return Interval(float((rows.value - 1).abs().max()), max(least), max(most))


def together(frame: pd.DataFrame, *, first: str, second: str, small: float, large: float) -> Verdict:
    """In each case, at the largest x, the values of the kinds `first` and `second` are both at most `small` or both at
    least `large`; contradicted if in some case one is small and the other large. ours: the largest difference, of which
    no range is asked."""
    last = frame[frame.x.eq(rows_where(frame, {"kind": first}).x.max())]
    pairs = rows_where(last, {"kind": first}).merge(rows_where(last, {"kind": second}), on="case")
    low, high = pairs[["value_x", "value_y"]].min(axis=1), pairs[["value_x", "value_y"]].max(axis=1)
    held = high.le(small) | low.ge(large)
    opposed = low.le(small) & high.ge(large)
    verdict = REPRODUCED if held.all() else CONTRADICTED if opposed.any() else NOT_REPRODUCED
    values = zip(pairs.case, pairs.value_x, pairs.value_y, strict=True)
    named = ", ".join(f"{case} {one:.2g} and {other:.2g}" for case, one, other in values)
    reason = (
        f"at n = {last.x.max():g}, the chances that a posterior sample and that the posterior miss: {named}"
    )
    largest = float((high - low).max())
    return result(Interval(largest, math.nan, math.nan), verdict, reason, EXACT, asked=None)
