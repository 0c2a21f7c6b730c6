"""The verdicts on claims, and the mechanical rules by which they follow from evidence (docs/verdicts.md).

A rule (the `test` of a claim) says what the evidence shows, as a dict with the keys of `result`. `claim_verdict` turns
that into the verdict of the claim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.checks import require
from dplangevin.papers.statistics import Comparison, Interval, matches

HOLDS, IN_PART, FAILS, OPEN = "holds", "holds in part", "fails", "open"
WORDS = (HOLDS, IN_PART, FAILS, OPEN)
DIRECTIONS = {HOLDS: 1, FAILS: -1, OPEN: 0}
DERIVED = "derivation checked"
ADDED, SETTINGS_OPEN, SETTINGS_CHOSEN = "add/remove only", "other settings", "chosen settings"
ABSENT, SOME_CASES, IMPRECISE = "shown absent", "in some cases", "too imprecise to tell"
UNFAIR, OUTSIDE, NOT_TESTABLE = "not tested fairly", "outside our means", "not testable"
CAUSES = {  # verdict -> its second words
    HOLDS: (DERIVED,),
    IN_PART: (ADDED, SETTINGS_OPEN, SETTINGS_CHOSEN, "stand-in", "invented", "special case"),
    FAILS: (),
    OPEN: (ABSENT, SOME_CASES, IMPRECISE, UNFAIR, "stand-in", OUTSIDE, NOT_TESTABLE),
}
KINDS = ("paper", "reading", "extension")
SETTINGS = ("paper", "special case", "chosen", "stand-in", "invented")
LIMITING = ("", DERIVED, UNFAIR, OUTSIDE)  # second words that an entry may ask for
# What low and high of a verdict are; "": there are none.
INTERVAL = "interval"  # 95 %, over independent splits or draws
ONE_SPLIT = "interval, one split"  # 95 %, over seeds on one split: test rows are not sampled
EXACT = "exact"  # of a proof or an exact computation
ATTACK = "attack to proof"  # an attack ε (lower bound, 95 % confidence) and a proven ε (upper bound)
PAIR = "exact pair to proof"  # the exact ε of one pair of data sets and a proven ε, likewise
RANGE = "range"  # the smallest and the largest of several values
MEASURES = (INTERVAL, ONE_SPLIT, EXACT, ATTACK, PAIR, RANGE, "")
BRACKETS = (ATTACK, PAIR)
UNEVEN = "the methods were not tuned alike"
NUMBERS = ("ours", "low", "high", "asked_low", "asked_high")  # of a verdict
# Begins the reason where ours, low and high are of another choice, which decides.
NOT_BY_DEFAULT = "not by default: "
Verdict = dict[str, Any]
Where = Mapping[str, Any]  # column -> value, or a list of values
Bounds = Sequence[float | None]  # lower and upper end; None: no end
Values = pd.Series | float  # several values, whose index may name them, or one
ROUNDING = 1e-9  # relative rounding error that is allowed in exact values
FEW = 6  # up to so many values or other choices are listed


class NoRows(ValueError):
    """The error that the rows which a rule needs do not exist."""


class AskedRange(NamedTuple):
    """The range in which a claim asks our number to lie. An open end is infinite; a printed number is both ends."""

    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def within(cls, bounds: Bounds) -> AskedRange:
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

    def side(self, interval: Interval) -> int:
        """Return 1 if an interval lies inside, -1 if it lies outside, otherwise 0."""
        if self.low <= interval.low and interval.high <= self.high:
            return 1
        return -1 if interval.high < self.low or interval.low > self.high else 0

    def contains(self, values: pd.Series, digits: int = 0, more: bool = False) -> pd.Series:
        """Return a mask of values in the range, without its lower end if `more`; with `digits`, that print as it."""
        if digits:
            form = f".{digits - 1}e"
            return values.map(lambda value: format(value, form) == format(self.low, form))
        low, high = (ROUNDING * abs(end) for end in self)
        return values.between(
            self.low + (low if more else -low), self.high + high, inclusive="right" if more else "both"
        )

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"at most {self.high:g}"
        if math.isinf(self.high):
            return f"at least {self.low:g}"
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"


class NetworkEvidence(NamedTuple):
    """What the runs of one network show about a claim."""

    interval: Interval
    holds: bool  # whether the mean alone meets the claim
    direction: int  # 1 if the claim is shown, -1 if its opposite is shown, 0 if neither is
    text: str


def result(
    numbers: Interval | float,
    verdict: str,
    reason: str,
    measure: str = INTERVAL,
    asked_range: AskedRange | None = None,
    cause: str = "",
) -> Verdict:
    """Return a verdict with our number (nan: none), its limits, and the range that the claim asks for, if it is one."""
    interval = numbers if isinstance(numbers, Interval) else single(numbers)
    if measure in (INTERVAL, ONE_SPLIT, RANGE) and math.isnan(interval.low) and math.isnan(interval.high):
        measure = ""
    asked = asked_range or (math.nan, math.nan)
    found: Verdict = dict(zip(NUMBERS, (*interval, *asked), strict=True))
    found |= {"measure": measure, "verdict": verdict, "reason": reason}
    return found | ({"cause": cause} if cause else {})


def claim_verdict(outcome: Verdict, *, kind: str, setting: str, cause: str = "", limit: str = "") -> Verdict:
    """Return the verdict of a claim from the outcome of its test, by the table of limits in docs/verdicts.md.

    An "extension" follows the direction of the test if it has one (see `two_networks`), and never holds in part.
    """
    words = {"kind": (kind, KINDS), "setting": (setting, SETTINGS), "cause": (cause, LIMITING)}
    for name, (value, known) in words.items():
        require(value in known, f"{name} must be one of {', '.join(known)}, not {value!r}")
    if cause == OUTSIDE:
        require(bool(limit), f"cause {OUTSIDE!r} needs `limit`: say why our means do not suffice")
        reason = f"{OUTSIDE}: {limit}; {outcome['reason']}"
        return outcome | {"verdict": OPEN, "cause": OUTSIDE, "reason": reason}
    if outcome["verdict"] == NOT_TESTABLE:
        return outcome | {"verdict": OPEN, "cause": NOT_TESTABLE}
    row, ours, exact = {**outcome}, kind == "extension", (EXACT, *BRACKETS)
    if ours and row.get("direction"):
        row |= {"verdict": decide(row["direction"] == 1, True), **row.get("decided_by", {})}
    if cause == UNFAIR:
        limit = "; ".join(filter(None, [UNEVEN, limit]))
    elif not (ours or limit) and setting == "chosen" and row["measure"] not in exact:
        limit = "settings that the paper leaves open were chosen here"
    weak = _weakness(row["measure"], limit, kind, setting)
    by_stand_in = row["verdict"] == OPEN and row.get("direction") == -1
    if by_stand_in or (row["verdict"] == FAILS and weak):
        if row["measure"] and (row["high"] <= row["asked_low"] or row["low"] >= row["asked_high"]):
            row.setdefault("cause", ABSENT)
        why = weak or "only a stand-in shows it"
        row |= {"verdict": OPEN, "reason": f"{row['reason']}; open, because {why}"}
    if row["verdict"] == HOLDS and not ours and (limit or setting in CAUSES[IN_PART]):
        row["verdict"] = IN_PART
        row.setdefault("cause", setting if setting in CAUSES[IN_PART] else SETTINGS_CHOSEN)
        row["reason"] += f"; in part: {limit}" if limit else ""
    if cause == UNFAIR and limit not in row["reason"]:
        row["reason"] += f"; {limit}"
    if ours and row["verdict"] == IN_PART:
        row |= {**row.get("default", {}), "verdict": OPEN}
    return {**row, "cause": _cause(row, kind, setting, cause)}


def _weakness(measure: str, limit: str, kind: str, setting: str) -> str:
    if measure in (RANGE, ""):
        return "a range is no interval" if measure else "one value has no interval"
    if limit or kind != "paper":
        return limit or "the size is our reading of the words" * (kind == "reading")
    invented = "the paper's data or sizes are not given, ours are invented"
    return {"stand-in": "the paper's setup was not run", "invented": invented}.get(setting, "")


def _cause(row: Verdict, kind: str, setting: str, cause: str) -> str:
    """Return the second word of a verdict, one of CAUSES or ""; `cause` is that of the entry."""
    verdict = row["verdict"]
    if verdict in (HOLDS, FAILS):
        return DERIVED if verdict == HOLDS and cause == DERIVED else ""
    if verdict == IN_PART:
        stated = setting if setting in CAUSES[IN_PART] else SETTINGS_OPEN
        return str(row.get("cause", SETTINGS_OPEN if row["reason"].startswith(NOT_BY_DEFAULT) else stated))
    if cause == UNFAIR:
        return UNFAIR
    if setting == "stand-in" and kind != "extension" and row.get("cause") != IMPRECISE:
        return setting
    if row.get("cause"):
        return str(row["cause"])
    whole = row["low"] > row["asked_low"] if math.isinf(row["asked_high"]) else row["low"] >= row["asked_low"]
    whole = (whole and row["high"] <= row["asked_high"]) or row["high"] < row["asked_low"]
    return SOME_CASES if whole or row["measure"] in (EXACT, RANGE) else IMPRECISE


def not_testable(reason: str, asked_range: AskedRange | None = None) -> Verdict:
    """Return the verdict "not testable"."""
    return result(math.nan, NOT_TESTABLE, reason, asked_range=asked_range)


def single(value: float) -> Interval:
    """Return a number without limits."""
    return Interval(value, math.nan, math.nan)


def within(
    values: Values, asked: AskedRange, what: str, measure: str = EXACT, ours: str = "median", *, strict: bool = False,
    more: bool = False, digits: int = 0, others: Mapping[str, Values] = MappingProxyType({}),
) -> Verdict:  # fmt: skip
    """Return the verdict that all values lie in a range; it fails if none does, or with `strict` if one does not.

    It holds in part if it holds for one of `others`, values under other choices. `more`: the lower end is not in the
    range. `digits`: values must print as the asked one. The limits are extremes, no confidence interval.
    """
    every = {choice: pd.Series(each, dtype=float) for choice, each in {"": values, **others}.items()}
    inside = {choice: asked.contains(each, digits, more) for choice, each in every.items()}
    held, n = int(inside[""].sum()), len(inside[""])
    wanted = f"more than {asked.low:g}" if more else str(asked)
    reason = f"{what}: {_in_words(every[''])}{f' in {n} cases' if n > 1 else ''}; the claim asks for {wanted}"
    reason += f"; {held} of {n} hold" if n > 1 else ""
    agree = [choice for choice in others if inside[choice].all()]
    if len(others) <= FEW:
        reason += "".join(f"; {choice}: {_in_words(every[choice])}" for choice in others)
    else:
        reason += f"; {len(agree)} of {len(others)} other choices agree with the claim"
        reason += f", for example {agree[0]}: {_in_words(every[agree[0]])}" if agree else ""
    opposite = all((each < asked.low).all() for each in every.values()) or not more  # a tie is no opposite
    verdict = decide(held == n, strict or (opposite and not any(each.any() for each in inside.values())))
    if verdict != HOLDS and agree:
        values, verdict, reason = others[agree[0]], IN_PART, NOT_BY_DEFAULT + reason
    numbers = extremes(values, ours) if isinstance(values, pd.Series) else single(float(values))
    if others and verdict != IN_PART and not isinstance(values, pd.Series):
        ends = pd.concat([*every.values()])
        numbers = numbers._replace(low=float(ends.min()), high=float(ends.max()))
    return result(numbers, verdict, reason, measure, asked)


def _in_words(values: pd.Series) -> str:
    if len(values) <= FEW and not pd.api.types.is_numeric_dtype(values.index):
        return ", ".join(f"{name} {_digits(value)}" for name, value in values.items())
    return " to ".join(dict.fromkeys(map(_digits, (values.min(), values.max()))))


def _digits(value: float) -> str:
    return f"{value:.0f}" if value % 1 == 0 and abs(value) < 1e6 else f"{value:.4g}"


def covered(
    intervals: Sequence[Interval], asked: AskedRange, what: str, ours: Interval | None = None
) -> Verdict:
    """Return holds if all 95 % intervals lie in a range, fails if all lie outside, else open; it shows the furthest."""
    (low, high), sides = asked, [asked.side(one) for one in intervals]
    middle = (low + high) / 2 if math.isfinite(low + high) else low if math.isfinite(low) else high
    far = ours or max(intervals, key=lambda one: max(abs(one.low - middle), abs(one.high - middle)))
    reason = (
        f"{what}: {far.mean:.3g} (95 % interval {far.low:.3g} to {far.high:.3g}); the claim asks for {asked}"
    )
    if len(sides) > 1:
        reason += f"; this is the furthest of {len(sides)}: {sides.count(1)} lie inside and {sides.count(-1)} outside"
    return result(far, decide(set(sides) == {1}, set(sides) == {-1}), reason, INTERVAL, asked)


def extremes(values: pd.Series, ours: str = "median") -> Interval:
    """Return the smallest and the largest value, which are no confidence interval, around one of them or the median."""
    return Interval(float(values.agg(ours)), float(values.min()), float(values.max()))


def rows_where(frame: pd.DataFrame, where: Where) -> pd.DataFrame:
    """Return the rows that match `where`; raise NoRows if there are none."""
    rows = frame[matches(frame, where)]
    if rows.empty:
        raise NoRows(f"no row has {dict(where)}")
    return rows


def decide(holds: bool, opposite: bool) -> str:
    """Return holds if the claim does, fails if its opposite does, otherwise open."""
    if holds:
        return HOLDS
    return FAILS if opposite else OPEN


def promise(
    claimed: float, said: Mapping[str, Any], *, replaced: float, added: float = math.nan, attack: float = math.nan,
    attack_added: float = math.nan, elsewhere: float = math.nan, exact: bool = False, pair: bool = False,
    tool: bool = False, comparable: bool = True, room: float = 1.0,
) -> Verdict:  # fmt: skip
    """Return the verdict on a promised ε from the proven ε for a record replaced, and added or removed (nan: unknown).

    - `said`: What was found -> its value in words, for the reason; nan or "" is left out.
    - `attack`, `attack_added`: Lower bounds for both relations. `pair`: of one pair of data sets, not of an attack.
    - `elsewhere`: The proven ε with settings that the paper leaves open, at which the promise holds.
    - `exact`: Whether `replaced` and `added` are exact. `tool`: Whether the printed ε is for added or removed records.
    - `comparable`: Whether the proven ε are for the promised δ. `room`: The promise holds up to this times `claimed`.
    """
    asked, most, other = AskedRange(high=claimed), claimed * room, not math.isnan(elsewhere)
    price, low, cause = replaced, attack, ""
    verdict = decide(comparable and replaced <= most, (replaced if exact else attack) > most)
    reason = "; ".join(f"{what} {text}" for what, text in said.items() if pd.notna(text) and text)
    if verdict != HOLDS and (other or (comparable and tool and added <= most)):
        price, low, cause = (elsewhere, math.nan, "") if other else (added, attack_added, ADDED)
        verdict, reason = IN_PART, NOT_BY_DEFAULT + reason
        reason += "" if other else "; it holds for add/remove neighbours only"
    if exact:
        return result(price, verdict, reason, EXACT, asked, cause)
    measure = PAIR if pair and not math.isnan(low) else ATTACK
    return result(Interval(math.nan, low, price), verdict, reason, measure, asked, cause)


def ordering(comparison: Comparison, threshold: float, most: float = math.inf) -> str:
    """Return the verdict on `first - second > threshold` by the interval, if no budget is significantly against it."""
    (_, low, high), outside = comparison.interval, comparison.interval.low > most
    return decide(
        low > threshold and high <= most and not comparison.below,
        outside or (high < threshold and not comparison.above),
    )


def two_networks(
    paper: NetworkEvidence | None,
    small: NetworkEvidence | None,
    text: str,
    others: str = "",
    elsewhere: Interval | None = None,
    *,
    asked_range: AskedRange,
) -> Verdict:
    """Return a verdict from the evidence of the paper's network and of a small one, of which one was trained at least.

    The paper's network decides. The claim holds in part if the small one shows it and the mean of the paper's network,
    if that was trained, meets it too; or if it holds in other settings (`others`, `elsewhere`). A stand-in refutes
    nothing. direction and decided_by are for an extension, which the small network may decide.
    """
    evidence = [one for one in (paper, small) if one is not None]
    reason = "; ".join([text, *(one.text for one in evidence)]) + others
    if paper is None:
        reason += "; the network that the paper describes was not trained with these settings"
    direction = 0 if paper is None else paper.direction
    interval, cause, decided_by = evidence[0].interval, "", {}
    verdict = decide(direction == 1, direction == -1)
    stands_in = small is not None and (paper is None or paper.holds == (small.direction == 1))
    if not direction and small is not None and stands_in and small.direction:
        direction = small.direction
        of_small = result(small.interval, "", "", ONE_SPLIT, asked_range)
        decided_by = {name: of_small[name] for name in ("ours", "low", "high", "measure")}
    if verdict != HOLDS and small is not None and stands_in and small.direction == 1:
        verdict, interval, cause = IN_PART, small.interval, "stand-in"
    elif verdict != HOLDS and elsewhere is not None:
        verdict, interval, cause, reason = IN_PART, elsewhere, SETTINGS_OPEN, NOT_BY_DEFAULT + reason
    elif verdict == OPEN and small is not None and paper is not None and paper.holds != small.holds:
        cause = IMPRECISE  # the two networks disagree
    found = result(interval, verdict, reason, ONE_SPLIT, asked_range, cause)
    return {**found, "direction": direction, "decided_by": decided_by}
