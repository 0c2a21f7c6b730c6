"""The verdicts and how they follow from evidence. They are mechanical:

reproduced                       the rule holds in the runs with the default choices
reproduced under stated choices  it fails there, but holds in a committed sensitivity run, whose settings the reason
                                 names
contradicted                     the opposite holds with 95 % confidence
not reproduced                   neither
not testable                     the rule cannot be applied, for example where two methods share no range of audited
                                 epsilon
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.statistics import Comparison, Interval, matches

REPRODUCED, UNDER_CHOICES = "reproduced", "reproduced under stated choices"
NOT_REPRODUCED, CONTRADICTED, NOT_TESTABLE = "not reproduced", "contradicted", "not testable"
Verdict = dict[str, Any]
Where = Mapping[str, Any]  # column -> value, or a list of values
Bounds = Sequence[float | None]  # lower and upper end; None: no end


class NoRows(ValueError):
    """The rows that a rule is about are not there."""


class NetworkEvidence(NamedTuple):
    """What the runs of one network say. direction: 1 if the claim is shown, -1 if its opposite, 0 if neither."""

    interval: Interval
    holds: bool
    direction: int
    text: str


def result(interval: Interval, verdict: str, reason: str) -> Verdict:
    """One verdict with our number and its limits (nan where there are none)."""
    limits = {"ours": interval.mean, "low": interval.low, "high": interval.high}
    return {**limits, "verdict": verdict, "reason": reason}


def not_testable(reason: str) -> Verdict:
    """The verdict where a rule has nothing to compare."""
    return result(Interval(math.nan, math.nan, math.nan), NOT_TESTABLE, reason)


def single(value: float) -> Interval:
    """A number without limits."""
    return Interval(value, math.nan, math.nan)


def extremes(values: pd.Series) -> Interval:
    """The median between smallest and largest: not a confidence interval."""
    return Interval(float(values.median()), float(values.min()), float(values.max()))


def rows_where(frame: pd.DataFrame, where: Where, missing: str = "") -> pd.DataFrame:
    """The rows that match `where`. Raises NoRows, saying `missing` or the columns asked for, if there are none."""
    rows = frame[matches(frame, where)]
    if rows.empty:
        raise NoRows(
            missing or f"no row of the analysis has {dict(where)}: compare the claim's test with its columns"
        )
    return rows


def ends(bounds: Bounds) -> tuple[float, float]:
    """Lower and upper end as numbers."""
    low, high = (math.inf * sign if end is None else end for end, sign in zip(bounds, (-1, 1), strict=True))
    return low, high


def judged(holds: bool, opposite: bool) -> str:
    """Reproduced if the claim holds, contradicted if its opposite does, otherwise not reproduced."""
    if holds:
        return REPRODUCED
    return CONTRADICTED if opposite else NOT_REPRODUCED


def ordering(comparison: Comparison, threshold: float) -> str:
    """Verdict on `first - second > threshold`: reproduced if the interval of the mean difference lies above it and no
    budget is significantly below it; contradicted if the interval lies below; otherwise not reproduced."""
    interval = comparison.interval
    return judged(interval.low > threshold and not comparison.below, interval.high < threshold)


def all_of(verdicts: Sequence[str]) -> str:
    """Verdict on several claims at once: reproduced if all are, otherwise the worst of them."""
    return next((v for v in (CONTRADICTED, NOT_TESTABLE, NOT_REPRODUCED) if v in verdicts), REPRODUCED)


def within(values: pd.Series, bounds: Bounds, reason: str, strict: bool = False) -> Verdict:
    """Reproduced if all values lie in the bounds, contradicted if none does, otherwise not reproduced; `strict`, for a
    statement that one exception refutes: contradicted unless all do."""
    low, high = ends(bounds)
    held = int(values.between(low, high).sum())
    interval = extremes(values)
    reason += (
        f": {interval.low:.4g} to {interval.high:.4g}, {held} of {len(values)} within [{low:g}, {high:g}]"
    )
    return result(interval, judged(held == len(values), strict or held == 0), reason)


def equal_as_printed(ours: float, published: float, digits: int) -> bool:
    """Whether two numbers have the same first `digits` significant digits."""
    return f"{ours:.{digits - 1}e}" == f"{published:.{digits - 1}e}"


def two_networks(
    paper: NetworkEvidence | None,
    small: NetworkEvidence | None,
    text: str,
    others: str = "",
    elsewhere: bool = False,
) -> Verdict:
    """A verdict from the paper's network and a small one that stands in where it can afford more seeds. At least one of
    them was trained.

    reproduced      the claim is shown on the paper's network; or that was trained once and points the same way, and the
                    claim is shown on the small one
    under choices   it is shown on the small network only, or in other settings that the reason names
    contradicted    it fails on the paper's network, if that was trained, and the opposite is shown on either
    not reproduced  neither

    Shown: with 95 % confidence, unless a rule says otherwise. ours, low and high are those of the paper's network where
    it was trained, else of the small one; low and high are nan for one seed. text: what was asked; others: what other
    settings give, and elsewhere: the claim holds in one of them.
    """
    present = [evidence for evidence in (paper, small) if evidence is not None]
    reason = "; ".join([text, *(evidence.text for evidence in present)]) + others
    reason += "; the paper's network was not trained with these settings" if paper is None else ""
    shown = small is not None and small.direction == 1
    opposite = any(evidence.direction == -1 for evidence in present)
    if paper is not None and (
        paper.direction == 1 or (shown and paper.holds and math.isnan(paper.interval.low))
    ):
        verdict = REPRODUCED
    elif shown or elsewhere:
        verdict = UNDER_CHOICES
    else:
        verdict = CONTRADICTED if opposite and not (paper and paper.holds) else NOT_REPRODUCED
    return result(present[0].interval, verdict, reason)
