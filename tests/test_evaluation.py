import math

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from dplangevin.data import Dataset
from dplangevin.diagnostics import mixing
from dplangevin.evaluation import calibration_error, evaluate, mixed


def answers(shared: bool = False, m: int = 400) -> tuple[torch.Tensor, Dataset]:
    """theta (3, 2, 6, 4) and a data set with m test rows; labels follow no theta exactly."""
    rng = np.random.default_rng(5)
    repeats = 1 if shared else 3
    x = rng.normal(size=(repeats, m, 4))
    y = np.where(rng.random((repeats, m)) < expit(x @ np.array([2.0, -1.0, 0.0, 1.0])), 1.0, -1.0)
    theta = torch.tensor(rng.normal([2.0, -1.0, 0.0, 1.0], 1.0, (3, 2, 6, 4)))
    return theta, Dataset(x[:, :9], y[:, :9], x, y)


def predictive(theta: torch.Tensor, data: Dataset) -> np.ndarray:
    """p(+1) of every test row, (R, E, m), in float64."""
    margins = np.einsum(
        "resd,rmd->resm", theta.numpy(), np.broadcast_to(data.x_test, (3, *data.x_test.shape[1:]))
    )
    return expit(margins).mean(2)


@pytest.mark.parametrize("shared", [False, True])
def test_metrics_are_those_of_scikit_learn(shared: bool) -> None:
    theta, data = answers(shared)
    found, p = evaluate(theta, data), predictive(theta, data)
    for r in range(3):
        y = data.y_test[0 if shared else r]
        for e in range(2):
            one = {name: float(value[r, e]) for name, value in found.items()}
            assert one["accuracy"] == accuracy_score(y, np.where(p[r, e] > 0.5, 1.0, -1.0))
            assert one["log_loss"] == pytest.approx(log_loss(y, p[r, e]), rel=1e-5)
            assert one["brier"] == pytest.approx(brier_score_loss(y, p[r, e], pos_label=1.0), rel=1e-5)
            assert one["ece"] == pytest.approx(slow_calibration_error(p[r, e], y), rel=1e-4)


def slow_calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Row by row, bin by bin."""
    total = 0.0
    for b in range(15):
        inside = [i for i in range(len(y)) if b / 15 < max(p[i], 1 - p[i]) <= (b + 1) / 15]
        right = [(p[i] > 0.5) == (y[i] > 0) for i in inside]
        confidence = [max(p[i], 1 - p[i]) for i in inside]
        total += abs(sum(right) - sum(confidence))
    return total / len(y)


def test_predictions_average_probabilities_over_samples() -> None:
    x = np.array([[[1.0, 0.0]]])
    data = Dataset(x, np.ones((1, 1)), x, np.ones((1, 1)))
    theta = torch.tensor([[[[-1.0, 0.0], [9.0, 0.0]]]])  # p(+1) = .269 and .9999
    found = evaluate(theta, data)
    p = (1 / (1 + math.e) + 1 / (1 + math.exp(-9))) / 2
    assert float(found["accuracy"]) == 1.0
    assert float(found["log_loss"]) == pytest.approx(-math.log(p), rel=1e-6)
    assert float(found["brier"]) == pytest.approx((1 - p) ** 2, rel=1e-6)
    assert float(found["ece"]) == pytest.approx(1 - p, rel=1e-6)


def test_a_coin_toss_is_half_right_and_calibrated() -> None:
    theta, data = answers()
    found = evaluate(torch.zeros_like(theta), data)
    assert (found["accuracy"] == 0.5).all()
    assert (found["log_loss"] - math.log(2)).abs().max() < 1e-6
    assert (found["brier"] - 0.25).abs().max() < 1e-6
    assert found["ece"].max() < 1e-6


def test_confidence_beyond_the_truth_is_an_error_of_calibration() -> None:
    confidence = torch.full((1, 1, 1000), 0.9)
    right = (torch.arange(1000) < 600).float().expand(1, 1, -1)
    assert float(calibration_error(confidence, right)) == pytest.approx(0.3, abs=1e-5)
    assert float(calibration_error(torch.ones(1, 1, 10), torch.ones(1, 1, 10))) == 0.0


@pytest.mark.parametrize("shared", [False, True])
def test_mixing_groups_repeats_that_share_data(shared: bool) -> None:
    theta = torch.randn(4, 2, 40, 3, generator=torch.Generator().manual_seed(2))
    theta[3, 1] += 5  # one repeat elsewhere
    found = mixed(theta, shared)
    assert found["r_hat"].shape == found["ess"].shape == (4, 2)
    if shared:
        assert (found["r_hat"] == found["r_hat"][:1]).all()
        assert float(found["r_hat"][0, 1]) > 1.5  # chains of one posterior that disagree
    else:
        assert found["r_hat"].max() < 1.3  # another data set, another posterior
        assert len(found["r_hat"][:, 0].unique()) == 4
        alone = mixing(theta[2].permute(1, 0, 2)[:, None, None])
        assert torch.equal(alone.ess[0], found["ess"][2])


def test_few_draws_have_no_mixing() -> None:
    assert mixed(torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(2)), shared=True) == {}
    assert mixed(torch.randn(4, 2, 7, 3, generator=torch.Generator().manual_seed(2)), shared=False) == {}
