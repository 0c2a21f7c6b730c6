"""Rules for claims of wang2015.

Some rules read exact rows (`papers.analyses.wang2015_bounds`, `papers.analyses.temperature`). Others read rows that
carry 95 % intervals in the columns value, low and high (`papers.analyses.wang2015_fig2`).

Parameters that several rules share:

bounds
    Lower and upper end of the range that is asked for, None for an open end.
what
    The tested quantity in words, for the reason of the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from dplangevin.papers.claims.verdicts import (
    EXACT,
    INTERVAL,
    AskedRange,
    Bounds,
    Verdict,
    Where,
    decide,
    result,
    rows_where,
    single,
)
from dplangevin.papers.statistics import Interval

LIMITS = ["value", "low", "high"]


def covered(
    frame: pd.DataFrame,
    *,
    where: Where,
    bounds: Bounds,
    what: str,
    over: Where | None = None,
    keys: Sequence[str] = (),
) -> Verdict:
    """Test that the 95 % interval of each row lies within `bounds`.

    The claim fails if every interval lies entirely outside the bounds. Otherwise, if not all lie
    within, it is open.

    - `over`, `keys`: Positive rows that the rows `where` are divided by, matched on the columns `keys`. The interval
      of a ratio divides the lower end of one 95 % interval by the upper end of the other, and the reverse. It covers
      at least 90 %, and 95 % where the two errors do not oppose each other.
    - returns: ours, low, high: the row whose interval reaches furthest from the middle of the bounds.
    """
    rows = rows_where(frame, where).dropna(subset=LIMITS)
    values = rows[LIMITS].to_numpy(float)
    if over is not None:
        pairs = rows.merge(
            rows_where(frame, over).dropna(subset=LIMITS), on=list(keys), suffixes=("", "_over")
        )
        values = pairs[LIMITS].to_numpy(float) / pairs[["value_over", "high_over", "low_over"]].to_numpy(
            float
        )
    intervals = [Interval(*row) for row in values]
    low, high = asked_range = AskedRange.within(bounds)
    inside = sum(low <= one.low and one.high <= high for one in intervals)
    outside = sum(one.high < low or one.low > high for one in intervals)
    middle = (low + high) / 2 if math.isfinite(low + high) else low if math.isfinite(low) else high
    furthest = max(intervals, key=lambda one: max(abs(one.low - middle), abs(one.high - middle)))
    reason = (
        f"{what}: 95 % interval within [{low:g}, {high:g}] for {inside} of {len(intervals)}, outside it for "
        f"{outside}; the furthest {furthest.mean:.3g} [{furthest.low:.3g}, {furthest.high:.3g}]"
    )
    verdict = decide(inside == len(intervals), outside == len(intervals))
    return result(furthest, verdict, reason, INTERVAL, asked_range=asked_range)


def nearer_to_one(
    frame: pd.DataFrame, *, first: Where, second: Where, keys: Sequence[str], what: str
) -> Verdict:
    """Test that in each group the values of `first` are nearer to 1 than those of `second`.

    The distance of a set of rows is the largest distance of its values from 1. A group shows the claim if the
    order holds for all values within their 95 % intervals. The claim holds if every group shows it, and
    fails if every group shows the opposite. Otherwise it is open.

    - `frame`: Rows with the columns value, low and high.
    - `first`, `second`: Conditions of the two sets of rows.
    - `keys`: Columns that define the groups.
    - returns: ours: the distance of `first` over that of `second`, in the group where it is largest. low, high: that
      ratio from the ends of the intervals.
    """
    ratios = []
    nearer, further = (rows_where(frame, where).dropna(subset=LIMITS) for where in (first, second))
    groups = dict(list(further.groupby(list(keys))))
    for name, rows in nearer.groupby(list(keys)):
        near, far = _distance(rows), _distance(groups[name])
        over = zip(near, (far.mean, far.high, far.low), strict=True)
        ratios.append(Interval(*(top / bottom if bottom else math.inf for top, bottom in over)))
    ours = max(ratios, key=lambda ratio: ratio.mean)
    shown = sum(ratio.high < 1 for ratio in ratios)
    opposite = sum(ratio.low > 1 for ratio in ratios)
    verdict = decide(shown == len(ratios), opposite == len(ratios))
    reason = (
        f"{what}: below 1 beyond the 95 % intervals in {shown} of {len(ratios)} comparisons, above it in {opposite}; "
        f"the largest {ours.mean:.3g} [{ours.low:.3g}, {ours.high:.3g}]"
    )
    return result(ours, verdict, reason, INTERVAL, asked_range=AskedRange(high=1.0))


def _distance(rows: pd.DataFrame) -> Interval:
    """Return the largest |value - 1|, with its smallest and largest possible size within the intervals."""
    least = [max(low - 1, 1 - high, 0.0) for low, high in rows[["low", "high"]].to_numpy(float)]
    most = [max(abs(low - 1), abs(high - 1)) for low, high in rows[["low", "high"]].to_numpy(float)]
    return Interval(float((rows.value - 1).abs().max()), max(least), max(most))


def together(frame: pd.DataFrame, *, first: str, second: str, small: float, large: float) -> Verdict:
    """Test that two kinds of values are both small or both large in each case, at the largest x.

    The claim fails if in some case one value is small and the other is large.

    - `frame`: Rows with the columns kind, case, x and value.
    - `first`, `second`: Values of the column `kind`, matched on the column `case`.
    - `small`, `large`: Small means at most `small`, and large means at least `large`.
    - returns: ours: the largest difference between the two values. The claim asks no range of it.
    """
    last = frame[frame.x.eq(rows_where(frame, {"kind": first}).x.max())]
    pairs = rows_where(last, {"kind": first}).merge(rows_where(last, {"kind": second}), on="case")
    low, high = pairs[["value_x", "value_y"]].min(axis=1), pairs[["value_x", "value_y"]].max(axis=1)
    small_or_large = high.le(small) | low.ge(large)
    opposed = low.le(small) & high.ge(large)
    verdict = decide(bool(small_or_large.all()), bool(opposed.any()))
    values = zip(pairs.case, pairs.value_x, pairs.value_y, strict=True)
    named = ", ".join(f"{case} {one:.2g} and {other:.2g}" for case, one, other in values)
    reason = (
        f"at n = {last.x.max():g}, the chances that a posterior sample and that the posterior miss: {named}"
    )
    largest = float((high - low).max())
    return result(single(largest), verdict, reason, EXACT, asked_range=None)
