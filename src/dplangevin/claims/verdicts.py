"""The verdicts and how they follow from evidence. They are mechanical:

reproduced                       the rule holds in the runs with the default choices
reproduced under stated choices  it fails there, but holds with settings that the paper leaves open or another reading
                                 of its definitions, which the reason names; or it holds, but on a stand-in or on
                                 invented data
contradicted                     the opposite is shown, by an interval at 95 % in the paper's setting, or by a proof, an
                                 exact computation or an attack at 95 %, there or where the paper is silent, and no
                                 size of ours decides
not reproduced                   neither
not testable                     the rule cannot be applied, for example where two methods share no range of tight
                                 epsilon

A question that the paper does not ask (kind: extension) holds, does not hold, is undecided or not testable: of what was
run, stand-ins included, so that swapping the two methods of an ordering swaps the first two. A test says what the
evidence shows; `settled` turns that into the verdict of a claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.statistics import Comparison, Interval, matches
from dplangevin.text import points, short

REPRODUCED, UNDER_CHOICES = "reproduced", "reproduced under stated choices"
NOT_REPRODUCED, CONTRADICTED, NOT_TESTABLE = "not reproduced", "contradicted", "not testable"
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
KINDS = ("paper", "reading", "extension")
SETTINGS = ("paper", "chosen", "stand-in", "invented")
# what low and high are: a 95 % interval over independent splits, the same over seeds on one split (without the sampling
# error of the test rows), numbers of a proof or an exact computation, a lower bound by an attack and a proven price,
# smallest and largest of several; "": there are none
INTERVAL, ONE_SPLIT, EXACT, ATTACK, RANGE = (
    "interval",
    "interval, one split",
    "exact",
    "attack to proof",
    "range",
)
MEASURES = (INTERVAL, ONE_SPLIT, EXACT, ATTACK, RANGE, "")
TUNINGS = ("unequal", "")
CONCLUSIVE = (INTERVAL, ONE_SPLIT, EXACT, ATTACK)
Verdict = dict[str, Any]
Where = Mapping[str, Any]  # column -> value, or a list of values
Bounds = Sequence[float | None]  # lower and upper end; None: no end


class NoRows(ValueError):
    """The rows that a rule is about are not there."""


class Asked(NamedTuple):
    """The range in which a claim asks our number to lie, in its unit; an open end is infinite, and a printed number is
    both ends."""

    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def within(cls, bounds: Bounds) -> Asked:
        """From lower and upper end, either of which may be None."""
        low, high = bounds
        return cls(-math.inf if low is None else low, math.inf if high is None else high)

    @classmethod
    def near(cls, value: float, margin: float = 0.0) -> Asked:
        """At most `margin` (>= 0) from a value."""
        return cls(value - margin, value + margin)

    @classmethod
    def difference(cls, margin: float) -> Asked:
        """Above 0, or at most `margin` (>= 0) below it."""
        return cls(low=0.0 - margin)  # -margin would be -0.0 for 0

    def words(self, shown: Callable[[float], str] = "{:g}".format) -> str:
        """As "at most 1", "at least 0.9" or "0.95 to 1.05". shown: what writes a number."""
        if math.isinf(self.low):
            return f"at most {shown(self.high)}"
        low = shown(self.low)
        return f"at least {low}" if math.isinf(self.high) else f"{low} to {shown(self.high)}"

    def __str__(self) -> str:
        return self.words()


class NetworkEvidence(NamedTuple):
    """What the runs of one network say. direction: 1 if the claim is shown, -1 if its opposite, 0 if neither."""

    interval: Interval
    holds: bool
    direction: int
    text: str


def result(
    interval: Interval, verdict: str, reason: str, measure: str = INTERVAL, *, asked: Asked | None
) -> Verdict:
    """One verdict with our number and its limits (nan where there are none). measure: what the limits are, of
    MEASURES; one that needs limits is "" where there are none. asked: what the claim asks of our number; None, in the
    table nan, where that is no range."""
    limits = {"ours": interval.mean, "low": interval.low, "high": interval.high}
    bare = measure in (INTERVAL, ONE_SPLIT, RANGE) and math.isnan(interval.low) and math.isnan(interval.high)
    asked_low, asked_high = asked or (math.nan, math.nan)
    return {
        **limits,
        "asked_low": asked_low,
        "asked_high": asked_high,
        "measure": "" if bare else measure,
        "verdict": verdict,
        "reason": reason,
    }


def settled(
    found: Verdict,
    *,
    kind: str,
    setting: str,
    measure: str = "",
    tuning: str = "",
    capped: str = "",
    outside: str = "",
) -> Verdict:
    """The verdict of a claim, from what its test found.

    A contradiction that does not stand, or that a stand-in alone shows, becomes "not reproduced", and the reason says
    why: a conclusive measure is missing, the size is our reading, the setting is a stand-in or invented, an interval is
    of runs in settings that we chose, methods were tuned unequally (tuning: "unequal", which the reason says whatever
    was found), or another reason is given (capped).
    A success on a stand-in or on invented data is "under stated choices".  kind "extension": holds, does not hold,
    undecided (also where it holds in some of several settings), by the test's direction (see `two_networks`) where it
    has one.  measure: in place of the test's own.  outside: why what was run cannot test it, for want of means: then it
    is not testable, and what was found is said.
    """
    for name, value, known in (
        ("kind", kind, KINDS),
        ("setting", setting, SETTINGS),
        ("measure", measure, MEASURES),
        ("tuning", tuning, TUNINGS),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    measure, verdict, reason = measure or found["measure"], found["verdict"], found["reason"]
    if outside:
        reason = f"outside our means: {outside}; {reason}"
        return {**found, "measure": measure, "verdict": NOT_TESTABLE, "reason": reason}
    if kind == "extension" and found.get("direction"):
        verdict = judged(found["direction"] == 1, found["direction"] == -1)
    weak, uneven = "", "; ".join(["the methods were not tuned alike", *([capped] if capped else [])])
    if measure not in CONCLUSIVE:
        weak = "a range is no interval" if measure else "one value has no interval"
    elif tuning == "unequal":
        weak = uneven
    elif capped:
        weak = capped
    elif kind == "reading":
        weak = "the size is our reading of the words"
    elif kind == "paper" and setting == "stand-in":
        weak = "the paper's setup was not run"
    elif kind == "paper" and setting == "invented":
        weak = "the paper's data or sizes are not given, ours are invented"
    elif kind == "paper" and setting == "chosen" and measure in (INTERVAL, ONE_SPLIT):
        weak = "settings that the paper leaves open were chosen here"
    opposite = verdict == CONTRADICTED
    if verdict == NOT_REPRODUCED and found.get("direction") == -1:
        opposite, weak = True, weak or "only a stand-in shows it"
    if opposite and weak:
        verdict, reason = NOT_REPRODUCED, f"{reason}; this contradicts nothing: {weak}"
    if tuning == "unequal" and verdict != NOT_TESTABLE and uneven not in reason:
        reason += f"; {uneven}"
    if kind == "extension":
        shown = {REPRODUCED: HOLDS, CONTRADICTED: FAILS, UNDER_CHOICES: UNDECIDED, NOT_REPRODUCED: UNDECIDED}
        verdict = shown.get(verdict, verdict)
    elif verdict == REPRODUCED and setting in ("stand-in", "invented"):
        verdict = UNDER_CHOICES
    return {**found, "measure": measure, "verdict": verdict, "reason": reason}


def with_power(row: Verdict, unit: str) -> Verdict:
    """The verdict, with what could have been seen where an interval decides and shows neither side: the distance from
    what is asked that shows in half of such runs, which is half the width of the interval."""
    undecided = row["verdict"] in (NOT_REPRODUCED, UNDECIDED) and row["measure"] in (INTERVAL, ONE_SPLIT)
    half = (row["high"] - row["low"]) / 2
    outside = row["high"] < row["asked_low"] or row["low"] > row["asked_high"]
    if not undecided or outside or math.isnan(half):
        return row
    size = points(half) if unit == "accuracy" else short(half)
    return {**row, "reason": f"{row['reason']}; such runs show a difference of {size} half of the time"}


def not_testable(reason: str, asked: Asked | None = None) -> Verdict:
    """The verdict where a rule has nothing to compare. asked: as for `result`; None also where no rule was applied."""
    return result(Interval(math.nan, math.nan, math.nan), NOT_TESTABLE, reason, asked=asked)


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


def judged(holds: bool, opposite: bool) -> str:
    """Reproduced if the claim holds, contradicted if its opposite does, otherwise not reproduced."""
    if holds:
        return REPRODUCED
    return CONTRADICTED if opposite else NOT_REPRODUCED


def promised(claimed: float, *, replaced: float, added: float, attack: float, elsewhere: bool = False) -> str:
    """Verdict on a promised epsilon from the prices where a record is replaced, as the papers define neighbours, and
    where one is added or removed, and an attack's lower bound on the former; nan where there is none.

    Reproduced if `replaced` is at most the claim; contradicted if the attack exceeds it, unless the promise is kept
    with settings that the paper leaves open (elsewhere); under stated choices if it is kept there or for records that
    are added or removed; otherwise not reproduced."""
    verdict = judged(replaced <= claimed, attack > claimed and not elsewhere)
    return UNDER_CHOICES if verdict == NOT_REPRODUCED and (elsewhere or added <= claimed) else verdict


def ordering(comparison: Comparison, threshold: float) -> str:
    """Verdict on `first - second > threshold`: reproduced if the interval of the mean difference lies above it and no
    budget is significantly below it; contradicted if the interval lies below it and no budget is significantly above
    it; otherwise not reproduced."""
    interval = comparison.interval
    return judged(
        interval.low > threshold and not comparison.below, interval.high < threshold and not comparison.above
    )


def all_of(verdicts: Sequence[str]) -> str:
    """Verdict on several claims at once: reproduced if all are, otherwise the worst of them."""
    return next((v for v in (CONTRADICTED, NOT_TESTABLE, NOT_REPRODUCED) if v in verdicts), REPRODUCED)


def within(
    values: pd.Series, bounds: Bounds, reason: str, strict: bool = False, measure: str = RANGE
) -> Verdict:
    """Reproduced if all values lie in the bounds, contradicted if none does, otherwise not reproduced; `strict`, for a
    statement that one exception refutes: contradicted unless all do."""
    asked = Asked.within(bounds)
    held = int(values.between(*asked).sum())
    interval = extremes(values)
    spread = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (interval.low, interval.high)))
    cases = "1 case" if len(values) == 1 else f"{len(values)} cases"
    reason = f"{reason} {spread} in {cases}, asked: {asked}; {held} of {len(values)} hold"
    return result(interval, judged(held == len(values), strict or held == 0), reason, measure, asked=asked)


def equal_as_printed(ours: float, published: float, digits: int) -> bool:
    """Whether two numbers have the same first `digits` significant digits."""
    return f"{ours:.{digits - 1}e}" == f"{published:.{digits - 1}e}"


def two_networks(
    paper: NetworkEvidence | None,
    small: NetworkEvidence | None,
    text: str,
    others: str = "",
    elsewhere: bool = False,
    *,
    asked: Asked,
) -> Verdict:
    """A verdict from the paper's network and a small one that stands in where it can afford more seeds. At least one of
    them was trained.

    reproduced      the claim is shown on the paper's network
    under choices   it is shown on the small network only, where the paper's says nothing else, or in other settings
                    that the reason names
    contradicted    the opposite is shown on the paper's network
    not reproduced  none of these; what a stand-in shows contradicts nothing

    Shown: with 95 % confidence, unless a rule says otherwise. ours, low and high are those of the paper's network where
    it was trained, else of the small one; low and high are nan for one seed. text, asked: what was asked in words and
    as a range. others: what other settings give, and elsewhere: the claim holds in one of them. direction, for an
    extension: that of the paper's network; of the small one where the former shows neither and its mean says the same.
    """
    present = [evidence for evidence in (paper, small) if evidence is not None]
    reason = "; ".join([text, *(evidence.text for evidence in present)]) + others
    reason += (
        "; the network that the paper describes was not trained with these settings" if paper is None else ""
    )
    verdict = judged(paper is not None and paper.direction == 1, paper is not None and paper.direction == -1)
    stands_in = small is not None and (paper is None or paper.holds == (small.direction == 1))
    if verdict != REPRODUCED and (elsewhere or (small is not None and stands_in and small.direction == 1)):
        verdict = UNDER_CHOICES
    direction = paper.direction if paper is not None else 0
    if not direction and small is not None and stands_in:
        direction = small.direction
    return {**result(present[0].interval, verdict, reason, ONE_SPLIT, asked=asked), "direction": direction}
