"""Every branch of every rule on convex runs."""

import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake_results import accuracy_rows, run_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from dplangevin.papers.claims import run_rules, verdicts


def beats(*frames: pd.DataFrame, **settings: Any) -> verdicts.Verdict:
    return run_rules.beats(pd.concat(frames), dataset="adult", first="ops", second="objpert", **settings)


OBJPERT = run_rows("objpert", [0.7, 0.75, 0.8])


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([0.75, 0.8, 0.85], verdicts.HOLDS),
        ([0.85, 0.9, 0.78], verdicts.OPEN),  # above on average, below at one budget
        ([0.7, 0.75, 0.8], verdicts.OPEN),
        ([0.65, 0.75, 0.8], verdicts.FAILS),
    ],
)
def test_ordering(means: list[float], verdict: str) -> None:
    found = beats(run_rows("ops", means), OBJPERT)
    assert found["verdict"] == verdict
    assert found["low"] <= found["ours"] <= found["high"]
    assert found["ours"] == pytest.approx(np.mean(means) - 0.75, abs=1e-12)


def test_reason_counts_the_budgets_and_names_what_differs() -> None:
    means = [0.85, 0.9, 0.78]
    reason = beats(run_rows("ops", means), OBJPERT)["reason"]
    assert "significantly above it at 2 (ε 0.1 and 1) and below at 1 (ε 10); the average alone" in reason
    assert "above it at none and below at all" in beats(run_rows("ops", [0.65, 0.7, 0.75]), OBJPERT)["reason"]
    even = {e: 0.7 + 0.001 * np.arange(5) for e in np.geomspace(0.1, 10, 8)}
    better = {e: values + 0.1 * (e < 9) for e, values in even.items()}
    reason = beats(accuracy_rows("ops", better, bill=0.5), accuracy_rows("objpert", even, bill=0.5))["reason"]
    assert "significantly above it at 7 (ε from 0.1 to 5.2) and below at none" in reason
    violated = beats(run_rows("ops", means, violated="T < 7"), OBJPERT)["reason"]
    assert "OPS violates a condition of its guarantee at 3 of its budgets" in violated
    wild = run_rows("ops", means, violated="2 of 5 chains diverged", adjacency="add_remove")
    reason = beats(wild, OBJPERT)["reason"]
    assert "neighbours, add/remove for OPS and replace-one for objective perturbation" in reason
    assert "OPS has diverged chains at 3 of its budgets" in reason


def test_a_margin_and_the_axis_of_proven_epsilon() -> None:
    assert beats(run_rows("ops", [0.695, 0.745, 0.795]), OBJPERT, margin=0.01)["verdict"] == verdicts.HOLDS
    found = beats(run_rows("ops", [0.75, 0.8, 0.85]), OBJPERT, axis="proven")
    assert found["verdict"] == verdicts.HOLDS
    assert "points of equal proven ε from 0.05 to 5" in found["reason"]
    apart = beats(run_rows("ops", [0.75, 0.8, 0.85], epsilon_proven=1e3), OBJPERT, axis="proven")
    assert apart["verdict"] == verdicts.NOT_TESTABLE
    assert math.isnan(apart["ours"])
    assert (apart["asked_low"], apart["asked_high"]) == (0, math.inf)


def test_sensitivity_run_rescues_a_claim_and_is_named() -> None:
    lost = run_rows("ops", [0.6, 0.7, 0.8])
    there = {"experiment": "s", "scaling": "global"}
    wins = run_rows("ops", [0.8, 0.85, 0.9], variant="bound=range;radius=3.0", **there)
    loses = run_rows("ops", [0.6, 0.7, 0.8], variant="bound=paper;radius=3.0", **there)
    weak = run_rows("objpert", [0.5, 0.6, 0.7], variant="ridge=0.1", **there)
    strong = run_rows("objpert", [0.7, 0.75, 0.8], variant="ridge=0.0", **there)
    found = beats(lost, OBJPERT, wins, loses, weak, strong, sensitivity="s")
    assert found["verdict"] == verdicts.IN_PART
    assert found["low"] > 0  # of the setting that decides
    assert found["reason"].startswith("not by default: the accuracy of OPS is ")
    assert "of the 4 pairs of settings tried 3 agree" in found["reason"]
    assert "no other settings were tried on Adult" in beats(lost, OBJPERT, sensitivity="s")["reason"]


def test_what_rescues_no_claim() -> None:
    """Rivals in other scalings or for other neighbours, settings that fail, and settings that the paper prints."""
    lost, there = run_rows("ops", [0.6, 0.7, 0.8]), {"experiment": "s", "scaling": "global"}
    wins = run_rows("ops", [0.8, 0.85, 0.9], variant="bound=range", **there)
    strong = run_rows("objpert", [0.7, 0.75, 0.8], variant="ridge=0.0", **there)

    def found(mine: pd.DataFrame, rival: pd.DataFrame = strong, **other: Any) -> verdicts.Verdict:
        return beats(lost, OBJPERT, mine, rival, sensitivity="s", **other)

    assert found(wins)["verdict"] == verdicts.IN_PART
    assert found(lost.assign(**there, variant="radius=3.0"))["verdict"] == verdicts.FAILS
    uneven = wins.assign(value=wins.value - 0.2 * wins.epsilon.eq(10) + 0.1 * (wins.seed - wins.seed.mean()))
    counted = "of the 1 pairs of settings tried 0 agree with the claim beyond chance and 0 speak against it"
    assert counted in found(uneven)["reason"]
    for other in (strong.assign(adjacency="add_remove"), strong.assign(scaling="unit")):
        assert "of the 0 pairs" in found(wins, other)["reason"]
    hollow = found(wins.assign(violated="T too small"))
    assert hollow["verdict"] == verdicts.FAILS
    assert "of the 0 pairs of settings tried 0 agree" in hollow["reason"]
    printed = {"bound": "paper"}
    assert found(wins, printed=printed)["verdict"] == verdicts.FAILS
    assert found(wins.assign(variant="bound=paper"), printed=printed)["verdict"] == verdicts.IN_PART


def beats_all(*others: pd.DataFrame, first: str = "ops", **other: Any) -> verdicts.Verdict:
    names = [*dict.fromkeys(name for rows in others for name in rows.method if name != first)]
    return run_rules.beats_all(pd.concat(others), dataset="adult", first=first, others=names, **other)


def test_beats_all_takes_the_strongest_that_counts() -> None:
    """One whose guarantee fails, or whose chains have diverged, does not count."""
    ops, weak = run_rows("ops", [0.8, 0.8, 0.85]), run_rows("outpert", [0.6, 0.6, 0.6])
    found = beats_all(ops, OBJPERT, weak)
    assert (found["verdict"], found["ours"]) == (verdicts.HOLDS, pytest.approx(0.2 / 3))
    assert beats_all(ops, OBJPERT, weak, first="objpert")["verdict"] == verdicts.FAILS
    strong = run_rows("objpert", [0.9, 0.9, 0.9])
    diverged = strong.assign(value=strong.value.mask(strong.seed.eq(1)))
    assert beats_all(ops, strong, weak)["verdict"] == verdicts.FAILS
    for hollow in (strong.assign(violated="T too small"), diverged):
        found = beats_all(ops, hollow, weak)
        assert (found["verdict"], found["ours"]) == (verdicts.HOLDS, pytest.approx(0.65 / 3))
    nothing = beats_all(ops, strong.assign(violated="T too small"))
    assert (nothing["verdict"], nothing["asked_low"]) == (verdicts.NOT_TESTABLE, 0)


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([0.70, 0.73, 0.8], verdicts.HOLDS),
        ([0.69, 0.74, 0.3], verdicts.OPEN),  # often, but far below on average
        ([0.60, 0.78, 0.83], verdicts.OPEN),  # as good on average, but at no single budget
        ([0.60, 0.65, 0.8], verdicts.FAILS),
        ([0.80, 0.85, 0.8], verdicts.FAILS),
    ],
)
def test_equal_or_slightly_worse(means: list[float], verdict: str) -> None:
    runs = pd.concat([run_rows("ops", means), OBJPERT])
    settings: dict[str, Any] = {"dataset": "adult", "first": "ops", "second": "objpert"}
    assert run_rules.equal_or_slightly_worse(runs, **settings, slight=0.05)["verdict"] == verdict
    near = run_rows("ops", [0.7, 0.7, 0.8], experiment="s", variant="schedule=phase")
    rescued = run_rules.equal_or_slightly_worse(
        pd.concat([runs, near]), **settings, slight=0.05, sensitivity="s"
    )
    assert rescued["verdict"] == (verdicts.HOLDS if verdict == verdicts.HOLDS else verdicts.IN_PART)


def test_one_setting_must_beat_all() -> None:
    lost = run_rows("ops", [0.6, 0.7, 0.8])
    there = {"experiment": "s", "scaling": "unit"}
    half = run_rows("ops", [0.72, 0.77, 0.82], variant="radius=1.0", **there)  # beats one of the two
    wins = run_rows("ops", [0.8, 0.85, 0.9], variant="radius=3.0", adjacency="add_remove", **there)
    rivals = [OBJPERT, run_rows("outpert", [0.75, 0.8, 0.85])]

    def found(*others: pd.DataFrame) -> verdicts.Verdict:
        return beats_all(lost, *rivals, *others, sensitivity="s")

    assert found(half)["verdict"] == verdicts.FAILS
    assert found(half, wins)["verdict"] == verdicts.IN_PART
    assert "tried 1 agree with the claim beyond chance and 1 speak against it" in found(half, wins)["reason"]
    elsewhere = wins.assign(scaling="raw")
    assert "of the 0 settings" in found(elsewhere)["reason"]


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([0.5, 0.6, 0.7], verdicts.HOLDS),
        ([0.7, 0.75, 0.8], verdicts.OPEN),
        ([0.75, 0.8, 0.85], verdicts.FAILS),  # above one of them
    ],
)
def test_worst_of_all(means: list[float], verdict: str) -> None:
    runs = pd.concat([run_rows("pate", means), OBJPERT, run_rows("outpert", [0.9, 0.9, 0.9])])
    found = run_rules.beats_all(runs, dataset="adult", last="pate", others=["outpert", "objpert"])
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(0.75 - np.mean(means), abs=1e-12)


EPSILONS = [0.05, 0.1, 0.5, 2.0]
RIPPLE = np.array([0.002, -0.001, 0.0, 0.001, -0.002])
WHERE: dict[str, Any] = {"dataset": "adult", "experiment": "fig3"}


def rows(method: str, means: list[float], epsilons: list[float] = EPSILONS, **other: Any) -> pd.DataFrame:
    """Five repeats at each budget."""
    values = {e: mean + RIPPLE for e, mean in zip(epsilons, means, strict=True)}
    return accuracy_rows(method, values, **{"experiment": "fig3", **other})


SGLD = rows("sgld", [0.85], [math.inf])


def reaches(*frames: pd.DataFrame, sgld: bool = True, **other: Any) -> verdicts.Verdict:
    settings = {**WHERE, "first": "dp", "baseline": "sgld", "margin": 0.005, "by": 0.1, **other}
    return run_rules.reaches_baseline(pd.concat([*[SGLD] * sgld, *frames]), **settings)


@pytest.mark.parametrize(
    ("means", "ours", "verdict"),
    [
        ([0.70, 0.849, 0.851, 0.85], 0.1, verdicts.HOLDS),
        ([0.85, 0.849, 0.851, 0.85], 0.05, verdicts.HOLDS),
        ([0.85, 0.80, 0.851, 0.85], 0.5, verdicts.FAILS),
        ([0.70, 0.75, 0.80, 0.84], math.nan, verdicts.FAILS),
        ([0.70, 0.849, 0.851, 0.87], math.nan, verdicts.FAILS),  # another accuracy, if a better one
    ],
)
def test_reaches_from_a_budget_on(means: list[float], ours: float, verdict: str) -> None:
    found = reaches(rows("dp", means))
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(ours, nan_ok=True)


def test_reaches_needs_the_interval_within_the_margin() -> None:
    loose = rows("dp", [0.85] * 4)
    loose["value"] += 8 * np.tile(np.roll(RIPPLE, 2), 4)  # +-.008 or so: neither within nor outside
    found = reaches(loose)
    assert found["verdict"] == verdicts.OPEN
    assert math.isnan(found["ours"])
    wide = reaches(loose, margin=0.05)
    assert (wide["verdict"], wide["ours"]) == (verdicts.HOLDS, pytest.approx(0.05))


def test_reaches_under_other_settings() -> None:
    lost = rows("dp", [0.70, 0.75, 0.80, 0.84])
    kept = rows("dp", [0.70, 0.85, 0.85, 0.85], experiment="s", variant="clip=0.1", adjacency="add_remove")
    other = rows("dp", [0.85] * 4, experiment="s", variant="clip=0.1", scaling="raw")
    found = reaches(lost, kept, sensitivity="s")
    assert found["verdict"] == verdicts.IN_PART
    hollow = kept.assign(violated=np.where(kept.epsilon.ge(0.1), "T too small", ""))
    assert reaches(lost, hollow, sensitivity="s")["verdict"] == verdicts.FAILS
    elsewhere = reaches(lost, other, sensitivity="s")  # there is no SGLD on raw rows to compare with
    assert elsewhere["verdict"] == verdicts.FAILS


def test_a_baseline_at_the_majority_class_is_none() -> None:
    """A method cannot reach what has learned nothing."""
    lost = rows("dp", [0.70, 0.75, 0.80, 0.84])
    there: dict[str, Any] = {"experiment": "s", "variant": "step=0.002"}
    idle = [rows("dp", [0.765] * 4, **there), rows("sgld", [0.765], [math.inf], **there)]
    majority = rows("sgld", [0.76], [math.inf]).assign(metric="majority_accuracy", value=0.76)
    assert reaches(lost, *idle, sensitivity="s")["verdict"] == verdicts.IN_PART
    assert reaches(lost, *idle, majority, sensitivity="s")["verdict"] == verdicts.FAILS
    cheap = idle[0].assign(epsilon_promised=idle[0].epsilon.clip(upper=0.09))
    spent = rows("dp", [0.8] * 4)
    assert price(spent, cheap, idle[1], sensitivity="s")["verdict"] == verdicts.IN_PART
    assert price(spent, cheap, idle[1], majority, sensitivity="s")["verdict"] == verdicts.FAILS


def price(*frames: pd.DataFrame, **other: Any) -> verdicts.Verdict:
    given = {**WHERE, "method": "dp", "baseline": "sgld", "by": 0.1, **other}
    return run_rules.price_of_standard_step(pd.concat(frames), **given)


@pytest.mark.parametrize(
    ("upper", "ours", "verdict"),
    [(0.09, 0.09, verdicts.HOLDS), (1.2, 1.2, verdicts.FAILS), (9.0, math.nan, verdicts.FAILS)],
)
def test_price_is_where_the_event_costs_less_than_asked(upper: float, ours: float, verdict: str) -> None:
    spent = rows("dp", [0.8] * 4)
    capped = spent.assign(epsilon_promised=spent.epsilon.clip(upper=upper) * 0.999)
    found = price(capped)
    assert (found["verdict"], found["ours"]) == (verdict, pytest.approx(0.999 * ours, nan_ok=True))
    there: dict[str, Any] = {"experiment": "s", "variant": "clip=0.1"}
    rescued = price(spent, capped.assign(**there), rows("sgld", [0.85], [math.inf], **there), sensitivity="s")
    assert rescued["verdict"] == (verdicts.IN_PART if ours == 0.09 else verdicts.FAILS)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([900.0, 500.0], verdicts.HOLDS), ([90.0, 50.0], verdicts.FAILS), ([900.0, 50.0], verdicts.OPEN)],
)
def test_chains_are_compared_where_they_have_mixed(values: list[float], verdict: str) -> None:
    epsilons, r_hat = [0.05, 0.1, 0.5], {"metric": "r_hat"}
    runs = pd.concat(
        [
            rows("one", [3.0, 1.01, 1.02], epsilons, **r_hat),
            rows("two", [1.01, 1.01, 1.03], epsilons, **r_hat),
            rows("one", [1.0, *values], epsilons, metric="ess"),
            rows("two", [400.0, 300.0, 200.0], epsilons, metric="ess"),
        ]
    )
    settings = {**WHERE, "first": "one", "second": "two", "metric": "ess", "variant": ""}
    found = run_rules.better_where_mixed(runs, **settings)
    assert found["verdict"] == verdict
    ratios = [values[0] / 300, values[1] / 200]
    assert (found["low"], found["high"]) == pytest.approx((min(ratios), max(ratios)), rel=1e-4)
    stuck = run_rules.better_where_mixed(
        runs.assign(value=runs.value.where(runs.metric.ne("r_hat"), 5.0)), **settings
    )
    assert stuck["verdict"] == verdicts.NOT_TESTABLE


@pytest.mark.slow
@given(st.lists(st.floats(-0.05, 0.05), min_size=12, max_size=12), st.floats(0.0, 0.05))
@settings(max_examples=20, deadline=None)
def test_a_search_judges_both_sides_alike(gaps: list[float], noise: float) -> None:
    """Swapping the two methods swaps what agrees and what contradicts, in the verdict and in the search."""
    rng = np.random.default_rng(0)
    rows = [run_rows("ops", [0.7, 0.75, 0.8]), OBJPERT]
    for at in range(4):
        means = np.array([0.7, 0.75, 0.8]) + gaps[3 * at : 3 * at + 3]
        part = run_rows("ops", list(means), variant=f"radius={at}", experiment="s")
        rows.append(part.assign(value=part.value + noise * rng.standard_normal(len(part))))
    rows.append(run_rows("objpert", [0.7, 0.75, 0.8], variant="ridge=1", experiment="s"))
    runs = pd.concat(rows)
    pair = ("ops", "objpert")
    said = [
        run_rules.beats(runs, dataset="adult", first=one, second=two, sensitivity="s")
        for one, two in (pair, pair[::-1])
    ]
    counts = [re.findall(r"tried (\d+) agree .* (\d+) speak against it", each["reason"])[0] for each in said]
    assert counts[0] == counts[1][::-1]


def test_other_settings_of_fewer_repeats_are_paired_with_as_many_of_the_run() -> None:
    lost, baseline = (
        pd.concat([frame, frame.assign(seed=frame.seed + 5)])
        for frame in (rows("dp", [0.70, 0.75, 0.80, 0.84]), SGLD)
    )
    kept = rows("dp", [0.70, 0.85, 0.85, 0.85], experiment="s", variant="clip=0.1")
    found = reaches(baseline, lost, kept, sensitivity="s", sgld=False)
    assert "of the 1 pairs of settings tried 1 agree with the claim" in found["reason"]
