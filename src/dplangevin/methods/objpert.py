"""Objective perturbation with Gaussian noise (Kifer, Smith and Thakurta 2012)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from dp_accounting import NonPrivateDpEvent

from dplangevin import noise
from dplangevin.checks import not_negative, require
from dplangevin.methods import Release, bounded, fit_assumptions
from dplangevin.minimise import minimise
from dplangevin.privacy import Budget, Guarantee, ObjectivePerturbationDpEvent
from dplangevin.privacy.accountants.objective import log_tail
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem


@dataclass(frozen=True)
class ObjPert:
    r"""Minimise ``sum_i phi(theta x_i, y_i) + Lambda/2 ||theta||^2 + <b, theta>``.

    ``b ~ N(0, L^2 (8 ln(2/delta) + 4 eps)/eps^2 I)`` and ``Lambda = max(2 beta/eps, ridge)``: Algorithm 1 of Kifer et
    al., times n.  Their proof is for adding or removing a record; under replace_one the same with eps/1.5 for eps.
    Differs: they have one margin.  For K margins the loss's `rank` times the problem's `mean_curvature` stands for beta
    and `log_tail` for ``ln(2/delta)`` (see accountants/objective).
    ridge: >= 0, what the user wants at least.  tolerance: gradient norm / n at which the minimum counts as exact.
    """

    budgeted: ClassVar[bool] = True
    ridge: float
    accountant: Accountant
    adjacency: Literal["replace_one", "add_remove"] = "replace_one"
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        not_negative(ridge=self.ridge, tolerance=self.tolerance)
        require(self.adjacency in ("replace_one", "add_remove"), f"adjacency {self.adjacency!r} is unknown")

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        bounded(problem, "objpert")
        factor = 1.5 if self.adjacency == "replace_one" else 1.0
        bound, beta, rank = problem.lipschitz, problem.mean_curvature, problem.loss.rank
        ridges, stds, guarantee = [], [], []
        for budget in budgets:
            require(budget.delta > 0, f"objpert needs delta > 0, not {budget.delta}: use objpert_pure")
            eps = budget.epsilon / factor
            private = eps < math.inf
            std = bound * math.sqrt(8 * log_tail(budget.delta, rank) + 4 * eps) / eps if private else 0.0
            ridge = max(2 * rank * beta / eps, self.ridge)
            event = (
                ObjectivePerturbationDpEvent(std, bound, beta, ridge, rank, problem.loss.one_sided)
                if private
                else NonPrivateDpEvent()
            )
            claimed = self.accountant.epsilon(event, budget.delta, self.adjacency)
            guarantee.append(
                Guarantee(
                    claimed, budget.delta, event, self.adjacency, "final", "full", fit_assumptions(problem)
                )
            )
            ridges.append(ridge)
            stds.append(std)
        normals = noise.gaussian(rng, problem.repeats, problem.d, torch.float64)
        linear = normals * torch.tensor(stds, dtype=torch.float64)[:, None]
        found = minimise(problem, torch.tensor(ridges, dtype=torch.float64), linear, self.tolerance)
        info = {"gradient_norm": found.gradient_norm, "violated": [""] * len(budgets)}
        return Release(found.theta[:, :, None], guarantee, info)
