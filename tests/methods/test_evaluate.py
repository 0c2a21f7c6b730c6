"""Predictions of releases, their scores against scikit-learn and loops by hand, and how well draws have mixed."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from dplangevin.data import Dataset
from dplangevin.methods.evaluate import all_scores, mixed, predictive, reliability, scores
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, huber
from dplangevin.samplers.diagnostics import mixing

K, M = 5, 300


@pytest.fixture
def made(rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (3, M, K), the last too sure of themselves, and labels that follow the first."""
    p = rng.dirichlet(np.full(K, 2.0), size=(3, M))
    p[2] = p[2] ** 4 / (p[2] ** 4).sum(-1, keepdims=True)
    y = np.array([rng.choice(K, p=row) for row in p[0]])
    return torch.tensor(p), torch.tensor(y)


def by_bin(p: np.ndarray, y: np.ndarray) -> dict[int, list[tuple[float, bool]]]:
    """(confidence, right) of each row, by bins found one row at a time."""
    found: dict[int, list[tuple[float, bool]]] = {}
    for row, label in zip(p, y, strict=True):
        confidence = row.max()
        b = next(b for b in range(1, 16) if (b - 1) / 15 < confidence <= b / 15)
        found.setdefault(b, []).append((confidence, bool(row.argmax() == label)))
    return found


def test_scores_are_those_of_scikit_learn(made: tuple[torch.Tensor, torch.Tensor]) -> None:
    p, y = made
    found = scores(p, y)
    for s in range(3):
        probability, label = p[s].numpy(), y.numpy()
        assert float(found["accuracy"][s]) == accuracy_score(label, probability.argmax(1))
        assert float(found["log_loss"][s]) == pytest.approx(log_loss(label, probability, labels=range(K)))
        each = sum(brier_score_loss(label == k, probability[:, k], pos_label=True) for k in range(K))
        assert float(found["brier"][s]) == pytest.approx(each)
        slow = by_bin(probability, label)
        gaps = [abs(sum(right for _, right in part) - sum(c for c, _ in part)) for part in slow.values()]
        assert float(found["ece"][s]) == pytest.approx(sum(gaps) / M)
        points = {int(row["bin"]): row for row in reliability(p[s : s + 1], y)}
        assert {b: row["count"] for b, row in points.items()} == {b: len(part) for b, part in slow.items()}
        for b, part in slow.items():
            assert points[b]["confidence"] == pytest.approx(np.mean([c for c, _ in part]))
            assert points[b]["accuracy"] == pytest.approx(np.mean([right for _, right in part]))
    assert all(value.dtype == torch.float64 and value.shape == (3,) for value in found.values())
    assert float(found["ece"][0]) < float(found["ece"][2])


def test_a_tie_is_shared_by_the_tied_classes_only() -> None:
    p = torch.tensor([[[0.4, 0.4, 0.2]] * 3])
    assert float(scores(p, torch.tensor([0, 1, 2]))["accuracy"]) == pytest.approx(1 / 3)  # 1/2 + 1/2 + 0
    assert [row["bin"] for row in reliability(p, torch.tensor([0, 1, 2]))] == [7]  # of (.4, .4667]: float32


def test_a_sure_mistake_costs_a_finite_log_loss_and_what_is_no_probability_is_refused() -> None:
    sure = scores(torch.tensor([[[1.0, 0.0]]]), torch.tensor([1]))
    assert float(sure["log_loss"]) == pytest.approx(-math.log(torch.finfo(torch.float32).tiny))
    assert (float(sure["brier"]), float(sure["ece"])) == (2.0, 1.0)
    p, y = torch.full((1, 3, 2), 0.5), torch.tensor([0, 1, 1])
    with pytest.raises(ValueError, match=r"\(S, m, K\)"):
        scores(p[0], y)
    with pytest.raises(ValueError, match=r"\(S, m, K\)"):
        scores(p, y[:2])
    with pytest.raises(ValueError, match=r"0\.\.1"):
        scores(p, y + 1)
    with pytest.raises(ValueError, match="probabilities"):
        reliability(p * 2, y)
    with pytest.raises(ValueError, match="probabilities"):
        scores(p * math.nan, y)


@pytest.mark.parametrize("shared", [True, False])
def test_predictions_average_the_probabilities_of_samples(shared: bool) -> None:
    """sigmoid of the margins, sample by sample; scores of every seed and budget on its own labels."""
    rng = torch.Generator().manual_seed(5)
    theta, x = torch.randn(3, 2, 6, 4, generator=rng), torch.randn(1 if shared else 3, 50, 4, generator=rng)
    y = torch.randint(2, x.shape[:2], generator=rng)
    of = replace(Glm(x, 2.0 * y - 1, LOGISTIC, row_bound=10.0), x_test=x, y_test=y)
    found = predictive(of, theta)
    given = torch.einsum("rekd,rmd->rekm", theta, x.expand(3, -1, -1)).sigmoid().mean(2)
    torch.testing.assert_close(found, torch.stack([1 - given, given], -1))
    every = all_scores(found, y)
    for r in range(3):
        for e in range(2):
            label, p = y[0 if shared else r], given[r, e].double().numpy()
            assert float(every["accuracy"][r, e]) == accuracy_score(label, p > 0.5)
            assert float(every["log_loss"][r, e]) == pytest.approx(log_loss(label, p), rel=1e-5)
            # all classes are summed: of two, twice the score of one
            assert float(every["brier"][r, e]) == pytest.approx(2 * brier_score_loss(label, p), rel=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_mixing_groups_seeds_that_share_data(shared: bool) -> None:
    theta = torch.randn(4, 2, 40, 3, generator=torch.Generator().manual_seed(2))
    theta[3, 1] += 5  # one seed elsewhere
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
    assert mixed(theta[:, :, :3], shared=True) == {}
    assert mixed(theta[:, :, :7], shared=False) == {}


def test_errors_of_regression_are_in_the_units_of_the_target() -> None:
    """Rows of half length, theta twice that: predictions of -1, 0, 1 and, clipped, 1 on a range of [10, 30]."""
    x = torch.tensor([[[-0.5], [0.0], [0.5], [1.0]]])
    y = torch.tensor([[-1.0, 0.0, 1.0, 0.5]])
    rows, labels = x.numpy(), y.numpy()
    data = Dataset(rows, labels, rows, labels, {"target": {"low": 10.0, "high": 30.0}})
    problem = Glm.from_dataset(data, 2, huber(1.0, 1.0))
    assert problem.facts.classes == 1
    found = predictive(problem, torch.tensor([2.0, 0.0])[:, None, None, None])
    assert found[:, 0, :, 0].tolist() == [[10.0, 20.0, 30.0, 30.0], [20.0] * 4]
    every = all_scores(found, problem.y_test)
    assert every["absolute_error"][:, 0].tolist() == [1.25, (10 + 0 + 10 + 5) / 4]
    assert every["squared_error"][:, 0].tolist() == [6.25, (100 + 0 + 100 + 25) / 4]
    with pytest.raises(ValueError, match="the logistic loss is for classes, the labels are numbers"):
        Glm.from_dataset(data, 2)
