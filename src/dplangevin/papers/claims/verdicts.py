"""The verdicts on claims, and the mechanical rules by which they follow from evidence.

reproduced
    The rule of the claim holds in the runs with the default choices.
reproduced under stated choices
    The rule fails there. But it holds with settings that the paper leaves open, or with another reading of
    its definitions, which the reason names. Or the rule holds, but on a stand-in, on invented data, or in a
    special case of what is claimed.
contradicted
    The opposite is shown, and no threshold of ours decides. In the paper's setting a 95 % interval shows it.
    There, and where the paper is silent, a proof, an exact computation or an attack (95 % confidence) shows
    it.
not reproduced
    Neither the claim nor its opposite is shown.
not testable
    The rule cannot be applied, for example because two methods share no range of proven ε.

A question that the paper does not ask (kind "extension") has its own verdicts: holds, does not hold,
undecided or not testable. They refer to what was run, stand-ins included. If the two methods of an ordering
are swapped, "holds" and "does not hold" are swapped too.

A rule (the `test` of a claim) says what the evidence shows. `claim_verdict` turns that into the verdict of the
claim. A `Verdict` is a dict with the keys of `result`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.papers.statistics import Comparison, Interval, matches
from dplangevin.text import points, short

REPRODUCED, UNDER_CHOICES = "reproduced", "reproduced under stated choices"
NOT_REPRODUCED, CONTRADICTED, NOT_TESTABLE = "not reproduced", "contradicted", "not testable"
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
KINDS = ("paper", "reading", "extension")
SETTINGS = ("paper", "special case", "chosen", "stand-in", "invented")
# What low and high of a verdict are, in the order below:
# - a 95 % interval over independent splits;
# - a 95 % interval over seeds on one split, without the sampling error of the test rows;
# - numbers of a proof or an exact computation;
# - an attack ε (lower bound, 95 % confidence) and a proven ε (upper bound);
# - the exact ε of one pair of data sets (lower bound) and a proven ε (upper bound);
# - the smallest and the largest of several values.
# The measure "" means that there are no limits.
INTERVAL, ONE_SPLIT, EXACT, ATTACK, PAIR, RANGE = (
    "interval",
    "interval, one split",
    "exact",
    "attack to proof",
    "exact pair to proof",
    "range",
)
MEASURES = (INTERVAL, ONE_SPLIT, EXACT, ATTACK, PAIR, RANGE, "")
TUNINGS = ("unequal", "")
BRACKETS = (ATTACK, PAIR)
CONCLUSIVE = (INTERVAL, ONE_SPLIT, EXACT, *BRACKETS)
Verdict = dict[str, Any]
Where = Mapping[str, Any]  # column -> value, or a list of values
Bounds = Sequence[float | None]  # lower and upper end; None: no end


class NoRows(ValueError):
    """The error that the rows which a rule needs do not exist."""


class AskedRange(NamedTuple):
    """The range in which a claim asks our number to lie, in the unit of that number.

    `low` and `high` are the ends; an open end is infinite. A printed number is both ends.
    """

    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def within(cls, bounds: Bounds) -> AskedRange:
        """Return the range from a lower and an upper end, either of which may be None."""
        low, high = bounds
        return cls(-math.inf if low is None else low, math.inf if high is None else high)

    @classmethod
    def near(cls, value: float, margin: float = 0.0) -> AskedRange:
        """Return the range of values at most `margin` (>= 0) from a value."""
        return cls(value - margin, value + margin)

    @classmethod
    def difference(cls, margin: float) -> AskedRange:
        """Return the range above 0, or down to `margin` (>= 0) below 0."""
        return cls(low=0.0 - margin)  # -margin would be -0.0 for 0

    def words(self, shown: Callable[[float], str] = "{:g}".format) -> str:
        """Return the range as "at most 1", "at least 0.9" or "0.95 to 1.05"; `shown` formats a number."""
        if math.isinf(self.low):
            return f"at most {shown(self.high)}"
        low = shown(self.low)
        return f"at least {low}" if math.isinf(self.high) else f"{low} to {shown(self.high)}"

    def __str__(self) -> str:
        return self.words()


class NetworkEvidence(NamedTuple):
    """What the runs of one network show about a claim.

    Attributes
    ----------
    interval : Interval
        Our number with its 95 % interval.
    holds : bool
        Whether the mean alone meets the claim.
    direction : int
        1 if the claim is shown, -1 if its opposite is shown, 0 if neither is.
    text : str
        The evidence in words.
    """

    interval: Interval
    holds: bool
    direction: int
    text: str


def result(
    interval: Interval, verdict: str, reason: str, measure: str = INTERVAL, *, asked_range: AskedRange | None
) -> Verdict:
    """Return a verdict with our number and its limits.

    Parameters
    ----------
    interval : Interval
        Our number and its limits; nan where there is none.
    measure : str
        What the limits are, one of MEASURES. It becomes "" if it needs limits and there are none.
    asked_range : AskedRange or None
        What the claim asks of our number; None (nan in the table) if that is no range.
    """
    limits = {"ours": interval.mean, "low": interval.low, "high": interval.high}
    bare = measure in (INTERVAL, ONE_SPLIT, RANGE) and math.isnan(interval.low) and math.isnan(interval.high)
    asked_low, asked_high = asked_range or (math.nan, math.nan)
    return {
        **limits,
        "asked_low": asked_low,
        "asked_high": asked_high,
        "measure": "" if bare else measure,
        "verdict": verdict,
        "reason": reason,
    }


def claim_verdict(
    outcome: Verdict,
    *,
    kind: str,
    setting: str,
    measure: str = "",
    tuning: str = "",
    capped: str = "",
    outside: str = "",
) -> Verdict:
    """Return the verdict of a claim from the outcome of its test; raise ValueError for an unknown word.

    A contradiction becomes "not reproduced", and the reason says why, in each of these cases:

    - the measure is not conclusive (see CONCLUSIVE);
    - the methods were not tuned alike (`tuning`);
    - the entry gives another reason (`capped`);
    - the kind is "reading": the threshold is our reading of the words;
    - the kind is "paper", and the setting is "stand-in" or "invented";
    - the kind is "paper", the setting is "chosen", and the measure is an interval;
    - only a stand-in shows the opposite.

    A success on a stand-in, on invented data or in a special case becomes "reproduced under stated choices". The
    opposite in a special case contradicts a claim about all cases. The kind
    "extension" gives "holds", "does not hold" or "undecided", also if the claim holds in only some of several
    settings. It follows the direction of the test if the test has one (see `two_networks`).

    Parameters
    ----------
    outcome : Verdict
        What the test returned.
    kind, setting : str
        One of KINDS, and one of SETTINGS.
    measure : str
        Replaces the measure of the test if it is not "".
    tuning : str
        "unequal" if the methods were not tuned alike; the reason says so, unless the claim is not testable.
    capped : str
        Another reason why the evidence cannot contradict the claim.
    outside : str
        Why our means do not suffice to test the claim. It is then not testable, and the reason says what was
        found.
    """
    for name, value, known in (
        ("kind", kind, KINDS),
        ("setting", setting, SETTINGS),
        ("measure", measure, MEASURES),
        ("tuning", tuning, TUNINGS),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    measure, verdict, reason = measure or outcome["measure"], outcome["verdict"], outcome["reason"]
    if outside:
        reason = f"outside our means: {outside}; {reason}"
        return {**outcome, "measure": measure, "verdict": NOT_TESTABLE, "reason": reason}
    if kind == "extension" and outcome.get("direction"):
        verdict = decide(outcome["direction"] == 1, outcome["direction"] == -1)
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
    if verdict == NOT_REPRODUCED and outcome.get("direction") == -1:
        opposite, weak = True, weak or "only a stand-in shows it"
    if opposite and weak:
        verdict, reason = NOT_REPRODUCED, f"{reason}; this contradicts nothing: {weak}"
    if tuning == "unequal" and verdict != NOT_TESTABLE and uneven not in reason:
        reason += f"; {uneven}"
    if kind == "extension":
        shown = {REPRODUCED: HOLDS, CONTRADICTED: FAILS, UNDER_CHOICES: UNDECIDED, NOT_REPRODUCED: UNDECIDED}
        verdict = shown.get(verdict, verdict)
    elif verdict == REPRODUCED and setting in ("special case", "stand-in", "invented"):
        verdict = UNDER_CHOICES
    return {**outcome, "measure": measure, "verdict": verdict, "reason": reason}


def with_power(row: Verdict, unit: str) -> Verdict:
    """Add to an undecided verdict the difference that such runs could have shown.

    This is done where an interval decides and shows neither side. The difference is half the width of the
    interval: at that distance from what is asked, half of such runs show it.
    """
    undecided = row["verdict"] in (NOT_REPRODUCED, UNDECIDED) and row["measure"] in (INTERVAL, ONE_SPLIT)
    half = (row["high"] - row["low"]) / 2
    outside = row["high"] < row["asked_low"] or row["low"] > row["asked_high"]
    if not undecided or outside or math.isnan(half):
        return row
    size = points(half) if unit == "accuracy" else short(half)
    return {**row, "reason": f"{row['reason']}; such runs show a difference of {size} half of the time"}


def not_testable(reason: str, asked_range: AskedRange | None = None) -> Verdict:
    """Return the verdict "not testable"; `asked_range` is as in `result`, or None if no rule was applied."""
    return result(Interval(math.nan, math.nan, math.nan), NOT_TESTABLE, reason, asked_range=asked_range)


def single(value: float) -> Interval:
    """Return a number without limits."""
    return Interval(value, math.nan, math.nan)


def extremes(values: pd.Series) -> Interval:
    """Return the median with the smallest and the largest value, which are not a confidence interval."""
    return Interval(float(values.median()), float(values.min()), float(values.max()))


def rows_where(frame: pd.DataFrame, where: Where, missing: str = "") -> pd.DataFrame:
    """Return the rows that match `where`.

    Parameters
    ----------
    frame : DataFrame
        Rows of an analysis or of runs.
    where : Where
        Column -> value, or a list of values.
    missing : str
        Text of the error if there are no such rows; a general text if "".

    Raises
    ------
    NoRows
        For a frame without such rows.
    """
    rows = frame[matches(frame, where)]
    if rows.empty:
        raise NoRows(
            missing or f"no row of the analysis has {dict(where)}: compare the claim's test with its columns"
        )
    return rows


def decide(holds: bool, opposite: bool) -> str:
    """Return reproduced if the claim holds, contradicted if its opposite does, otherwise not reproduced."""
    if holds:
        return REPRODUCED
    return CONTRADICTED if opposite else NOT_REPRODUCED


def promise_verdict(
    claimed: float, *, replaced: float, added: float, attack: float, elsewhere: bool = False
) -> str:
    """Return the verdict on a promised ε from its proven ε and its attack ε.

    - reproduced: the proven ε for replaced records, the papers' neighbour relation, is at most the promise.
    - contradicted: the attack ε exceeds the promise, and no setting that the paper leaves open meets it.
    - reproduced under stated choices: such a setting meets it, or it holds for added or removed records.
    - not reproduced: none of these.

    Parameters
    ----------
    claimed : float
        The promised ε.
    replaced, added : float
        The proven ε if a record is replaced, and if one is added or removed; nan if unknown.
    attack : float
        The attack ε (lower bound) for replaced records; nan if unknown.
    elsewhere : bool
        Whether the promise holds with settings that the paper leaves open.
    """
    verdict = decide(replaced <= claimed, attack > claimed and not elsewhere)
    return UNDER_CHOICES if verdict == NOT_REPRODUCED and (elsewhere or added <= claimed) else verdict


def ordering(comparison: Comparison, threshold: float) -> str:
    """Return the verdict on `first - second > threshold`.

    - reproduced: the interval of the mean difference lies above it, and no budget is significantly below it.
    - contradicted: the interval lies below it, and no budget is significantly above it.
    - not reproduced: neither.
    """
    interval = comparison.interval
    return decide(
        interval.low > threshold and not comparison.below, interval.high < threshold and not comparison.above
    )


def all_of(verdicts: Sequence[str]) -> str:
    """Return reproduced if all verdicts are, otherwise the worst of them."""
    return next((v for v in (CONTRADICTED, NOT_TESTABLE, NOT_REPRODUCED) if v in verdicts), REPRODUCED)


def within(
    values: pd.Series, bounds: Bounds, reason: str, strict: bool = False, measure: str = RANGE
) -> Verdict:
    """Return reproduced if all values lie in the bounds, contradicted if none does, otherwise not reproduced.

    Parameters
    ----------
    reason : str
        Beginning of the reason: the values in words.
    strict : bool
        True for a statement that one exception refutes. It is then contradicted unless all values lie in the
        bounds.
    measure : str
        What the values are, one of MEASURES.
    """
    asked_range = AskedRange.within(bounds)
    inside = int(values.between(*asked_range).sum())
    interval = extremes(values)
    spread = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (interval.low, interval.high)))
    cases = "1 case" if len(values) == 1 else f"{len(values)} cases"
    reason = f"{reason} {spread} in {cases}; the claim asks for {asked_range}; {inside} of {len(values)} hold"
    return result(
        interval,
        decide(inside == len(values), strict or inside == 0),
        reason,
        measure,
        asked_range=asked_range,
    )


def equal_as_printed(ours: float, published: float, digits: int) -> bool:
    """Return whether two numbers agree when both are rounded to `digits` significant digits.

    Parameters
    ----------
    ours, published : float
        The two numbers.
    digits : int
        Number of significant digits, >= 1.
    """
    return f"{ours:.{digits - 1}e}" == f"{published:.{digits - 1}e}"


def two_networks(
    paper: NetworkEvidence | None,
    small: NetworkEvidence | None,
    text: str,
    others: str = "",
    elsewhere: bool = False,
    *,
    asked_range: AskedRange,
) -> Verdict:
    """Return a verdict from the evidence of the paper's network and of a small one.

    The small network stands in for the paper's, because we can afford more seeds of it. At least one of them
    was trained.

    - reproduced: the claim is shown on the paper's network.
    - reproduced under stated choices: the claim is shown on the small network, and the mean of the paper's
      network meets it too, if that was trained. Or it is shown in other settings, which the reason names.
    - contradicted: the opposite is shown on the paper's network, and no other setting shows the claim.
    - not reproduced: none of these. What a stand-in shows contradicts nothing.

    "Shown" means with 95 % confidence, unless a rule says otherwise.

    Parameters
    ----------
    paper, small : NetworkEvidence or None
        Evidence of each network; None if it was not trained.
    text, asked_range : str, AskedRange
        What is asked, in words and as a range.
    others, elsewhere : str, bool
        What other settings give, in words, and whether the claim holds in one of them.

    Returns
    -------
    Verdict
        ours, low, high: of the paper's network if it was trained, otherwise of the small one. low and high
        are nan for one seed.
        direction: for an extension. If the paper's network shows the claim or its opposite, it is that
        direction. Otherwise it is that of the small network, unless the mean of the paper's network
        disagrees; then 0.
    """
    present = [evidence for evidence in (paper, small) if evidence is not None]
    reason = "; ".join([text, *(evidence.text for evidence in present)]) + others
    reason += (
        "; the network that the paper describes was not trained with these settings" if paper is None else ""
    )
    verdict = decide(paper is not None and paper.direction == 1, paper is not None and paper.direction == -1)
    stands_in = small is not None and (paper is None or paper.holds == (small.direction == 1))
    if verdict != REPRODUCED and (elsewhere or (small is not None and stands_in and small.direction == 1)):
        verdict = UNDER_CHOICES
    direction = paper.direction if paper is not None else 0
    if not direction and small is not None and stands_in:
        direction = small.direction
    return {
        **result(present[0].interval, verdict, reason, ONE_SPLIT, asked_range=asked_range),
        "direction": direction,
    }
