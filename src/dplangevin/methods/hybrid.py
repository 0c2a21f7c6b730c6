"""Hybrid posterior sampling (Wang, Fienberg and Smola 2015, Algorithm 3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from dp_accounting import ComposedDpEvent, NonPrivateDpEvent

from dplangevin.checks import require
from dplangevin.methods import Release
from dplangevin.methods.dp_sgld import DpSgld
from dplangevin.methods.dp_sgnht import DpSgnht
from dplangevin.methods.ops import Ops
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem


@dataclass(frozen=True)
class Hybrid:
    """A posterior sample at ``share * eps``, then DP-SGNHT or DP-SGLD from there at the rest; all samples are released.

    first: `Ops` with bound "paper" or "range" (pure, so delta goes to the second).  The event composes both and is
    priced as one: by basic composition as in the paper, and by the tight accountant.
    """

    budgeted: ClassVar[bool] = True
    first: Ops
    second: DpSgnht | DpSgld
    share: float = 0.5

    def __post_init__(self) -> None:
        require(0 < self.share < 1, f"share must be in (0, 1), not {self.share}")
        require(
            self.first.bound != "gdp", 'hybrid needs a pure first stage: bound "paper" or "range", not "gdp"'
        )

    @property
    def accountant(self) -> Accountant:
        return self.first.accountant

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        sample = self.first(problem, [Budget(b.epsilon * self.share, b.delta) for b in budgets], rng)
        rest = [Budget(b.epsilon * (1 - self.share), b.delta) for b in budgets]
        chain = self.second(problem, rest, rng, start=sample.theta[:, :, 0])
        guarantee = []
        for budget, one, two in zip(budgets, sample.guarantee, chain.guarantee, strict=True):
            private = budget.epsilon < math.inf
            event = ComposedDpEvent([one.event, two.event]) if private else NonPrivateDpEvent()
            claimed = self.accountant.epsilon(event, budget.delta, "replace_one")
            assumptions = tuple(dict.fromkeys(one.assumptions + two.assumptions))
            guarantee.append(two._replace(epsilon=claimed, event=event, assumptions=assumptions))
        theta = torch.cat([sample.theta, chain.theta], 2)
        return Release(theta, guarantee, sample.info)
