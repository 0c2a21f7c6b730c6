"""Rules for "method A beats method B" and its kin: paired comparisons over budgets and repeats."""

from __future__ import annotations

import math
from typing import Any

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
from dplangevin.claims.choices import search, search_all
from dplangevin.claims.words import counts, neighbours, points, violations
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
    metric: str = "accuracy",
    variant: str = "",
) -> Verdict:
    """First beats second in accuracy on one data set: the paired difference first - second, averaged over the
    budgets within each repeat, is above -margin with 95 % confidence, and significantly below it at no budget
    (see `ordering`).

    margin: accuracy given away, in [0, 1); 0 asks for a strict win, more for "as well as". axis: "asked", or
    "audited" for the comparison at equal audited epsilon, where curves are interpolated linearly in ln
    epsilon. factor: the second method is read at factor * epsilon. sensitivity: an experiment with other
    settings of the methods, in which the claim is tried as well (see `choices.search`). metric: another one than
    accuracy, in its own unit, where "beats" is "is above". variant: the settings in which a method counts that was run
    in several.
    """
    sides = [select(runs, dataset, method, experiment, metric, variant) for method in (first, second)]
    try:
        gap = difference(sides[0], sides[1], axis, factor)
    except NoCommonRange as error:
        return not_testable(f"{first} and {second} cannot be compared: {error}")
    found = compare(gap, -margin)
    verdict = ordering(found, -margin)
    at = f"{first} minus {second}" + (f" at {number(factor)} eps" if factor != 1 else "")
    over = f"{found.points} {points(axis, gap)} and {found.repeats} repeats"
    reason = f"{metric} of {at}, mean over {over}; {counts(found, -margin)}{violations(*sides)}"
    reason += neighbours(*sides) if axis == "asked" else ""
    if sensitivity:

        def holds(other: pd.DataFrame, level: float) -> Interval | None:
            tried = compare(other, -margin, level)
            return tried.interval if ordering(tried, -margin) == REPRODUCED else None

        text, any_holds = search(runs, dataset, (first, second), axis, (sensitivity, experiment), holds)
        reason += text
        if any_holds and verdict != REPRODUCED:
            verdict = UNDER_CHOICES
    return result(found.interval, verdict, reason)


def beats_all(
    runs: pd.DataFrame,
    *,
    dataset: str,
    first: str,
    others: list[str],
    axis: str = "asked",
    experiment: str = "wang2015",
    sensitivity: str = "",
) -> Verdict:
    """First beats each of `others` (see `beats`): reproduced if it beats all, contradicted if it is beaten by
    one, otherwise not reproduced. ours is the smallest mean difference, against the strongest of the
    others. sensitivity: as for `beats`, one setting that beats all of them (see `choices.search_all`)."""
    where: dict[str, Any] = {"dataset": dataset, "axis": axis, "experiment": experiment}
    tested = {name: beats(runs, first=first, second=name, **where) for name in others}
    verdicts = [found["verdict"] for found in tested.values()]
    verdict = next((v for v in (CONTRADICTED, NOT_TESTABLE, NOT_REPRODUCED) if v in verdicts), REPRODUCED)
    worst = min(tested.values(), key=lambda found: math.inf if math.isnan(found["ours"]) else found["ours"])
    each = "; ".join(f"{name}: {found['verdict']}" for name, found in tested.items())
    reason = f"{each}; the strongest: {worst['reason']}"
    if sensitivity:

        def holds(gap: pd.DataFrame, level: float) -> Interval | None:
            tried = compare(gap, level=level)
            return tried.interval if ordering(tried, 0.0) == REPRODUCED else None

        text, any_holds = search_all(runs, dataset, first, others, axis, (sensitivity, experiment), holds)
        reason += text
        if any_holds and verdict != REPRODUCED:
            verdict = UNDER_CHOICES
    return {**worst, "verdict": verdict, "reason": reason}


def worst_of_all(
    runs: pd.DataFrame,
    *,
    dataset: str,
    last: str,
    others: list[str],
    axis: str = "asked",
    experiment: str = "wang2015",
) -> Verdict:
    """Each of `others` beats `last` (see `beats`): reproduced if all do, contradicted if `last` beats one of them (mean
    difference below 0 with 95 % confidence), otherwise not reproduced. ours is the smallest mean difference other -
    last, that of the next to last."""
    where: dict[str, Any] = {"dataset": dataset, "axis": axis, "experiment": experiment}
    tested = {name: beats(runs, first=name, second=last, **where) for name in others}
    verdicts = [found["verdict"] for found in tested.values()]
    verdict = next((v for v in (CONTRADICTED, NOT_TESTABLE, NOT_REPRODUCED) if v in verdicts), REPRODUCED)
    next_to_last = min(
        tested.values(), key=lambda found: math.inf if math.isnan(found["ours"]) else found["ours"]
    )
    each = "; ".join(f"{name}: {found['verdict']}" for name, found in tested.items())
    return {**next_to_last, "verdict": verdict, "reason": f"{each}; the nearest: {next_to_last['reason']}"}


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
    reason = f"accuracy of {first} minus {second}, {gap.shape[1]} {points(axis, gap)}: "
    reason += f"equal or worse by at most {number(slight)} at {agree}"
    reason += f", better (95 % confidence) at {better}, worse by more at {worse}{violations(*sides)}"
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
