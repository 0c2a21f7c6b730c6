"""Noisy Newton steps: how far one record moves a direction, what that shows, and where the steps end."""

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch
from scenarios import logistic, multinomial

from dplangevin import random
from dplangevin.attacks.audit import audit
from dplangevin.methods import released
from dplangevin.methods.dp_gd import DpGd
from dplangevin.methods.dp_newton import DpNewton, _Newton
from dplangevin.methods.outpert import Ridge
from dplangevin.privacy import Adjacency, Budget, HalfReplacedDpEvent
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC
from dplangevin.problems.sampling import Sampling
from dplangevin.random import Batch

LAMBDA, FREE = 0.05, Budget(math.inf, 1e-5)


def directions(problem: Glm, gradient: torch.Tensor, std: float, seeds: int, label: str = "") -> torch.Tensor:
    """The noisy directions ``(S, d)`` at theta = 0, for this sum of gradients ``(d,)``."""
    chain = Chain(torch.tensor([1 / LAMBDA]), torch.zeros(1), Sampling("full", epochs=1))
    kernel = _Newton(problem, [chain], torch.tensor([std], dtype=torch.float64), random.generator(0, label))
    zero, rows = torch.zeros(seeds, 1, problem.d), torch.zeros(seeds, 0, dtype=torch.long)
    noisy = gradient.expand(seeds, 1, -1)
    return -kernel.step((zero,), noisy, 0, Batch(rows, None, zero))[0][:, 0]


def bound(problem: Glm) -> float:
    """How far one record moves a direction for a mean gradient of norm 1."""
    moved = problem.smoothness / problem.n
    return moved / (LAMBDA * (LAMBDA + moved))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", get_args(Adjacency))
@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_a_worst_pair_of_hessians_shows_the_price_and_half_the_noise_is_caught(
    adjacency: Adjacency, noise: float
) -> None:
    """The record lies along the gradient or across it (or is 0); all others are 0."""
    x = torch.zeros(1, 3, 2)
    problem = Glm(x, torch.ones(1, 3), LOGISTIC)
    first, second = x.clone(), x.clone()
    first[0, 0, 0] = 1.0
    second[0, 0, 1] = float(adjacency == "replace_one")
    price = Tight().epsilon(HalfReplacedDpEvent(1.0), 0.1, adjacency)
    shown = [
        directions(replace(problem, x=rows), torch.tensor([3.0, 0.0]), noise * bound(problem), 10_000, side)[
            :, 0
        ]
        for side, rows in zip("ab", (first, second), strict=True)
    ]
    found = audit(shown[0].numpy(), shown[1].numpy(), 0.1).epsilon
    assert 0.65 * price < found <= price if noise == 1.0 else found > price


@pytest.mark.parametrize("make", [logistic, multinomial])
def test_no_replaced_record_moves_a_direction_further_than_adding_may(make: object) -> None:
    problem = make(seeds=1, n=4)  # type: ignore[operator]
    moved, rng = [], torch.Generator().manual_seed(0)
    for _ in range(200):
        x = problem.x.clone()
        x[0, 0] = torch.nn.functional.normalize(torch.randn(problem.features, generator=rng), dim=0)
        gradient = torch.nn.functional.normalize(torch.randn(problem.d, generator=rng), dim=0) * problem.n
        pair = [directions(of, gradient, 0.0, 1) for of in (problem, replace(problem, x=x))]
        moved.append(float((pair[0] - pair[1]).norm()))
    assert 0.1 * bound(problem) < max(moved) <= bound(problem)


@pytest.mark.parametrize("adjacency", get_args(Adjacency))
@pytest.mark.parametrize("row_bound", [1.0, 3.0])
def test_gradients_and_directions_spend_their_shares_and_no_more_is_done_than_is_priced(
    adjacency: Adjacency, row_bound: float
) -> None:
    method = DpNewton(DpGd(steps=7, momentum=0.0, adjacency=adjacency), share=0.4)
    facts = replace(logistic(n=50), row_bound=row_bound).facts
    plan = method.plan(facts, Budget(1.0, 1e-5))
    chain, (gradients, directions_) = plan.work.chain, leaves(plan.guarantee.event)
    assert gradients[1] == directions_[1] == len(chain.step) == chain.sampling.steps(facts.n) == 7
    assert gradients[0].noise_multiplier == pytest.approx(float(chain.noise_std[0]) / chain.clip)
    ridge, moved = 1 / float(chain.step[0]), facts.smoothness / facts.n
    most = moved / (ridge * (ridge + moved))
    assert directions_[0].noise_multiplier == pytest.approx(plan.work.direction_std / most)
    parts = (
        gradients[0].noise_multiplier ** -2,
        directions_[0].gaussian_steps(adjacency).noise_multiplier ** -2,
    )
    assert parts[1] / sum(parts) == pytest.approx(0.4)
    assert plan.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)


def test_without_privacy_it_ends_at_the_minimum() -> None:
    problem = logistic()
    method = DpNewton(DpGd(steps=40, momentum=0.0, clip_share=1.0, averaged=0.0))
    found, least = (
        released(of, problem, [FREE], 3, random.generator(0, "newton"))[0].theta[:, 0, 0]
        for of in (method, Ridge(0.0))
    )
    torch.testing.assert_close(found, least, rtol=1e-3, atol=1e-3)


def test_momentum_and_a_noise_of_its_own_are_refused() -> None:
    with pytest.raises(ValueError, match="dp_newton has no momentum"):
        DpNewton(DpGd())
    with pytest.raises(ValueError, match="noise_multiplier is for dp_gd alone"):
        DpNewton(DpGd(momentum=0.0, noise_multiplier=1.0))
