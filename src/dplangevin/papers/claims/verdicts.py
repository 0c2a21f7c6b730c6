"""The verdicts on claims, and the mechanical rules by which they follow from evidence.

A verdict is one of four words (WORDS), with a second word for its cause (CAUSES). A question that the paper does not
ask (kind "extension") holds, fails or is open; this refers to what was run, stand-ins included. If the two methods of
an ordering are swapped, "holds" and "fails" are swapped too.

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

HOLDS, IN_PART, FAILS, OPEN = "holds", "holds in part", "fails", "open"
WORDS = {
    HOLDS: "Our evidence shows the claim. For a question of ours, the answer is yes.",
    IN_PART: "The claim is shown only in part. The second word says with what.",
    FAILS: "The opposite is shown by a 95 % interval in the paper's setting, a proof, an exact computation or an "
    "attack (95 % confidence). For a question of ours, the answer is no.",
    OPEN: "Neither the claim nor its opposite is shown. The second word says why.",
}
DERIVED, SETTINGS_OPEN, SETTINGS_CHOSEN, ADDED = (
    "derivation checked",
    "other settings",
    "chosen settings",
    "add/remove only",
)
ABSENT, SOME_CASES, IMPRECISE, UNFAIR, OUTSIDE, NOT_TESTABLE = (
    "shown absent",
    "in some cases",
    "too imprecise to tell",
    "not tested fairly",
    "outside our means",
    "not testable",
)
CAUSES: dict[str, dict[str, str]] = {  # verdict -> second word -> its meaning
    HOLDS: {DERIVED: "The claim restates the algebra of a printed formula, which we checked."},
    IN_PART: {
        ADDED: "The promise is shown for added or removed records alone.",
        SETTINGS_OPEN: "Not with our default choice, but with another setting or reading that the paper leaves open. "
        "The number is that of the setting which decides.",
        SETTINGS_CHOSEN: "With settings that we chose because the paper states none, or with methods tuned unequally. "
        "An interval there never refutes the paper.",
        "stand-in": "On another network or other data than the paper's.",
        "invented": "On data or with sizes that the paper does not give.",
        "special case": "In one case of those that the claim is about.",
    },
    FAILS: {},
    OPEN: {
        ABSENT: "Our whole interval, or every exact value, lies outside what the claim asks. The paper leaves a "
        "setting, its data, a size or a reading open, so that this does not refute it.",
        SOME_CASES: "Some of our values meet the claim and others do not.",
        IMPRECISE: "Our interval contains values that meet the claim and values that do not. Or we have a few values "
        "without an interval.",
        UNFAIR: "The methods were not tuned alike.",
        "stand-in": "We ran only another network or other data than the paper's.",
        OUTSIDE: "Two cores cannot run what would decide.",
        NOT_TESTABLE: "The paper states too little, or there is nothing to compare. The reason says what is missing.",
    },
}
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
# Begins the reason where ours, low and high are of another choice, which decides.
NOT_BY_DEFAULT = "not by default: "
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

    - `interval`: Our number with its 95 % interval.
    - `holds`: Whether the mean alone meets the claim.
    - `direction`: 1 if the claim is shown, -1 if its opposite is shown, 0 if neither is.
    - `text`: The evidence in words.
    """

    interval: Interval
    holds: bool
    direction: int
    text: str


def result(
    interval: Interval,
    verdict: str,
    reason: str,
    measure: str = INTERVAL,
    *,
    asked_range: AskedRange | None,
    cause: str = "",
) -> Verdict:
    """Return a verdict with our number and its limits.

    - `interval`: Our number and its limits; nan where there is none.
    - `measure`: What the limits are, one of MEASURES. It becomes "" if it needs limits and there are none.
    - `asked_range`: What the claim asks of our number; None (nan in the table) if that is no range.
    - `cause`: One of CAUSES, where the rule knows it.
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
        **({"cause": cause} if cause else {}),
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
    derivation: bool = False,
) -> Verdict:
    """Return the verdict of a claim, with its cause, from the outcome of its test.

    What the opposite shows does not refute a claim, and the verdict is "open", in each of these cases:

    - the measure is not conclusive (see CONCLUSIVE);
    - the methods were not tuned alike (`tuning`), or the entry gives another reason (`capped`);
    - the kind is "reading": the threshold is our reading of the words;
    - the kind is "paper", and the setting is "stand-in" or "invented";
    - the kind is "paper", the setting is "chosen", and the measure is an interval;
    - only a stand-in shows the opposite.

    On a stand-in, on invented data, in a special case, with unequal tuning, with a reason of the entry or by an
    interval with chosen settings a success is "holds in part". The opposite in a special case refutes a claim about
    all cases. The kind "extension" holds, fails or is open, also if the claim holds in only some of several
    settings. It follows the direction of the test if the test has one (see `two_networks`).

    - `outcome`: What the test returned.
    - `kind`, `setting`: One of KINDS, and one of SETTINGS.
    - `measure`: Replaces the measure of the test if it is not "".
    - `tuning`: "unequal" if the methods were not tuned alike; the reason says so.
    - `capped`: Another reason why the evidence cannot decide the claim.
    - `outside`: Why our means do not suffice to test the claim. It is then open, and the reason says what was found.
    - `derivation`: Whether the claim restates the algebra of a printed formula.
    """
    for name, value, known in (
        ("kind", kind, KINDS),
        ("setting", setting, SETTINGS),
        ("measure", measure, MEASURES),
        ("tuning", tuning, TUNINGS),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    row = {**outcome, "measure": measure or outcome["measure"]}
    if outside or row["verdict"] == NOT_TESTABLE:
        why = f"outside our means: {outside}; " if outside else ""
        cause = OUTSIDE if outside else NOT_TESTABLE
        return {**row, "verdict": OPEN, "cause": cause, "reason": why + row["reason"]}
    verdict, ours = row["verdict"], kind == "extension"
    if ours and row.get("direction"):
        verdict = decide(row["direction"] == 1, row["direction"] == -1)
        row |= row.get("decided_by", {}) | ({"measure": measure} if measure else {})
    uneven = "; ".join(["the methods were not tuned alike", *([capped] if capped else [])])
    limit = uneven if tuning else capped
    if not (ours or limit) and setting == "chosen" and row["measure"] in (INTERVAL, ONE_SPLIT):
        limit = "settings that the paper leaves open were chosen here"
    weak = _weakness(row["measure"], limit, kind, setting)
    opposite = verdict == FAILS
    if verdict == OPEN and row.get("direction") == -1:
        opposite, weak = True, weak or "only a stand-in shows it"
    if opposite and weak:
        if row["measure"] and (row["high"] <= row["asked_low"] or row["low"] >= row["asked_high"]):
            row.setdefault("cause", ABSENT)
        verdict, row["reason"] = OPEN, f"{row['reason']}; this does not count against the claim: {weak}"
    if setting == "chosen" and row["measure"] not in (EXACT, *BRACKETS):
        limit = limit or "settings that the paper leaves open were chosen here"
    if verdict == HOLDS and limit and not ours:
        verdict, row["reason"] = IN_PART, f"{row['reason']}; in part: {limit}"
        row.setdefault("cause", setting if setting in CAUSES[IN_PART] else SETTINGS_CHOSEN)
    if tuning and uneven not in row["reason"]:
        row["reason"] += f"; {uneven}"
    if ours and verdict == IN_PART:
        verdict = OPEN
        row |= row.get("default", {})
    if verdict == HOLDS and not ours and setting in CAUSES[IN_PART]:
        verdict = IN_PART
    row["verdict"] = verdict
    return {**row, "cause": _cause(row, kind, setting, bool(tuning), derivation)}


def _weakness(measure: str, limit: str, kind: str, setting: str) -> str:
    """Return why the opposite of a claim does not refute it, or ""."""
    if measure not in CONCLUSIVE:
        return "a range is no interval" if measure else "one value has no interval"
    if limit:
        return limit
    if kind == "reading":
        return "the size is our reading of the words"
    if kind == "paper" and setting == "stand-in":
        return "the paper's setup was not run"
    if kind == "paper" and setting == "invented":
        return "the paper's data or sizes are not given, ours are invented"
    return ""


def _cause(row: Verdict, kind: str, setting: str, uneven: bool, derivation: bool) -> str:
    """Return the second word of a verdict, one of CAUSES or ""."""
    verdict = row["verdict"]
    if verdict == HOLDS:
        return DERIVED if derivation else ""
    if verdict == IN_PART:
        stated = setting if setting in CAUSES[IN_PART] else SETTINGS_OPEN
        return str(row.get("cause", SETTINGS_OPEN if row["reason"].startswith(NOT_BY_DEFAULT) else stated))
    if verdict == FAILS:
        return ""
    if uneven:
        return UNFAIR
    if setting == "stand-in" and kind != "extension" and row.get("cause") != IMPRECISE:
        return setting
    if row.get("cause"):
        return str(row["cause"])
    whole = row["low"] > row["asked_low"] if math.isinf(row["asked_high"]) else row["low"] >= row["asked_low"]
    whole = (whole and row["high"] <= row["asked_high"]) or row["high"] < row["asked_low"]
    return SOME_CASES if whole or row["measure"] in (EXACT, RANGE) else IMPRECISE


def with_power(row: Verdict, unit: str) -> Verdict:
    """Add to an open verdict the difference that such runs could have shown.

    This is done where an interval decides and shows neither side. The difference is half the width of the
    interval: at that distance from what is asked, half of such runs show it.
    """
    undecided = row["cause"] not in (NOT_TESTABLE, OUTSIDE) and row["measure"] in (INTERVAL, ONE_SPLIT)
    undecided = undecided and row["verdict"] == OPEN
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

    - `frame`: Rows of an analysis or of runs.
    - `where`: Column -> value, or a list of values.
    - `missing`: Text of the error if there are no such rows; a general text if "".
    """
    rows = frame[matches(frame, where)]
    if rows.empty:
        raise NoRows(
            missing or f"no row of the analysis has {dict(where)}: compare the claim's test with its columns"
        )
    return rows


def decide(holds: bool, opposite: bool) -> str:
    """Return holds if the claim does, fails if its opposite does, otherwise open."""
    if holds:
        return HOLDS
    return FAILS if opposite else OPEN


def promise_verdict(
    claimed: float,
    *,
    replaced: float,
    added: float,
    shown: float,
    tool: bool = False,
    elsewhere: bool = False,
) -> str:
    """Return the verdict on a promised ε, for one replaced record, the papers' neighbour relation.

    - holds: the proven ε is at most the promise.
    - holds in part: the promise holds with settings that the paper leaves open. Or it holds for
      added or removed records, and it comes from a tool that counts these.
    - fails: none of these, and the ε that is shown exceeds the promise.
    - open: none of these.

    - `claimed`: The promised ε.
    - `replaced`, `added`: The proven ε if a record is replaced, and if one is added or removed; nan if unknown.
    - `shown`: The exact ε for replaced records, or else a lower bound on it; nan if unknown.
    - `tool`: Whether the printed ε comes from an accountant for added or removed records.
    - `elsewhere`: Whether the promise holds with settings that the paper leaves open.
    """
    if replaced <= claimed:
        return HOLDS
    if elsewhere or (tool and added <= claimed):
        return IN_PART
    return FAILS if shown > claimed else OPEN


def ordering(comparison: Comparison, threshold: float) -> str:
    """Return the verdict on `first - second > threshold`.

    - holds: the interval of the mean difference lies above it, and no budget is significantly below it.
    - fails: the interval lies below it, and no budget is significantly above it.
    - open: neither.
    """
    interval = comparison.interval
    return decide(
        interval.low > threshold and not comparison.below, interval.high < threshold and not comparison.above
    )


def all_of(verdicts: Sequence[str]) -> str:
    """Return holds if all verdicts are, otherwise the worst of them."""
    return next((v for v in (FAILS, NOT_TESTABLE, OPEN) if v in verdicts), HOLDS)


def equal_as_printed(ours: float, published: float, digits: int) -> bool:
    """Return whether two numbers agree when both are rounded to `digits` significant digits.

    - `digits`: Number of significant digits, >= 1.
    """
    return f"{ours:.{digits - 1}e}" == f"{published:.{digits - 1}e}"


def two_networks(
    paper: NetworkEvidence | None,
    small: NetworkEvidence | None,
    text: str,
    others: str = "",
    elsewhere: Interval | None = None,
    *,
    asked_range: AskedRange,
) -> Verdict:
    """Return a verdict from the evidence of the paper's network and of a small one.

    The small network stands in for the paper's, because we can afford more seeds of it. At least one of them
    was trained.

    - holds: the claim is shown on the paper's network.
    - holds in part: the claim is shown on the small network, and the mean of the paper's
      network meets it too, if that was trained. Or it is shown in other settings, which the reason names.
    - fails: the opposite is shown on the paper's network, and no other setting shows the claim.
    - open: none of these. What a stand-in shows refutes nothing.

    "Shown" means with 95 % confidence, unless a rule says otherwise.

    - `paper`, `small`: Evidence of each network; None if it was not trained.
    - `text`, `asked_range`: What is asked, in words and as a range.
    - `others`, `elsewhere`: What other settings give, in words, and the number of one in which the claim holds.
    - returns: ours, low, high: of the paper's network if it was trained, otherwise of the small one, or of the
      setting that decides. low and high are nan for one seed. direction: for an extension. If the paper's network
      shows the claim or its opposite, it is that direction. Otherwise it is that of the small network, whose number
      is decided_by, unless the mean of the paper's network disagrees; then 0.
    """
    present = [evidence for evidence in (paper, small) if evidence is not None]
    reason = "; ".join([text, *(evidence.text for evidence in present)]) + others
    reason += (
        "; the network that the paper describes was not trained with these settings" if paper is None else ""
    )
    verdict = decide(paper is not None and paper.direction == 1, paper is not None and paper.direction == -1)
    stands_in = small is not None and (paper is None or paper.holds == (small.direction == 1))
    direction, interval, cause = paper.direction if paper is not None else 0, present[0].interval, ""
    decided_by = {}
    if not direction and small is not None and stands_in and small.direction:
        direction = small.direction
        of_small = result(small.interval, "", "", ONE_SPLIT, asked_range=asked_range)
        decided_by = {name: of_small[name] for name in ("ours", "low", "high", "measure")}
    if verdict != HOLDS and small is not None and stands_in and small.direction == 1:
        verdict, interval, cause = IN_PART, small.interval, "stand-in"
    elif verdict != HOLDS and elsewhere is not None:
        verdict, interval, cause, reason = IN_PART, elsewhere, SETTINGS_OPEN, NOT_BY_DEFAULT + reason
    elif verdict == OPEN and small is not None and paper is not None and paper.holds != small.holds:
        cause = IMPRECISE  # the two networks disagree
    found = result(interval, verdict, reason, ONE_SPLIT, asked_range=asked_range, cause=cause)
    return {**found, "direction": direction, "decided_by": decided_by}
