"""Objective perturbation with Gaussian noise (Kifer, Smith and Thakurta 2012)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

from dp_accounting import DpEvent

from dplangevin import random
from dplangevin.checks import not_negative, require
from dplangevin.methods import Execution, Plan, Release, fit_assumptions, guaranteed, of_works, stopped_at
from dplangevin.minimise import estimated, minimise
from dplangevin.privacy import Budget, ObjectivePerturbationDpEvent
from dplangevin.privacy.accountants.kifer2012 import Kifer2012
from dplangevin.privacy.accountants.objective import log_tail
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibrate import calibrate
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm


class _Fit(NamedTuple):
    """Lambda and the standard deviation of b."""

    ridge: float
    std: float


@dataclass(frozen=True)
class ObjPert:
    r"""Minimise ``sum_i phi(theta x_i, y_i) + Lambda/2 ||theta||^2 + <b, theta>`` with ``b ~ N(0, s^2 I)``.

    By the paper, Algorithm 1 times n: ``s^2 = L^2 (8 ln(2/delta) + 4 eps)/eps^2`` and ``Lambda = max(2 beta/eps,
    ridge)``.  Their proof is for adding or removing a record; under replace_one the same with eps/1.5 for eps.
    Differs: they have one margin.  For K margins the loss's `rank` r times `mean_curvature` stands for beta and
    `log_tail` for ``ln(2/delta)`` (see accountants/objective).
    share, where the accountant is `Tight`: ``Lambda = max(ridge, beta/(e^(share eps/r) - 1))``, so that the
    determinants cost at most that share of epsilon, and s is the smallest that it allows for the rest.
    ridge: >= 0, and l2 of the mean loss: what the user wants at least.  tolerance: gradient norm / n at which the
    minimum counts as exact.
    """

    budgeted: ClassVar[bool] = True
    accountant: Accountant = field(default_factory=Kifer2012)
    ridge: float = 0.01
    l2: float = 0.0
    adjacency: Literal["replace_one", "add_remove"] = "replace_one"
    share: float | None = None
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        not_negative(ridge=self.ridge, l2=self.l2, tolerance=self.tolerance)
        require(self.adjacency in ("replace_one", "add_remove"), f"adjacency {self.adjacency!r} is unknown")
        tight = isinstance(self.accountant, Tight)
        require(
            tight == (self.share is not None),
            "share belongs to the tight accountant, which cannot do without",
        )
        if self.share is not None:
            require(0 < self.share < 1, f"share must be in (0, 1), not {self.share}")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        loss, bound = facts.linear, facts.bounded("objpert")
        require(budget.delta > 0, f"objpert needs delta > 0, not {budget.delta}: use objpert_pure")
        wanted, rank, beta = max(self.ridge, facts.n * self.l2), loss.rank, facts.mean_curvature
        fit, event = _Fit(wanted, 0.0), None
        if budget.epsilon < math.inf:
            if self.share is not None:
                ridge = max(wanted, beta / math.expm1(self.share * budget.epsilon / rank))

                def make(std: float) -> DpEvent:
                    return ObjectivePerturbationDpEvent(std, bound, beta, ridge, rank, loss.one_sided)

                low, high = 1e-3 * bound, 1e6 * bound
                std = calibrate(self.accountant, make, budget, low=low, high=high, adjacency=self.adjacency)
                fit = _Fit(ridge, std)
            else:
                eps = budget.epsilon / (1.5 if self.adjacency == "replace_one" else 1.0)
                std = bound * math.sqrt(8 * log_tail(budget.delta, rank) + 4 * eps) / eps
                fit = _Fit(max(2 * rank * beta / eps, wanted), std)
            event = ObjectivePerturbationDpEvent(fit.std, bound, beta, fit.ridge, rank, loss.one_sided)
        assumptions = fit_assumptions(facts)
        guarantee = guaranteed(self.accountant, event, budget, self.adjacency, "final", "full", assumptions)
        settings = {"l2": fit.ridge / facts.n, "noise_std": fit.std, "noise_multiplier": fit.std / bound}
        return Plan(guarantee, fit, settings)

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        normals = random.noise(how.rng, how.seeds, len(plans), problem.d)
        linear = normals * of_works(plans, "std")[:, None]
        exact = stopped_at(self.tolerance, problem.facts)
        found = minimise(estimated(problem), of_works(plans, "ridge"), linear, exact)
        info = {"gradient_norm": found.gradient_norm}
        return Release(found.theta[:, :, None], info=info)
