"""The private matrix of second moments, and descent in its coordinates."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from scenarios import logistic, multinomial

from dplangevin import random
from dplangevin.attacks.audit import audit
from dplangevin.methods import released
from dplangevin.methods.dp_gd import DpGd
from dplangevin.methods.dp_precond import DpPrecond, Turned, second_moments
from dplangevin.methods.outpert import Ridge
from dplangevin.privacy import Adjacency, Budget, SecondMomentDpEvent
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC

DELTA, FREE = 1e-5, Budget(math.inf, 1e-5)


def rng(label: str = "moments") -> torch.Generator:
    return random.generator(0, label)


def rows(x: list[list[float]]) -> Glm:
    return Glm(torch.tensor([x]), torch.ones(1, len(x)), LOGISTIC)


@pytest.mark.parametrize("adjacency", get_args(Adjacency))
@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_a_worst_pair_of_matrices_shows_the_price_and_half_the_noise_is_caught(
    adjacency: Adjacency, noise: float
) -> None:
    """Orthogonal rows of length 1, or a row of 0; the statistic is the likelihood ratio."""
    other = [0.6, -0.8] if adjacency == "replace_one" else [0.0, 0.0]
    pair, runs = (rows([[0.8, 0.6]]), rows([other])), 30_000
    price = Tight().epsilon(SecondMomentDpEvent(1.0), 0.1, adjacency)
    along = (pair[0].gram - pair[1].gram)[0].double()
    shown = [
        (second_moments(of, torch.tensor([noise], dtype=torch.float64), runs, rng(side))[:, 0] * along).sum((1, 2))
        for side, of in zip("ab", pair, strict=True)
    ]  # fmt: skip
    found = audit(shown[0].numpy(), shown[1].numpy(), 0.1).epsilon
    assert 0.65 * price < found <= price if noise == 1.0 else found > price
    assert price == pytest.approx(epsilon_of(math.sqrt(2.0 if adjacency == "replace_one" else 1.0), 0.1))


def test_no_pair_of_rows_moves_the_matrix_further_than_the_event_says() -> None:
    x = torch.randn(2, 10_000, 5, dtype=torch.float64, generator=rng())
    x = x / x.norm(dim=-1, keepdim=True) * torch.rand(2, 10_000, 1, generator=rng()).sqrt()
    moved = (x[0, :, :, None] * x[0, :, None] - x[1, :, :, None] * x[1, :, None]).flatten(1).norm(dim=-1)
    assert 1.2 < float(moved.max()) <= math.sqrt(2)


def test_the_noise_of_the_matrix_is_symmetric_with_half_the_variance_beside_the_diagonal() -> None:
    found = second_moments(rows([[0.0] * 3]), torch.tensor([2.0], dtype=torch.float64), 20_000, rng())[:, 0]
    assert torch.equal(found, found.mT)
    wanted = torch.full((3, 3), 2.0).fill_diagonal_(4.0)
    torch.testing.assert_close(found.var(0).float(), wanted, rtol=0.05, atol=0.0)


@pytest.mark.parametrize("adjacency", get_args(Adjacency))
@pytest.mark.parametrize("bound", [1.0, 3.0])
def test_matrix_and_steps_spend_their_shares_and_no_more_is_done_than_is_priced(
    adjacency: Adjacency, bound: float
) -> None:
    method = DpPrecond(DpGd(steps=7, momentum=0.0, adjacency=adjacency), share=0.3)
    facts = replace(logistic(n=50), row_bound=bound).facts
    plan = method.plan(facts, Budget(1.0, DELTA))
    matrix, *steps = leaves(plan.guarantee.event)
    sigma = plan.work.chain.noise_std[0] / plan.work.chain.clip
    assert plan.work.moment_std == matrix[0].noise_multiplier * bound**2
    assert [(leaf.noise_multiplier, count) for leaf, count in steps] == [(pytest.approx(float(sigma)), 7)]
    assert len(plan.work.chain.step) == 7
    first = matrix[0].gaussian_steps(adjacency).noise_multiplier ** -2
    assert first / (first + 7 / float(sigma) ** 2) == pytest.approx(0.3)
    assert plan.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("make", [logistic, multinomial])
def test_sums_are_those_of_the_turned_rows(make: object, shared: bool) -> None:
    problem = make(seeds=2, n=30, shared=shared)  # type: ignore[operator]
    turn = torch.randn(2, 3, problem.features, problem.features, generator=rng())
    turn = turn + turn.mT
    turned, theta = Turned(problem, turn.double()), torch.randn(2, 3, problem.d, generator=rng())
    every, clip = torch.arange(30).expand(2, -1), torch.tensor([0.1, 0.4, math.inf])
    found = turned.clipped_sum(theta, every, None, clip).gradient
    for e in range(3):
        x = problem.x @ turn[:, e]
        own = replace(problem, x=x, y=problem.y.expand(2, -1))
        wanted = own.clipped_sum(theta[:, e : e + 1], every, None, clip[e : e + 1]).gradient
        torch.testing.assert_close(found[:, e : e + 1].to(wanted), wanted, rtol=1e-4, atol=1e-4)


def test_without_noise_rows_have_length_1_and_few_steps_reach_what_descent_does_not() -> None:
    """Second moments of 1 to 10^-4."""
    x = torch.randn(1, 2000, 5, generator=rng()) * torch.logspace(0, -2, 5)
    x = x / x.norm(dim=-1).max()
    y = torch.where(
        torch.rand(1, 2000, generator=rng("y")) < torch.sigmoid(x @ torch.logspace(0, 2, 5)), 1.0, -1.0
    )
    problem = Glm(x, y, LOGISTIC)
    method = DpPrecond(DpGd(steps=20, momentum=0.0, clip_share=1.0, averaged=0.0))
    turn, _ = method.preconditioner(problem.gram.double()[:, None], torch.zeros(1), problem.facts)
    assert float(Turned(problem, turn).lengths.square().mean()) == pytest.approx(1.0, rel=0.02)

    def excess(of: object) -> float:
        theta = released(of, problem, [FREE], 1, rng())[0].theta[:, :, 0]  # type: ignore[arg-type]
        return float(problem.value_and_grad(theta.float())[0]) / problem.n

    least = excess(Ridge(1e-3))
    assert excess(method) - least < 0.02 * (excess(DpGd(clip_share=1.0)) - least)


def test_a_budget_of_dp_gd_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="noise_multiplier is for dp_gd alone"):
        DpPrecond(DpGd(noise_multiplier=1.0))
    assert np.isfinite(DpPrecond().plan(logistic(n=9).facts, FREE).work.chain.step.numpy()).all()
