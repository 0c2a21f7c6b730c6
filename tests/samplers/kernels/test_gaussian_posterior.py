"""Every gradient kernel, with exact gradients and a small step, samples the Gaussian posterior of `scenarios.gaussian`.

One protocol: 1,500 chains start at 0, run until they have forgotten it, and their last states are independent draws
whose mean and covariance must be the posterior's within Monte Carlo error.
"""

import math
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


def check(theta: Tensor, mean: Tensor, covariance: Tensor) -> None:
    """In the coordinates that make the posterior N(0, I): means 0 +- 1/sqrt(n), variances 1 +- sqrt(2/n), others 0."""
    whitened = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), (theta - mean).T, upper=False)
    assert float(whitened.mean(1).abs().max()) < ERRORS / math.sqrt(CHAINS)
    error = torch.cov(whitened) - torch.eye(len(mean), dtype=torch.float64)
    assert float(error.abs().max()) < ERRORS * math.sqrt(2 / CHAINS)


@pytest.fixture(scope="module")
def posterior() -> tuple[Glm, Tensor, Tensor]:
    return gaussian(n=60)


def started(name: str, problem: Glm, friction: float) -> tuple[Any, Any]:
    """A kernel, and its state at 0."""
    kernel: Any
    start = torch.zeros(CHAINS, 1, problem.d)
    if name == "sgld":
        kernel = sgld()
        return kernel, kernel.init(start)
    if name == "sghmc":
        kernel = sghmc(friction)
        return kernel, kernel.init(start, start)
    if name == "sgnht":
        kernel = sgnht()
        return kernel, kernel.init(start, start, torch.full((CHAINS, 1, 1), friction))
    # F = I and N(0, 4/eta), as Ahn et al.; the Fisher information of a record is that of the model, X^T X/N
    kernel = sgfs(torch.eye(problem.d), problem.n, problem.n)
    return kernel, kernel.init(start, (problem.gram / problem.n)[:, None])


@pytest.mark.parametrize(
    ("name", "friction", "share", "times"),
    [
        ("sgld", 1.0, 0.04, 5),
        ("sghmc", 0.1, 0.002, 5),
        # the temperature is (1 + sqrt(.96))/2 = .99; the thermostat takes long to settle
        ("sgnht", 0.02, 0.0002, 20),
        ("sgfs", 1.0, 0.08, 10),
    ],
)
def test_kernels_sample_the_posterior(
    name: str, friction: float, share: float, times: float, posterior: tuple[Glm, Tensor, Tensor]
) -> None:
    """share: eta times the largest curvature.  A chain has ``times condition friction/share`` steps."""
    problem, mean, covariance = posterior
    curvature = torch.linalg.eigvalsh(covariance).reciprocal()
    most, condition = float(curvature.max()), float(curvature.max() / curvature.min())
    eta, rng = torch.tensor([[share / most]]), torch.Generator().manual_seed(0)
    std = 2 / eta.sqrt() if name == "sgfs" else (2 * friction * eta).sqrt()
    kernel, state = started(name, problem, friction)
    for _ in range(int(times * condition * friction / share)):
        normals = torch.randn(state.theta.shape, generator=rng)
        state = kernel.step(state, problem.grad(state.theta), std * normals, eta)
    check(state.theta[:, 0].double(), mean, covariance)


@pytest.mark.slow
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
