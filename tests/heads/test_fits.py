"""Objective perturbation solves its equation; the posterior sampler's draws have the posterior's moments."""

import math

import numpy as np
import pytest
import torch

from dplangevin import noise
from dplangevin.heads import Audits, Setting
from dplangevin.heads.objpert import ObjPert
from dplangevin.heads.ops import Ops, unmixed
from dplangevin.heads.softmax import problem_of
from dplangevin.privacy.accountants.analytic_gaussian import mu_for

N, BOUND, DELTA = 40, 1.5, 1e-3


def rows(features: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(N, features))
    x *= 0.999 * BOUND / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), BOUND)
    return x.astype(np.float32), rng.integers(0, classes, N)


def test_objective_perturbation_is_stationary() -> None:
    x, y = rows(3, 4)
    problem = problem_of(x, y, 4, 5, BOUND)
    setting = Setting(N, 3, 4, BOUND, 1.0, DELTA, Audits(10, 10))
    method = ObjPert(0.01, tolerance=1e-9)
    found = [method.price(setting, epsilon, noise.generator(0, "")) for epsilon in (0.5, 4.0)]
    beta, rank = BOUND**2 / 4, 3  # the trace of a record's Hessian over its rank: 3/4 x^2 over 3
    assert found[0]["ridge"] == pytest.approx(beta / math.expm1(0.05 * 0.5 / rank))
    assert found[0]["noise"] > found[1]["noise"]
    runs = [(method, each) for each in found]
    theta = method.trained(problem, setting, runs, noise.generator(1, "b")).theta
    normals = noise.gaussian(noise.generator(1, "b"), 5, 12, torch.float64)
    gradient = problem.to(torch.float64).grad(theta)
    for e, each in enumerate(found):
        left = gradient[:, e] + each["ridge"] * theta[:, e] + each["noise"] * normals[:, 0]
        assert float(left.norm(dim=-1).max()) < 1e-8 * N


def test_posterior_sample_has_the_posteriors_moments() -> None:
    """Two budgets at once; in two dimensions the posterior is known on a grid."""
    x, y = rows(1, 2)
    chains, precision = 3000, 2.0
    problem = problem_of(x, y, 2, chains, BOUND)
    setting = Setting(N, 1, 2, BOUND, 1.0, DELTA, Audits(10, 10))
    method = Ops(precision, warmup=30, draws=20, leapfrogs=4)
    found = [method.price(setting, epsilon, noise.generator(0, "")) for epsilon in (0.5, 3.0)]
    runs = [(method, each) for each in found]
    theta = method.trained(problem, setting, runs, noise.generator(2, "draws")).theta
    axis = torch.linspace(-5, 5, 301)
    grid = torch.cartesian_prod(axis, axis)[None]  # (1, cells, 2)
    single = problem_of(x, y, 2, 1, BOUND)
    value = single.value_and_grad(grid)[0][0].double()
    for e, (epsilon, each) in enumerate(zip((0.5, 3.0), found, strict=True)):
        assert each["noise"] == pytest.approx(mu_for(epsilon, DELTA) * math.sqrt(precision / 2) / BOUND / 2)
        weight = (-each["noise"] * value - precision / 2 * grid[0].double().square().sum(-1)).softmax(0)
        mean = weight @ grid[0].double()
        centred = grid[0].double() - mean
        covariance = (centred * weight[:, None]).T @ centred
        draws = theta[:, e].double()
        error = covariance.diagonal().sqrt() / math.sqrt(chains)
        assert ((draws.mean(0) - mean).abs() < 4 * error).all()
        scale = covariance.diagonal().sqrt()
        assert ((draws.T.cov() - covariance).abs() < 6 * torch.outer(scale, scale) / math.sqrt(chains)).all()


def test_chains_that_have_not_mixed_are_named() -> None:
    draws = torch.randn(400, 4, 2, 3, generator=torch.Generator().manual_seed(0))
    draws[:, 0, 1] += 3.0
    good, bad = unmixed(draws)
    assert good == ""
    assert bad.startswith("R-hat")
    assert "too few" in unmixed(draws[:3])[0]
