"""One-posterior-sample mechanism (Wang, Fienberg and Smola 2015, Algorithm 1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

from dp_accounting import DpEvent, GaussianDpEvent

from dplangevin.checks import require, settings
from dplangevin.methods import Execution, Plan, Release, guaranteed, of_works
from dplangevin.privacy import Budget, NearbyDpEvent, PosteriorSampleDpEvent, noise_for
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm
from dplangevin.samplers.posterior import R_HAT, Rejection, Sampler, Whitened
from dplangevin.samplers.proximal import Proximal


class _Tempered(NamedTuple):
    """The density ``exp(-rho U(theta) - precision/2 ||theta||^2)``, up to a factor."""

    rho: float
    precision: float


@dataclass(frozen=True)
class Ops:
    """One draw from the posterior with its log-likelihood times rho: ``exp(-rho U(theta)) prior(theta)``.

    With bound "paper" or "range", theta is in the ball ``||theta|| <= D = radius``, and the promise is pure eps.
    The prior is uniform on the ball, times N(0, I/precision), which is also raised to the power rho.

    - "paper": ``rho = min(1, eps/4B)``, with B the largest loss of one record on the ball (Theorem 1).  For the
      logistic loss ``B = ln(1 + e^D)`` (Algorithm 1).
    - "range": ``rho = min(1, eps/2W)``, with W the range of one record's loss on the ball, D for the logistic loss.
    - "gdp": there is no ball.  The prior ``N(0, I/precision)`` is not raised to a power.  The sample is mu-GDP with
      ``mu = 2 rho L/sqrt(precision)`` (Gopi, Lee and Liu 2022, Theorem 4).  rho follows from (eps, delta).

    The promise is that of an exact sample.  With "gdp" and `Proximal` or `Rejection`, the law of the sample is
    within a proven total variation tv of the posterior, and delta includes (1 + e^eps) tv for it (Proposition 3).
    A pure promise has no delta for it.

    Source: wang2015, Theorem 1, Algorithm 1 and Proposition 3; gopi2022, Theorem 4.
    Differs: the paper samples by SGNHT "long enough".  Here HMC runs until split R-hat < 1.05 on all coordinates.
    If a run does not reach this, its release says so in `not_reached`, which is not private.

    Attributes
    ----------
    radius : float, > 0.  D; "gdp" ignores it.
    precision : float, >= 0, and > 0 for "gdp".  Precision of the Gaussian prior.
    sampler : How the draw is computed.
    """

    budgeted: ClassVar[bool] = True
    bound: Literal["paper", "range", "gdp"] = "paper"
    radius: float = 10.0
    precision: float = 0.0
    sampler: Sampler | Rejection | Whitened | Proximal = field(
        default_factory=lambda: Sampler(max_draws=4500)
    )

    def __post_init__(self) -> None:
        settings(self)
        require(self.bound != "gdp" or self.precision > 0, 'bound "gdp" needs precision > 0')
        require(
            self.bound == "gdp" or not self.sampler.total_variation,
            f'a total variation of {self.sampler.total_variation:g} breaks the pure bound "{self.bound}": use "gdp"',
        )

    @property
    def accountant(self) -> AnalyticGaussian | Wang2015:
        return AnalyticGaussian() if self.bound == "gdp" else Wang2015(self.bound)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        rho, event = self.calibrated(facts, budget)
        # a posterior sample on the ball is purely eps-private, so it spends no delta
        delta = budget.delta if self.bound == "gdp" else 0.0
        chosen = "radius, prior and scaling chosen without accounting"
        assumptions = self.sampler.assumption, *facts.rows, chosen
        guarantee = guaranteed(
            self.accountant, event, budget, "replace_one", "sample", "full", assumptions, delta
        )
        columns: dict[str, float | str] = (
            {"l2": self.precision / rho / facts.n} if self.bound == "gdp" else {}
        )
        if isinstance(self.sampler, Proximal):
            columns["steps"] = self.sampler.walk(facts, rho, self.precision).steps
        return Plan(guarantee, _Tempered(rho, self.precision * (1 if self.bound == "gdp" else rho)), columns)

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        scale, precision = (of_works(plans, name, problem.device) for name in _Tempered._fields)
        radius = math.inf if self.bound == "gdp" else self.radius
        posterior = self.sampler.sample(problem, scale, precision, radius, how.seeds, how.rng)
        # the last draw of each seed's first chain, (S, E, 1, d); a copy, because a pickle of a view has all draws
        theta = posterior.draws[-1, :, 0, :, None].clone()
        r_hat = posterior.mixing.r_hat
        chains = not self.sampler.total_variation  # draws by rejection are independent: no R-hat
        not_reached = [
            f"R-hat {value:.3f} >= {R_HAT}" if chains and not value < R_HAT else ""
            for value in r_hat.amax(0).tolist()
        ]
        shape = how.seeds, len(plans)
        mixed = {"r_hat": r_hat.expand(shape), "ess": posterior.mixing.ess.expand(shape)}
        return Release(theta, not_private=mixed, not_reached=not_reached)

    def calibrated(self, facts: Facts, budget: Budget) -> tuple[float, DpEvent | None]:
        """Return the factor rho that spends the budget, and its event; (1, None) without a budget."""
        facts.need_linear()
        if budget.epsilon == math.inf:
            return 1.0, None
        bound = facts.bounded("ops")
        if self.bound == "gdp":
            multiplier = noise_for(self.accountant, self._gaussian, budget, low=1e-3, high=1e6, rtol=1e-10)
            rho = min(1.0, math.sqrt(self.precision) / (multiplier * bound))
            return rho, self._gaussian(math.sqrt(self.precision) / (rho * bound))
        most, spread = facts.on_ball(self.radius)
        rho = min(1.0, budget.epsilon / (4 * most if self.bound == "paper" else 2 * spread))
        return rho, PosteriorSampleDpEvent(rho, self.radius, most, spread)

    def _gaussian(self, multiplier: float) -> DpEvent:
        """Return the event of a sample, with the sampler's tv; an exact sample is mu-GDP with mu = 2/multiplier."""
        event, away = GaussianDpEvent(multiplier), self.sampler.total_variation
        return NearbyDpEvent(event, away) if away else event
