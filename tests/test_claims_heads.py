"""Rules for claims on heads, fine-tuning and Table 4, each verdict provoked; the committed claims on made-up runs."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from head_rows import run
from scipy import stats

from dplangevin import claims
from dplangevin.claims import heads

ROOT = Path(__file__).parents[1]
WHERE = {"method": "dp_sgd", "schedule": "constant", "calibration": "published"}
SIDES = {"paper": "cifar10_resnet18", "stand_in": "cifar10_resnet20"}


def cell(frame: pd.DataFrame) -> claims.Verdict:
    return heads.cell(frame, where=WHERE, published=0.68, margin=0.01, **SIDES)


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [(0.685, claims.REPRODUCED), (0.65, claims.CONTRADICTED), (0.6695, claims.NOT_REPRODUCED)],
)
def test_cell_on_the_papers_network(mean: float, verdict: str) -> None:
    found = cell(run("cifar10_resnet18", "dp_sgd_constant_published", mean))
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(mean)


def test_cell_of_a_network_that_we_lack() -> None:
    found = cell(run("cifar10_resnet20", "dp_sgd_constant_published", 0.68))
    assert found["verdict"] == claims.NOT_TESTABLE
    assert math.isnan(found["ours"])
    assert "no features of cifar10_resnet18" in found["reason"]
    assert "on cifar10_resnet20 68.00 % [67.79, 68.21] over 4 seeds at tight ε 1.9" in found["reason"]


def pair(features: str, gap: float) -> pd.DataFrame:
    frames = [
        run(features, "dp_langevin_constant_tight", 0.6 + gap),
        run(features, "dp_sgd_constant_tight", 0.6),
    ]
    return pd.concat([*frames, run(features, "none_constant", 0.7)], ignore_index=True)


def ordered(frame: pd.DataFrame, **other: Any) -> claims.Verdict:
    test: dict[str, Any] = {"weights": {"dp_langevin": 1.0, "dp_sgd": -1.0}, "what": "gap", **SIDES, **other}
    return heads.ordering(frame, schedule="constant", calibration="tight", **test)


@pytest.mark.parametrize(
    ("paper", "ours", "verdict"),
    [
        (0.01, -0.01, claims.REPRODUCED),
        (None, 0.01, claims.UNDER_CHOICES),
        (None, 0.0005, claims.NOT_REPRODUCED),
        (None, -0.01, claims.CONTRADICTED),
        (-0.01, 0.01, claims.UNDER_CHOICES),
    ],
)
def test_ordering(paper: float | None, ours: float, verdict: str) -> None:
    frame = pair("cifar10_resnet20", ours)
    if paper is not None:
        frame = pd.concat([frame, pair("cifar10_resnet18", paper)], ignore_index=True)
    found = ordered(frame)
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(ours if paper is None else paper)


def test_ordering_with_a_margin_and_several_networks() -> None:
    frame = pair("cifar10_resnet20", -0.004)
    assert ordered(frame, margin=0.01)["verdict"] == claims.UNDER_CHOICES
    both = pd.concat([frame, pair("cifar10_alexnet", 0.02)], ignore_index=True)
    assert ordered(both, paper=["cifar10_resnet18", "cifar10_alexnet"])["verdict"] == claims.REPRODUCED
    with pytest.raises(claims.NoRows, match="no features on which all of"):
        ordered(frame[frame.method.ne("dp_sgd")])


def test_gap_is_a_weighted_sum() -> None:
    """Half of the gap of DP-SGD is .05: at .06 above DP-SGD the gap of .04 is less, at .04 it is more."""
    weights = {"dp_langevin": 1.0, "dp_sgd": -0.5, "none": -0.5}
    assert ordered(pair("cifar10_resnet20", 0.06), weights=weights)["ours"] == pytest.approx(0.01)
    assert ordered(pair("cifar10_resnet20", 0.06), weights=weights)["verdict"] == claims.UNDER_CHOICES
    assert ordered(pair("cifar10_resnet20", 0.04), weights=weights)["verdict"] == claims.CONTRADICTED


def test_welch_sum_of_two_is_that_of_scipy(rng: np.random.Generator) -> None:
    first, second = pd.Series(rng.normal(1, 1, 4)), pd.Series(rng.normal(0, 3, 7))
    found = heads.welch_sum([(1.0, first), (-1.0, second)])
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    scaled = heads.welch_sum([(3.0, first), (-3.0, second)])
    assert scaled == pytest.approx([3 * part for part in found])
