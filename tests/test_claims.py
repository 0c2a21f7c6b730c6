"""Every branch of every rule's verdict."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claim_rows import fact, rows

from dplangevin import claims
from dplangevin.claims import numbers, orderings


def beats(*frames: pd.DataFrame, **settings: Any) -> claims.Verdict:
    return orderings.beats(pd.concat(frames), dataset="adult", first="ops", second="objpert", **settings)


OBJPERT = rows("objpert", [0.7, 0.75, 0.8])


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([0.75, 0.8, 0.85], claims.REPRODUCED),
        ([0.85, 0.9, 0.78], claims.NOT_REPRODUCED),  # above on average, below at one budget
        ([0.7, 0.75, 0.8], claims.NOT_REPRODUCED),
        ([0.65, 0.75, 0.8], claims.CONTRADICTED),
    ],
)
def test_ordering(means: list[float], verdict: str) -> None:
    found = beats(rows("ops", means), OBJPERT)
    assert found["verdict"] == verdict
    assert found["low"] <= found["ours"] <= found["high"]
    assert found["ours"] == pytest.approx(np.mean(means) - 0.75, abs=1e-12)


def test_reason_counts_the_budgets() -> None:
    reason = beats(rows("ops", [0.85, 0.9, 0.78]), OBJPERT)["reason"]
    assert "3 budgets and 5 repeats" in reason
    assert "above 0 with 95 % confidence at 2 (eps 0.1, 1), below it at 1 (eps 10)" in reason
    violated = beats(rows("ops", [0.85, 0.9, 0.78], violated="T < 7"), OBJPERT)["reason"]
    assert "ops violates a condition of its guarantee at 3 of its budgets" in violated


def test_margin_turns_beats_into_as_well_as() -> None:
    near = rows("ops", [0.695, 0.745, 0.795])
    assert beats(near, OBJPERT)["verdict"] == claims.CONTRADICTED
    assert beats(near, OBJPERT, margin=0.01)["verdict"] == claims.REPRODUCED


def test_audited_axis_says_how_it_interpolates() -> None:
    found = beats(rows("ops", [0.75, 0.8, 0.85]), OBJPERT, axis="audited")
    assert found["verdict"] == claims.REPRODUCED
    assert "equal audited epsilon in [0.05, 5] (linear interpolation in ln eps)" in found["reason"]
    apart = beats(rows("ops", [0.75, 0.8, 0.85], epsilon_tight=1e3), OBJPERT, axis="audited")
    assert apart["verdict"] == claims.NOT_TESTABLE
    assert math.isnan(apart["ours"])


def test_sensitivity_run_rescues_a_claim_and_is_named() -> None:
    lost = rows("ops", [0.6, 0.7, 0.8])
    there = {"experiment": "s", "scaling": "global"}
    wins = rows("ops", [0.8, 0.85, 0.9], variant="bound=range;radius=3.0", **there)
    loses = rows("ops", [0.6, 0.7, 0.8], variant="bound=paper;radius=3.0", **there)
    weak = rows("objpert", [0.5, 0.6, 0.7], variant="ridge=0.1", **there)
    strong = rows("objpert", [0.7, 0.75, 0.8], variant="ridge=0.0", **there)
    found = beats(lost, OBJPERT, wins, loses, weak, strong, sensitivity="s")
    assert found["verdict"] == claims.UNDER_CHOICES
    assert found["ours"] < 0
    assert "3 of 4 pairs of settings in s agree" in found["reason"]
    assert (
        "ops (bound=range;radius=3.0) against objpert (ridge=0.0) with rows scaled 'global'"
        in found["reason"]
    )
    assert beats(lost, OBJPERT, loses, strong, sensitivity="s")["verdict"] == claims.CONTRADICTED
    default = beats(rows("ops", [0.75, 0.8, 0.85]), OBJPERT, wins, strong, sensitivity="s")
    assert default["verdict"] == claims.REPRODUCED
    elsewhere = strong.assign(adjacency="add_remove")
    assert "0 of 0 pairs" in beats(lost, OBJPERT, wins, elsewhere, sensitivity="s")["reason"]
    default_rival = beats(lost, OBJPERT.assign(scaling="global"), wins, loses, sensitivity="s")
    assert "1 of 2 pairs of settings in s agree" in default_rival["reason"]
    assert "against objpert (default)" in default_rival["reason"]
    assert "s does not cover adult" in beats(lost, OBJPERT, sensitivity="s")["reason"]
    other_scaling = weak.assign(scaling="unit")
    assert "0 of 0 pairs" in beats(lost, OBJPERT, wins, other_scaling, sensitivity="s")["reason"]


def test_beats_all_takes_the_strongest() -> None:
    runs = pd.concat([rows("ops", [0.8, 0.8, 0.85]), OBJPERT, rows("outpert", [0.6, 0.6, 0.6])])

    def verdict(first: str, *others: str) -> claims.Verdict:
        return orderings.beats_all(runs, dataset="adult", first=first, others=list(others))

    assert verdict("ops", "objpert", "outpert")["verdict"] == claims.REPRODUCED
    assert verdict("ops", "objpert", "outpert")["ours"] == pytest.approx(0.2 / 3)
    assert verdict("objpert", "ops", "outpert")["verdict"] == claims.CONTRADICTED
    assert "ops: contradicted; outpert: reproduced" in verdict("objpert", "ops", "outpert")["reason"]


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([0.70, 0.73, 0.8], claims.REPRODUCED),
        ([0.69, 0.74, 0.3], claims.NOT_REPRODUCED),  # often, but far below on average
        ([0.60, 0.78, 0.83], claims.NOT_REPRODUCED),  # as good on average, but at no single budget
        ([0.60, 0.65, 0.8], claims.CONTRADICTED),
        ([0.80, 0.85, 0.8], claims.CONTRADICTED),
    ],
)
def test_equal_or_slightly_worse(means: list[float], verdict: str) -> None:
    runs = pd.concat([rows("ops", means), OBJPERT])
    settings: dict[str, Any] = {"dataset": "adult", "first": "ops", "second": "objpert"}
    assert orderings.equal_or_slightly_worse(runs, **settings, slight=0.05)["verdict"] == verdict
    near = rows("ops", [0.7, 0.7, 0.8], experiment="s", variant="schedule=phase")
    rescued = orderings.equal_or_slightly_worse(
        pd.concat([runs, near]), **settings, slight=0.05, sensitivity="s"
    )
    assert rescued["verdict"] == (claims.REPRODUCED if verdict == claims.REPRODUCED else claims.UNDER_CHOICES)
    apart = pd.concat([rows("ops", means, epsilon_tight=0.0), OBJPERT])
    found = orderings.equal_or_slightly_worse(apart, **settings, slight=0.05, axis="audited")
    assert found["verdict"] == claims.NOT_TESTABLE


def test_one_setting_must_beat_all() -> None:
    lost = rows("ops", [0.6, 0.7, 0.8])
    there = {"experiment": "s", "scaling": "unit"}
    half = rows("ops", [0.72, 0.77, 0.82], variant="radius=1.0", **there)  # beats one of the two
    wins = rows("ops", [0.8, 0.85, 0.9], variant="radius=3.0", adjacency="add_remove", **there)
    rivals = [OBJPERT, rows("outpert", [0.75, 0.8, 0.85])]

    def found(*others: pd.DataFrame) -> claims.Verdict:
        names = ["objpert", "outpert"]
        runs = pd.concat([lost, *rivals, *others])
        return orderings.beats_all(runs, dataset="adult", first="ops", others=names, sensitivity="s")

    assert found(half)["verdict"] == claims.CONTRADICTED
    assert "0 of 1 settings of ops in s agree" in found(half)["reason"]
    assert found(half, wins)["verdict"] == claims.UNDER_CHOICES
    assert "1 of 2 settings of ops in s agree, for example ops (radius=3.0)" in found(half, wins)["reason"]
    assert "at least 0.05" in found(half, wins)["reason"]
    elsewhere = wins.assign(scaling="raw")
    assert "0 of 0 settings" in found(elsewhere)["reason"]
    assert "s does not cover adult" in found()["reason"]


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([0.5, 0.6, 0.7], claims.REPRODUCED),
        ([0.7, 0.75, 0.8], claims.NOT_REPRODUCED),
        ([0.75, 0.8, 0.85], claims.CONTRADICTED),  # above one of them
    ],
)
def test_worst_of_all(means: list[float], verdict: str) -> None:
    runs = pd.concat([rows("pate", means), OBJPERT, rows("outpert", [0.9, 0.9, 0.9])])
    found = orderings.worst_of_all(runs, dataset="adult", last="pate", others=["outpert", "objpert"])
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(0.75 - np.mean(means), abs=1e-12)


def test_reason_names_neighbours_diverged_chains_and_metric() -> None:
    wild = rows("ops", [0.75, 0.8, 0.85], violated="2 of 5 chains diverged", adjacency="add_remove")
    found = beats(wild.assign(metric="ess"), OBJPERT.assign(metric="ess"), metric="ess")
    assert found["verdict"] == claims.REPRODUCED
    assert found["reason"].startswith("ess of ops minus objpert")
    assert "budgets for different neighbours: ops add_remove, objpert replace_one" in found["reason"]
    assert "ops has diverged chains at 3 of its budgets" in found["reason"]
    assert "condition" not in found["reason"]


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [
        ([2.0, 4.0, 8.0], claims.REPRODUCED),
        ([0.5, 4.0, 8.0], claims.NOT_REPRODUCED),
        ([0.5, 0.9, 1.0], claims.CONTRADICTED),
        ([np.inf] * 3, claims.NOT_TESTABLE),
    ],
)
def test_loose(factor: list[float], verdict: str) -> None:
    runs = rows("dp_sgld", [0.6, 0.7, 0.8])
    runs["epsilon_tight"] = runs.epsilon / np.repeat(factor, 5)
    found = numbers.loose(runs, dataset="adult", method="dp_sgld")
    assert found["verdict"] == verdict
    if verdict == claims.REPRODUCED:
        assert (found["ours"], found["low"], found["high"]) == (4.0, 2.0, 8.0)


def test_theorem4_constant_and_counts() -> None:
    runs = pd.concat([rows("dp_sgld", [0.6, 0.7, 0.8]), fact("rows_train", 32561.0)])
    settings: dict[str, Any] = {"dataset": "adult", "method": "dp_sgld"}
    found = numbers.theorem4_constant(runs, **settings, bounds=(1000, 10000))
    assert found["ours"] == pytest.approx(128 * math.log(2.5 * 32561 / 1e-5) * math.log(2e5))
    assert found["verdict"] == claims.CONTRADICTED
    wide = numbers.theorem4_constant(runs, **settings, bounds=(1000, 100000))
    assert wide["verdict"] == claims.REPRODUCED
    same = numbers.count(runs, dataset="adult", metric="rows_train", published=32561)
    assert same["verdict"] == claims.REPRODUCED
    assert (
        numbers.count(runs, dataset="adult", metric="rows_train", published=1)["verdict"]
        == claims.CONTRADICTED
    )
    with pytest.raises(ValueError, match="conf/claim"):
        numbers.count(runs, dataset="adult", metric="features", published=109)
