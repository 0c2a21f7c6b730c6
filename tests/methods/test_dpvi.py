"""DPVI against the known mean-field optimum, and its first step by hand."""

import math
from typing import Any

import pytest
import torch
from scenarios import gaussian, logistic

from dplangevin import random
from dplangevin.methods import released
from dplangevin.methods.dpvi import Dpvi
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC
from dplangevin.problems.sampling import Sampling


def method(clip: float, epochs: float, batch: int, **settings: Any) -> Dpvi:
    values = {"step": 0.5, "precision": 0.5, "spread": 0.7, "samples": 3, "accountant": Tight()}
    return Dpvi(clip, **{**values, "sampling": Sampling("poisson", batch, epochs), **settings})


@pytest.mark.slow
def test_without_privacy_it_is_the_mean_field_optimum_of_a_gaussian_posterior() -> None:
    """Mean: the posterior's; variances: 1 over the diagonal of its precision, below the marginal variances."""
    problem, least_squares, covariance = gaussian()
    found = method(math.inf, 2000, problem.n, step=0.04, precision=2.0, samples=1000, spread=0.1)
    release, _ = released(found, problem, [Budget(math.inf, 1e-5)], 24, random.generator(0, "dpvi"))
    theta = release.theta[:, 0].double()
    precision = torch.linalg.inv(covariance)
    posterior = precision + 2.0 * torch.eye(4, dtype=torch.float64)
    mean = torch.linalg.solve(posterior, precision @ least_squares)
    variance = 1 / posterior.diagonal()
    assert torch.allclose(theta.mean((0, 1)), mean, atol=0.05 * float(variance.min().sqrt()))
    assert torch.allclose(theta.var(1).mean(0), variance, rtol=0.04)
    assert (torch.linalg.inv(posterior).diagonal() > 1.03 * variance).any()


@pytest.mark.usefixtures("fine_grid")
def test_the_first_step_by_hand() -> None:
    """Gradients of each record through m and s by autograd, clipped jointly; noise and draws from the same stream.

    At the largest budget the step is the one asked for, at the smallest the noise shortens it.
    """
    problem, n, d = logistic(seeds=2, n=30, d=3), 30, 3
    clip, precision, spread, rate = 0.5, 0.5, 0.7, 20 / 30
    found = method(clip, 20 / 30, 20, precision=precision, spread=spread)
    budgets = [Budget(epsilon, 1e-5) for epsilon in (0.02, 3.0, math.inf)]
    release, plans = released(found, problem, budgets, 2, random.generator(3, "step"))
    rng = random.generator(3, "step")
    (batch,) = random.batches(rng, {"poisson"}, 2, n, 20, 2 * d, 1, 64)
    assert batch.sizes is not None
    draws, normals = torch.randn(2, 1, d, generator=rng), torch.randn(2, 1, 3, d, generator=rng)
    unit, cut, whole, steps = (n / 4 + precision) ** -0.5, 0, 0, []
    scale = unit / spread
    for s in range(2):
        total = torch.zeros(2, d)
        for i in batch.rows[s, : int(batch.sizes[s])].tolist():
            at, scaled = torch.zeros(d, requires_grad=True), torch.full((d,), math.log(unit) * scale)
            theta = at + (scaled.requires_grad_() / scale).exp() * draws[s, 0]
            loss = problem.loss.value(problem.x[s, i] @ theta, problem.y[s, i])
            grad = torch.stack(torch.autograd.grad(loss, (at, scaled)))
            total += grad * min(1.0, clip / float(grad.norm()))
            cut, whole = cut + int(grad.norm() > clip), whole + int(grad.norm() <= clip)
        for e, plan in enumerate(plans):
            sigma = float(plan.settings["noise_multiplier"])
            most = math.sqrt(3 / precision) * rate / (unit**2 * clip * sigma) if sigma else math.inf
            eta = min(0.5, most)
            steps.append(eta)
            noisy = total + (clip * sigma * batch.normals[s, 0].view(2, d)).float()
            mean = -eta * unit**2 * noisy[0] / rate
            log_std = math.log(unit) - eta * (scale * noisy[1] / rate + precision * unit**2 - 1)
            log_std = log_std.clamp(math.log(unit), -math.log(precision) / 2)
            wanted = mean + log_std.exp() * normals[s, 0]
            torch.testing.assert_close(release.theta[s, e], wanted, rtol=1e-4, atol=1e-5)
    assert cut > 0
    assert whole > 0
    assert steps[0] < steps[1] == steps[2] == 0.5


def test_one_row_of_any_length_leaves_the_chain_finite() -> None:
    """Its weighted length overflows float32; where its slope is 0, it contributes nothing."""
    x = torch.zeros(1, 300, 4)
    x[0, 7] = 1e15
    problem = Glm(x, torch.ones(1, 300), LOGISTIC, row_bound=1e16)
    release, _ = released(Dpvi(), problem, [Budget(1.0, 1e-5)], 6, random.generator(0, "long"))
    assert bool(release.theta.isfinite().all())
