"""Objective perturbation with pure epsilon (Chaudhuri, Monteleoni and Sarwate 2011)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from dp_accounting import NonPrivateDpEvent

from dplangevin import noise
from dplangevin.checks import positive
from dplangevin.methods import Release, bounded, fit_assumptions
from dplangevin.minimise import minimise
from dplangevin.privacy import Budget, Guarantee, PureObjectivePerturbationDpEvent
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem


@dataclass(frozen=True)
class ObjPertPure:
    r"""Algorithm 2 of Chaudhuri et al., times n: minimise ``sum_i phi + Lambda/2 ||theta||^2 + <b, theta>``.

    With ``r = ridge`` and ``eps' = eps - k ln(1 + 2 beta/r + (beta/r)^2)``: if ``eps' > 0``, ``Lambda = r``; otherwise
    ``Lambda = beta/(e^{eps/4k} - 1)`` and ``eps' = eps/2``.  b has density proportional to ``exp(-eps'/(2L) ||b||)``.
    Differs: k is 1 in the paper; for a loss of several margins it is the loss's `rank`, beta its `mean_curvature`.
    Replace-one.  ridge: > 0.  tolerance: gradient norm / n at which the minimum counts as exact.
    """

    budgeted: ClassVar[bool] = True
    ridge: float
    accountant: Accountant
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        positive(ridge=self.ridge, tolerance=self.tolerance)

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        bounded(problem, "objpert_pure")
        bound, beta, rank = problem.lipschitz, problem.mean_curvature, problem.loss.rank
        ridges, scales, guarantee = [], [], []
        for budget in budgets:
            ridge = self.ridge
            left = budget.epsilon - 2 * rank * math.log1p(beta / ridge)
            if left <= 0:
                ridge = beta / math.expm1(budget.epsilon / (4 * rank))
                left = budget.epsilon / 2
            rate = left / (2 * bound)
            private = budget.epsilon < math.inf
            event = (
                PureObjectivePerturbationDpEvent(rate, bound, beta, ridge, rank)
                if private
                else NonPrivateDpEvent()
            )
            claimed = self.accountant.epsilon(event, budget.delta, "replace_one")
            guarantee.append(
                Guarantee(
                    claimed, budget.delta, event, "replace_one", "final", "full", fit_assumptions(problem)
                )
            )
            ridges.append(ridge)
            scales.append(1 / rate)
        linear = (
            noise.gamma_ball(rng, problem.repeats, problem.d)
            * torch.tensor(scales, dtype=torch.float64)[:, None]
        )
        found = minimise(problem, torch.tensor(ridges, dtype=torch.float64), linear, self.tolerance)
        info = {"gradient_norm": found.gradient_norm, "violated": [""] * len(budgets)}
        return Release(found.theta[:, :, None], guarantee, info)
