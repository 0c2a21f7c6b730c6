"""One posterior sample: its scale and its law; and the hybrid that goes on from it."""

import math
from typing import Any

import pytest
import torch
from hydra.utils import instantiate
from scenarios import linear, logistic, multinomial
from scenarios import release as run

from dplangevin.methods.ops import Ops
from dplangevin.pipeline.config import load
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.samplers.posterior import Rejection, Sampler, Whitened

QUICK = Sampler(warmup=20, block=20, max_draws=20)


@pytest.mark.parametrize("make", [logistic, multinomial, linear])
@pytest.mark.parametrize(("bound", "times", "which"), [("paper", 4, 0), ("range", 2, 1)])
def test_the_likelihood_is_scaled_by_the_losses_bound_on_the_ball(
    make: Any, bound: Any, times: int, which: int
) -> None:
    """The largest loss, or its range."""
    problem = make(n=100, shared=True)
    most = problem.facts.on_ball(3.0)[which]
    release, plans = run(Ops(bound, 3.0, 0.5, QUICK), problem, 1.0, 1000.0)
    assert [plan.work.rho for plan in plans] == [pytest.approx(1 / (times * most)), 1.0]
    assert [plan.work.precision for plan in plans] == [0.5 * plan.work.rho for plan in plans]  # tempered too
    assert plans[0].guarantee.delta == 0
    assert float(release.theta.norm(dim=-1).max()) <= 3.0 * (1 + 1e-4)


def test_under_a_gaussian_prior_it_is_priced_as_a_gaussian_mechanism() -> None:
    """mu = 2 rho L/sqrt(precision) has (1, 1e-5) at mu = 1/3.73063."""
    for problem in (logistic(), multinomial()):
        plan = Ops("gdp", 1.0, 4.0).plan(problem.facts, Budget(1.0, 1e-5))
        assert plan.work.rho == pytest.approx(math.sqrt(4.0) / 2 / 3.73063 / problem.lipschitz, rel=1e-5)
        assert plan.work.precision == 4.0
        assert plan.guarantee.event.noise_multiplier == pytest.approx(2 * 3.73063, rel=1e-5)
        assert plan.guarantee.delta == 1e-5


@pytest.mark.slow
def test_whitened_samples_have_the_moments_of_a_softmax_posterior() -> None:
    """Two budgets at once; in two dimensions the posterior is known on a grid."""
    chains, precision = 3000, 2.0
    problem = multinomial(n=40, features=1, classes=2, shared=True)
    method = Ops("gdp", 1.0, precision, Whitened(warmup=30, draws=20, leapfrogs=4))
    release, plans = run(method, problem, 0.5, 3.0, seeds=chains, delta=1e-3)
    axis = torch.linspace(-5, 5, 301)
    grid = torch.cartesian_prod(axis, axis)[None]
    value = problem.value_and_grad(grid)[0][0].double()
    for e, (epsilon, plan) in enumerate(zip((0.5, 3.0), plans, strict=True)):
        rho = plan.work.rho
        assert epsilon_of(2 * rho / math.sqrt(precision / 2), 1e-3) == pytest.approx(epsilon)
        weight = (-rho * value - precision / 2 * grid[0].double().square().sum(-1)).softmax(0)
        mean = weight @ grid[0].double()
        centred = grid[0].double() - mean
        covariance, draws = (centred * weight[:, None]).T @ centred, release.theta[:, e, 0].double()
        scale = covariance.diagonal().sqrt() / math.sqrt(chains)
        assert ((draws.mean(0) - mean).abs() < 4 * scale).all()
        error = (draws.T.cov() - covariance).abs()
        assert (error < 6 * torch.outer(scale, scale) * math.sqrt(chains)).all()


def test_chains_that_have_not_mixed_say_so_and_rejection_need_not() -> None:
    problem = logistic(n=30, d=2)
    short = Ops("paper", 10.0, 0.0, Sampler(warmup=1, block=6, max_draws=6))
    (text,) = run(short, problem, 1.0)[0].not_reached
    assert "R-hat" in text
    assert ">= 1.05" in text
    assert run(Ops("gdp", 1.0, 1.0, Rejection()), problem, 1.0)[0].not_reached == [""]
    with pytest.raises(ValueError, match=r"total variation of 1e-09 breaks the pure bound"):
        Ops("paper", 1.0, 1.0, Rejection())


@pytest.mark.slow
def test_hybrid_starts_its_chain_from_the_sample_at_half_of_the_budget() -> None:
    method = instantiate(load().method.hybrid)
    release, (plan,) = run(method, logistic(), 2.0)
    assert release.theta.shape[2] == 51  # the posterior sample, then the chain's
    first, half = run(method.first, logistic(), 1.0)
    assert torch.equal(release.theta[:, :, :1], first.theta)
    second = method.second.plan(logistic().facts, Budget(1.0, 1e-5))
    assert plan.guarantee.event.events == (half[0].guarantee.event, second.guarantee.event)
    moved = (release.theta[:, 0, 1:] - release.theta[:, 0, :1]).norm(dim=-1).max()
    assert 0 < float(moved) < 1
