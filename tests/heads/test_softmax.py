"""The problem's constants against automatic differentiation, its fit against scikit-learn's."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from dplangevin.chains.linear import Chain, train
from dplangevin.data import clip_rows
from dplangevin.heads.softmax import accuracy_and_loss, estimated, problem_of, spread
from dplangevin.minimise import minimise

N, P, K = 60, 4, 3
RIDGE = 0.05


@pytest.fixture
def rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(N, P)).astype(np.float32) + 0.5
    return x, (x @ rng.normal(size=(P, K)) + rng.normal(size=(N, K))).argmax(1)


def mean_loss(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """With the ridge halved; w is flat."""
    return F.cross_entropy(x @ w.view(K, P).T, y) + RIDGE / 2 * w.square().sum()


def hessian(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    found = torch.autograd.functional.hessian(lambda at: mean_loss(at, x, y), w)
    assert isinstance(found, Tensor)
    return found


def test_beta_and_lambda_bound_the_hessian(rows: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = torch.as_tensor(rows[0]).double(), torch.as_tensor(rows[1])
    problem = problem_of(rows[0], rows[1], K, 1, 10.0)
    beta = spread(problem) / 2 + RIDGE
    largest = 0.0
    for scale in (0.0, 0.1, 1.0, 10.0):
        w = scale * torch.randn(P * K, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        values = torch.linalg.eigvalsh(hessian(w, x, y))
        assert values[0] >= RIDGE * (1 - 1e-9)
        largest = max(largest, float(values[-1]))
    assert beta / 3 < largest <= beta
    two = torch.stack([x[0], x[0]])  # probabilities 1/2, 1/2, 0: the bound of one record is attained
    w = torch.zeros(K, P, dtype=torch.float64)
    w[2] = -1e3 * x[0] / x[0].square().sum()
    values = torch.linalg.eigvalsh(hessian(w.flatten(), two, y[:2]))
    assert float(values[-1]) == pytest.approx(float(x[0].square().sum()) / 2 + RIDGE)


def test_gradients_stay_below_lipschitz(rows: tuple[np.ndarray, np.ndarray]) -> None:
    x = clip_rows(rows[0], 2.0, 3.0)
    problem = problem_of(x, rows[1], K, 1, 3.0)
    theta = 30 * torch.randn(1, 50, P * K, generator=torch.Generator().manual_seed(4))
    norms = problem.example_grads(theta, torch.arange(N)[None]).norm(dim=-1)
    assert math.sqrt(2) * 3.0 * 0.98 < norms.max() <= math.sqrt(2) * 3.0


def test_the_fit_is_that_of_scikit_learn(rows: tuple[np.ndarray, np.ndarray]) -> None:
    """By `minimise`, with an estimated Hessian too, and by many steps of the chain on full batches."""
    theirs = LogisticRegression(C=1 / (N * RIDGE), fit_intercept=False, tol=1e-10, max_iter=1000)
    theirs.fit(rows[0].astype(np.float64), rows[1])
    x, y = torch.as_tensor(rows[0]).double(), torch.as_tensor(rows[1])
    expected = float(mean_loss(torch.as_tensor(theirs.coef_).flatten(), x, y))
    problem = problem_of(rows[0], rows[1], K, 1, 10.0)
    for solved in (problem, estimated(problem)):
        fit = minimise(solved, torch.tensor([N * RIDGE]), torch.zeros(1, 1, P * K))
        assert abs(float(mean_loss(fit.theta[0, 0], x, y)) - expected) < 1e-9
    steps = 3000
    chain = Chain(np.full(steps, 1 / (spread(problem) + 2 * RIDGE)), np.zeros(steps), RIDGE)
    theta = train(problem, [chain], N, torch.Generator().manual_seed(0))
    assert abs(float(mean_loss(theta[0, 0].double(), x, y)) - expected) < 1e-5


def test_estimated_hessian_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dplangevin.heads.softmax.ROWS", 1000)
    rng = np.random.default_rng(1)
    problem = problem_of(rng.normal(size=(4000, 2)).astype(np.float32), rng.integers(0, 3, 4000), 3, 1, 10.0)
    theta = torch.randn(1, 2, 6, generator=torch.Generator().manual_seed(5))
    exact, found = problem.hessian(theta), estimated(problem).hessian(theta)
    assert 0.001 < float((found - exact).norm() / exact.norm()) < 0.15


def test_accuracy_and_loss(rows: tuple[np.ndarray, np.ndarray]) -> None:
    theta = torch.randn(2, 3, P * K, generator=torch.Generator().manual_seed(6))
    theta[1, 2, 0] = math.nan
    x, y = torch.as_tensor(rows[0]), torch.as_tensor(rows[1])
    accuracy, loss = accuracy_and_loss(theta, x, y)
    for r, e in ((0, 0), (1, 1), (0, 2)):
        margins = x @ theta[r, e].view(K, P).T
        assert float(accuracy[r, e]) == pytest.approx(float((margins.argmax(1) == y).double().mean()))
        assert float(loss[r, e]) == pytest.approx(float(F.cross_entropy(margins, y)), rel=1e-5)
    assert accuracy[1, 2].isnan()
    assert loss[1, 2].isnan()
