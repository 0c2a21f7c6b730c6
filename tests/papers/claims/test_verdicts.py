"""The rule behind the verdicts: what stands of a result in every setting, and both sides are judged alike."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake_results import accuracy_rows, final
from scipy import stats

from dplangevin.papers.claims import network_rules, run_rules, verdicts
from dplangevin.papers.claims.verdicts import FAILS, HOLDS, IN_PART, NOT_TESTABLE, OPEN
from dplangevin.papers.statistics import Interval

FOUND = (HOLDS, IN_PART, OPEN, FAILS, NOT_TESTABLE)
MIRROR = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}
BUDGETS = (0.1, 0.5, 0.99, 2.0)
ABOVE = verdicts.AskedRange.difference(0.0)
NOISE = np.array([0.002, -0.001, 0.0, 0.001, -0.002])
# mean differences by budget, in noise of about .002
LEVELS = {
    "none on the other side": (0.04, 0.03, 0.03, 0.03),
    "one on the other side": (-0.05, 0.06, 0.08, 0.08),
    "straddles": (-0.05, 0.05, 0.0001, -0.0001),
}


# What stands of a result


@pytest.mark.parametrize(("kind", "setting"), [*itertools.product(verdicts.KINDS, verdicts.SETTINGS)])
def test_claim_verdict(kind: str, setting: str) -> None:
    """Against the statement of the module, for equal and unequal tuning and with and without another reason."""
    for measure, found, tuning, capped in itertools.product(
        verdicts.MEASURES, FOUND, ("", verdicts.UNFAIR), ("", "one seed each")
    ):
        outcome = verdicts.result(Interval(0.1, 0.05, 0.2), found, "because", measure, asked_range=ABOVE)
        row = verdicts.claim_verdict(outcome, kind=kind, setting=setting, cause=tuning, limit=capped)
        conclusive = measure not in ("range", "")
        stands = conclusive and not tuning and not capped
        if kind == "extension":
            expected = {HOLDS: HOLDS, FAILS: FAILS if stands else OPEN}.get(found, OPEN)
        else:
            ours = setting in ("stand-in", "invented")
            chosen = setting == "chosen" and measure in ("interval", "interval, one split", "range", "")
            limited = tuning or capped or chosen
            stands = stands and kind == "paper" and not ours and not chosen
            success = IN_PART if ours or limited or setting == "special case" else HOLDS
            other = OPEN if found == NOT_TESTABLE else found
            expected = {HOLDS: success, FAILS: FAILS if stands else OPEN}.get(found, other)
        refused = found == FAILS and not stands
        uneven = "the methods were not tuned alike" + (f"; {capped}" if capped else "")
        where = (measure, found, tuning, capped)
        assert row["verdict"] == expected, where
        nothing = [""] if expected in (HOLDS, FAILS) else []
        assert row["cause"] in (*verdicts.CAUSES[expected], *nothing), where
        assert (row["cause"] == NOT_TESTABLE) == (found == NOT_TESTABLE), where
        assert ("; open, because " in row["reason"]) == refused, where
        assert not (capped and refused and conclusive) or capped in row["reason"], where
        assert row["reason"].count(uneven) == (tuning == verdicts.UNFAIR and found != NOT_TESTABLE), where
        assert {**row, **outcome} == {**outcome, "cause": row["cause"]}, where  # all numbers are as they were


@pytest.mark.parametrize(
    ("setting", "why"), [("stand-in", "the paper's setup was not run"), ("paper", "only a stand-in shows it")]
)
def test_what_a_stand_in_alone_shows_contradicts_nothing(setting: str, why: str) -> None:
    small = verdicts.NetworkEvidence(Interval(-0.1, -0.2, -0.05), False, -1, "small")
    found = verdicts.two_networks(None, small, "because", asked_range=ABOVE)
    reason = verdicts.claim_verdict(found, kind="paper", setting=setting)["reason"]
    assert reason.endswith(f"; open, because {why}")


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seeds", [1, 3])
def test_a_question_of_ours_shows_the_numbers_of_the_network_that_decides_it(sign: int, seeds: int) -> None:
    own = Interval(0.01 * sign, *((-0.02, 0.03) if seeds > 1 else (math.nan, math.nan)))
    paper = verdicts.NetworkEvidence(own, sign > 0, 0, "own")
    small = verdicts.NetworkEvidence(
        Interval(sign * 0.1, *sorted((sign * 0.05, sign * 0.2))), sign > 0, sign, ""
    )
    found = verdicts.two_networks(paper, small, "because", asked_range=ABOVE)
    row = verdicts.claim_verdict(found, kind="extension", setting="stand-in")
    assert (row["verdict"], row["ours"], row["measure"]) == (
        HOLDS if sign > 0 else FAILS,
        sign * 0.1,
        "interval, one split",
    )


@pytest.mark.parametrize("measure", ["interval", "interval, one split", "range"])
def test_a_value_without_limits_is_no_interval(measure: str) -> None:
    bare = verdicts.result(verdicts.single(1.0), FAILS, "because", measure, asked_range=None)
    assert bare["measure"] == ""
    assert verdicts.claim_verdict(bare, kind="paper", setting="paper")["verdict"] == OPEN
    exact = verdicts.result(verdicts.single(1.0), FAILS, "because", "exact", asked_range=None)
    assert verdicts.claim_verdict(exact, kind="paper", setting="paper")["verdict"] == FAILS


@pytest.mark.parametrize("key", ["kind", "setting", "cause"])
def test_unknown_words_are_refused(key: str) -> None:
    given: dict[str, Any] = {"kind": "paper", "setting": "paper", key: "unknown"}
    with pytest.raises(ValueError, match=f"{key} must be one of .*, not 'unknown'"):
        verdicts.claim_verdict(verdicts.not_testable("because"), **given)


def test_what_is_outside_our_means_says_why() -> None:
    given: dict[str, Any] = {"kind": "paper", "setting": "paper", "cause": verdicts.OUTSIDE}
    outcome = verdicts.result(1.0, HOLDS, "because")
    with pytest.raises(ValueError, match="cause 'outside our means' needs `limit`"):
        verdicts.claim_verdict(outcome, **given)
    row = verdicts.claim_verdict(outcome, **given, limit="two cores")
    assert (row["verdict"], row["cause"]) == (OPEN, verdicts.OUTSIDE)
    assert row["reason"] == "outside our means: two cores; because"


def test_what_is_asked_is_a_range_and_its_words() -> None:
    """Of bounds with an open end, of a printed number, and of a difference, whose 0 has no sign."""
    ranges = [
        (verdicts.AskedRange.within([None, 1]), (-math.inf, 1), "at most 1"),
        (verdicts.AskedRange.within([0.9, None]), (0.9, math.inf), "at least 0.9"),
        (verdicts.AskedRange.near(0.97, 0.005), (0.965, 0.975), "0.965 to 0.975"),
        (verdicts.AskedRange.difference(0.01), (-0.01, math.inf), "at least -0.01"),
        (ABOVE, (0, math.inf), "at least 0"),
    ]
    for asked_range, expected, words in ranges:
        assert asked_range == pytest.approx(expected)
        assert str(asked_range) == words
    assert "asks for more than 0" in verdicts.within(1.0, ABOVE, "x", more=True)["reason"]
    nothing = verdicts.not_testable("because")
    assert math.isnan(nothing["asked_low"])
    assert math.isnan(nothing["asked_high"])


# Both sides alike


@pytest.mark.parametrize(
    ("replaced", "added", "shown", "tool", "elsewhere", "verdict"),
    [
        (1.0, 0.5, 1.0, False, False, HOLDS),
        (1.1, 0.5, 0.9, False, False, OPEN),
        (1.1, 0.5, 1.1, False, False, FAILS),  # whatever holds for other neighbours than the paper's
        (1.1, 0.5, 1.1, True, False, IN_PART),  # but where the printed number counts these
        (1.1, 0.5, 1.05, False, True, IN_PART),
        (1.1, 1.05, 1.05, True, False, FAILS),
        (1.1, 1.05, math.nan, True, False, OPEN),
        (1.1, math.nan, 0.9, False, False, OPEN),
        (1.1, math.nan, 0.9, False, True, IN_PART),
    ],
)
def test_promises(
    replaced: float, added: float, shown: float, tool: bool, elsewhere: bool, verdict: str
) -> None:
    prices: dict[str, Any] = {
        "replaced": replaced,
        "added": added,
        "attack": shown,
        "elsewhere": 0.9 if elsewhere else math.nan,
    }
    assert verdicts.promise(1.0, {}, **prices, tool=tool)["verdict"] == verdict


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        ({"high": -0.01, "found": FAILS}, verdicts.ABSENT),
        ({"high": 0.0, "found": FAILS, "measure": "range"}, verdicts.ABSENT),
        ({"high": -0.01}, verdicts.SOME_CASES),  # on average absent, but not at each budget
        ({"low": 0.01}, verdicts.SOME_CASES),  # the same from the other side
        ({}, verdicts.IMPRECISE),
        ({"low": 0.0, "high": 0.0}, verdicts.IMPRECISE),
        ({"high": -0.01, "setting": "stand-in"}, "stand-in"),
        ({"low": math.nan, "high": math.nan, "measure": ""}, verdicts.IMPRECISE),
        ({"measure": "exact"}, verdicts.SOME_CASES),
        ({"tuning": verdicts.UNFAIR}, verdicts.UNFAIR),
    ],
)
def test_what_is_open_has_a_cause(other: dict[str, Any], cause: str) -> None:
    given: dict[str, Any] = {"low": -0.03, "high": 0.01, "measure": "interval", "found": OPEN, **other}
    interval = Interval(-0.02, given["low"], given["high"])
    found = verdicts.result(interval, given["found"], "because", given["measure"], ABOVE)
    entry = {"setting": given.get("setting", "paper"), "cause": given.get("tuning", "")}
    row = verdicts.claim_verdict(found, kind="reading", **entry)
    assert row["cause"] == cause


def expected(level: str, sign: int) -> str:
    if level != "none on the other side":
        return OPEN
    return HOLDS if sign == 1 else FAILS


def paired(gaps: list[float], swap: bool = False) -> verdicts.Verdict:
    """OPS, `gaps` above objective perturbation, or the latter above OPS."""
    above = {e: 0.7 + gap + NOISE for e, gap in zip(BUDGETS, gaps, strict=True)}
    frame = pd.concat(
        [accuracy_rows("ops", above), accuracy_rows("objpert", {e: [0.7] * 5 for e in BUDGETS})]
    )
    first, second = ("objpert", "ops") if swap else ("ops", "objpert")
    return run_rules.beats(frame, dataset="adult", first=first, second=second)


def trained(gaps: list[float], swap: bool = False, rolled: bool = False) -> verdicts.Verdict:
    """DP-SGLD, `gaps` above DP-SGD, over their budgets on one network, or DP-SGD above DP-SGLD.

    rolled: the noise differs by budget.
    """
    means = [0.7 + gap for gap in gaps]
    frame = pd.concat(
        [final("li2019_dp_sgld", means, BUDGETS), final("li2019_dp_sgd", [0.7] * 4, BUDGETS)],
        ignore_index=True,
    )
    for shift, epsilon in enumerate(BUDGETS if rolled else ()):
        for rows in (
            frame[frame.metric.eq("accuracy") & frame.epsilon.eq(epsilon)].groupby("run").groups.values()
        ):
            frame.loc[rows, "value"] = np.roll(frame.value[rows], shift)
    sides = [{"method": "dp_sgld_li2019"}, {"method": "dp_sgd"}][:: -1 if swap else 1]
    return network_rules.above(frame, first=sides[0], second=sides[1], small="tanh", by="epsilon")


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("level", LEVELS)
def test_paired_orderings_are_judged_alike(level: str, sign: int) -> None:
    """Of runs, and of networks."""
    gaps = [sign * gap for gap in LEVELS[level]]
    for ordered in (paired, trained):
        found, swapped = ordered(gaps), ordered(gaps, swap=True)
        assert found["verdict"] == expected(level, sign)
        assert swapped["verdict"] == MIRROR[found["verdict"]]
        assert (swapped["low"], swapped["high"]) == pytest.approx((-found["high"], -found["low"]))
        assert ordered([-gap for gap in gaps])["verdict"] == swapped["verdict"]


def test_a_budget_counts_by_holm_only() -> None:
    """A budget on the other side with p = .04, the least of four, spoils neither verdict."""
    gaps = [-0.0024, 0.0022, 0.0022, 0.0022]
    seeds = np.array([-0.001, 0.0, 0.001])
    p = [stats.ttest_ind(gap + seeds, seeds, equal_var=False).pvalue for gap in gaps]
    assert 0.05 / 4 < p[0] < 0.05 < min(p[1:])
    assert trained(gaps, rolled=True)["verdict"] == HOLDS
    assert trained(gaps, rolled=True, swap=True)["verdict"] == FAILS
