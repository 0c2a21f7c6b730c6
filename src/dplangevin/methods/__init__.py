"""Private learners, one algorithm a file, for every problem that it is defined for.

A method's constructor has its hyperparameters.  `plan` works out what a budget buys from public facts alone, so that it
can be priced, printed and attacked without data; `release` carries plans out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from dp_accounting import DpEvent, NonPrivateDpEvent
from torch import Tensor

from dplangevin.cache import Checkpoint
from dplangevin.chains.chain import Chain, Kernel, Observer, run
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.events import Released, Sampling
from dplangevin.problems import Facts, Problem
from dplangevin.random import NORMALS

SLACK = 1e-6  # relative; rounding when a claimed epsilon is recomputed from its event


class Plan(NamedTuple):
    """What a method does for a budget, worked out without data.

    guarantee: what is promised, with the event that it prices.  work: what `release` needs: a `Chain`, or the method's
    own.  settings: numbers and names that a row states (noise_multiplier, noise_std, l2, calibration ...).  stated: the
    noise was given, not worked out: the budget is what is claimed for it, and the event may cost more.  violated: what
    the guarantee needs and these facts do not have.  paper: what the paper's theorem is told, where that is not
    the event that the guarantee prices.
    """

    guarantee: Guarantee
    work: Any
    settings: Mapping[str, float | str] = {}
    stated: bool = False
    violated: tuple[str, ...] = ()
    paper: DpEvent | None = None


@dataclass
class Release:
    """What a method gives out.

    theta: ``(S, E, kept, d)``.  predicted: probabilities ``(S, E, m, K)`` of the test rows, where they are not those of
    theta.  rows: the test rows that count, None for all.  guarantees: one per plan, in place of the plans' own, where
    the data settled what is promised.

    Two attributes are NOT private and not part of what may be given out.  not_private: diagnostics by name, ``(S, E)``.
    not_reached: one text per plan naming what its guarantee needs and this run did not reach, "" (for all, by default)
    if nothing.
    """

    theta: Tensor
    predicted: Tensor | None = None
    rows: Tensor | None = None
    guarantees: list[Guarantee] | None = None
    not_private: dict[str, Tensor] = field(default_factory=dict)
    not_reached: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.not_reached = self.not_reached or [""] * self.theta.shape[1]


class Workspace(NamedTuple):
    """Where unfinished work is kept: checkpoints under `folder`, named by `key`, a hash of all that decides it."""

    folder: Path
    key: str

    def checkpoint(self, name: str = "") -> Checkpoint:
        stem = f"{self.key}-{name}" if name else self.key
        return Checkpoint(self.folder / f"{stem}.pt", stem)


class Execution(NamedTuple):
    """How plans are carried out.

    seeds: S, how many answers to each.  observe: sees the steps of a chain.  workspace: for what takes long.  start:
    theta_0 of chains ``(S, E, d)``, independent of the data or itself private; by default the problem's.  schemes,
    drawn_in: see `chains.chain.run`.
    """

    seeds: int
    rng: torch.Generator
    observe: Observer | None = None
    workspace: Workspace | None = None
    start: Tensor | None = None
    schemes: set[str] | None = None
    drawn_in: torch.dtype = NORMALS

    @property
    def checkpoint(self) -> Checkpoint | None:
        return self.workspace.checkpoint() if self.workspace else None


class Method(Protocol):
    """A private learner.

    accountant: the paper's own theorem, by which the method calibrates itself.  budgeted: False for one that has no
    privacy to spend.
    """

    budgeted: ClassVar[bool]

    @property
    def accountant(self) -> Accountant: ...

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        """What the budget buys; ValueError where it is out of reach, or the facts are not those of a problem that the
        method is defined for."""
        ...

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        """One answer per seed and plan."""
        ...


def refuse(name: str, plan: Plan, budget: Budget) -> None:
    """ValueError where a plan costs more than its budget, unless its noise was stated: the one place that refuses."""
    guarantee = plan.guarantee
    if plan.stated or (guarantee.epsilon <= budget.epsilon * (1 + SLACK) and guarantee.delta <= budget.delta):
        return
    raise ValueError(
        f"{name} refused: its event costs ({guarantee.epsilon:.6g}, {guarantee.delta:g}), more than the budget "
        f"({budget.epsilon:.6g}, {budget.delta:g})"
    )


def planned(method: Method, facts: Facts, budgets: Sequence[Budget], name: str = "") -> list[Plan]:
    """A plan for every budget, none of which costs more.  name: of the method in errors, by default its class's."""
    plans = [method.plan(facts, budget) for budget in budgets]
    for budget, plan in zip(budgets, plans, strict=True):
        refuse(name or type(method).__name__, plan, budget)
    return plans


def settled(release: Release, plans: Sequence[Plan]) -> list[Plan]:
    """The plans with what is promised now that they are carried out."""
    guarantees = release.guarantees or [plan.guarantee for plan in plans]
    return [plan._replace(guarantee=own) for plan, own in zip(plans, guarantees, strict=True)]


def released(
    method: Method, problem: Problem, budgets: Sequence[Budget], seeds: int, rng: torch.Generator
) -> tuple[Release, list[Plan]]:
    """Plan for every budget, and carry it out; over-budget plans are refused."""
    plans = planned(method, problem.facts, budgets)
    release = method.release(problem, plans, Execution(seeds, rng))
    return release, settled(release, plans)


class ChainMethod:
    """A method whose plans are `Chain`s, run by the one loop; `kernel` where it is not gradient descent."""

    def kernel(self, problem: Problem, plans: Sequence[Plan], rng: torch.Generator) -> Kernel | None:
        return None

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        theta = run(
            problem,
            [plan.work for plan in plans],
            how.seeds,
            how.rng,
            schemes=how.schemes,
            start=how.start,
            kernel=self.kernel(problem, plans, how.rng),
            observe=how.observe,
            checkpoint=how.checkpoint,
            drawn_in=how.drawn_in,
        )
        return Release(theta)


def guaranteed(
    accountant: Accountant,
    event: DpEvent | None,
    budget: Budget,
    adjacency: Adjacency,
    released: Released,
    sampling: Sampling,
    assumptions: Sequence[str],
    delta: float | None = None,
) -> Guarantee:
    """What the accountant charges for an event, None for one without privacy, which rests on no assumptions.

    delta: that is spent, the budget's by default.
    """
    spent = budget.delta if delta is None else delta
    texts = () if event is None else tuple(assumptions)
    event = NonPrivateDpEvent() if event is None else event
    claimed = accountant.epsilon(event, spent, adjacency)
    return Guarantee(claimed, spent, event, adjacency, released, sampling, texts)


def no_budget(budget: Budget, name: str) -> None:
    """ValueError for a finite epsilon, which a method without privacy cannot keep."""
    if budget.epsilon < math.inf:
        raise ValueError(f"{name} keeps no budget: epsilon must be inf, not {budget.epsilon}")


def of_works(plans: Sequence[Plan], name: str, dtype: torch.dtype = torch.float64) -> Tensor:
    """A number of every plan's work, ``(E,)``."""
    return torch.tensor([getattr(plan.work, name) for plan in plans], dtype=dtype)


def chain_columns(plan: Plan, n: int) -> dict[str, float]:
    """What a row states of a chain."""
    if not isinstance(chain := plan.work, Chain):
        return {}
    return {
        "step_size": float(chain.step[0]),
        "clip": chain.clip,
        "l2": chain.l2,
        "batch": chain.sampling.size(n),
        "epochs": chain.sampling.passes(n),
        "steps": len(chain.step),
    }
