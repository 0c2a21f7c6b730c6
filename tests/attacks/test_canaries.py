"""Canaries in one training of a network: what is in the data shows, what is not does nothing, faults are caught."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad

from dplangevin import random
from dplangevin.attacks.canaries import Attacker, OfImages, Planted, with_canaries
from dplangevin.attacks.one_run import one_run
from dplangevin.methods import Execution, Method, Plan
from dplangevin.methods.dp_sgd import DpSgd
from dplangevin.methods.dp_sghmc import DpSghmcLi2019
from dplangevin.methods.dp_sgld_li2019 import DpSgldLi2019
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems.gan import Adversary, GanProblem
from dplangevin.problems.network import NetworkProblem, as_inputs
from dplangevin.problems.networks import adversaries, build, named
from dplangevin.problems.sampling import Sampling

pytestmark = pytest.mark.slow

COUNT, GUESSES, DELTA = 200, 80, 1e-5
N, SIDE, CLASSES = 1000, 8, 4
POISSON = Sampling("poisson", batch=100, epochs=20)
DP_SGD = DpSgd(step=0.02, unit="absolute", sampling=POISSON, precision=0.0, accountant=Tight())
LANGEVIN: dict[str, Any] = {
    "unit": "absolute",
    "clip": None,
    "calibrated": "clip",
    "sampling": POISSON,
    "accountant": Tight(),
}
METHODS: dict[str, dict[str, Method]] = {
    "network": {
        "dp_sgd": replace(DP_SGD, step=0.1, momentum=0.9),
        "dp_sgld_li2019": DpSgldLi2019(step=0.1, **LANGEVIN),
    },
    "gan": {"dp_sgd": DP_SGD, "dp_sghmc_li2019": DpSghmcLi2019(step=0.003, **LANGEVIN)},
}
EACH = [pytest.param(kind, name) for kind, methods in METHODS.items() for name in methods]


def problem_of(kind: str) -> OfImages:
    """Return a problem on grey images.  A larger label has brighter images."""
    rng = random.generator(0, "images")
    y = torch.randint(CLASSES, (N,), generator=rng)
    x = 40 * y[:, None, None, None] + torch.randint(60, (N, 1, SIDE, SIDE), generator=rng)
    x = x.to(torch.uint8)
    if kind == "network":
        network = build([{"linear": 24}, {"activation": "tanh"}, {"linear": CLASSES}], x.shape[1:], CLASSES)
        return NetworkProblem(network, x, y, x[:5], y[None, :5])
    network, generator = adversaries(x.shape[1:], CLASSES + 1, [16], 8)
    targets = torch.where(torch.rand(N, generator=rng) < 0.1, y, CLASSES + 1).repeat(2, 1)
    adversary = Adversary(generator, step=1e-3, batch=8)
    return GanProblem(
        network, adversary, x, torch.arange(N).repeat(2, 1), targets, x[:5], y[None, :5], weight=20.0
    )


@pytest.fixture(scope="module", params=list(METHODS))
def problem(request: pytest.FixtureRequest) -> OfImages:
    """Images with canaries among them, and a network or a GAN."""
    return with_canaries(problem_of(request.param), COUNT, random.generator(0, "canaries"))


def half(label: str = "coins") -> Tensor:
    return torch.rand(COUNT, generator=random.generator(0, label)) < 0.5


def attacker_of(problem: OfImages, plan: Plan) -> Attacker:
    return Attacker(problem, COUNT, plan.work, random.generator(0, "attacker"), every=10)


def trained(method: Method, problem: OfImages, plan: Plan, included: Tensor, watched: bool) -> Tensor:
    attacker = attacker_of(problem, plan) if watched else None
    planted = Planted(problem, included, attacker)
    return method.release(planted, [plan], Execution(1, random.generator(0, "training"))).theta


def test_canaries_are_black_and_white_images_in_the_place_of_records(problem: OfImages) -> None:
    assert set(problem.x[:COUNT].unique().tolist()) == {0, 255}
    assert problem.x[COUNT:].max() < 200
    assert len(problem.x) == N
    assert problem.y[..., :COUNT].unique().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="uint8"):
        with_canaries(replace(problem, x=problem.x.float()), 3, random.generator(0, "x"))
    if isinstance(problem, GanProblem):
        for rows in (problem.rows[:, 1:], problem.rows.flip(1)):
            with pytest.raises(ValueError, match="records are its 1000 images, in their order"):
                with_canaries(replace(problem, rows=rows), 3, random.generator(0, "x"))


def test_a_canary_that_is_not_in_the_data_adds_exactly_nothing(problem: OfImages) -> None:
    """To a sum, with and without a mask; and to a whole training, whatever its pixels and its label are."""
    included, rng = half(), random.generator(0, "theta")
    theta = problem.init(2, rng)[:, None]
    rows = torch.randint(1000, (2, 60), generator=rng)
    mask = torch.rand(2, 1, 60, generator=rng) < 0.7
    clip = torch.tensor([1.0])
    there = (torch.cat([included, torch.ones(N - COUNT, dtype=torch.bool)]))[rows][:, None]
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
    x[:COUNT][~included], y[..., :COUNT][..., ~included] = 7, 3
    method = replace(DP_SGD, sampling=replace(POISSON, epochs=2))
    plan = method.plan(problem.facts, Budget(4.0, DELTA))
    other = replace(problem, x=x, y=y)
    first, second, whole = (
        trained(method, each, plan, inside, watched=False)
        for each, inside in ((problem, included), (other, included), (problem, half("other coins")))
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, whole)


def test_the_attacker_changes_nothing(problem: OfImages) -> None:
    for each in METHODS["gan" if isinstance(problem, GanProblem) else "network"].values():
        method: Any = replace(each, sampling=replace(POISSON, epochs=2))  # type: ignore[type-var]
        plan = method.plan(problem.facts, Budget(4.0, DELTA))
        alone, seen = (trained(method, problem, plan, half(), watched) for watched in (False, True))
        assert torch.equal(alone, seen)


def test_inner_products_and_the_inverse_covariance(problem: OfImages) -> None:
    """Against gradients by autograd and a dense matrix."""
    plan = DP_SGD.plan(problem.facts, Budget(4.0, DELTA))
    attacker, rng = attacker_of(problem, plan), random.generator(0, "theta")
    theta = problem.init(1, rng)[0, : problem.network.d]
    attacker.estimate(0, theta)
    module, x = problem.network.module, as_inputs(problem.x[:COUNT])

    def loss(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        z = functional_call(module, named(module, theta), (x[None],))
        return weight * (z[:, :CLASSES].logsumexp(1) - z[:, y])[0]

    weight = problem.weight if isinstance(problem, GanProblem) else 1.0
    gradients = torch.stack(
        [grad(loss)(theta, *each) for each in zip(x, problem.y.reshape(-1, N)[0, :COUNT], strict=True)]
    )
    direction = torch.randn(len(theta), generator=rng)
    torch.testing.assert_close(
        attacker.slopes(theta, direction), (gradients @ direction).double(), rtol=1e-3, atol=1e-4
    )
    norms = gradients.norm(dim=1)
    torch.testing.assert_close(
        attacker.clipped(theta[None], x[None], attacker.y[None, :COUNT]).norm[0], norms, rtol=1e-4, atol=1e-4
    )
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


@pytest.mark.parametrize(("kind", "name"), EACH)
def test_the_bound_stays_below_the_price_and_too_little_noise_is_caught(kind: str, name: str) -> None:
    """A mechanism that adds half the noise of its price shows more; with a tenth it shows more than its price."""
    method, included = METHODS[kind][name], half()
    problem = with_canaries(problem_of(kind), COUNT, random.generator(0, "canaries"))
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
    assert shown[1.0] < shown[0.5] < shown[0.1]
    assert shown[1.0] <= price < shown[0.1]
    assert 0 < apart[1.0] < apart[0.5] < apart[0.1]
