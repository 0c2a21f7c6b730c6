"""Objective perturbation with pure epsilon (Chaudhuri, Monteleoni and Sarwate 2011)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from dplangevin import random
from dplangevin.checks import positive
from dplangevin.methods import Execution, Plan, Release, guaranteed
from dplangevin.methods.perturbed_fits import Fit, assumptions, perturbed, shares
from dplangevin.privacy import Budget, PureObjectivePerturbationDpEvent
from dplangevin.privacy.accountants.objective import Chaudhuri2011
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.calibration import rounded_up
from dplangevin.problems import Facts, Problem
from dplangevin.samplers.minimise import reachable

TAIL = 1000.0  # b is longer than 2 d + TAIL scales with probability below e^-750, which is 0 in float64


@dataclass(frozen=True)
class ObjPertPure:
    """Minimise ``sum_i phi + Lambda/2 ||theta||^2 + <b, theta>``, where b is noise.

    This is Algorithm 2 of Chaudhuri et al., multiplied by n.  Let ``r = ridge`` and ``eps' = eps - k ln(1 + 2
    beta/r + (beta/r)^2)``.  If ``eps' > 0``, then ``Lambda = r``.  Otherwise ``Lambda = beta/(e^{eps/4k} - 1)`` and
    ``eps' = eps/2``.  b has density proportional to ``exp(-eps'/(2L) ||b||)``.  Neighbours replace one record.

    The release is a point near the minimum, with noise of density proportional to ``exp(-||eta||/kappa)`` that
    covers the distance (`perturbed_fits` has the proof).  It costs 1 % of eps; the formulas above get the rest.

    Source: chaudhuri2011, Algorithm 2.
    Differs: k is 1 in the paper.  For a loss of several margins k is the loss's `rank`, and beta its `mean_curvature`.

    Attributes
    ----------
    ridge : float, > 0.  r, on the summed loss.
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
                ridge = rounded_up(beta / math.expm1(first.epsilon / (4 * rank)))
                spare = first.epsilon / 2
            scale = rounded_up(2 * bound / spare)
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
        return perturbed(problem, plans, how, random.gamma_ball)
