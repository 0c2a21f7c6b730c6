"""Every branch of every rule on an analysis, and on Table 4 of ryffel2022 and its lemma."""

import math
import re
from functools import partial
from typing import Any

import fake_results
import numpy as np
import pandas as pd
import pytest
from fake_results import head_run

from dplangevin.papers.claims import row_rules, ryffel2022, verdicts
from dplangevin.reporting import words
from dplangevin.text import number

NAN = math.nan
ROW = {
    "id": "a", "mechanism": "steps", "chosen": NAN, "solved": NAN, "note": NAN, "epsilon_claimed": 1.0,
    "epsilon_replace_one": 2.0, "epsilon_add_remove": 1.5, "epsilon_formula": NAN, "formula": NAN,
    "formula_adjacency": "replace_one", "epsilon_attack": 0.5, "epsilon_attack_add_remove": NAN, "attack_runs": 10,
    "rescued": 0, "tight": 1, "epsilon_solved": 0.9,
}  # fmt: skip
TOOL = {"epsilon_add_remove": 0.9, "formula_adjacency": "add_remove"}


@pytest.mark.parametrize(
    ("change", "verdict", "numbers", "measure"),
    [
        ({}, verdicts.FAILS, (2.0, NAN, NAN), "exact"),  # exact, whatever an attack shows
        ({"epsilon_replace_one": 1.0}, verdicts.HOLDS, (1.0, NAN, NAN), "exact"),
        (TOOL, verdicts.IN_PART, (0.9, NAN, NAN), "exact"),
        ({"epsilon_attack": 1.1, "rescued": 1}, verdicts.IN_PART, (0.9, NAN, NAN), "exact"),
        ({"mechanism": NAN, "note": "no settings"}, verdicts.NOT_TESTABLE, (NAN, NAN, NAN), ""),
        ({"tight": 0}, verdicts.OPEN, (NAN, 0.5, 2.0), verdicts.ATTACK),
        (
            {"tight": 0, "attack_runs": 0, "epsilon_attack": 1.1},
            verdicts.FAILS,
            (NAN, 1.1, 2.0),
            verdicts.PAIR,
        ),
        ({"tight": 0, "epsilon_attack": 1.1, **TOOL}, verdicts.IN_PART, (NAN, NAN, 0.9), verdicts.ATTACK),
    ],
)
def test_a_guarantee_is_judged_by_the_price_that_decides(
    change: dict[str, Any], verdict: str, numbers: tuple[float, float, float], measure: str
) -> None:
    """An exact price is a measurement, an upper bound is none."""
    other = {**ROW, "id": "b", "epsilon_replace_one": 0.1}
    found = row_rules.guarantee(pd.DataFrame([{**ROW, **change}, other]), id="a")
    assert (found["verdict"], found["measure"]) == (verdict, measure)
    assert [found[name] for name in ("ours", "low", "high")] == pytest.approx(numbers, nan_ok=True)


def test_bounds_are_rounded_outward(rng: np.random.Generator) -> None:
    for value in np.exp(rng.uniform(-12, 12, 300)):
        least, most = (float(bound(value)) for bound in (words.at_least, words.at_most))
        assert least <= value <= most
        assert most - least <= 0.0101 * value
    for exact in (0.03, 1.0, 7.14, 1320.0):
        assert words.at_least(exact) == words.at_most(exact) == number(exact)
        assert words.at_most(exact * (1 + 1e-12)) == words.at_least(exact * (1 - 1e-12)) == number(exact)
    assert (words.at_least(7.998), words.at_most(1.6738)) == ("7.99", "1.68")
    assert [words.at_most(value) for value in (0.0, math.inf, NAN)] == ["0", "∞", ""]


FRAME = pd.DataFrame(
    {"curve": ["a", "a", "b", "b"], "n": [1, 100, 1, 100], "eta": [0.1029, 1.029, 0.05, 0.25], "note": "x"}
)


def test_printed() -> None:
    def printed(value: float, digits: int = 3, **others: Any) -> verdicts.Verdict:
        where = {"curve": "a", "n": 1}
        return row_rules.printed(FRAME, where=where, column="eta", published=value, digits=digits, **others)

    assert printed(0.103)["verdict"] == verdicts.HOLDS
    assert printed(0.1)["verdict"] == verdicts.FAILS
    rescued = printed(0.25, others={"curve": "b"}, names=["curve", "n"])
    assert rescued["verdict"] == verdicts.IN_PART
    assert "b, n 100: 0.25" in rescued["reason"]
    assert printed(0.05, others={"curve": "b"}, names=["curve"])["verdict"] == verdicts.IN_PART  # both are b
    missed = printed(0.04, others={"curve": "b"}, names=["n"])
    assert missed["verdict"] == verdicts.FAILS
    assert "n 1: 0.05; n 100: 0.25" in missed["reason"]
    with pytest.raises(ValueError, match="a printed number needs one"):
        row_rules.printed(FRAME, where={"curve": "a"}, column="eta", published=1.0, digits=1)


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [([0, 2], verdicts.HOLDS), ([0.5, None], verdicts.OPEN), ([None, 0.1], verdicts.FAILS)],
)
def test_inside(bounds: list[float | None], verdict: str) -> None:
    asked: dict[str, Any] = {"where": {"curve": "a"}, "column": "eta", "bounds": bounds}
    found = row_rules.inside(FRAME, **asked)
    assert found["verdict"] == verdict
    assert (found["low"], found["high"]) == (0.1029, 1.029)
    refuted = verdict if verdict == verdicts.HOLDS else verdicts.FAILS
    assert row_rules.inside(FRAME, **asked, strict=True)["verdict"] == refuted


@pytest.mark.parametrize(
    ("high", "others", "smallest", "verdict"),
    [
        (1.0, {"curve": "b"}, "", verdicts.IN_PART),
        (0.1, {"curve": "b"}, "", verdicts.FAILS),
        (1.0, None, "n", verdicts.HOLDS),
    ],
)
def test_another_choice_or_a_limit(high: float, others: Any, smallest: str, verdict: str) -> None:
    asked: dict[str, Any] = {"column": "eta", "strict": True, "measure": "exact", "bounds": [None, high]}
    found = row_rules.inside(FRAME, where={"curve": "a"}, others=others, smallest=smallest, **asked)
    assert (found["verdict"], found["measure"]) == (verdict, "exact")


def test_ratio_matches_rows() -> None:
    sides: dict[str, Any] = {"where": {"curve": "a"}, "over": {"curve": "b"}, "column": "eta", "keys": ["n"]}
    found = row_rules.inside(FRAME, **sides, bounds=[2, 5])
    assert found["verdict"] == verdicts.HOLDS
    assert (found["low"], found["high"]) == (pytest.approx(2.058), pytest.approx(4.116))
    assert "largest at n 100" in found["reason"]
    assert row_rules.inside(FRAME, **sides, bounds=[None, 3])["verdict"] == verdicts.OPEN
    assert row_rules.inside(FRAME, **sides, bounds=[None, 3], strict=True)["verdict"] == verdicts.FAILS
    apart = FRAME.assign(n=[1, 2, 3, 4])
    assert row_rules.inside(apart, **sides, bounds=[0, 1])["verdict"] == verdicts.NOT_TESTABLE


def test_growth_is_the_exponent() -> None:
    settings: dict[str, Any] = {"where": {}, "x": "n", "column": "eta", "by": ["curve"]}
    found = row_rules.inside(FRAME, **settings, bounds=[0.3, 0.6])
    assert found["verdict"] == verdicts.HOLDS
    assert (found["low"], found["high"]) == (pytest.approx(math.log(5) / math.log(100)), pytest.approx(0.5))
    alone = FRAME[FRAME.n.eq(1)]
    assert row_rules.inside(alone, **settings, bounds=[0, 1])["verdict"] == verdicts.NOT_TESTABLE


def test_smoothness_needs_the_papers_network() -> None:
    ours, theirs = (head_run(f"cifar10_resnet{n}", "none_constant", 0.7, smoothness=55.3) for n in (20, 18))
    asked: dict[str, Any] = {"features": "cifar10_resnet18", "published": 55, "digits": 2}
    lacking = ryffel2022.smoothness(ours, **asked)
    assert lacking["verdict"] == verdicts.NOT_TESTABLE
    assert "ResNet-20 features of CIFAR-10: 55.3" in lacking["reason"]
    assert ryffel2022.smoothness(pd.concat([ours, theirs]), **asked)["verdict"] == verdicts.HOLDS


def test_ratios_on_features() -> None:
    """Ratios of 2.5e-2 with d = classes and 3.9e-4 with d = classes x features, at β/λ = 20/0.001."""
    frame = fake_results.heads()
    numbers: Any = partial(ryffel2022.growth_ratios, paper=[], features={})
    given: dict[str, Any] = {
        "numbers": numbers,
        "names": "task",
        "column": "ratio_classes",
        "others": "ratio_theorem",
    }
    for most, verdict in ((0.1, verdicts.HOLDS), (1e-3, verdicts.IN_PART), (1e-5, verdicts.FAILS)):
        assert row_rules.inside(frame, bounds=[None, most], **given)["verdict"] == verdict
    with pytest.raises(verdicts.NoRows, match="no DP-Langevin run"):
        row_rules.inside(frame[frame.method.eq("sgd")], bounds=[None, 1.0], **given)
    found = row_rules.inside(frame, bounds=[20001, None], numbers=numbers, column="condition")
    assert (found["verdict"], found["ours"]) == (verdicts.FAILS, pytest.approx(20000))


@pytest.mark.parametrize(
    ("given", "verdict", "ours"),
    [
        ({"formulas": "2 * b * 0.01", "published": 1, "refutes": False}, verdicts.HOLDS, 1.0),
        ({"formulas": "2 * b * 0.02", "published": 1, "refutes": False}, verdicts.OPEN, 2.0),
        ({"formulas": "abs(1 / 4 - 0.26)", "bounds": [None, 0.001]}, verdicts.FAILS, 0.01),
        ({"formulas": {1: "2 - 1", 2: "1.5 - 1"}, "bounds": [0, None], "more": True}, verdicts.HOLDS, 0.5),
        ({"formulas": {1: "2 - 1", 2: "1 - 1"}, "bounds": [0, None], "more": True}, verdicts.OPEN, 0),
        ({"formulas": {1: "1 - 2", 2: "0 - 1"}, "bounds": [0, None], "more": True}, verdicts.FAILS, -1),
        ({"formulas": "b", "published": 2.5, "others": {"half": "b / 20"}}, verdicts.IN_PART, 2.5),
    ],
)
def test_computed(given: dict[str, Any], verdict: str, ours: float) -> None:
    found = row_rules.computed(pd.DataFrame(), what="", given={"b": 50}, **given)
    assert (found["verdict"], found["ours"]) == (verdict, pytest.approx(ours))


def test_lemma() -> None:
    """Two classes at W = 0 attain (1/2) lambda_max: with lambda |W|^2 the curvature is lambda above beta."""
    kind: dict[str, Any] = {"problems": 3, "precision": 0.1}
    top = ryffel2022.lemma(pd.DataFrame(), classes=[2], end="top", **kind)
    assert top["verdict"] == verdicts.IN_PART
    assert top["ours"] == pytest.approx(1.0)
    printed, proof = re.findall(
        r"λ\|W\|²: [\d.]+ to ([\d.]+) in .*\(λ/2\)\|W\|²: [\d.]+ to ([\d.]+)", top["reason"]
    )[0]
    assert 1.01 < float(printed) < 1.3
    assert proof == "1"
    bottom = ryffel2022.lemma(pd.DataFrame(), classes=[2], end="bottom", **kind)
    assert (bottom["verdict"], bottom["ours"]) == (verdicts.HOLDS, pytest.approx(2.0))


X = np.array([10.0, 100.0, 1000.0, 10000.0])


def power(exponent: float, error: float) -> pd.DataFrame:
    """Values on a power law with relative errors `error`."""
    value = 3 * X**exponent
    half = 1.96 * error * value
    return pd.DataFrame({"x": X, "value": value, "low": value - half, "high": value + half, "kind": "a"})


@pytest.mark.parametrize(
    ("error", "bounds", "verdict"),
    [
        (0.01, [-0.6, -0.4], verdicts.HOLDS),
        (0.01, [None, -0.4], verdicts.HOLDS),
        (0.01, [-0.4, None], verdicts.FAILS),
        (0.01, [None, -0.6], verdicts.FAILS),
        (0.5, [-0.6, -0.4], verdicts.OPEN),
    ],
)
def test_exponent(error: float, bounds: list[float | None], verdict: str) -> None:
    found = row_rules.covered(power(-0.5, error), where={"kind": "a"}, x="x", bounds=bounds)
    assert found["verdict"] == verdict
    assert found["low"] < found["ours"] < found["high"]


def test_one_value_is_not_a_slope() -> None:
    found = row_rules.covered(power(1, 0.1), where={"kind": "a"}, x="x", bounds=[0, 1], first=5000)
    assert found["verdict"] == verdicts.NOT_TESTABLE
