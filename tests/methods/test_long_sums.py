"""Sums over many records: rounding moves no record further than its price says, and no record makes a sum nan."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dplangevin import random
from dplangevin.problems.architectures import Network
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, huber, softmax
from dplangevin.problems.network import NetworkProblem
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains import loop

N, CLIP = 200_000, 0.5
NEAR = 3e-5  # of what a record moves: float32 products of BLOCK rows
NETWORK = 30_000  # examples of a network, which are slower
Statistic = Callable[[Glm], Tensor]


def rows(loss: Any = LOGISTIC, n: int = N) -> Glm:
    """Records that pull the same way, so that their sum is about as long as it can be."""
    rng = torch.Generator().manual_seed(0)
    x = 0.1 * torch.randn(1, n, 4, generator=rng) + torch.tensor([0.9, 0.3, 0.0, 0.0])
    y = torch.ones(1, n)
    return Glm(x / x.norm(dim=-1, keepdim=True).clamp(min=1), loss.labels(y), loss)


def neighbour(problem: Glm, place: int) -> Glm:
    """The data set with another record at a place."""
    x, y = problem.x.clone(), problem.y.clone()
    x[:, place], y[:, place] = torch.tensor([0.9, -0.3, 0.2, 0.0]), -float(problem.classes == 1)
    return replace(problem, x=x, y=y)


def at(problem: Any, seeds: int = 2) -> Tensor:
    """Points theta ``(seeds, 3, d)``."""
    return -torch.rand(seeds, 3, problem.facts.d, generator=torch.Generator().manual_seed(1))


def all_rows(problem: Glm) -> Tensor:
    every, clip = torch.arange(problem.n)[None], torch.tensor([CLIP, 0.3, 1.0])
    return problem.clipped_sum(at(problem), every.expand(2, -1), None, clip).gradient


def some_rows(problem: Glm) -> Tensor:
    """A minibatch of all rows in another order, and a mask: what a gathered minibatch takes."""
    order = torch.arange(problem.n).flip(0)[None].expand(2, -1)
    mask = torch.ones(2, 3, problem.n, dtype=torch.bool)
    return problem.clipped_sum(at(problem), order, mask, torch.full((3,), CLIP)).gradient


def of_network(problem: Glm) -> Tensor:
    """A network of one layer, which is a softmax regression."""
    with torch.random.fork_rng(devices=[]):
        network = Network(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), (1, 2, 2), 2)
    x, y = problem.x[0].view(-1, 1, 2, 2), (problem.y[0] > 0).long()
    of = NetworkProblem(network, x, y, x[:1], y[None, :1])
    every = torch.arange(len(x))[None].expand(2, -1)
    return of.clipped_sum(at(of), every, None, torch.full((3,), CLIP)).gradient


SUMS: dict[str, tuple[Statistic, Any]] = {
    "all rows": (all_rows, LOGISTIC),
    "all rows, softmax": (all_rows, softmax(3)),
    "all rows, huber": (all_rows, huber(0.5, 1.0)),
    "gathered rows": (some_rows, LOGISTIC),
    "gathered rows, softmax": (some_rows, softmax(3)),
    "network": (of_network, LOGISTIC),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_record_moves_a_long_sum_no_further_than_its_price_says(name: str) -> None:
    """How far from its own part it moves a sum over all records, divided by that part."""
    statistic, loss = SUMS[name]
    problem = rows(loss, NETWORK if name == "network" else N)
    whole = statistic(problem)
    for place in (0, problem.n // 3):
        other = neighbour(problem, place)
        few = [replace(each, x=each.x[:, [place]], y=each.y[:, [place]]) for each in (problem, other)]
        own = statistic(few[0]).double() - statistic(few[1]).double()  # what two records are alone
        off = (whole - statistic(other)).double() - own
        assert float(off.norm() / own.norm()) < NEAR


@pytest.mark.usefixtures("fine_grid")
def test_noise_is_added_before_a_long_sum_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise that is drawn cancels the sum, so that rounding before the noise would show."""
    problem = rows()
    goal = problem.clipped_sum(at(problem)[:, :1], torch.arange(N)[None].expand(2, -1), None, None).gradient
    seen: list[Tensor] = []

    class Kept:
        def init(self, theta: Tensor, rng: torch.Generator) -> tuple[Tensor]:
            return (theta,)

        def step(self, state: Any, noisy: Tensor, t: int, batch: Any) -> Any:
            seen.append(noisy)
            return state

    def cancelled(*_: Any) -> Any:
        yield random.Batch(torch.arange(N)[None].expand(2, -1), None, -goal)

    monkeypatch.setattr(loop, "batches", cancelled)
    one = torch.ones(1, dtype=torch.float64)
    chain = Chain(step=one, noise_std=one, sampling=Sampling("full", epochs=1))
    for each in (problem, neighbour(problem, 7)):
        loop.run(each, [chain], 2, random.generator(0, "chain"), kernel=Kept(), start=at(problem)[:, :1])
    assert seen[0].dtype == torch.float32
    few = [replace(each, x=each.x[:, [7]], y=each.y[:, [7]]) for each in (problem, neighbour(problem, 7))]
    own = [
        each.clipped_sum(at(problem)[:, :1], torch.zeros(2, 1).long(), None, None).gradient for each in few
    ]
    assert torch.allclose(seen[0] - seen[1], own[0] - own[1], atol=2e-4)


# a chain that diverges


FAR = [1e16, 3e38, float("inf"), float("nan")]


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("loss", [LOGISTIC, softmax(3), huber(0.5, 1.0)], ids=lambda loss: loss.name)
def test_no_record_makes_a_sum_nan_where_a_chain_has_diverged(far: float, loss: Any) -> None:
    """Products of a finite theta overflow, and inf - inf is nan: of one record, and so a sign of it."""
    few = rows(loss, 40)
    x = few.x.clone()
    x[:, 3] = torch.tensor([0.7, -0.7, 0.0, 0.0])
    problem = replace(few, x=x)
    theta, every = torch.full((2, 1, problem.d), far), torch.arange(40)[None].expand(2, -1)
    theta[..., 1::2] *= -1
    clip = torch.tensor([CLIP])
    for order in (every, every.flip(1)):
        assert problem.clipped_sum(theta, order, None, clip).gradient.norm(dim=-1).max() <= 40 * CLIP * (
            1 + 1e-6
        )
    assert problem.hessian(theta).isfinite().all()
    chain = Chain(torch.ones(1), torch.zeros(1), Sampling("subset", batch=40, epochs=1), clip=CLIP)
    descend = problem.descent([chain])
    assert descend is not None
    moved = torch.zeros(1, 1)
    after = theta.clone()
    descend(after, random.Batch(every, None, torch.zeros(2, 1, problem.d)), torch.ones(1, 1), moved)
    assert torch.equal(after.isfinite(), theta.isfinite())
