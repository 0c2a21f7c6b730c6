"""Coverage of intervals from released posteriors, and its figure."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from dplangevin.methods.dpvi import Dpvi
from dplangevin.methods.ops import Ops
from dplangevin.papers.analyses.coverage import Coverage
from dplangevin.samplers.posterior import Rejection

TINY = Coverage(
    {"ops_gdp": Ops(bound="gdp", precision=2.0, sampler=Rejection(1e-9)), "dpvi": Dpvi(precision=2.0)},
    records=60,
    features=2,
    precision=2.0,
    repeats=20,
    epsilons=[0.5, 5.0],
    delta=1e-5,
    levels=[0.5, 0.95],
)


@pytest.mark.parametrize("features", [2, 3, 5])
def test_the_width_of_one_draw_is_that_of_the_hessian_over_many_rows(features: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200_000, features))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    theta = np.array([1.5, -2.0, 0.5, 0.0, 1.0][:features])
    p = 1 / (1 + np.exp(-x @ theta))
    hessian = 0.3 * 60 * (x * (p * (1 - p))[:, None]).T @ x / len(x) + 2.0 * np.eye(features)
    found = replace(TINY, features=features)._laplace(0.3, torch.tensor(theta)[None])
    assert float(found[0]) == pytest.approx(np.linalg.inv(hessian)[0, 0], rel=3e-3)


def test_three_intervals_on_normal_errors() -> None:
    """The error of the data has variance 1, the privacy noise 3, and the prior 100."""
    repeats = 20_000
    rng, asked = np.random.default_rng(1), replace(TINY, repeats=repeats, levels=[0.9])
    truth = 10 * rng.normal(size=2 * repeats)
    fitted = truth + rng.normal(size=2 * repeats)
    centre = fitted[:, None] + math.sqrt(3) * rng.normal(size=(2 * repeats, 2))
    rows = asked._compared({}, truth, centre, np.ones(2 * repeats), 1.0)
    found = {row["interval"]: row for row in rows}
    z = norm.ppf(0.95)
    expected = {"released": 2 * norm.cdf(z / 2) - 1, "noise added": 0.9, "simulated": 0.9}
    for interval, coverage in expected.items():
        assert found[interval]["coverage"] == pytest.approx(coverage, abs=0.01)
        assert found[interval]["low"] < found[interval]["coverage"] < found[interval]["high"]
    assert found["released"]["noise"] == pytest.approx(math.sqrt(3), rel=0.02)
    assert found["released"]["privacy_share"] == pytest.approx(0.75, abs=0.02)
    assert found["simulated"]["width"] == pytest.approx((1 / 100 + 1 / 4) ** -0.5, rel=0.02)


def test_another_prior_than_that_of_the_data_is_refused() -> None:
    with pytest.raises(ValueError, match="dpvi: its prior must be the model's, of precision 2"):
        replace(TINY, methods={"dpvi": Dpvi(precision=1.0)})
