"""Brackets: for every private method and several budgets, proven epsilon beside attack epsilon.

- epsilon_proven: lower than epsilon_asked where a method cannot spend more;
- ratio: the attack epsilon over the proven one; pair, statistic, runs, confidence: see `attacks.worst`;
- attacked: "hypotheses" if one pair that the price admits is attacked, "parts" if each released part has its own pair;
- one_dimensional: 1 if the worst case is known to be a pair of one-dimensional laws for each step;
- gap: why the two epsilons differ, and which of the two is loose.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dp_accounting import DpEvent, GaussianDpEvent

from dplangevin import random
from dplangevin.attacks.worst import shown
from dplangevin.library import budget_for, facts
from dplangevin.methods import Method, Plan
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import LangevinDpEvent, RandomAllocationDpEvent
from dplangevin.privacy.gaussian_steps import is_subsampled
from dplangevin.problems import Facts


@dataclass(frozen=True)
class Brackets:
    """Methods, budgets and attacks."""

    methods: Mapping[str, Method]  # name -> private method, on a linear model
    epsilons: Sequence[float]  # the proven epsilons
    delta: float  # of promise, proof and attack
    records: int
    features: int
    public: int
    batch: int  # of chains that name no batch, as `epochs`
    epochs: float
    runs: int  # of an attack, on each data set, where it needs runs
    confidence: float = 0.95

    def units(self) -> list[str]:
        return [f"{name} {epsilon:g}" for name in self.methods for epsilon in self.epsilons]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        name, epsilon = unit.rsplit(" ", 1)
        rng = random.generator(seed, f"brackets/{unit}")
        known = facts(self.records, self.features, public=self.public)
        plan = self.planned(self.shortened(self.methods[name]), known, float(epsilon))
        promise = plan.guarantee
        found = shown(promise.event, self.delta, promise.adjacency, self.runs, rng, self.confidence)
        proven = Tight().epsilon(promise.event, self.delta, promise.adjacency)
        row = {"method": name, "epsilon_asked": float(epsilon), "epsilon_promised": plan.guarantee.epsilon}
        row |= {"epsilon_proven": proven, "epsilon_attack": found.epsilon, "ratio": found.epsilon / proven}
        row |= {"neighbours": promise.adjacency, "delta": self.delta}
        row |= {name: getattr(found, name) for name in ("pair", "statistic", "runs", "confidence")}
        row["attacked"] = "parts" if found.by_part else "hypotheses"
        row["one_dimensional"] = int(one_dimensional(promise.event))
        return [{**row, "gap": found.gap}]

    def planned(self, method: Method, known: Facts, epsilon: float) -> Plan:
        """Return the plan whose proven epsilon is `epsilon`, or the most that the method can spend."""
        wanted = Budget(epsilon, self.delta)
        adjacency = method.plan(known, wanted).guarantee.adjacency
        budget = budget_for(method, known, wanted, adjacency, event=lambda plan: plan.guarantee.event)
        return method.plan(known, budget)

    def shortened(self, method: Any) -> Any:
        """Return a chain with `batch` and `epochs`, if it names no batch; any other method unchanged."""
        if hasattr(method, "second"):
            return replace(method, second=self.shortened(method.second))
        sampling = getattr(method, "sampling", None)
        if sampling is None or sampling.batch is not None:
            return method
        return replace(method, sampling=replace(sampling, batch=self.batch, epochs=self.epochs))


def one_dimensional(event: DpEvent) -> bool:
    """Return True for Gaussian steps, sampled or allocated, and for a last iterate on all rows."""
    return all(
        isinstance(leaf, GaussianDpEvent | RandomAllocationDpEvent)
        or is_subsampled(leaf)
        or (isinstance(leaf, LangevinDpEvent) and leaf.batch == leaf.records and leaf.radius == math.inf)
        for leaf, _ in leaves(event)
    )
