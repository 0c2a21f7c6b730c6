"""Hybrid posterior sampling (Wang, Fienberg and Smola 2015, Algorithm 3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from dp_accounting import ComposedDpEvent, DpEvent, NonPrivateDpEvent

from dplangevin.checks import require, settings
from dplangevin.methods import ChainMethod, Execution, Method, Plan, Release
from dplangevin.methods.dp_sghmc import DpSgnht
from dplangevin.methods.ops import Ops
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problems import Facts, Problem


@dataclass(frozen=True)
class Hybrid:
    """One posterior sample at ``share * eps``, then a chain that starts there and spends the rest.

    All samples are released, and priced as one event: by basic composition as in the paper, and by `Tight`.

    Source: wang2015, Algorithm 3.

    Attributes
    ----------
    first : `Ops` with bound "paper" or "range".  It is pure, so the second stage gets all of delta.
    second : A `ChainMethod`.
    share : float in (0, 1).
    """

    budgeted: ClassVar[bool] = True
    first: Ops = field(default_factory=Ops)
    second: Method = field(default_factory=DpSgnht)
    share: float = 0.5

    def __post_init__(self) -> None:
        settings(self)
        require(
            self.first.bound != "gdp", 'hybrid needs a pure first stage: bound "paper" or "range", not "gdp"'
        )
        require(isinstance(self.second, ChainMethod), "hybrid needs a chain for its second stage")

    @property
    def accountant(self) -> Accountant:
        return self.first.accountant

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        one = self.first.plan(facts, Budget(budget.epsilon * self.share, budget.delta))
        two = self.second.plan(facts, Budget(budget.epsilon * (1 - self.share), budget.delta))
        event: DpEvent = NonPrivateDpEvent()
        if budget.epsilon < math.inf:
            event = ComposedDpEvent((one.guarantee.event, two.guarantee.event))
        claimed = self.accountant.epsilon(event, budget.delta, "replace_one")
        assumptions = tuple(dict.fromkeys(one.guarantee.assumptions + two.guarantee.assumptions))
        guarantee = two.guarantee._replace(epsilon=claimed, event=event, assumptions=assumptions)
        return Plan(guarantee, (one, two))

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        how = Execution(how.seeds, how.rng, drawn_in=how.drawn_in)
        sample = self.first.release(problem, [plan.work[0] for plan in plans], how)
        after = how._replace(start=sample.theta[:, :, 0])
        chain = self.second.release(problem, [plan.work[1] for plan in plans], after)
        theta = torch.cat([sample.theta, chain.theta], 2)
        return Release(theta, not_private=sample.not_private, not_reached=sample.not_reached)
