"""Brackets: for every private method and several budgets, proven epsilon beside attack epsilon.

The budget of a method is the one at which its proven epsilon is the asked one.  A row is one method at one
such epsilon. Its columns are

- epsilon_asked, epsilon_promised, epsilon_proven: what was asked for, what the method's own theorem promises
  then, and the proven epsilon (upper bound), which is lower where a method cannot spend more;
- epsilon_attack, ratio: the attack epsilon (lower bound), and its share of the proven epsilon;
- neighbours, delta: of all of these;
- pair, statistic, runs, confidence: how the attack works, see `attacks.worst`; for one run of a network
  `runs` is 1;
- attacked: "hypotheses" of the price; "parts", where each released part is attacked by a pair of its own; or
  "problem", that of the network which trains;
- one_dimensional: 1 if the worst case is known to be a pair of one-dimensional laws for each step;
- gap: why the two differ, and which of the two is loose.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from dp_accounting import DpEvent, GaussianDpEvent

from dplangevin import random
from dplangevin.attacks import network
from dplangevin.attacks.one_run import one_run
from dplangevin.attacks.worst import Shown, shown
from dplangevin.library import calibrate, facts
from dplangevin.methods import Execution, Method, Plan
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import LangevinDpEvent, RandomAllocationDpEvent, SufficientStatisticsDpEvent
from dplangevin.privacy.subsampled_gaussian import is_subsampled
from dplangevin.problems import Facts

CANARIES = "canaries with orthogonal gradients as long as the clip, each in the data with probability 1/2"
ONE_RUN = (
    "The attack is loose: it has one run, and the bound of many canaries is not tight for Gaussian noise."
)


@dataclass(frozen=True)
class Brackets:
    """Methods, budgets and attacks.

    - `methods`: name -> private method, on a linear model.
    - `networks`: name -> private method, on the network of `attacks.network.canaries`, with full batches.
    - `epsilons`: the proven epsilons.
    - `delta`: of promise, proof and attack.
    - `records`, `features`, `public`: size of the linear model.
    - `batch`, `epochs`: of chains that do not name a batch of their own.
    - `runs`: of an attack, on each data set, where it needs runs.
    - `canaries`, `guesses`: of an attack on a network.
    - `confidence`: of attacks that have runs.
    """

    methods: Mapping[str, Method]
    networks: Mapping[str, Method]
    epsilons: Sequence[float]
    delta: float
    records: int
    features: int
    public: int
    batch: int
    epochs: float
    runs: int
    canaries: int
    guesses: int
    confidence: float = 0.95

    def units(self) -> list[str]:
        return [
            f"{name} {epsilon:g}" for name in (*self.methods, *self.networks) for epsilon in self.epsilons
        ]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        name, epsilon = unit.rsplit(" ", 1)
        rng = random.generator(seed, f"brackets/{unit}")
        if name in self.networks:
            method, included = self.networks[name], torch.rand(self.canaries, generator=rng) < 0.5
            plan = self.planned(method, network.canaries(included).facts, float(epsilon))
            found = self.in_one_run(method, plan, included, rng)
        else:
            known = facts(self.records, self.features, public=self.public)
            plan = self.planned(self.shortened(self.methods[name]), known, float(epsilon))
            event, adjacency = plan.guarantee.event, plan.guarantee.adjacency
            found = shown(event, self.delta, adjacency, self.runs, rng, self.confidence)
        promise = plan.guarantee
        proven = Tight().epsilon(promise.event, self.delta, promise.adjacency)
        row = {"method": name, "epsilon_asked": float(epsilon), "epsilon_promised": plan.guarantee.epsilon}
        row |= {"epsilon_proven": proven, "epsilon_attack": found.epsilon, "ratio": found.epsilon / proven}
        row |= {"neighbours": promise.adjacency, "delta": self.delta}
        row |= {name: getattr(found, name) for name in ("pair", "statistic", "runs", "confidence")}
        row["attacked"] = "problem" if name in self.networks else "parts" if found.by_part else "hypotheses"
        row["one_dimensional"] = int(name in self.methods and one_dimensional(promise.event))
        return [{**row, "gap": found.gap}]

    def planned(self, method: Method, known: Facts, epsilon: float) -> Plan:
        """Return the plan whose proven epsilon is `epsilon`, or the most that the method can spend.

        - `method`: private method.
        - `known`: facts about the problem.
        - `epsilon`: the asked proven epsilon, > 0.
        """
        wanted = Budget(epsilon, self.delta)
        adjacency = method.plan(known, wanted).guarantee.adjacency
        budget = calibrate(method, known, wanted, adjacency, event=lambda plan: plan.guarantee.event)
        return method.plan(known, budget)

    def shortened(self, method: Any) -> Any:
        """Return a chain with `batch` and `epochs`, if it names no batch; any other method unchanged."""
        if hasattr(method, "second"):
            return replace(method, second=self.shortened(method.second))
        sampling = getattr(method, "sampling", None)
        if sampling is None or sampling.batch is not None:
            return method
        return replace(method, sampling=replace(sampling, batch=self.batch, epochs=self.epochs))

    def in_one_run(self, method: Method, plan: Plan, included: torch.Tensor, rng: torch.Generator) -> Shown:
        """Train once and return what the last iterate shows of the canaries.

        - `method`: private method for the network.
        - `plan`: its plan, as from `planned`.
        - `included`: whether each canary is in the data, ``(canaries,)``.
        - `rng`: of the training.
        """
        release = method.release(network.canaries(included), [plan], Execution(1, rng))
        scores = network.scores(release.theta[:, 0, -1], self.canaries)[0]
        found = one_run(scores, included.numpy(), self.delta, self.guesses, self.confidence)
        statistic = f"last iterate along each gradient; {found.correct} of {found.guesses} guesses are right"
        return Shown(found.epsilon, CANARIES, statistic, 1, self.confidence, ONE_RUN)


def one_dimensional(event: DpEvent) -> bool:
    """Return True for Gaussian steps, sampled or allocated, sufficient statistics, and a last iterate on all rows."""
    return all(
        isinstance(leaf, GaussianDpEvent | RandomAllocationDpEvent | SufficientStatisticsDpEvent)
        or is_subsampled(leaf)
        or (
            isinstance(leaf, LangevinDpEvent)
            and leaf.batch == leaf.records
            and leaf.convex
            and leaf.radius == math.inf
        )
        for leaf, _ in leaves(event)
    )
