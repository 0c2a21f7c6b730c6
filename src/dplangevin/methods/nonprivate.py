"""The fit without privacy: what every private method is compared with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from dp_accounting import NonPrivateDpEvent

from dplangevin.checks import not_negative
from dplangevin.methods import Release
from dplangevin.minimise import minimise
from dplangevin.privacy import Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem


@dataclass(frozen=True)
class NonPrivate:
    """``argmin_theta sum_i phi(theta x_i, y_i) + ridge/2 ||theta||^2``; ridge >= 0 (0 needs a unique minimum)."""

    budgeted: ClassVar[bool] = False
    ridge: float
    accountant: Accountant

    def __post_init__(self) -> None:
        not_negative(ridge=self.ridge)

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        wrong = [b.epsilon for b in budgets if b.epsilon < math.inf]
        if wrong:
            raise ValueError(f"nonprivate keeps no budget: epsilon must be inf, not {wrong[0]}")
        answers = len(problem.x)  # repeats that share their data share their answer
        linear = torch.zeros(answers, len(budgets), problem.d)
        found = minimise(problem, torch.full((len(budgets),), self.ridge), linear)
        theta = found.theta.float().expand(problem.repeats, -1, -1)[:, :, None]
        event = NonPrivateDpEvent()
        guarantee = [Guarantee(math.inf, b.delta, event, "replace_one", "final", "full", ()) for b in budgets]
        return Release(theta, guarantee, {"violated": [""] * len(budgets)})
