"""Full-batch descent: the update, and the step that follows from the noise."""

import math
from typing import Any

import pytest
import torch
from scenarios import logistic

from dplangevin import random
from dplangevin.methods import dp_gd, released
from dplangevin.methods.dp_gd import DpGd
from dplangevin.privacy import Budget
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, huber

FREE = Budget(math.inf, 1e-5)


def theta_of(method: DpGd, problem: Glm, budget: Budget, seeds: int = 1) -> torch.Tensor:
    return released(method, problem, [budget], seeds, random.generator(0, "gd"))[0].theta[:, 0, 0]


def test_it_is_momentum_on_clipped_sums_and_the_mean_of_the_last_iterates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"MOMENTUM": 0.5, "STEP": 0.7, "CLIP_SHARE": 0.1}.items():
        monkeypatch.setattr(dp_gd, name, value)
    problem, method = logistic(n=50), DpGd(steps=6)
    theta = velocity = torch.zeros(problem.features)
    eta, seen = 0.7 * 1.5 / problem.facts.smoothness, []
    for _ in range(6):
        total = torch.zeros(problem.features)
        for x, y in zip(problem.x[0], problem.y[0], strict=True):
            gradient = -y * torch.sigmoid(-y * (x @ theta)) * x
            total += gradient * min(1.0, 0.1 * problem.lipschitz / float(gradient.norm()))
        velocity = 0.5 * velocity + total / 50
        theta = theta - eta * velocity
        seen.append(theta)
    torch.testing.assert_close(
        theta_of(method, problem, FREE, len(problem.x))[0], torch.stack(seen[3:]).mean(0)
    )
    monkeypatch.setattr(dp_gd, "AVERAGED", 0.0)
    torch.testing.assert_close(theta_of(method, problem, FREE, len(problem.x))[0], theta)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("loss", "bound"), [(LOGISTIC, 1.0), (LOGISTIC, 7.0), (huber(0.5, 1.0), 2.0)])
def test_noise_alone_moves_a_margin_as_far_as_margin_noise_says(
    loss: Any, bound: float, momentum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On rows that are 0.  With momentum, the last steps have not had all of their effect."""
    for name, value in {"MOMENTUM": momentum, "AVERAGED": 0.0, "MARGIN_NOISE": 0.2}.items():
        monkeypatch.setattr(dp_gd, name, value)
    method = DpGd(steps=100)
    problem = Glm(torch.zeros(1, 9, 1), torch.ones(1, 9), loss, row_bound=bound)
    moved = float(theta_of(method, problem, Budget(0.5, 1e-5), 4000).std()) * bound
    wanted = 0.2 * loss.lipschitz / loss.smoothness
    assert moved == pytest.approx(wanted, rel=0.05) if momentum == 0 else 0.85 * wanted < moved < wanted


def test_a_given_noise_is_priced_and_the_step_follows_from_it() -> None:
    facts = logistic(n=50).facts
    wanted = DpGd().plan(facts, Budget(1.0, 1e-5))
    given = DpGd(noise_multiplier=float(wanted.settings["noise_multiplier"])).plan(facts, Budget(0.1, 1e-5))
    assert given.noise_given
    assert given.guarantee.epsilon == wanted.guarantee.epsilon
    assert torch.equal(given.work.step, wanted.work.step)
