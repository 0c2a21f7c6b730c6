"""Objective perturbation: Gaussian (Kifer, Smith and Thakurta 2012), and with pure epsilon (Chaudhuri et al. 2011)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from dp_accounting import DpEvent

from dplangevin import random
from dplangevin.checks import positive, require, settings
from dplangevin.methods import Execution, Plan, Release
from dplangevin.methods.perturbed_fits import Fit, output_multiplier, perturbed, planned_fit, shares
from dplangevin.privacy import Budget, ObjectivePerturbationDpEvent, PureObjectivePerturbationDpEvent
from dplangevin.privacy.accountants.objective import Chaudhuri2011, Kifer2012, log_tail
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibration import noise_for, rounded_up
from dplangevin.problems import Facts, Problem
from dplangevin.samplers.minimise import reachable

TAIL = 40.0  # a standard normal vector is longer than sqrt(d) + TAIL with probability below e^-800
TAIL_PURE = (
    1000.0  # b is longer than 2 d + TAIL_PURE scales with probability below e^-750, which is 0 in float64
)


@dataclass(frozen=True)
class ObjPert:
    """Minimise ``sum_i phi(theta x_i, y_i) + Lambda/2 ||theta||^2 + <b, theta>`` with ``b ~ N(0, s^2 I)``.

    With the paper's accountant this is Algorithm 1, multiplied by n: ``s^2 = L^2 (8 ln(2/delta) + 4 eps)/eps^2``
    and ``Lambda = max(2 beta/eps, ridge)``.  The paper proves it for adding or removing a record.  Under
    replace_one we use eps/1.5 for eps.  With the accountant `Tight`, ``Lambda = max(ridge, beta/(e^(share eps/r) -
    1))``.  Then the determinants cost at most that share of epsilon, and s is the smallest that the rest allows.

    The release is a point near the minimum, with Gaussian noise that covers the distance (`perturbed_fits` has the
    proof).  This noise is charged 1 % of epsilon and of delta; the formulas above get the rest.

    Source: kifer2012, Algorithm 1; iyengar2019, Algorithm 1.
    Differs: the paper has one margin.  For K margins, the loss's `rank` r times `mean_curvature` replaces beta, and
    `log_tail` replaces ``ln(2/delta)`` (see accountants/objective).

    Attributes
    ----------
    ridge : float, >= 0.  Smallest Lambda, on the summed loss.
    l2 : float, >= 0.  The same for the mean loss: Lambda is at least n l2.
    share : float in (0, 1), only for the accountant `Tight`; otherwise None.
    """

    budgeted: ClassVar[bool] = True
    accountant: Accountant = field(default_factory=Kifer2012)
    ridge: float = 0.01
    l2: float = 0.0
    adjacency: Literal["replace_one", "add_remove"] = "replace_one"
    share: float | None = None

    def __post_init__(self) -> None:
        settings(self)
        tight = isinstance(self.accountant, Tight)
        require(
            tight == (self.share is not None),
            "share belongs to the tight accountant, which cannot do without",
        )

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        loss, bound = facts.linear, facts.bounded("objpert")
        require(budget.delta > 0, f"objpert needs delta > 0, not {budget.delta}: use objpert_pure")
        wanted, rank, beta = max(self.ridge, facts.n * self.l2), loss.rank, facts.mean_curvature
        fit, event = Fit(wanted, 0.0), None
        if budget.epsilon < math.inf:
            first, second = shares(budget)
            multiplier = output_multiplier(second)

            def made(ridge: float, std: float) -> tuple[Fit, DpEvent]:
                left = reachable(facts, ridge, std * (math.sqrt(facts.d) + TAIL))
                output = multiplier * 2 * left / ridge
                event = ObjectivePerturbationDpEvent(
                    std, bound, beta, ridge, rank, loss.one_sided, left, output
                )
                return Fit(ridge, std, left, output), event

            if self.share is not None:
                ridge = max(wanted, rounded_up(beta / math.expm1(self.share * first.epsilon / rank)))
                std = noise_for(
                    self.accountant,
                    lambda std: made(ridge, std)[1],
                    budget,
                    low=1e-3 * bound,
                    high=1e6 * bound,
                    adjacency=self.adjacency,
                )
            else:
                eps = first.epsilon / (1.5 if self.adjacency == "replace_one" else 1.0)
                std = rounded_up(bound * math.sqrt(8 * log_tail(first.delta, rank) + 4 * eps) / eps)
                ridge = max(2 * rank * beta / eps, wanted)
            fit, event = made(ridge, std)
        columns = {"l2": fit.ridge / facts.n, "noise_std": fit.scale, "noise_multiplier": fit.scale / bound}
        return planned_fit(self, facts, budget, event, fit, columns, self.adjacency)

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        return perturbed(problem, plans, how, random.noise)


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
            left = reachable(facts, ridge, scale * (2 * facts.d + TAIL_PURE))
            fit = Fit(ridge, scale, left, 2 * left / (ridge * second.epsilon))
            event = PureObjectivePerturbationDpEvent(
                1 / scale, bound, beta, ridge, rank, left, fit.output_scale
            )
        return planned_fit(self, facts, budget, event, fit, {"l2": ridge / facts.n})

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        return perturbed(problem, plans, how, random.gamma_ball)
