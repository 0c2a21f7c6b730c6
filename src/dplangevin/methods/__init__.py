"""Private learners: one algorithm a file, for every problem that the algorithm is defined for.

`plan` computes what a budget allows from public facts only, without data.  `release` carries out plans on the data.
Shapes: S seeds, E plans (one for each budget), d parameters, m test rows, K classes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from dp_accounting import DpEvent, NonPrivateDpEvent
from torch import Tensor

from dplangevin.checks import require, settings
from dplangevin.device import pick
from dplangevin.files import Checkpoint
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.events import Released, SamplingScheme
from dplangevin.problems import Facts, Problem
from dplangevin.problems.chain import Chain, Kernel, Observer
from dplangevin.problems.sampling import Sampling
from dplangevin.random import NORMALS
from dplangevin.samplers.chains.loop import run, thinned

SLACK = 1e-6  # relative; covers rounding when a claimed epsilon is recomputed from its event


class Plan(NamedTuple):
    """What a method does for one budget, computed without data.

    - `work`: What `release` needs: a `Chain`, or an object of the method's own.
    - `settings`: Columns of the result row.
    - `noise_given`: The caller gave the noise, so the budget is what is claimed, and the event may cost more.
    - `violated`: Conditions that the guarantee needs and that do not hold for these facts.
    - `paper`: Event for the paper's theorem if it differs from the event that the guarantee prices.
    """

    guarantee: Guarantee
    work: Any
    settings: Mapping[str, float | str] = {}
    noise_given: bool = False
    violated: tuple[str, ...] = ()
    paper: DpEvent | None = None


@dataclass
class Release:
    """The output of a method.  `not_private` and `not_reached` are NOT private: do not publish them.

    - `theta`: (S, E, kept, d); the third axis counts iterates or draws.
    - `predicted`: (S, E, m, K), probabilities of the test rows, if they do not follow from theta.
    - `rows`: Indices of the test rows that are scored; None for all.
    - `not_private`: Diagnostics by name, each ``(S, E)``.
    - `not_reached`: For each plan, what its guarantee needs and this run did not reach; "" for nothing.
    """

    theta: Tensor
    predicted: Tensor | None = None
    rows: Tensor | None = None
    not_private: dict[str, Tensor] = field(default_factory=dict)
    not_reached: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.not_reached = self.not_reached or [""] * self.theta.shape[1]


class Workspace(NamedTuple):
    """Checkpoints in `folder`, named by `key`, a hash of all inputs; `code` hashes the code that does the work."""

    folder: Path
    key: str
    code: str = ""

    def checkpoint(self, name: str = "") -> Checkpoint:
        stem = f"{self.key}-{name}" if name else self.key
        return Checkpoint(self.folder / f"{stem}.pt", stem)


class Execution(NamedTuple):
    """How plans are carried out, in S = `seeds` independent runs of each.

    - `observe`: Called after every step of a chain.
    - `start`: (S, E, d), theta_0 of chains, independent of the data or private itself; None: the problem's start.
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

    `plan` keeps no state: equal facts and budgets give equal plans.  Plans are pickled for other processes.

    Attributes
    ----------
    accountant : The paper's own theorem, with which the method calibrates itself.
    budgeted : False for a method that spends no privacy budget.
    """

    budgeted: ClassVar[bool]

    @property
    def accountant(self) -> Accountant: ...

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        """Return the plan for a budget; ValueError if no plan keeps it, or if the facts do not suit the method."""
        ...

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        """Return one result for each seed and plan; `plan` returned the plans for the facts of this problem."""
        ...


def refuse(name: str, plan: Plan, budget: Budget) -> None:
    """Raise ValueError if a plan costs more than its budget, except where the caller gave the noise."""
    guarantee = plan.guarantee
    if plan.noise_given or (
        guarantee.epsilon <= budget.epsilon * (1 + SLACK) and guarantee.delta <= budget.delta
    ):
        return
    raise ValueError(
        f"{name} refused: its event costs ({guarantee.epsilon:.6g}, {guarantee.delta:g}), more than the budget "
        f"({budget.epsilon:.6g}, {budget.delta:g})"
    )


def planned(method: Method, facts: Facts, budgets: Sequence[Budget], name: str = "") -> list[Plan]:
    """Return one plan for each budget; refuse plans that cost more."""
    plans = [method.plan(facts, budget) for budget in budgets]
    for budget, plan in zip(budgets, plans, strict=True):
        refuse(name or type(method).__name__, plan, budget)
    return plans


def placed(
    problem: Problem, plans: Sequence[Plan], seeds: int, device: str | torch.device | None = None
) -> Problem:
    """Return the problem on the device for these plans: `device`, or what DPL_DEVICE names."""
    cells = math.inf
    if problem.facts.loss is not None:
        n, margins = problem.facts.n, problem.facts.linear.classes
        sizes = [plan.work.sampling.size(n) if isinstance(plan.work, Chain) else n for plan in plans]
        cells = seeds * len(plans) * max(sizes) * problem.facts.d / margins
    where = pick(cells, device)
    return problem if problem.device == where else problem.to(where)


def released(
    method: Method, problem: Problem, budgets: Sequence[Budget], seeds: int, rng: torch.Generator
) -> tuple[Release, list[Plan]]:
    """Plan for every budget and carry out the plans; refuse plans that cost more than their budgets."""
    plans = planned(method, problem.facts, budgets)
    return method.release(problem, plans, Execution(seeds, rng)), plans


class ChainMethod:
    """Base of the dataclasses that plan a chain; settings that one lacks have the values below."""

    budgeted: ClassVar[bool] = True
    schemes: ClassVar[tuple[str, ...]] = ()  # the sampling schemes that it is priced for; () for any
    sampling: Sampling
    adjacency: Adjacency = "replace_one"
    precision: float = 0.0
    samples: int = 1
    burn_in: float = 0.0

    def __post_init__(self) -> None:
        settings(self)
        if self.schemes:
            drawn, known = self.sampling.scheme, " or ".join(self.schemes)
            require(
                drawn in self.schemes, f"{type(self).__name__} is priced for {known} samples, not {drawn!r}"
            )

    def chain(self, facts: Facts, step: Tensor | float, noise: Tensor | float, **more: Any) -> Chain:
        """Return the chain of these step sizes and this noise, each a number or ``(T,)``; `more` is of `Chain`."""
        sampling = more.pop("sampling", None) or self.sampling
        steps = sampling.steps(facts.n)
        of_steps = [
            torch.as_tensor(each, dtype=torch.float64).expand(steps).clone() for each in (step, noise)
        ]
        own = {"l2": self.precision / facts.n, "keep": thinned(steps, self.burn_in, self.samples)}
        return Chain(of_steps[0], of_steps[1], sampling, **{**own, **more})

    def promise(
        self: Any,
        budget: Budget,
        event: DpEvent | None,
        assumptions: Sequence[str] = (),
        released: Released = "all_iterates",
    ) -> Guarantee:
        """Return what the accountant promises for the event; None: nothing."""
        scheme = self.sampling.scheme
        drawn: Any = "without_replacement" if scheme == "subset" else scheme
        return guaranteed(self.accountant, event, budget, self.adjacency, released, drawn, assumptions)

    def kernel(self, problem: Problem, plans: Sequence[Plan], rng: torch.Generator) -> Kernel | None:
        """Return the update of the chains; None for gradient descent."""
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
    sampling: SamplingScheme,
    assumptions: Sequence[str],
    delta: float | None = None,
) -> Guarantee:
    """Return the guarantee with the accountant's epsilon of an event (None: no privacy) at `delta`, or the budget's."""
    spent = budget.delta if delta is None else delta
    texts = () if event is None else tuple(assumptions)
    event = NonPrivateDpEvent() if event is None else event
    claimed = accountant.epsilon(event, spent, adjacency)
    return Guarantee(claimed, spent, event, adjacency, released, sampling, texts)


def no_budget(budget: Budget, name: str) -> None:
    """Raise ValueError for a finite epsilon, which a method without privacy cannot keep."""
    if budget.epsilon < math.inf:
        raise ValueError(f"{name} keeps no budget: epsilon must be inf, not {budget.epsilon}")


def of_works(plans: Sequence[Plan], name: str, device: torch.device) -> Tensor:
    """Return the attribute `name` of every plan's work, ``(E,)``."""
    return torch.tensor([getattr(plan.work, name) for plan in plans], dtype=torch.float64, device=device)


def chain_columns(plan: Plan, n: int) -> dict[str, float]:
    """Return the columns of a result row that describe a chain on n records; none for other plans."""
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
