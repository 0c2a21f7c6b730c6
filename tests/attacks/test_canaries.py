"""Canaries in one training of a network: what is in the data shows, what is not does nothing, faults are caught."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from dplangevin import random
from dplangevin.attacks.canaries import Attacker, Planted, with_canaries
from dplangevin.attacks.one_run import one_run
from dplangevin.methods import Execution, Method, Plan
from dplangevin.methods.dp_sgd import DpSgd
from dplangevin.methods.dp_sgld_li2019 import DpSgldLi2019
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems.network import NetworkProblem, as_inputs
from dplangevin.problems.networks import build, named
from dplangevin.problems.sampling import Sampling

COUNT, GUESSES, DELTA = 400, 80, 1e-5
POISSON = Sampling("poisson", batch=200, epochs=20)
METHODS: dict[str, Method] = {
    "dp_sgd": DpSgd(
        step=0.1, unit="absolute", sampling=POISSON, momentum=0.9, precision=0.0, accountant=Tight()
    ),
    "dp_sgld_li2019": DpSgldLi2019(
        step=0.1, unit="absolute", clip=None, calibrated="clip", sampling=POISSON, accountant=Tight()
    ),
}


@pytest.fixture(scope="module")
def problem() -> NetworkProblem:
    """Two classes of bright and dark images, with canaries among them."""
    rng = random.generator(0, "images")
    network = build([{"linear": 24}, {"activation": "tanh"}, {"linear": 4}], (1, 10, 10), classes=4)
    y = torch.randint(4, (1000,), generator=rng)
    x = 40 * y[:, None, None, None] + torch.randint(60, (1000, 1, 10, 10), generator=rng)
    made = NetworkProblem(network, x.to(torch.uint8), y, x[:5].to(torch.uint8), y[None, :5])
    return with_canaries(made, COUNT, rng)


def half(label: str = "coins") -> Tensor:
    return torch.rand(COUNT, generator=random.generator(0, label)) < 0.5


def attacker_of(problem: NetworkProblem, plan: Plan) -> Attacker:
    return Attacker(problem, COUNT, plan.work, random.generator(0, "attacker"), every=5)


def trained(method: Method, problem: NetworkProblem, plan: Plan, included: Tensor, watched: bool) -> Tensor:
    attacker = attacker_of(problem, plan) if watched else None
    planted = Planted(problem, included, attacker)
    return method.release(planted, [plan], Execution(1, random.generator(0, "training"))).theta


def test_canaries_are_black_and_white_images_in_the_place_of_records(problem: NetworkProblem) -> None:
    assert set(problem.x[:COUNT].unique().tolist()) == {0, 255}
    assert problem.x[COUNT:].max() < 200
    assert len(problem.x) == 1000
    assert problem.y[:COUNT].unique().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="uint8"):
        with_canaries(replace(problem, x=problem.x.float()), 3, random.generator(0, "x"))


def test_a_canary_that_is_not_in_the_data_adds_exactly_nothing(problem: NetworkProblem) -> None:
    """To a sum, with and without a mask; and to a whole training, whatever its pixels and its label are."""
    included, rng = half(), random.generator(0, "theta")
    theta = problem.init(2, rng)[:, None]
    rows = torch.randint(1000, (2, 60), generator=rng)
    mask = torch.rand(2, 1, 60, generator=rng) < 0.7
    clip = torch.tensor([1.0])
    there = (torch.cat([included, torch.ones(600, dtype=torch.bool)]))[rows][:, None]
    planted = Planted(problem, included)
    for given in (None, mask):
        wanted = problem.clipped_sum(theta, rows, there if given is None else given & there, clip)
        found = planted.clipped_sum(theta, rows, given, clip)
        assert torch.equal(found.gradient, wanted.gradient)
        assert found.loss is not None
        assert wanted.loss is not None
        assert torch.equal(found.loss, wanted.loss)
    out = torch.arange(COUNT)[~included][:10]
    alone = planted.clipped_sum(theta[:1], out[None], None, clip)
    assert not alone.gradient.any()
    x, y = problem.x.clone(), problem.y.clone()
    x[:COUNT][~included], y[:COUNT][~included] = 7, 3
    method = METHODS["dp_sgd"]
    plan = method.plan(problem.facts, Budget(4.0, DELTA))
    other = replace(problem, x=x, y=y)
    first, second, whole = (
        trained(method, each, plan, inside, watched=False)
        for each, inside in ((problem, included), (other, included), (problem, half("other coins")))
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, whole)


def test_the_attacker_changes_nothing(problem: NetworkProblem) -> None:
    for method in METHODS.values():
        plan = method.plan(problem.facts, Budget(4.0, DELTA))
        alone, seen = (trained(method, problem, plan, half(), watched) for watched in (False, True))
        assert torch.equal(alone, seen)


def test_inner_products_and_the_inverse_covariance(problem: NetworkProblem) -> None:
    """Against gradients by autograd and a dense matrix."""
    plan = METHODS["dp_sgd"].plan(problem.facts, Budget(4.0, DELTA))
    attacker, rng = attacker_of(problem, plan), random.generator(0, "theta")
    theta = problem.init(1, rng)[0]
    attacker.estimate(0, theta)
    module, x = problem.network.module, as_inputs(problem.x[:COUNT])

    def loss(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(module, named(module, theta), (x[None],)), y[None])

    gradients = vmap(grad(loss), (None, 0, 0))(theta, x, problem.y[:COUNT])
    direction = torch.randn(len(theta), generator=rng)
    torch.testing.assert_close(
        attacker.slopes(theta, direction), (gradients @ direction).double(), rtol=1e-3, atol=5e-3
    )
    norms = gradients.norm(dim=1)
    torch.testing.assert_close(attacker.canaries(theta).norm[0], norms, rtol=1e-4, atol=1e-4)
    clipped = gradients * (plan.work.clip / norms).clamp(max=1)[:, None]
    rows = torch.arange(30)
    torch.testing.assert_close(attacker.gradients(theta, rows), clipped[rows], rtol=1e-3, atol=1e-5)
    dense = attacker.factors.double().mT @ attacker.factors.double()
    dense.diagonal().add_(float(plan.work.noise_std[0]) ** 2)
    wanted = torch.linalg.solve(dense, direction.double()).float()
    torch.testing.assert_close(attacker.weighed(direction), wanted, rtol=1e-3, atol=1e-3)


def separation(scores: np.ndarray, included: np.ndarray) -> float:
    inside, outside = scores[included], scores[~included]
    return float((inside.mean() - outside.mean()) / np.sqrt((inside.var() + outside.var()) / 2))


@pytest.mark.parametrize("name", list(METHODS))
def test_the_bound_stays_below_the_price_and_too_little_noise_is_caught(
    problem: NetworkProblem, name: str
) -> None:
    """A mechanism that adds half the noise of its price shows more; with a tenth it shows more than its price."""
    method, included = METHODS[name], half()
    plan = method.plan(problem.facts, Budget(2.0, DELTA))
    price = Tight().epsilon(plan.guarantee.event, DELTA, "add_remove")
    shown, apart = {}, {}
    for times in (1.0, 0.5, 0.1):
        faulty = plan._replace(work=plan.work._replace(noise_std=times * plan.work.noise_std))
        attacker = attacker_of(problem, faulty)
        method.release(
            Planted(problem, included, attacker), [faulty], Execution(1, random.generator(1, name))
        )
        shown[times] = one_run(attacker.scores.numpy(), included.numpy(), DELTA, GUESSES).epsilon
        apart[times] = separation(attacker.scores.numpy(), included.numpy())
    assert 0 < shown[1.0] <= price
    assert shown[0.5] > 1.5 * shown[1.0]
    assert shown[0.1] > price
    assert apart[1.0] < apart[0.5] < apart[0.1]
