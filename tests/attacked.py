"""Every private method on every kind of problem that it is defined for, as tiny mechanisms on worst-case pairs.

`TABLE` is that list.  `attacked` runs a method's own `plan` and `release` many times on D and on D' and hands back what
every step shows of the record, with the price that `Tight` puts on the plan's event.

The record's gradient is far longer than the clip.  Every step sees all records, and the others' gradients are shorter
and oppose the record's: a clip of the sum points one way under D and the other under D'.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import network_pairs as network
import numpy as np
import pairs
import pytest
import torch
from composed import parameters
from hydra.utils import instantiate
from torch import Tensor

from dplangevin import random
from dplangevin.attacks.audit import audit
from dplangevin.methods import Execution, Plan
from dplangevin.methods.dp_sgfs import _Scoring
from dplangevin.methods.dp_sghmc import Hamiltonian
from dplangevin.methods.dpvi import Dpvi, _MeanField
from dplangevin.methods.hybrid import Hybrid
from dplangevin.methods.teachers import Descent, RidgeLearner
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems import Problem
from dplangevin.problems.chain import Chain

DELTA = 0.1  # large, so that few runs show much
CLIP = 2.0  # noise that ignores it is half of what it should be
LONG, OPPOSED = 8 * CLIP, 2 * CLIP  # norms of the gradients of the record and of the others
FRICTION = 0.01  # so little that networks stay near where they start
LOSSES = {"logistic": pairs.LINEAR, "softmax": pairs.STEEP}
NETWORKS = ("network",)  # a pretrained one starts elsewhere, and clips by the same code
KINDS = (*LOSSES, *NETWORKS)


STEPS = 2


class Spec(NamedTuple):
    """How a chain is run.  epsilon: asked for, at prices near 2."""

    settings: dict[str, Any]
    kinds: tuple[str, ...]
    epsilon: float
    poisson: bool = False
    clip: float = CLIP
    records: int = 3
    batch: int = 3


EVERY = {"clip": CLIP, "step": 1e6, "unit": "absolute", "precision": 0.0, "burn_in": 0.0}
DYNAMICS = {**EVERY, "friction": FRICTION}
HMC = {"warmup": 12, "block": 4, "max_draws": 4, "leapfrogs": 2}
BALL = {"bound": "range", "radius": 1.0, "sampler": HMC}
TWO, FOUR, BOTH = 2.0, 18.0, 18.5  # budgets: the promises of Theorems 4 and 5 are loose


def hybrid(**second: Any) -> dict[str, Any]:
    return {"first": BALL, "second": second, "share": 1 / 61}


CHAINS = {
    "dp_sgd": Spec({**EVERY, "step": 0.01}, KINDS, TWO, poisson=True),
    "dp_sgld_li2019": Spec({**EVERY, "step": None}, KINDS, TWO, poisson=True),
    "dpvi": Spec(
        {"clip": CLIP, "step": 0.25, "precision": 1e4, "spread": 1e-3, "samples": 1},
        ("logistic",),
        TWO,
        poisson=True,
    ),
    "dp_sgld": Spec({**EVERY, "schedule": "constant"}, KINDS, FOUR),
    "dp_sgld_ryffel2022": Spec(
        {"clip": CLIP, "step": 0.01, "unit": "absolute", "l2": 0.01, "initial": "zero"}, KINDS, TWO
    ),
    "dp_sghmc": Spec(DYNAMICS, KINDS, FOUR),
    "dp_sghmc_li2019": Spec({**DYNAMICS, "step": None}, KINDS, TWO, poisson=True),
    "dp_sgnht": Spec(DYNAMICS, KINDS, FOUR),
    "dp_sgfs": Spec(
        {"step": 10.0, "unit": "absolute", "refresh": 1000, "burn_in": 0.0},
        tuple(LOSSES),
        25.0,
        clip=math.inf,
        records=8,  # the method needs minibatches of more than 4
        batch=8,
    ),
    # Theorem 4 of wang2015 does not cover full batches
    "hybrid": Spec(hybrid(**DYNAMICS), tuple(LOSSES), BOTH, records=4),
    "hybrid_sgld": Spec(hybrid(**EVERY, schedule="constant"), tuple(LOSSES), BOTH, records=4),
}


class Fit(NamedTuple):
    """delta: at which it is priced, 0 where it is pure; clips: a clip hides how long a row is."""

    settings: dict[str, Any]
    epsilon: float
    runs: int = 30_000
    delta: float = DELTA
    records: int = 1
    clips: bool = False


FITS = {
    "outpert": Fit({"l2": 1.0}, 2.0),
    "objpert": Fit({"ridge": 50.0}, 4.0),
    "objpert_tight": Fit({"ridge": 50.0}, 2.0),
    "objpert_pure": Fit({"ridge": 50.0}, 2.0, delta=0.0),
    "ops": Fit(BALL, 2.0, delta=0.0, records=3),
    "ops_gdp": Fit({"sampler": HMC}, 2.0),
    "dp_gd": Fit({"steps": 8}, 2.0, clips=True),
}
QUERIES = 75
VOTE: dict[str, Any] = {"queries": QUERIES, "fewest": 30, "asked": 2.5, "threshold": 0.5, "answer_std": 1.0}
VOTE |= {"ratio": 20.0, "adjacency": "replace_one"}
TEACHERS: dict[str, Any] = {
    **dict.fromkeys(LOSSES, RidgeLearner(1.0)),
    **dict.fromkeys(NETWORKS, Descent(1.0, 0.0, 0.0, QUERIES, 1)),
}
TABLE = [
    *((name, kind) for name, spec in CHAINS.items() for kind in spec.kinds),
    *((name, kind) for name in FITS for kind in LOSSES),
    *(("pate", kind) for kind in KINDS),
]


class Seen(NamedTuple):
    """Log-likelihood ratios of all that each run shows, up to constants, under D and D', ``(runs,)``.

    price: the smallest epsilon that can be proved for the plan's event; claimed: what the plan says.
    """

    first: np.ndarray
    second: np.ndarray
    price: float
    claimed: float


def rng(name: str) -> torch.Generator:
    return random.generator(0, name)


def configured(name: str, **settings: Any) -> Any:
    """The method of conf/method, with these settings."""
    return instantiate(parameters().method[name], **settings)


def adjacency_of(name: str) -> Adjacency:
    """The kind of neighbours that a chain is attacked on if not both: Poisson samples are priced for either."""
    return "add_remove" if CHAINS[name].poisson else "replace_one"


def made(name: str, adjacency: Adjacency) -> Any:
    """The method; where neighbours are a choice, priced by `Tight`."""
    spec = CHAINS[name]
    sampling = {"batch": spec.batch, "epochs": (STEPS + 0.5) * spec.batch / spec.records}
    if "second" in spec.settings:
        return configured(
            name, **spec.settings | {"second": spec.settings["second"] | {"sampling": sampling}}
        )
    method = configured(name, **spec.settings, sampling=sampling)
    return replace(method, accountant=Tight(), **({"adjacency": adjacency} if spec.poisson else {}))


def neighbours(name: str, kind: str, adjacency: Adjacency) -> tuple[Problem, Problem]:
    """D and D'."""
    records = CHAINS[name].records
    if kind in NETWORKS:
        return network.neighbours(records, adjacency)
    long, other = (LONG, OPPOSED) if CHAINS[name].clip == CLIP else (1.0, 0.5)
    return pairs.neighbours(LOSSES[kind], records, adjacency, length=long, other=other)


def all_kept(plan: Plan) -> Plan:
    """The plan of a chain, all of whose steps are kept."""
    if not isinstance(plan.work, Chain):
        first, second = plan.work
        return plan._replace(work=(first, all_kept(second)))
    return plan._replace(work=plan.work._replace(keep=tuple(range(1, len(plan.work.step) + 1))))


def chain_of(plan: Plan) -> Chain:
    found = plan.work if isinstance(plan.work, Chain) else plan.work[1].work
    assert isinstance(found, Chain)
    return found


def shown(
    method: Any, problem: Problem, plan: Plan, runs: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Where each step is, and the noisy sums, both ``(runs, steps, d)``: of descent from its iterates, else as the
    kernel is given them."""
    at: list[Tensor] = []
    noisy: list[Tensor] = []
    start, d = problem.init(runs, rng("start"))[:, None], problem.facts.d
    with pytest.MonkeyPatch.context() as patch:
        for kernel in (Hamiltonian, _MeanField, _Scoring):

            def watched(self: Any, state: Any, sums: Tensor, *rest: Any, step: Any = kernel.step) -> Any:
                at.append(state[0][:, 0, :d])
                noisy.append(sums[:, 0, :d])
                return step(self, state, sums, *rest)

            patch.setattr(kernel, "step", watched)
        last = plan if method.__class__ is not Dpvi else plan._replace(work=plan.work._replace(keep=()))
        theta = method.release(problem, [last], Execution(runs, generator)).theta[:, 0]
    if noisy:
        return torch.stack(at, 1), torch.stack(noisy, 1)
    if not isinstance(method, Hybrid):  # the first sample of which is where its chain starts
        theta = torch.cat([start, theta], 1)
    chain = chain_of(plan)
    eta, size = chain.step[:, None].float(), chain.sampling.size(problem.facts.n)
    return theta[:, :-1], ((1 - eta * chain.l2) * theta[:, :-1] - theta[:, 1:]) * size / eta


def clipped(problem: Problem, theta: Tensor, clip: float, rows: int) -> Tensor:
    """The sum of the clipped gradients of the first rows, at theta ``(runs, steps, d)`` and of its shape."""
    at, found = torch.arange(rows).expand(len(theta), -1), []
    mask = torch.ones(len(theta), 1, rows, dtype=torch.bool)
    for each in theta.split(1, 1):
        found.append(problem.clipped_sum(each, at, mask, torch.tensor([clip])).gradient)
    return torch.cat(found, 1)


def pull(problems: Sequence[Problem]) -> Tensor:
    """How much longer the sum of all gradients is under D than under D', ``(d,)``, where chains start."""
    start = problems[0].init(1, rng("start"))[:, None]
    first, second = (clipped(each, start, math.inf, each.facts.n) for each in problems)
    return (first - second)[0, 0]


def attacked(name: str, kind: str, adjacency: Adjacency | None = None, *, share: int = 1) -> Seen:
    """Of a chain.  share: 1/share of the runs."""
    adjacency = adjacency or adjacency_of(name)
    method, problems = made(name, adjacency), neighbours(name, kind, adjacency)
    plan = method.plan(problems[0].facts, Budget(CHAINS[name].epsilon, DELTA))
    chain, found = chain_of(plan), []
    runs = (4_000 if kind in NETWORKS else 8_000 if name.startswith("hybrid") else 12_000) // share
    rows, std = CHAINS[name].records, float(chain.noise_std[0])
    for side, problem in zip("ab", problems, strict=True):
        theta, sums = shown(method, problem, all_kept(plan), runs, rng(name + side))
        # of a linear model gradients do not depend on theta
        at = theta if kind in NETWORKS else theta[:1, :1]
        first, second = (clipped(each, at, chain.clip, rows) for each in problems)
        ratio = ((sums - (first + second) / 2) * (first - second)).sum(-1) / std**2
        rho = plan.work[0].work.rho if isinstance(method, Hybrid) else 0.0
        before = -rho * theta[:, 0] @ pull(problems)  # of what came before the first step
        found.append((before.double() + ratio.double().sum(1)).numpy())
    return Seen(found[0], found[1], *prices(plan))


def prices(plan: Plan, delta: float = DELTA) -> tuple[float, float]:
    """The proven price at delta, and the claim."""
    promise = plan.guarantee
    return Tight().epsilon(promise.event, delta, promise.adjacency), promise.epsilon


def planned(name: str, kind: str) -> Plan:
    """What a method makes of the facts of a kind of problem."""
    method = made(name, adjacency_of(name)) if name in CHAINS else fit_of(name, kind)
    facts = network.neighbours(9, "replace_one")[0].facts
    if kind not in NETWORKS:
        facts = pairs.neighbours(LOSSES[kind], 9)[0].facts._replace(public=QUERIES)
    return method.plan(facts, Budget(BOTH, DELTA))


def fit_of(name: str, kind: str) -> Any:
    if name in FITS:
        return configured(name, **FITS[name].settings)
    method = configured(name, teachers=1, vote=VOTE, scored="all")
    return replace(method, teacher=TEACHERS[kind], student=TEACHERS[kind])


def fitted(name: str, kind: str, times: float = 1.0) -> tuple[float, float, float]:
    """Of a fit, a posterior sample or a vote: the attack epsilon, the price and the claim."""
    method = fit_of(name, kind)
    fit = FITS[name] if name in FITS else Fit({}, 5.0, 3_000 if kind in LOSSES else 1_500)
    problems: list[Problem] = []
    if kind in NETWORKS:
        for of in network.neighbours(1, "replace_one"):
            asked = of.x_test.expand(QUERIES, -1, -1, -1), of.y_test.expand(-1, QUERIES)
            problems.append(replace(of, x_test=asked[0], y_test=asked[1]))
    else:
        for linear in pairs.neighbours(LOSSES[kind], fit.records, length=times, other=1.0, bound=1.0):
            problems.append(replace(linear, x_test=torch.ones(1, QUERIES, 1)))
    plan = method.plan(problems[0].facts, Budget(fit.epsilon, DELTA))
    unit, values = pull(problems), []
    for side, problem in zip("ab", problems, strict=True):
        release = method.release(problem, [plan], Execution(fit.runs, rng(name + side)))
        values.append((release.theta[:, 0, -1].double() @ unit.double()).numpy())
    return (audit(values[0], values[1], fit.delta).epsilon, *prices(plan, fit.delta))
