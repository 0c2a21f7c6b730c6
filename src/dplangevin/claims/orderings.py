"""Rules for "method A beats method B" and its kin: paired comparisons over budgets and repeats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.claims import (
    CONTRADICTED,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    REPRODUCED,
    UNDER_CHOICES,
    Verdict,
    not_testable,
    result,
)
from dplangevin.claims.choices import search
from dplangevin.comparison import Comparison, Interval, NoCommonRange, compare, difference, select
from dplangevin.exhibits.style import number


def ordering(found: Comparison, bar: float) -> str:
    """Verdict on `first - second > bar`: reproduced if the interval of the mean difference lies above the bar
    and no budget is significantly below it; contradicted if the interval lies below; otherwise not
    reproduced."""
    if found.interval.low > bar:
        return REPRODUCED if not found.below else NOT_REPRODUCED
    return CONTRADICTED if found.interval.high < bar else NOT_REPRODUCED


def beats(
    runs: pd.DataFrame,
    *,
    dataset: str,
    first: str,
    second: str,
    axis: str = "asked",
    experiment: str = "wang2015",
    margin: float = 0.0,
    factor: float = 1.0,
    sensitivity: str = "",
) -> Verdict:
    """First beats second in accuracy on one data set: the paired difference first - second, averaged over the
    budgets within each repeat, is above -margin with 95 % confidence, and significantly below it at no budget
    (see `ordering`).

    margin: accuracy given away, in [0, 1); 0 asks for a strict win, more for "as well as". axis: "asked", or
    "audited" for the comparison at equal audited epsilon, where curves are interpolated linearly in ln
    epsilon. factor: the second method is read at factor * epsilon. sensitivity: an experiment with other
    settings of the methods, in which the claim is tried as well (see `choices.search`).
    """
    sides = [select(runs, dataset, method, experiment) for method in (first, second)]
    try:
        gap = difference(sides[0], sides[1], axis, factor)
    except NoCommonRange as error:
        return not_testable(f"{first} and {second} cannot be compared: {error}")
    found = compare(gap, -margin)
    verdict = ordering(found, -margin)
    at = f"{first} minus {second}" + (f" at {number(factor)} eps" if factor != 1 else "")
    over = f"{found.points} {_points(axis, gap)} and {found.repeats} repeats"
    reason = f"accuracy of {at}, mean over {over}; {_counts(found, -margin)}{_violations(*sides)}"
    if sensitivity:

        def holds(other: pd.DataFrame, level: float) -> Interval | None:
            tried = compare(other, -margin, level)
            return tried.interval if ordering(tried, -margin) == REPRODUCED else None

        text, any_holds = search(runs, dataset, (first, second), axis, (sensitivity, experiment), holds)
        reason += text
        if any_holds and verdict != REPRODUCED:
            verdict = UNDER_CHOICES
    return result(found.interval, verdict, reason)


def _points(axis: str, gap: pd.DataFrame) -> str:
    if axis == "asked":
        return "budgets"
    low, high = np.exp([gap.columns.min(), gap.columns.max()])
    return f"points of equal audited epsilon in [{low:.3g}, {high:.3g}] (linear interpolation in ln eps)"


def _counts(found: Comparison, bar: float) -> str:
    def at(points: list[float]) -> str:
        if len(points) in (0, found.points):
            return "all" if points else "none"
        if len(points) > 6:
            return f"{len(points)}, between eps {min(points):.2g} and {max(points):.2g}"
        return f"{len(points)} (eps {', '.join(f'{e:.2g}' for e in points)})"

    return (
        f"above {number(bar + 0.0)} with 95 % confidence at {at(found.above)}, below it at {at(found.below)}"
    )


def _violations(*sides: pd.DataFrame) -> str:
    """Says how many budgets of each side violate a condition of its guarantee."""
    counts = {rows.method.iloc[0]: rows[rows.violated.ne("")].epsilon.nunique() for rows in sides}
    return "".join(
        f"; {name} violates a condition of its guarantee at {n} of its budgets"
        for name, n in counts.items()
        if n
    )


def beats_all(runs: pd.DataFrame, *, dataset: str, first: str, others: list[str], **settings: Any) -> Verdict:
    """First beats each of `others` (see `beats`): reproduced if it beats all, contradicted if it is beaten by
    one, otherwise not reproduced. ours is the smallest mean difference, against the strongest of the
    others."""
    tested = {name: beats(runs, dataset=dataset, first=first, second=name, **settings) for name in others}
    verdicts = [found["verdict"] for found in tested.values()]
    verdict = next((v for v in (CONTRADICTED, NOT_TESTABLE, NOT_REPRODUCED) if v in verdicts), REPRODUCED)
    worst = min(tested.values(), key=lambda found: math.inf if math.isnan(found["ours"]) else found["ours"])
    each = "; ".join(f"{name}: {found['verdict']}" for name, found in tested.items())
    return {**worst, "verdict": verdict, "reason": f"{each}; the strongest: {worst['reason']}"}


def equal_or_slightly_worse(
    runs: pd.DataFrame,
    *,
    dataset: str,
    first: str,
    second: str,
    slight: float,
    axis: str = "asked",
    experiment: str = "wang2015",
    sensitivity: str = "",
) -> Verdict:
    """First is "often" equal to or slightly worse than second. A budget agrees if the first method is not
    significantly better there and its mean is at most `slight` below. Reproduced if at least half of the
    budgets agree and the 95 % interval of the difference averaged over them meets [-slight, 0]; contradicted
    if neither holds; otherwise not reproduced. sensitivity: as for `beats`."""
    sides = [select(runs, dataset, method, experiment) for method in (first, second)]
    try:
        gap = difference(sides[0], sides[1], axis)
    except NoCommonRange as error:
        return not_testable(f"{first} and {second} cannot be compared: {error}")
    interval, (better, agree, worse) = compare(gap).interval, _three_ways(gap, slight)
    verdict = _often(interval, 2 * agree >= gap.shape[1], slight)
    reason = f"accuracy of {first} minus {second}, {gap.shape[1]} {_points(axis, gap)}: "
    reason += f"equal or worse by at most {number(slight)} at {agree}"
    reason += f", better (95 % confidence) at {better}, worse by more at {worse}{_violations(*sides)}"
    if sensitivity:

        def holds(other: pd.DataFrame, level: float) -> Interval | None:
            often = 2 * _three_ways(other, slight)[1] >= other.shape[1]
            found = compare(other, level=level).interval
            return found if _often(found, often, slight) == REPRODUCED else None

        text, any_holds = search(runs, dataset, (first, second), axis, (sensitivity, experiment), holds)
        reason += text
        if any_holds and verdict != REPRODUCED:
            verdict = UNDER_CHOICES
    return result(interval, verdict, reason)


def _three_ways(gap: pd.DataFrame, slight: float) -> tuple[int, int, int]:
    """Points at which the first method is significantly better, equal or slightly worse, worse by more."""
    better, worse = len(compare(gap).above), int((gap.mean() < -slight).sum())
    return better, gap.shape[1] - better - worse, worse


def _often(interval: Interval, often: bool, slight: float) -> str:
    meets = not (interval.low > 0 or interval.high < -slight)
    if often and meets:
        return REPRODUCED
    return NOT_REPRODUCED if often or meets else CONTRADICTED
