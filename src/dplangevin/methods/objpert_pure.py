"""Objective perturbation with pure epsilon (Chaudhuri, Monteleoni and Sarwate 2011)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from dplangevin import random
from dplangevin.checks import positive
from dplangevin.methods import Execution, Plan, Release, fit_assumptions, guaranteed, of_works, stopped_at
from dplangevin.minimise import minimise
from dplangevin.privacy import Budget, PureObjectivePerturbationDpEvent
from dplangevin.privacy.accountants.chaudhuri2011 import Chaudhuri2011
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm


class _Fit(NamedTuple):
    """Lambda, and 2L/eps', the scale of b."""

    ridge: float
    scale: float


@dataclass(frozen=True)
class ObjPertPure:
    r"""Algorithm 2 of Chaudhuri et al., times n: minimise ``sum_i phi + Lambda/2 ||theta||^2 + <b, theta>``.

    With ``r = ridge`` and ``eps' = eps - k ln(1 + 2 beta/r + (beta/r)^2)``: if ``eps' > 0``, ``Lambda = r``; otherwise
    ``Lambda = beta/(e^{eps/4k} - 1)`` and ``eps' = eps/2``.  b has density proportional to ``exp(-eps'/(2L) ||b||)``.
    Differs: k is 1 in the paper; for a loss of several margins it is the loss's `rank`, beta its `mean_curvature`.
    Replace-one.  ridge: > 0.  tolerance: gradient norm / n at which the minimum counts as exact.
    """

    budgeted: ClassVar[bool] = True
    ridge: float = 1.0
    accountant: Accountant = field(default_factory=Chaudhuri2011)
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        positive(ridge=self.ridge, tolerance=self.tolerance)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        rank, beta, ridge = facts.linear.rank, facts.mean_curvature, self.ridge
        bound = facts.bounded("objpert_pure")
        left = budget.epsilon - 2 * rank * math.log1p(beta / ridge)
        if left <= 0:
            ridge = beta / math.expm1(budget.epsilon / (4 * rank))
            left = budget.epsilon / 2
        event = None
        if budget.epsilon < math.inf:
            event = PureObjectivePerturbationDpEvent(left / (2 * bound), bound, beta, ridge, rank)
        guarantee = guaranteed(
            self.accountant, event, budget, "replace_one", "final", "full", fit_assumptions(facts)
        )
        return Plan(guarantee, _Fit(ridge, 2 * bound / left), {"l2": ridge / facts.n})

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        linear = (
            random.gamma_ball(how.rng, how.seeds, len(plans), problem.d) * of_works(plans, "scale")[:, None]
        )
        exact = stopped_at(self.tolerance, problem.facts)
        found = minimise(problem, of_works(plans, "ridge"), linear, exact)
        info = {"gradient_norm": found.gradient_norm}
        return Release(found.theta[:, :, None], info=info)
