"""Every branch of every rule on an analysis, and on Table 4 of ryffel2022 and its lemma."""

import math
from typing import Any

import fake_results
import numpy as np
import pandas as pd
import pytest
import torch
from fake_results import head_run

from dplangevin.papers.claims import analyses, ryffel2022, verdicts

NAN = math.nan
ROW = {
    "id": "a", "mechanism": "steps", "chosen": NAN, "solved": NAN, "note": NAN, "epsilon_claimed": 1.0,
    "epsilon_replace_one": 2.0, "epsilon_add_remove": 1.5, "epsilon_formula": NAN, "formula": NAN,
    "epsilon_attack": 0.5, "attack_runs": 10, "rescued": 0, "tight": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, verdicts.NOT_REPRODUCED),
        ({"epsilon_replace_one": 1.0}, verdicts.REPRODUCED),
        ({"epsilon_attack": 1.1, "epsilon_add_remove": 0.9}, verdicts.CONTRADICTED),
        ({"epsilon_add_remove": 0.9}, verdicts.UNDER_CHOICES),
        ({"epsilon_attack": 1.1, "solved": "batch >= 9", "rescued": 1}, verdicts.UNDER_CHOICES),
        ({"mechanism": NAN, "note": "no settings"}, verdicts.NOT_TESTABLE),
    ],
)
def test_promise(change: dict[str, Any], verdict: str) -> None:
    other = {**ROW, "id": "b", "epsilon_replace_one": 0.1}
    found = analyses.guarantee(pd.DataFrame([{**ROW, **change}, other]), id="a")
    assert found["verdict"] == verdict
    if verdict == verdicts.NOT_TESTABLE:
        assert found["reason"] == "no settings"
    elif "epsilon_add_remove" in change:
        assert "it holds for add/remove neighbours only" in found["reason"]
    elif "solved" in change:
        assert "hold for batch >= 9" in found["reason"]
    if change == {}:
        assert (found["ours"], found["low"], found["high"]) == (2.0, 0.5, 2.0)


def test_an_upper_bound_is_no_measurement() -> None:
    found = analyses.guarantee(pd.DataFrame([{**ROW, "tight": 0, "attack_runs": 0}]), id="a")
    assert math.isnan(found["ours"])
    assert (found["low"], found["high"]) == (0.5, 2.0)
    assert "the proven ε is 2" in found["reason"]
    assert "one pair that the theorem's hypotheses admit costs exactly 0.5" in found["reason"]


FRAME = pd.DataFrame(
    {"curve": ["a", "a", "b", "b"], "n": [1, 100, 1, 100], "eta": [0.1029, 1.029, 0.05, 0.25], "note": "x"}
)


def test_printed() -> None:
    def printed(value: float, digits: int = 3, **others: Any) -> verdicts.Verdict:
        where = {"curve": "a", "n": 1}
        return analyses.printed(FRAME, where=where, column="eta", published=value, digits=digits, **others)

    assert printed(0.103)["verdict"] == verdicts.REPRODUCED
    assert printed(0.1)["verdict"] == verdicts.CONTRADICTED
    rescued = printed(0.25, others={"curve": "b"}, names=["curve", "n"])
    assert rescued["verdict"] == verdicts.UNDER_CHOICES
    assert rescued["reason"].endswith("equal with b, n 100")
    missed = printed(0.04, others={"curve": "b"}, names=["n"])
    assert missed["verdict"] == verdicts.CONTRADICTED
    assert missed["reason"].endswith("nearest with n 1")
    with pytest.raises(ValueError, match="a printed number needs one"):
        analyses.printed(FRAME, where={"curve": "a"}, column="eta", published=1.0, digits=1)


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ([0, 2], verdicts.REPRODUCED),
        ([0.5, None], verdicts.NOT_REPRODUCED),
        ([None, 0.1], verdicts.CONTRADICTED),
    ],
)
def test_inside(bounds: list[float | None], verdict: str) -> None:
    asked: dict[str, Any] = {"where": {"curve": "a"}, "column": "eta", "bounds": bounds}
    found = analyses.inside(FRAME, **asked)
    assert found["verdict"] == verdict
    assert (found["low"], found["high"]) == (0.1029, 1.029)
    refuted = verdict if verdict == verdicts.REPRODUCED else verdicts.CONTRADICTED
    assert analyses.inside(FRAME, **asked, strict=True)["verdict"] == refuted


def test_inside_at_the_smallest_value_of_a_column() -> None:
    found = analyses.inside(FRAME, where={}, column="eta", bounds=[0, 0.2], smallest="n")
    assert found["verdict"] == verdicts.REPRODUCED
    assert "at n 1: 0.05 to 0.1029 in 2 cases" in found["reason"]


def test_ratio_matches_rows() -> None:
    sides: dict[str, Any] = {"top": {"curve": "a"}, "bottom": {"curve": "b"}, "column": "eta", "keys": ["n"]}
    found = analyses.ratio(FRAME, **sides, bounds=[2, 5])
    assert found["verdict"] == verdicts.REPRODUCED
    assert (found["low"], found["high"]) == (pytest.approx(2.058), pytest.approx(4.116))
    assert "largest at n 100" in found["reason"]
    assert analyses.ratio(FRAME, **sides, bounds=[None, 3])["verdict"] == verdicts.NOT_REPRODUCED
    assert analyses.ratio(FRAME, **sides, bounds=[None, 3], strict=True)["verdict"] == verdicts.CONTRADICTED
    apart = FRAME.assign(n=[1, 2, 3, 4])
    assert analyses.ratio(apart, **sides, bounds=[0, 1])["verdict"] == verdicts.NOT_TESTABLE


def test_growth_is_the_exponent() -> None:
    settings: dict[str, Any] = {"where": {}, "x": "n", "y": "eta", "by": ["curve"]}
    found = analyses.growth(FRAME, **settings, bounds=[0.3, 0.6])
    assert found["verdict"] == verdicts.REPRODUCED
    assert (found["low"], found["high"]) == (pytest.approx(math.log(5) / math.log(100)), pytest.approx(0.5))
    alone = FRAME[FRAME.n.eq(1)]
    assert analyses.growth(alone, **settings, bounds=[0, 1])["verdict"] == verdicts.NOT_TESTABLE


def test_no_rows_is_an_error_that_names_them() -> None:
    with pytest.raises(ValueError, match=r"no row of the analysis has \{'curve': 'c'\}"):
        verdicts.rows_where(FRAME, {"curve": "c"})
    assert len(verdicts.rows_where(FRAME, {"curve": ["a", "c"]})) == 2


def test_printed_from_others() -> None:
    frame = pd.DataFrame()
    same = ryffel2022.printed(frame, value=0.0179, published=0.018, digits=2, others={})
    assert same["verdict"] == verdicts.REPRODUCED
    found = ryffel2022.printed(frame, value=1.0, published=2.0, digits=1, others={"doubled": 2.1})
    assert (found["verdict"], found["high"]) == (verdicts.UNDER_CHOICES, 2.1)
    assert (
        ryffel2022.printed(frame, value=1.0, published=2.0, digits=1, others={})["verdict"]
        == verdicts.CONTRADICTED
    )


def test_smoothness_needs_the_papers_network() -> None:
    ours, theirs = (head_run(f"cifar10_resnet{n}", "none_constant", 0.7, smoothness=55.3) for n in (20, 18))
    asked: dict[str, Any] = {"features": "cifar10_resnet18", "published": 55, "digits": 2}
    lacking = ryffel2022.smoothness(ours, **asked)
    assert lacking["verdict"] == verdicts.NOT_TESTABLE
    assert "ResNet-20 features of CIFAR-10: 55.3" in lacking["reason"]
    assert ryffel2022.smoothness(pd.concat([ours, theirs]), **asked)["verdict"] == verdicts.REPRODUCED


def test_magnitude() -> None:
    """Ratios of 2.5e-2 with d = classes and 3.9e-4 with d = classes x features."""
    frame = fake_results.heads()
    assert ryffel2022.magnitude(frame, most=0.1)["verdict"] == verdicts.REPRODUCED
    assert ryffel2022.magnitude(frame, most=1e-3)["verdict"] == verdicts.UNDER_CHOICES
    assert ryffel2022.magnitude(frame, most=1e-5)["verdict"] == verdicts.CONTRADICTED
    with pytest.raises(verdicts.NoRows, match="no DP-Langevin run"):
        ryffel2022.magnitude(frame[frame.method.eq("sgd")], most=1.0)


def test_hessian_is_that_of_autograd(rng: np.random.Generator) -> None:
    w, x, y = rng.normal(size=(3, 2)), rng.normal(size=(5, 2)), torch.tensor([0, 1, 2, 1, 0])

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(torch.as_tensor(x) @ flat.reshape(3, 2).T, y)

    exact = torch.autograd.functional.hessian(loss, torch.as_tensor(w).flatten()).numpy()
    assert ryffel2022.hessian(w, x) == pytest.approx(exact, abs=1e-12)


def test_lemma() -> None:
    """Two classes at W = 0 attain (1/2) lambda_max: with lambda |W|^2 the curvature is lambda above beta."""
    kind: dict[str, Any] = {"problems": 3, "precision": 0.1}
    top = ryffel2022.lemma(pd.DataFrame(), classes=[2], end="top", **kind)
    assert top["verdict"] == verdicts.UNDER_CHOICES
    assert 1.01 < top["ours"] < 1.3
    assert "1 with (λ/2)|W|²" in top["reason"]
    bottom = ryffel2022.lemma(pd.DataFrame(), classes=[2], end="bottom", **kind)
    assert (bottom["verdict"], bottom["ours"]) == (verdicts.REPRODUCED, pytest.approx(2.0))


X = np.array([10.0, 100.0, 1000.0, 10000.0])


def power(exponent: float, error: float) -> pd.DataFrame:
    """Values on a power law with relative errors `error`."""
    value = 3 * X**exponent
    half = 1.96 * error * value
    return pd.DataFrame({"x": X, "value": value, "low": value - half, "high": value + half, "kind": "a"})


def test_values_without_spread_are_fitted_as_exact() -> None:
    rows = power(0.25, 0.0)
    named = rows.rename(columns={"value": "eta"})
    found = analyses.exponent(named, where={"kind": "a"}, x="x", bounds=[0.2, 0.3], column="eta")
    assert (found["verdict"], found["ours"]) == (verdicts.REPRODUCED, pytest.approx(0.25))


@pytest.mark.parametrize(
    ("error", "bounds", "verdict"),
    [
        (0.01, [-0.6, -0.4], verdicts.REPRODUCED),
        (0.01, [None, -0.4], verdicts.REPRODUCED),
        (0.01, [-0.4, None], verdicts.CONTRADICTED),
        (0.01, [None, -0.6], verdicts.CONTRADICTED),
        (0.5, [-0.6, -0.4], verdicts.NOT_REPRODUCED),
    ],
)
def test_exponent(error: float, bounds: list[float | None], verdict: str) -> None:
    found = analyses.exponent(power(-0.5, error), where={"kind": "a"}, x="x", bounds=bounds)
    assert found["verdict"] == verdict
    assert found["low"] < found["ours"] < found["high"]


def test_one_value_is_not_a_slope() -> None:
    found = analyses.exponent(power(1, 0.1), where={"kind": "a"}, x="x", bounds=[0, 1], first=5000)
    assert found["verdict"] == verdicts.NOT_TESTABLE
    with pytest.raises(verdicts.NoRows, match="no row"):
        analyses.exponent(power(1, 0.1), where={"kind": "b"}, x="x", bounds=[0, 1])
