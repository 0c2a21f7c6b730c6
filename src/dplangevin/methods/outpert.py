"""Ridge fits: without privacy, as a baseline, and with the noise of the Gaussian mechanism."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from dp_accounting import GaussianDpEvent

from dplangevin import random
from dplangevin.checks import not_negative, positive
from dplangevin.methods import Execution, Plan, Release, guaranteed, no_budget, of_works
from dplangevin.methods.perturbed_fits import Fit, planned_fit
from dplangevin.privacy import Budget, noise_for
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm
from dplangevin.samplers.minimise import minimise, private_minimum, reachable


@dataclass(frozen=True)
class OutPert:
    """Ridge fit plus noise: ``argmin sum_i phi + n l2/2 ||theta||^2 + N(0, s^2 I)``.

    The minimiser moves by at most ``2L/(n l2)`` when one record is replaced, and by ``L/(n l2)`` when one is
    removed (Chaudhuri, Monteleoni and Sarwate 2011, Corollary 8).  ``s`` comes from the analytic Gaussian mechanism
    (Balle and Wang 2018).  The computed fit leaves a gradient of norm at most gamma (`perturbed_fits`), so it moves
    by at most ``2(L + gamma)/(n l2)`` or ``(L + 2 gamma)/(n l2)``.  A factor ``1 + 2 gamma/L`` on s covers both.

    Source: chaudhuri2011, Corollary 8; balle2018gaussian.
    Differs: wang2015 (Theorem 2) quotes the classical ``sqrt(2 ln(1.25/delta))/eps``, which holds only for eps < 1.

    Attributes
    ----------
    l2 : float, > 0.  Weight of the L2 penalty on the mean loss.
    """

    budgeted: ClassVar[bool] = True
    l2: float = 0.01
    accountant: Accountant = field(default_factory=AnalyticGaussian)

    def __post_init__(self) -> None:
        positive(l2=self.l2)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        facts.need_linear()
        multiplier, event = 0.0, None
        if budget.epsilon < math.inf:
            multiplier = noise_for(self.accountant, GaussianDpEvent, budget, low=1e-3, high=1e6, rtol=1e-10)
            event = GaussianDpEvent(multiplier)
        ridge, lipschitz = facts.n * self.l2, facts.bounded("outpert")
        left = reachable(facts, ridge, 0.0)
        std = multiplier * (lipschitz + 2 * left) / ridge
        settings = {"l2": self.l2, "noise_std": std, "noise_multiplier": multiplier}
        return planned_fit(self, facts, budget, event, Fit(ridge, 0.0, left, std), settings)

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        device = problem.device
        linear = torch.zeros(len(problem.x), 1, problem.d, device=device)  # seeds that share data share a fit
        ridge, bound = (of_works(plans[:1], name, device) for name in ("ridge", "gradient_bound"))
        fit = private_minimum(problem, ridge, linear, bound)
        std = of_works(plans, "output_scale", device)
        normals = random.noise(how.rng, how.seeds, len(plans), problem.d, device=device)
        return Release(random.on_grid(fit + normals * std[:, None], std[:, None])[:, :, None])


@dataclass(frozen=True)
class Ridge:
    """Fit without privacy: ``argmin_theta sum_i phi(theta x_i, y_i) + ridge/2 ||theta||^2``.

    `ridge` is >= 0, on the summed loss; 0 needs a unique minimum.
    """

    budgeted: ClassVar[bool] = False
    accountant: ClassVar[Accountant] = Tight()
    ridge: float = 0.01

    def __post_init__(self) -> None:
        not_negative(ridge=self.ridge)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        no_budget(budget, "nonprivate")
        facts.need_linear()
        guarantee = guaranteed(self.accountant, None, budget, "replace_one", "final", "full", ())
        return Plan(guarantee, Fit(self.ridge, 0.0), {"l2": self.ridge / facts.n})

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        linear = torch.zeros(len(problem.x), len(plans), problem.d, device=problem.device)
        found = minimise(problem, of_works(plans, "ridge", problem.device).float(), linear)
        theta = found.theta.float().expand(how.seeds, -1, -1)[:, :, None]
        return Release(theta)
