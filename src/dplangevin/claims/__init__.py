"""What a paper says, tested: each rule takes the long run frame and returns ours, low, high, verdict and
reason.

The claims are in `conf/claim/`; every entry names one of the functions here as its `test`. Verdicts are
mechanical:

reproduced                       the rule below holds in the runs with the default choices
reproduced under stated choices  it fails there, but holds in a committed sensitivity run, whose settings the
                                 reason names
contradicted                     the opposite holds with 95 % confidence
not reproduced                   neither
not testable                     the rule cannot be applied, for example where two methods share no range of
                                 audited epsilon
"""

from __future__ import annotations

import math
from typing import Any

from dplangevin.comparison import Interval

REPRODUCED, UNDER_CHOICES = "reproduced", "reproduced under stated choices"
NOT_REPRODUCED, CONTRADICTED, NOT_TESTABLE = "not reproduced", "contradicted", "not testable"
Verdict = dict[str, Any]


class NoRows(ValueError):
    """The rows that a rule is about are not there."""


def result(interval: Interval, verdict: str, reason: str) -> Verdict:
    """One verdict with our number and its limits (nan where there are none)."""
    return {
        "ours": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "verdict": verdict,
        "reason": reason,
    }


def not_testable(reason: str) -> Verdict:
    """The verdict where a rule has nothing to compare."""
    return result(Interval(math.nan, math.nan, math.nan), NOT_TESTABLE, reason)
