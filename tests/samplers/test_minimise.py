from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch
from scenarios import linear, logistic, multinomial

from dplangevin.problems.glm import Glm
from dplangevin.samplers.minimise import follow, minimise, newton, one_of


def logistic_loss(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    m = y * (x @ theta)
    return np.logaddexp(0, -m).sum(), -(y / (1 + np.exp(m))) @ x


def huber_loss(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    residual = x @ theta - y
    return scipy.special.huber(0.5, residual).sum(), np.clip(residual, -0.5, 0.5) @ x


def softmax_loss(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    m, truth = x @ theta.reshape(3, -1).T, np.eye(3)[y.astype(int)]
    normaliser = scipy.special.logsumexp(m, 1, keepdims=True)
    return (normaliser.sum() - (m * truth).sum()), ((np.exp(m - normaliser) - truth).T @ x).ravel()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("make", "loss", "least"),
    [(logistic, logistic_loss, 0.5), (linear, huber_loss, 0.01), (multinomial, softmax_loss, 0.5)],
)
def test_perturbed_minima_agree_with_scipy(make: Any, loss: Any, least: float, shared: bool) -> None:
    problem = make(shared=shared)
    ridge = torch.tensor([least, 20.0])
    push = 5 * torch.randn(3, 2, problem.d, generator=torch.Generator().manual_seed(2))
    found = minimise(problem, ridge, push, tolerance=1e-10)
    for r in range(3):
        x, y = (t[0 if shared else r].double().numpy() for t in (problem.x, problem.y))
        for e in range(2):
            b, lam = push[r, e].double().numpy(), float(ridge[e])

            def objective(t: np.ndarray, x=x, y=y, b=b, lam=lam) -> tuple[float, np.ndarray]:
                value, slope = loss(t, x, y)
                return value + lam / 2 * t @ t + b @ t, slope + lam * t + b

            other = scipy.optimize.minimize(
                objective, np.zeros(problem.d), jac=True, method="BFGS", options={"gtol": 1e-9}
            )
            assert np.abs(found.theta[r, e].numpy() - other.x).max() < 1e-6
    assert float(found.gradient_norm.max()) < 1e-10


@pytest.mark.slow
def test_an_unreachable_tolerance_is_an_error_that_says_so() -> None:
    problem = logistic(seeds=1)
    with pytest.raises(ValueError, match=r"no minimum to gradient norm/n 1e-30 within .* raise the ridge"):
        minimise(problem, torch.tensor([1.0]), torch.zeros(1, 1, 5), tolerance=1e-30, max_steps=5)


@pytest.mark.parametrize("make", [logistic, linear, multinomial])
@pytest.mark.parametrize("ridge", [1e-3, 2.0])
def test_newton_arrives_where_the_descent_does(make: Callable[..., Glm], ridge: float) -> None:
    problem = make()
    push = 5 * torch.randn(3, 1, problem.d, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    fit = minimise(problem, torch.tensor([ridge], dtype=torch.float64), push, tolerance=1e-11).theta
    for r in range(3):
        one, far = one_of(problem, r), 30 * torch.ones(problem.d)
        theta, norm, steps = newton(one, ridge, push[r, 0], far, 1e-11)
        assert norm < 1e-11
        assert steps < 30
        assert torch.allclose(theta, fit[r, 0], atol=1e-5, rtol=1e-6)
        theta, norm, _ = follow(one, ridge, push[r, 0], 1e-11)
        assert norm < 1e-11
        assert torch.allclose(theta, fit[r, 0], atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("make", [logistic, linear, multinomial])
def test_a_push_beyond_all_gradients_is_held_by_a_faint_ridge(make: Callable[..., Glm]) -> None:
    """Its theta is 1e6 long, where the loss is all but piecewise linear."""
    problem = make(n=100)
    push = torch.randn(3, 1, problem.d, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = minimise(problem, torch.tensor([1e-6], dtype=torch.float64), 100 * push)
    assert float(found.gradient_norm.max()) < 1e-8
    assert float(found.theta.norm(dim=-1).min()) > 1e6
    found = minimise(problem, torch.tensor([300.0]), 3e6 * push)  # does not stall in single precision
    assert float(found.gradient_norm.max()) < 1e-8
    assert found.steps < 100
