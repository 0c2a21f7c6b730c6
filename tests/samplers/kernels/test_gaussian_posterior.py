"""Every gradient kernel, with exact gradients and a small step, samples the Gaussian posterior of `scenarios.gaussian`.

One protocol: 1,500 chains start at 0, run until they have forgotten it, and their last states are independent draws
whose mean and covariance must be the posterior's within Monte Carlo error.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scenarios import gaussian
from torch import Tensor

from dplangevin.problems.glm import Glm
from dplangevin.samplers.kernels.sgfs import sgfs
from dplangevin.samplers.kernels.sghmc import sghmc
from dplangevin.samplers.kernels.sgld import sgld
from dplangevin.samplers.kernels.sgnht import SgnhtState, sgnht

CHAINS = 1500
ERRORS = 4.5  # standard errors allowed; among 14 numbers one is beyond by chance once in 10,000 runs


def column(value: float) -> Tensor:
    return torch.tensor([[value]])


def sample(problem: Glm, state: Any, steps: int, step: Callable[[Any, Tensor, Tensor], Any]) -> Tensor:
    """Last states ``(CHAINS, d)``; step(state, gradient, standard normals)."""
    rng = torch.Generator().manual_seed(0)
    for _ in range(steps):
        normals = torch.randn(state.theta.shape, generator=rng)
        state = step(state, problem.grad(state.theta), normals)
    return state.theta[:, 0].double()


def check(theta: Tensor, mean: Tensor, covariance: Tensor) -> None:
    """In the coordinates that make the posterior N(0, I): means 0 +- 1/sqrt(n), variances 1 +- sqrt(2/n), others 0."""
    whitened = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), (theta - mean).T, upper=False)
    assert float(whitened.mean(1).abs().max()) < ERRORS / math.sqrt(CHAINS)
    error = torch.cov(whitened) - torch.eye(len(mean), dtype=torch.float64)
    assert float(error.abs().max()) < ERRORS * math.sqrt(2 / CHAINS)


@pytest.fixture(scope="module")
def posterior() -> tuple[Glm, Tensor, Tensor]:
    return gaussian(n=60)


def rough_and_slow(covariance: Tensor) -> tuple[float, float]:
    """Largest curvature of U, and how often it holds the smallest."""
    curvature = torch.linalg.eigvalsh(covariance).reciprocal()
    return float(curvature.max()), float(curvature.max() / curvature.min())


def test_sgld(posterior: tuple[Glm, Tensor, Tensor]) -> None:
    problem, mean, covariance = posterior
    most, condition = rough_and_slow(covariance)
    eta = column(0.04 / most)
    kernel = sgld()
    theta = sample(
        problem,
        kernel.init(torch.zeros(CHAINS, 1, problem.d)),
        int(5 * condition / 0.04),
        lambda state, gradient, z: kernel.step(state, gradient, (2 * eta).sqrt() * z, eta),
    )
    check(theta, mean, covariance)


def test_sghmc(posterior: tuple[Glm, Tensor, Tensor]) -> None:
    problem, mean, covariance = posterior
    most, condition = rough_and_slow(covariance)
    friction, share = 0.1, 0.002
    eta, start = column(share / most), torch.zeros(CHAINS, 1, problem.d)
    kernel = sghmc(friction)
    theta = sample(
        problem,
        kernel.init(start, start),
        int(5 * condition * friction / share),
        lambda state, gradient, z: kernel.step(state, gradient, (2 * friction * eta).sqrt() * z, eta),
    )
    check(theta, mean, covariance)


def test_sgnht(posterior: tuple[Glm, Tensor, Tensor]) -> None:
    """At friction .02 its temperature is (1 + sqrt(.96))/2 = .99; the thermostat takes long to settle."""
    problem, mean, covariance = posterior
    most, condition = rough_and_slow(covariance)
    friction, share = 0.02, 0.0002
    eta, start = column(share / most), torch.zeros(CHAINS, 1, problem.d)
    kernel = sgnht()
    theta = sample(
        problem,
        kernel.init(start, start, torch.full((CHAINS, 1, 1), friction)),
        int(20 * condition * friction / share),
        lambda state, gradient, z: kernel.step(state, gradient, (2 * friction * eta).sqrt() * z, eta),
    )
    check(theta, mean, covariance)


def test_sgfs(posterior: tuple[Glm, Tensor, Tensor]) -> None:
    """F = I and N(0, 4/eta), as Ahn et al.; the Fisher information of a record is that of the model, X^T X/N."""
    problem, mean, covariance = posterior
    most, condition = rough_and_slow(covariance)
    eta = column(0.08 / most)
    kernel = sgfs(torch.eye(problem.d), problem.n, problem.n)
    fisher = (problem.gram / problem.n)[:, None]
    theta = sample(
        problem,
        kernel.init(torch.zeros(CHAINS, 1, problem.d), fisher),
        int(5 * condition / 0.04),
        lambda state, gradient, z: kernel.step(state, gradient, 2 / eta.sqrt() * z, eta),
    )
    check(theta, mean, covariance)


def test_sgnht_targets_the_posterior_in_spite_of_gradient_noise() -> None:
    """The thermostat settles at the injected friction a = .03 plus eta/2 times the gradient noise's variance, .009."""
    kernel, eta, rng = sgnht(), torch.tensor([[0.002]]), torch.Generator().manual_seed(0)
    start = torch.zeros(500, 1, 20)
    velocity = eta.sqrt() * torch.randn(start.shape, generator=rng)
    state = SgnhtState(start, velocity, torch.full((500, 1, 1), 0.03))
    moments: list[float] = []
    frictions: list[float] = []
    for t in range(6000):
        gradient = state.theta + 3 * torch.randn(start.shape, generator=rng)  # noise unknown to the sampler
        noise = (2 * 0.03 * eta).sqrt() * torch.randn(start.shape, generator=rng)
        state = kernel.step(state, gradient, noise, eta)
        if t >= 1500 and t % 10 == 0:
            moments.append(float(state.theta.square().mean()))
            frictions.append(float(state.thermostat.mean()))
    assert abs(sum(moments) / len(moments) - 1) < 0.03
    assert abs(sum(frictions) / len(frictions) - 0.039) < 0.003
