import math
from dataclasses import replace

import pytest
import scipy.stats
import torch
from scenarios import gaussian
from torch import Tensor

from dplangevin import random
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, SQUARED, Loss
from dplangevin.samplers import posterior as posteriors
from dplangevin.samplers.posterior import R_HAT, Posterior, Sampler, Whitened


def agrees(posterior: Posterior, e: int, mean: Tensor, covariance: Tensor) -> bool:
    """Whether the draws of a budget have these moments, within what their effective number allows."""
    draws = posterior.draws[:, :, :, e].flatten(0, 2).double()
    deviation = covariance.diagonal().sqrt()
    centred = ((draws.mean(0) - mean) / deviation).abs() < 4.5 / math.sqrt(
        float(posterior.mixing.ess[:, e].min())
    )
    spread = ((torch.cov(draws.T) - covariance) / deviation.outer(deviation)).abs() < 0.12
    return float(posterior.mixing.r_hat.max()) < R_HAT and bool(centred.all()) and bool(spread.all())


@pytest.mark.parametrize("radius", [50.0, math.inf])
def test_a_gaussian_posterior_is_recovered_in_mean_and_covariance(radius: float) -> None:
    problem, mean, covariance = gaussian()
    sampler = Sampler(block=800, max_draws=800)
    rho = torch.tensor([1.0, 0.25])
    posterior = sampler.sample(problem, rho, torch.zeros(2), radius, 8, torch.Generator().manual_seed(0))
    assert all(agrees(posterior, e, mean, covariance / float(rho[e])) for e in (0, 1))


def test_two_coupled_margins_have_the_gaussian_posterior_of_their_covariance() -> None:
    """phi = (m - y 1)^T C (m - y 1)/2 has the posterior N((mean, mean), C^-1 (x) covariance)."""
    problem, mean, covariance = gaussian()
    coupling = torch.tensor([[1.0, 0.6], [0.6, 2.0]])

    def slope(m: Tensor, y: Tensor) -> Tensor:
        return coupling.to(m.dtype) @ (m - y[..., None, :])

    loss = Loss(
        "coupled",
        value=lambda m, y: 0.5 * (slope(m, y) * (m - y[..., None, :])).sum(-2),
        slope=slope,
        curvature=lambda m, y: coupling[..., None].to(m.dtype).expand(2, 2, m.shape[-1]),
        lipschitz=math.inf,
        smoothness=2.3,  # the larger eigenvalue of C is 2.28
        classes=2,
        rank=2,
    )
    sampler, twice = Sampler(block=800, max_draws=800), Glm(problem.x, problem.y, loss)
    rng = torch.Generator().manual_seed(0)
    posterior = sampler.sample(twice, torch.ones(1), torch.zeros(1), 50.0, 8, rng)
    expected = torch.kron(torch.linalg.inv(coupling.double()).contiguous(), covariance)
    assert agrees(posterior, 0, mean.repeat(2), expected)


@pytest.mark.parametrize(
    "sampler", [Sampler(block=30, max_draws=30), Whitened(warmup=20, draws=20)], ids=["sphere", "whitened"]
)
def test_draws_do_not_depend_on_the_last_bits_of_sums(sampler: Sampler | Whitened) -> None:
    """As they differ between processors, here between orders of rows.

    The indicators of four groups add up to the last column, so the Hessian is singular and has close eigenvalues.
    """
    rng = torch.Generator().manual_seed(0)
    kind = torch.randint(4, (2000,), generator=rng)
    x = torch.nn.functional.one_hot(kind, 4).float()
    x = torch.cat([x, torch.ones(2000, 1)], 1) / 2
    y = torch.where(torch.rand(2000, generator=rng) < 0.5, 1.0, -1.0)
    order = torch.randperm(2000, generator=rng)
    one, radius = torch.ones(1), 10.0 if isinstance(sampler, Sampler) else math.inf
    prior = 0 * one if radius < math.inf else one
    problems = [Glm(x[None, at], y[None, at], LOGISTIC) for at in (torch.arange(2000), order)]
    streams = [random.generator(0, "rows") for _ in problems]
    first, second = (
        sampler.sample(of, one, prior, radius, 4, rng).draws
        for of, rng in zip(problems, streams, strict=True)
    )
    # a border of float32 may lie between, as on an AMD EPYC for one of four seeds, which stays 4e-6 away
    equal = (first == second).double().mean((0, 2, 3, 4))  # share of each seed
    assert int((equal < 0.98).sum()) <= 1
    assert torch.allclose(first, second, rtol=1e-5, atol=1e-5)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="leapfrogs = 0 must be a whole number of at least 1"):
        Sampler(leapfrogs=0)


def test_how_long_rejection_tries_is_public() -> None:
    """Of the bound on the rows alone: on no rows within it is one accepted more rarely."""
    rng = torch.Generator().manual_seed(0)
    rho, precision = torch.tensor([0.1, 1.0]), torch.tensor([1.0, 3.0])
    for spread in (0.0, 0.3, 1.0):
        x = torch.randn(1, 12, 3, generator=rng) * torch.tensor([1.0, spread, spread])
        x = x / x.norm(dim=-1, keepdim=True)
        of = Glm(x, torch.ones(1, 12), LOGISTIC)
        limits = posteriors.Rejection().proposals(of, rho, precision)
        assert torch.equal(limits, posteriors.Rejection().proposals(replace(of, x=0 * x), rho, precision))
        values = torch.linalg.eigvalsh(x[0].double().T @ x[0].double())
        for e in range(2):
            own = torch.log1p(rho[e] / 4 / precision[e] * values).sum() / 2
            assert math.log(float(limits[e]) / math.log(1e9)) >= float(own) - 1e-9


@pytest.mark.slow
def test_rejection_is_exact_wherever_its_paraboloid_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a Gaussian posterior, with theta* half a standard deviation off in each coordinate."""
    real = posteriors.private_minimum
    monkeypatch.setattr(posteriors, "private_minimum", lambda *given: real(*given) + 0.3)
    x = torch.tensor([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0]])[None]
    problem = Glm(x, torch.tensor([[1.0, -0.5, 0.25]]), SQUARED)
    one, seeds = torch.ones(1), 3000
    drawn = (
        posteriors.Rejection().sample(problem, one, one, math.inf, seeds, random.generator(0, "test")).draws
    )
    covariance = torch.linalg.inv(x[0].double().T @ x[0].double() + torch.eye(2, dtype=torch.float64))
    mean = covariance @ (x[0].T @ problem.y[0]).double()
    white = (drawn.reshape(seeds, 2).double() - mean) @ torch.linalg.inv(torch.linalg.cholesky(covariance)).T
    for each in white.T.numpy():
        assert scipy.stats.kstest(each, scipy.stats.norm.cdf).pvalue > 1e-3
