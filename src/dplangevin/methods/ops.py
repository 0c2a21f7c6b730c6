"""One-posterior-sample mechanism (Wang, Fienberg and Smola 2015, Algorithm 1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent

from dplangevin.checks import not_negative, positive, require
from dplangevin.methods import Release, bounded
from dplangevin.posterior import R_HAT, Rejection, Sampler
from dplangevin.privacy import Budget, Guarantee, NearbyDpEvent, PosteriorSampleDpEvent, calibrate
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.problem import Problem


@dataclass(frozen=True)
class Ops:
    r"""One draw from the posterior whose log-likelihood is scaled by rho: ``exp(-rho U(theta)) prior(theta)``.

    bound, with theta in the ball ``||theta|| <= D = radius`` and pure eps:
    "paper": ``rho = min(1, eps/4B)``, B the largest loss of one record on the ball (Theorem 1), for the logistic loss
    ``B = ln(1 + e^D)`` (Algorithm 1); "range": ``rho = min(1, eps/2W)``, W the range of one record's loss on the ball,
    for the logistic loss exactly D.  Prior: uniform on the ball, times N(0, I/precision) tempered by rho as the
    algorithm says; precision >= 0.
    "gdp": no ball, prior ``N(0, I/precision)`` not tempered, precision > 0; the sample is mu-GDP with
    ``mu = 2 rho L/sqrt(precision)`` (Gopi, Lee and Liu 2022, Theorem 4), and rho follows from (eps, delta).
    Differs: the paper samples by SGNHT "long enough"; here HMC until split R-hat < 1.05 on all coordinates, and the
    row says so when that was not reached.
    Either way the promise is that of an exact sample.  With "gdp" and `posterior.Rejection` the sample is within a
    known total variation tv of it, for which delta pays (1 + e^eps) tv (Proposition 3); a pure promise cannot pay.
    """

    budgeted: ClassVar[bool] = True
    bound: Literal["paper", "range", "gdp"]
    radius: float
    precision: float
    sampler: Sampler | Rejection = field(default_factory=Sampler)

    def __post_init__(self) -> None:
        require(
            self.bound in ("paper", "range", "gdp"),
            f'bound must be "paper", "range" or "gdp", not {self.bound!r}',
        )
        positive(radius=self.radius)
        not_negative(precision=self.precision)
        require(self.bound != "gdp" or self.precision > 0, 'bound "gdp" needs precision > 0')
        require(
            self.bound == "gdp" or not self.sampler.total_variation,
            f'a total variation of {self.sampler.total_variation:g} breaks the pure bound "{self.bound}": use "gdp"',
        )

    @property
    def accountant(self) -> AnalyticGaussian | Wang2015:
        return AnalyticGaussian() if self.bound == "gdp" else Wang2015(self.bound)

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        rhos, guarantee = [], []
        assumptions = (
            self.sampler.assumption,
            problem.row_assumption,
            "radius, prior and scaling chosen without accounting",
        )
        for budget in budgets:
            rho, event = self.calibrated(problem, budget)
            # a posterior sample within the ball is pure: delta is not spent
            delta = budget.delta if self.bound == "gdp" else 0.0
            claimed = self.accountant.epsilon(event, delta, "replace_one")
            guarantee.append(Guarantee(claimed, delta, event, "replace_one", "sample", "full", assumptions))
            rhos.append(rho)
        scale = torch.tensor(rhos)
        precision = torch.full_like(scale, self.precision) * (1 if self.bound == "gdp" else scale)
        radius = math.inf if self.bound == "gdp" else self.radius
        posterior = self.sampler.sample(problem, scale, precision, radius, rng)
        theta = posterior.draws[-1, :, 0, :, None]  # the last draw of each repeat's first chain: (R, E, 1, d)
        r_hat = posterior.mixing.r_hat
        worst = r_hat.amax(0).tolist()
        chains = not self.sampler.total_variation  # draws by rejection are independent and need no R-hat
        violated = [
            f"R-hat {value:.3f} >= {R_HAT}" if chains and not value < R_HAT else "" for value in worst
        ]
        shape = (problem.repeats, len(budgets))
        info = {"r_hat": r_hat.expand(shape), "ess": posterior.mixing.ess.expand(shape), "violated": violated}
        return Release(theta, guarantee, info)

    def calibrated(self, problem: Problem, budget: Budget) -> tuple[float, DpEvent]:
        """The scale rho that spends the budget, and the event it makes."""
        if budget.epsilon == math.inf:
            return 1.0, NonPrivateDpEvent()
        bounded(problem, "ops")
        if self.bound == "gdp":
            multiplier = calibrate(self.accountant, self._gaussian, budget, low=1e-3, high=1e6, rtol=1e-10)
            rho = min(1.0, math.sqrt(self.precision) / (multiplier * problem.lipschitz))
            return rho, self._gaussian(math.sqrt(self.precision) / (rho * problem.lipschitz))
        most, spread = problem.on_ball(self.radius)
        rho = min(1.0, budget.epsilon / (4 * most if self.bound == "paper" else 2 * spread))
        return rho, PosteriorSampleDpEvent(rho, self.radius, most, spread)

    def _gaussian(self, multiplier: float) -> DpEvent:
        """What a sample under the Gaussian prior costs: mu-GDP with mu = 2/multiplier, and the sampler's distance."""
        event, away = GaussianDpEvent(multiplier), self.sampler.total_variation
        return NearbyDpEvent(event, away) if away else event
