"""DP-SGFS: its kernel, its noise and the covariance that it releases."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from sampling import config
from scenarios import gaussian, logistic

from dplangevin import noise
from dplangevin.kernels.sgfs import SgfsState, sgfs
from dplangevin.methods.dp_sgfs import DpSgfs
from dplangevin.privacy import Budget, FisherScoringDpEvent


def make(**overrides: Any) -> DpSgfs:
    return instantiate(config().method.dp_sgfs, **overrides)


@pytest.mark.parametrize(("temperature", "heat"), [("printed", 1.0), ("proper", 4.0)])
def test_dp_sgfs_at_infinite_epsilon_is_sgfs(temperature: str, heat: float) -> None:
    """With the minibatch's own covariance, averaged over the steps that looked."""
    problem, size, n = logistic(), 20, 400
    settings = {"step": 0.3, "refresh": 4, "samples": 40, "burn_in": 0.0, "temperature": temperature}
    method, rng = make(minibatches={"batch": size, "passes": 2}, **settings), noise.generator(0, "dp_sgfs")
    released = method(problem, [Budget(math.inf, 1e-5)], rng).theta
    eta = torch.tensor([[2 * 0.3 / (0.25 * n)]], dtype=torch.float64)
    kernel = sgfs(torch.eye(5, dtype=torch.float64), n, size)
    state, seen, kept = SgfsState(torch.zeros(3, 1, 5), torch.zeros(3, 1, 5, 5).double()), 0, []
    rng = noise.generator(0, "dp_sgfs")
    for t, (rows, normals) in enumerate(noise.minibatch_stream(rng, 3, n, size, 5, 40)):
        gradient = problem.batch_grad(state.theta, rows) * (n / size)
        step = (heat / eta).sqrt().float() * normals, eta
        if t % 4 == 0:
            noise.gaussian(rng, 3, 25, torch.float64)  # multiplied by 0
            seen += 1
            found = torch.stack([torch.cov(g[0].T) for g in problem.example_grads(state.theta, rows)])[
                :, None
            ]
            state = kernel.step(state, gradient, *step, found.double(), torch.tensor([[1.0 / seen]]).double())
        else:
            state = kernel.step(state, gradient, *step)
        kept.append(state.theta)
    assert torch.allclose(released, torch.stack(kept, 2), atol=1e-5)


def test_dp_sgfs_noise_is_algorithm_4_at_half_the_budget() -> None:
    problem, steps, tau = logistic(), 40, 20
    method = make(minibatches={"batch": tau, "passes": 2})
    (promise,) = method(problem, [Budget(2.0, 1e-5)], noise.generator(0, "")).guarantee
    variance = 32 * 2 * math.log(2.5 * 400 * 2 / (tau * 5e-6)) * math.log(2 / 5e-6) / (400 * tau * 1.0**2)
    assert promise.event == FisherScoringDpEvent(400, tau, steps, promise.event.noise_std)
    assert promise.event.noise_std == pytest.approx(math.sqrt(variance), rel=1e-12)
    assert promise.epsilon == pytest.approx(2.0, rel=1e-12)


def test_dp_sgfs_covariance_is_noisy_projected_and_symmetric() -> None:
    problem = logistic(repeats=300, shared=True, n=100, d=3)
    method = make()
    theta, rows = torch.zeros(300, 1, 3), torch.arange(50).expand(300, 50)
    exact = np.cov(problem.example_grads(theta[:1], rows[:1])[0, 0].numpy().T)
    rng = noise.generator(0, "")
    plain = method.covariance(problem, theta, rows, torch.tensor([[0.0]]).double(), rng)
    assert plain[0, 0].numpy() == pytest.approx(exact, rel=1e-5, abs=1e-9)
    noisy = method.covariance(problem, theta, rows, torch.tensor([[1e-4], [3.0]]).double(), rng)
    assert torch.allclose(noisy, noisy.mT)
    assert float(torch.linalg.eigvalsh(noisy).min()) > -1e-9
    # W is small enough in the first column to leave V positive: its diagonal has deviation 7 sigma
    spread = (noisy[:, 0] - plain[:, 0]).diagonal(dim1=-2, dim2=-1).std()
    assert float(spread) == pytest.approx(7e-4, rel=0.1)


def test_what_cannot_be_run_is_named() -> None:
    budgets, rng = [Budget(1.0, 1e-5)], noise.generator(0, "")
    with pytest.raises(ValueError, match="batch = 4 is too small: Lemma 6 needs more than 4 rows"):
        make(minibatches={"batch": 4})(logistic(), budgets, rng)
    with pytest.raises(ValueError, match="dp_sgfs needs a Lipschitz loss, squared is not"):
        make()(gaussian()[0], budgets, rng)
    with pytest.raises(ValueError, match="Theorem 5 of wang2015 needs delta > 0, not 0"):
        make()(logistic(), [Budget(1.0, 0.0)], rng)
