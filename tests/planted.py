"""What `test_planted_faults` runs: every learner that adds noise at each step, on a worst-case pair, all iterates seen.

A scenario runs the production learner many times on D and on D' and hands back how far each step moved along the
record's gradient, with the price that the learner puts on itself.  Pairs: the record's gradient is far longer than the
clip; under D' it is 0 ("add_remove", as if the record had been taken away while n stays) or its opposite
("replace_one").  In `WHOLE`, where every step sees all, the others' gradients are shorter and oppose the record's: a
clip of the sum points one way under D and the other under D'.  In `RARE`, where the record is in few minibatches, they
are 0, or where minibatches are subsets of one record the same as the record's under D': neither blurs what the record
does.  Losses are linear, or so far from right that they are: gradients do not depend on theta.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dplangevin import noise
from dplangevin.attacks.pairs import LINEAR
from dplangevin.cache import Checkpoint
from dplangevin.chains import linear as chains
from dplangevin.data import Dataset
from dplangevin.heads import Audits, Setting
from dplangevin.heads.dp_langevin import DpLangevin as HeadLangevin
from dplangevin.heads.dp_sgd import DpSgd as HeadDpSgd
from dplangevin.losses import softmax
from dplangevin.methods.dp_sgd import DpSgd as ConvexDpSgd
from dplangevin.methods.dp_sgld import DpSgld as ConvexDpSgld
from dplangevin.methods.dp_sgld_li2019 import DpSgldLi2019 as ConvexDpSgldLi2019
from dplangevin.methods.dpvi import Dpvi
from dplangevin.networks import build
from dplangevin.poisson import Poisson
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problem import Problem
from dplangevin.problems.network import NetworkProblem
from dplangevin.sgmcmc import Minibatches
from dplangevin.training import Task as Training
from dplangevin.training.attack import CERTAIN, Chosen
from dplangevin.training.dp_sgd import DpSgd as NetworkDpSgd
from dplangevin.training.dp_sgld import DpSgld as NetworkDpSgld
from dplangevin.training.loop import Steps

BUDGET = Budget(2.0, 0.01)
CLIP = 3.0  # noise that ignores it is a third of what it should be
RUNS = 60_000  # of rows
NETWORKS = 20_000  # runs of a network
CPU = torch.device("cpu")
TIGHT = Tight()
SIDE = 6  # of an image


class Plan(NamedTuple):
    """n records in minibatches of tau for `epochs`: n epochs/tau steps.  opposed: the others' gradients oppose the
    record's."""

    records: int
    batch: int
    epochs: int
    opposed: bool

    @property
    def steps(self) -> int:
        return self.records * self.epochs // self.batch


WHOLE = Plan(2, 2, 2, opposed=True)
RARE = Plan(6, 1, 1, opposed=False)
RARE_SUBSETS = RARE._replace(opposed=True)
LONG = Plan(2, 2, 4, opposed=False)


class Moves(NamedTuple):
    """Of every step along the record's gradient, ``(runs, steps)`` under D and D'; price: epsilon, as the learner has
    it."""

    first: np.ndarray
    second: np.ndarray
    price: float


Scenario = Callable[[Plan, Adjacency], Moves]


def rng(name: str) -> torch.Generator:
    return noise.generator(0, name)


def steps_between(iterates: Tensor, keep: float = 1.0) -> np.ndarray:
    """``theta_(t+1) - keep theta_t``, ``(runs, steps)``, of theta ``(runs, 1 + steps)``."""
    found: np.ndarray = (iterates[:, 1:] - keep * iterates[:, :-1]).double().numpy()
    return found


# methods/ and heads/: rows of one feature


def steep(m: Tensor, y: Tensor) -> Tensor:
    """Slopes ``-+(1, -1)/sqrt(2)``: the softmax of two classes, up to a constant, where it is far from right."""
    sign = torch.where(y > 0, 0.5**0.5, -(0.5**0.5)).expand(*m.shape[:-2], m.shape[-1])
    return torch.stack([sign, -sign], -2)


STEEP = softmax(2)._replace(name="steep", slope=steep)


def problems(plan: Plan, adjacency: Adjacency, loss: Any, long: float, other: float) -> list[Problem]:
    """D and D'.  long, other: norms of the gradients of the record and of those that oppose it."""
    made = []
    for label, length in ((1.0, long), (0.0, long if adjacency == "replace_one" else 0.0)):
        x, y = torch.zeros(1, plan.records, 1), torch.zeros(1, plan.records)
        x[0, 0], y[0, 0] = length, label
        x[0, 1:] = other if plan.opposed else 0.0
        made.append(Problem(x, loss.labels(y) if loss is STEEP else 2 * y - 1, loss, RUNS))
    return made


def convex(method: Any, plan: Plan, adjacency: Adjacency, budget: Budget, long: float, other: float) -> Moves:
    """Of a method that gives out all iterates, from theta = 0."""
    found = []
    for name, problem in zip("ab", problems(plan, adjacency, LINEAR, long, other), strict=True):
        release = method(problem, [budget], rng(name))
        theta = release.theta[:, 0, :, 0]
        found.append(steps_between(torch.cat([torch.zeros(RUNS, 1), theta], 1)))
    return Moves(found[0], found[1], release.guarantee[0].epsilon)


def methods_dp_sgd(plan: Plan, adjacency: Adjacency) -> Moves:
    method = ConvexDpSgd(
        CLIP, 0.5, 0.0, plan.steps, 0.0, TIGHT, Poisson(plan.batch, plan.epochs), adjacency=adjacency
    )
    return convex(method, plan, adjacency, BUDGET, 40 * CLIP, 2 * CLIP)


def methods_dp_sgld_li2019(plan: Plan, adjacency: Adjacency) -> Moves:
    method = ConvexDpSgldLi2019(
        "fixed", CLIP, 1e3, 0.0, plan.steps, 0.0, TIGHT, Poisson(plan.batch, plan.epochs), adjacency=adjacency
    )
    return convex(method, plan, adjacency, BUDGET, 40 * CLIP, 2 * CLIP)


def methods_dp_sgld(plan: Plan, adjacency: Adjacency) -> Moves:
    """It does not clip: rows have norm 1.  Theorem 4 promises far more than it costs, hence the tight accountant, at
    budgets that cost about 2."""
    assert adjacency == "replace_one"
    asked = Budget(30.0 if plan == WHOLE else 12.0, BUDGET.delta)
    method = ConvexDpSgld(
        "constant", 1e3, 0.0, plan.steps, 0.0, TIGHT, minibatches=Minibatches(plan.batch, plan.epochs)
    )
    return convex(method, plan, adjacency, asked, 1.0, 1.0)


class Watched(Problem):
    """Keeps where its clipped gradients are asked for."""

    def clipped_grad(self, theta: Tensor, *args: Any) -> Tensor:
        self.__dict__.setdefault("seen", []).append(theta[:, 0, 0].clone())
        return super().clipped_grad(theta, *args)


def methods_dpvi(plan: Plan, adjacency: Adjacency) -> Moves:
    """A prior so narrow that s has nowhere to go: a gradient is asked for at m + u eps, with u and eps public."""
    precision, step, found = 1e4, 0.25, []
    method = Dpvi(
        CLIP, step, precision, 1e-3, 1, TIGHT, Poisson(plan.batch, plan.epochs), adjacency=adjacency
    )
    for name, problem in zip("ab", problems(plan, adjacency, LINEAR, 40 * CLIP, 2 * CLIP), strict=True):
        watched = Watched(problem.x, problem.y, problem.loss, problem.repeats)
        unit = (problem.smoothness * problem.n + precision) ** -0.5
        with pytest.MonkeyPatch.context() as patch:
            normals: list[Tensor] = []
            ends: list[Tensor] = []
            stream, fit = noise.poisson_stream, Dpvi._fit

            def listening(*args: Any, stream: Any = stream, to: Any = normals) -> Iterator[Any]:
                for drawn in stream(*args):
                    to.append(drawn[-1][:, 0, 0])
                    yield drawn

            def fitted(*args: Any, fit: Any = fit, to: Any = ends) -> Any:
                mean, log_std = fit(*args)
                to.append(mean[:, 0, 0])
                return mean, log_std

            patch.setattr(noise, "poisson_stream", listening)
            patch.setattr(Dpvi, "_fit", fitted)
            release = method(watched, [BUDGET], rng(name))
        seen = watched.__dict__["seen"]
        means = [at - unit * z for at, z in zip(seen, normals, strict=True)]
        eta = step * (1 - np.arange(plan.steps) / plan.steps)
        path = torch.stack([*means, *ends], 1).double().numpy()
        found.append((path[:, 1:] - (1 - eta * unit**2 * precision) * path[:, :-1]) / eta)
    return Moves(found[0], found[1], release.guarantee[0].epsilon)


def heads(method: Any, setting: Setting, plan: Plan, adjacency: Adjacency, keep: float) -> tuple[Any, Any]:
    """Moves under D and D' of a method with its own noise, and that noise; starts at 0."""
    noisy = method.calibrated(setting, BUDGET.epsilon)
    found = []
    for name, problem in zip("ab", problems(plan, adjacency, STEEP, 40 * CLIP, 2 * CLIP), strict=True):
        iterates: list[Tensor] = []
        with pytest.MonkeyPatch.context() as patch:
            project = chains._projected

            def seen(theta: Tensor, radius: Tensor, to: Any = iterates, project: Any = project) -> Tensor:
                projected: Tensor = project(theta, radius)
                to.append(projected[:, 0, 0] - projected[:, 0, 1])
                return projected

            patch.setattr(chains, "_projected", seen)
            method.trained(problem, setting, [(method, {"noise": noisy})], rng(name))
        found.append(steps_between(torch.stack(iterates, 1), keep))
    return found, noisy


def heads_dp_sgd(plan: Plan, adjacency: Adjacency) -> Moves:
    """Calibrated under replace_one; its rows have prices for both kinds of neighbours."""
    setting = Setting(plan.records, 1, 2, 100.0, 4.0, BUDGET.delta, Audits(16, 16))
    method = HeadDpSgd("tight", "constant", plan.batch, plan.epochs, 0.0, CLIP)
    (first, second), noisy = heads(method, setting, plan, adjacency, 1.0)
    return Moves(first, second, TIGHT.epsilon(method.event(setting, noisy), setting.delta, adjacency))


def heads_dp_langevin(plan: Plan, adjacency: Adjacency) -> Moves:
    """Subsets, so n is kept."""
    assert adjacency == "replace_one"
    setting = Setting(plan.records, 1, 2, 100.0, 4.0, BUDGET.delta, Audits(16, 16))
    method = HeadLangevin("tight", "constant", plan.batch, plan.epochs, 0.01, CLIP, initial="zero")
    keep = 1 - 0.01 / (2 * setting.beta(0.01))
    (first, second), noisy = heads(method, setting, plan, adjacency, keep)
    return Moves(first, second, TIGHT.epsilon(method.provable(setting, noisy), setting.delta, adjacency))


# training/ and finetune/: one linear layer with two classes, of which its bias makes class 0 certain


@contextmanager
def watched_checkpoints() -> Iterator[list[Tensor]]:
    """theta ``(S, d)`` after every step, as a checkpoint would hold it; runs that stop early leave what they did."""
    seen: list[Tensor] = []
    save = Checkpoint.save

    def watching(self: Checkpoint, make: Callable[[], dict[str, Any]], force: bool = False) -> None:
        if not force:
            seen.append(make()["theta"][:, 0].clone())
        save(self, make, force)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "save", watching)
        yield seen


def along(pixels: Tensor) -> Tensor:
    """The gradient of an image whose label is 1 where class 0 is certain, as a unit vector: weights, then biases."""
    sides = torch.tensor([1.0, -1.0])
    gradient = torch.cat([torch.outer(sides, pixels.flatten()).flatten(), sides])
    return gradient / gradient.norm()


def certain(like: Tensor) -> Tensor:
    """Where networks start: class 0 is certain, whatever the image."""
    theta = torch.zeros_like(like)
    theta[..., -2] = CERTAIN
    return theta


NETWORK = build([{"linear": 2}], (1, SIDE, SIDE), 2)


def training_task(plan: Plan, record: int, runs: int, folder: Path, generator: torch.Generator) -> Training:
    """record: its label.  White it is, others are white with label 0, or dark with label 1 and oppose it."""
    x = np.full((plan.records, 1, SIDE, SIDE), 255, np.uint8)
    y = np.zeros(plan.records, np.int64)
    y[0] = record
    if plan.opposed:
        x[1:], y[1:] = 64, 1  # pixels of -.5
    network = Chosen(NETWORK.module, NETWORK.shape, NETWORK.classes, certain(torch.empty(NETWORK.d)))
    images = Dataset.from_arrays(x, y, x[:1], y[:1], {"name": "pair", "classes": 2})
    problem = NetworkProblem.of_images(network, images, CPU)
    return Training(problem, BUDGET, runs, generator, folder, "key")


def finetune_task(plan: Plan, record: int, runs: int, folder: Path, generator: torch.Generator) -> Training:
    """As `training_task`, of one input that is no pixel, from the template's parameters."""
    x, y = torch.full((plan.records, 1, 1, 1), 20.0), torch.zeros(plan.records, dtype=torch.long)
    y[0] = record
    if plan.opposed:
        x[1:], y[1:] = -5.0, 1
    network = build([{"linear": 2}], (1, 1, 1), 2)
    nn.utils.vector_to_parameters(certain(torch.empty(network.d)), network.module.parameters())
    problem = NetworkProblem(network, x, y, x[:1], y[:1], pretrained=True)
    return Training(problem, BUDGET, runs, generator, folder, "key")


def networks_moved(learner: Any, make: Callable[..., Any], unit: Tensor, plan: Plan) -> Moves:
    found = []
    for name, label in (("a", 1), ("b", 0)):
        with TemporaryDirectory() as folder, watched_checkpoints() as seen:
            done = learner(make(plan, label, NETWORKS, Path(folder), rng(name)))
        origin = certain(seen[0])
        found.append(steps_between(torch.stack([(at - origin) @ unit for at in (origin, *seen)], 1)))
    return Moves(found[0], found[1], done.guarantee.epsilon)


WHITE, TWENTY = along(torch.ones(SIDE * SIDE)), along(torch.tensor([20.0]))


def network_learner(kind: str, plan: Plan, adjacency: Adjacency = "add_remove") -> Any:
    steps = Steps(plan.batch, plan.epochs, measured=1)
    if kind == "dp_sgld":
        return NetworkDpSgld(None, CLIP, "fixed", 0.0, 1, 0.0, steps, TIGHT, adjacency=adjacency)
    return NetworkDpSgd(0.1, "fixed", 0.0, CLIP, 0.0, steps, TIGHT, adjacency)


def training_dp_sgd(plan: Plan, adjacency: Adjacency) -> Moves:
    return networks_moved(network_learner("dp_sgd", plan, adjacency), training_task, WHITE, plan)


def training_dp_sgld(plan: Plan, adjacency: Adjacency) -> Moves:
    return networks_moved(network_learner("dp_sgld", plan, adjacency), training_task, WHITE, plan)


def finetune(plan: Plan, adjacency: Adjacency) -> Moves:
    return networks_moved(network_learner("finetune", plan, adjacency), finetune_task, TWENTY, plan)


SUBSETS = {"methods.dp_sgld", "heads.dp_langevin"}  # the others draw Poisson samples
SCENARIOS: dict[str, tuple[Scenario, Adjacency]] = {
    "methods.dp_sgd": (methods_dp_sgd, "add_remove"),
    "methods.dpvi": (methods_dpvi, "add_remove"),
    "methods.dp_sgld": (methods_dp_sgld, "replace_one"),
    "methods.dp_sgld_li2019": (methods_dp_sgld_li2019, "add_remove"),
    "training.dp_sgd": (training_dp_sgd, "add_remove"),
    "training.dp_sgld": (training_dp_sgld, "add_remove"),
    "heads.dp_sgd": (heads_dp_sgd, "replace_one"),
    "heads.dp_langevin": (heads_dp_langevin, "replace_one"),
    "finetune.dp_sgd": (finetune, "add_remove"),
}
