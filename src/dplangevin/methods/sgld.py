"""Stochastic gradient Langevin dynamics without privacy: the baseline of Li, Chen, Liu and Carin (2019), Figure 3."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from dp_accounting import NonPrivateDpEvent

from dplangevin.checks import not_negative, positive
from dplangevin.methods import Release
from dplangevin.methods.dp_sgld_li2019 import HEAT, check_chain, step_sizes
from dplangevin.poisson import Poisson
from dplangevin.privacy import Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.stepsize import Schedule
from dplangevin.problem import Problem
from dplangevin.sgmcmc import thinned


@dataclass(frozen=True)
class Sgld:
    """`DpSgldLi2019` at eps = inf with eta_1 = step/beta and no clipping; it releases samples of its chain as they are.

    The paper calls its baseline "standard SGLD" and states neither step size nor minibatches.
    """

    budgeted: ClassVar[bool] = False
    schedule: Schedule
    step: float
    precision: float
    samples: int
    burn_in: float
    accountant: Accountant
    minibatches: Poisson
    temperature: Literal["printed", "proper"] = "printed"

    def __post_init__(self) -> None:
        check_chain(self.schedule, self.temperature, self.burn_in)
        positive(step=self.step, samples=self.samples)
        not_negative(precision=self.precision)

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        wrong = [b.epsilon for b in budgets if b.epsilon < math.inf]
        if wrong:
            raise ValueError(f"sgld keeps no budget: epsilon must be inf, not {wrong[0]}; use dp_sgld_li2019")
        steps = self.minibatches.steps(problem)
        eta = step_sizes([self.step / problem.smoothness] * len(budgets), steps, self.schedule)
        std = (HEAT[self.temperature] * eta / problem.n).sqrt()
        keep = thinned(steps, self.burn_in, self.samples)
        draws = self.minibatches.run(problem, eta, std, math.inf, self.precision, keep, rng)
        guarantee = [
            Guarantee(math.inf, b.delta, NonPrivateDpEvent(), "replace_one", "all_iterates", "poisson", ())
            for b in budgets
        ]
        return Release(draws, guarantee, {"violated": [""] * len(budgets)})
