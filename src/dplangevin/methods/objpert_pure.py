"""Objective perturbation with pure epsilon (Chaudhuri, Monteleoni and Sarwate 2011)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from dplangevin import random
from dplangevin.checks import positive
from dplangevin.methods import Execution, Plan, Release, guaranteed, of_works
from dplangevin.methods.perturbed_fits import Fit, assumptions, fitted, shares
from dplangevin.minimise import reachable
from dplangevin.privacy import Budget, PureObjectivePerturbationDpEvent
from dplangevin.privacy.accountants.chaudhuri2011 import Chaudhuri2011
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm

TAIL = 1000.0  # b is longer than 2 d + TAIL scales with a probability below e^-750, for which float64 has no number


@dataclass(frozen=True)
class ObjPertPure:
    r"""Algorithm 2 of Chaudhuri et al., times n: minimise ``sum_i phi + Lambda/2 ||theta||^2 + <b, theta>``.

    With ``r = ridge`` and ``eps' = eps - k ln(1 + 2 beta/r + (beta/r)^2)``: if ``eps' > 0``, ``Lambda = r``; otherwise
    ``Lambda = beta/(e^{eps/4k} - 1)`` and ``eps' = eps/2``.  b has density proportional to ``exp(-eps'/(2L) ||b||)``.
    Differs: k is 1 in the paper; for a loss of several margins it is the loss's `rank`, beta its `mean_curvature`.
    Replace-one.  ridge: > 0.

    Released is a point near the minimum, with noise of density proportional to ``exp(-||eta||/kappa)`` that covers the
    distance: `perturbed_fits` has the proof.  It costs 1 % of eps; the formulas above get the rest.
    """

    budgeted: ClassVar[bool] = True
    ridge: float = 1.0
    accountant: Accountant = field(default_factory=Chaudhuri2011)

    def __post_init__(self) -> None:
        positive(ridge=self.ridge)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        rank, beta, ridge = facts.linear.rank, facts.mean_curvature, self.ridge
        bound = facts.bounded("objpert_pure")
        fit, event = Fit(ridge, 0.0), None
        if budget.epsilon < math.inf:
            first, second = shares(budget)
            spare = first.epsilon - 2 * rank * math.log1p(beta / ridge)
            if spare <= 0:
                ridge = beta / math.expm1(first.epsilon / (4 * rank))
                spare = first.epsilon / 2
            scale = 2 * bound / spare
            left = reachable(facts, ridge, scale * (2 * facts.d + TAIL))
            fit = Fit(ridge, scale, left, 2 * left / (ridge * second.epsilon))
            event = PureObjectivePerturbationDpEvent(
                1 / scale, bound, beta, ridge, rank, left, fit.output_scale
            )
        guarantee = guaranteed(
            self.accountant, event, budget, "replace_one", "final", "full", assumptions(facts)
        )
        return Plan(guarantee, fit, {"l2": ridge / facts.n})

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        shape = how.seeds, len(plans), problem.d
        linear = random.gamma_ball(how.rng, *shape) * of_works(plans, "scale")[:, None]
        theta = fitted(problem, [plan.work for plan in plans], linear, random.gamma_ball(how.rng, *shape))
        return Release(theta[:, :, None])
