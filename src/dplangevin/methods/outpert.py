"""Output perturbation with the Gaussian mechanism."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from dp_accounting import GaussianDpEvent, NonPrivateDpEvent

from dplangevin import noise
from dplangevin.checks import positive
from dplangevin.methods import Release, bounded, fit_assumptions
from dplangevin.minimise import minimise
from dplangevin.privacy import Budget, Guarantee, calibrate
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem


@dataclass(frozen=True)
class OutPert:
    r"""Ridge fit plus noise: ``argmin sum_i phi + n ridge/2 ||theta||^2 + N(0, s^2 I)``.

    The minimiser moves by at most ``2L/(n ridge)`` when one record is replaced, ``L/(n ridge)`` is one record's share
    (Chaudhuri, Monteleoni and Sarwate 2011, Corollary 8), and ``s`` comes from the analytic Gaussian mechanism (Balle
    and Wang 2018).
    Differs: wang2015 (Theorem 2) quotes the classical ``sqrt(2 ln(1.25/delta))/eps``, which holds for
    eps < 1 only.  ridge: > 0, per row.
    """

    budgeted: ClassVar[bool] = True
    ridge: float
    accountant: Accountant
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        positive(ridge=self.ridge, tolerance=self.tolerance)

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        bounded(problem, "outpert")
        share = problem.lipschitz / (problem.n * self.ridge)
        stds, guarantee = [], []
        for budget in budgets:
            private = budget.epsilon < math.inf
            multiplier = (
                calibrate(self.accountant, GaussianDpEvent, budget, low=1e-3, high=1e6, rtol=1e-10)
                if private
                else 0.0
            )
            event = GaussianDpEvent(multiplier) if private else NonPrivateDpEvent()
            claimed = self.accountant.epsilon(event, budget.delta, "replace_one")
            guarantee.append(
                Guarantee(
                    claimed, budget.delta, event, "replace_one", "final", "full", fit_assumptions(problem)
                )
            )
            stds.append(multiplier * share)
        linear = torch.zeros(len(problem.x), 1, problem.d)
        found = minimise(problem, torch.tensor([problem.n * self.ridge]), linear, self.tolerance)
        normals = noise.gaussian(rng, problem.repeats, problem.d, torch.float64)
        theta = found.theta + normals * torch.tensor(stds, dtype=torch.float64)[:, None]
        return Release(theta[:, :, None], guarantee, {"violated": [""] * len(budgets)})
