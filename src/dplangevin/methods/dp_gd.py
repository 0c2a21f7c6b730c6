"""Differentially private gradient descent on all rows, for linear models (Bassily, Smith and Thakurta 2014)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

from dplangevin.checks import require
from dplangevin.methods import ChainMethod, Execution, Plan, Release, guaranteed
from dplangevin.privacy import Adjacency, Budget, noise_for
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import PUBLIC_RECORDS
from dplangevin.problems import Facts, Problem
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import thinned

CHOSEN = PUBLIC_RECORDS, "steps, clip and momentum chosen without accounting"


@dataclass(frozen=True)
class DpGd(ChainMethod):
    """Full-batch gradient descent with momentum, whose release is a mean of the last iterates.

    For k = 1, ..., T::

        v     <- momentum v + (sum_i clipped(g_i) + N(0, (sigma C)^2 I))/n
        theta <- theta - eta v

    Every step sees all rows, so T steps are one Gaussian mechanism with ``mu = 2 sqrt(T)/sigma`` for replace_one,
    and half of it for add_remove (Dong et al. 2022).  Momentum and the mean are post-processing.

    All numbers follow from public facts.  ``C = clip_share L``, with L the problem's bound on one record's
    gradient.  With beta the smoothness of one record's loss, and beta_m that of the mean loss, eta is the lesser of

    * ``step (1 + momentum)/beta_m``, which is stable for step < 2, and
    * ``(1 - momentum) margin_noise n/(sqrt(T) sigma clip_share beta)``: without curvature of the loss, the noise
      moves a margin by a standard deviation of at most ``margin_noise lipschitz/smoothness``, or ``4 margin_noise``
      for the logistic loss.

    Source: bassily2014; dong2022, for the composition.
    Differs: the paper samples one record in each step, and its steps shrink as 1/sqrt(k).

    Attributes
    ----------
    steps : int, >= 1.  T.
    momentum : float in [0, 1).
    step : float in (0, 2).  Share of the step that is stable.
    clip_share : float in (0, 1].
    margin_noise : float, > 0.
    averaged : float in [0, 1).  Share of the steps, the last ones, that are averaged; 0: only the last iterate.
    adjacency : neighbour relation for which the noise is calibrated.
    noise_multiplier : float, > 0, or None.  sigma; None: the smallest that fits the budget.
    """

    accountant: ClassVar[Accountant] = Tight()
    steps: int = 200
    momentum: float = 0.9
    step: float = 1.0
    clip_share: float = 0.5
    margin_noise: float = 0.5
    averaged: float = 0.5
    adjacency: Adjacency = "replace_one"
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.step < 2, f"step must be below 2, where descent is stable, not {self.step}")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        facts.need_linear()
        sigma, event = self.noise_multiplier or 0.0, None
        if self.noise_multiplier is None and budget.epsilon < math.inf:
            sigma = self.calibrated(budget) * math.sqrt(self.steps)
        eta = self.step * (1 + self.momentum) / facts.mean_smoothness
        if sigma > 0:
            event = SelfComposedDpEvent(GaussianDpEvent(sigma), self.steps)
            reach = self.margin_noise * facts.n / (math.sqrt(self.steps) * self.clip_share * sigma)
            eta = min(eta, (1 - self.momentum) * reach / facts.smoothness)
        clip = self.clip_share * facts.bounded("dp_gd")
        keep = thinned(self.steps, 1 - self.averaged, max(1, round(self.averaged * self.steps)))
        more = {"clip": clip, "momentum": self.momentum, "keep": keep}
        chain = self.chain(facts, eta, sigma * clip, sampling=Sampling("full", epochs=self.steps), **more)
        assumptions = *CHOSEN, *facts.rows, *facts.read("mean_smoothness")
        promise = guaranteed(self.accountant, event, budget, self.adjacency, "final", "full", assumptions)
        columns = {"noise_multiplier": sigma, "noise_std": float(chain.noise_std[0])}
        return Plan(promise, chain, columns, self.noise_multiplier is not None)

    def calibrated(self, budget: Budget) -> float:
        """Return the noise multiplier of one Gaussian mechanism that costs the budget."""
        return noise_for(
            self.accountant, GaussianDpEvent, budget, low=1e-3, high=1e6, adjacency=self.adjacency, rtol=1e-9
        )

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        return Release(super().release(problem, plans, how).theta.mean(2, keepdim=True))
