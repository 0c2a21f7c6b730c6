"""Differentially private gradient descent on all rows, for linear models (Bassily, Smith and Thakurta 2014)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

from dplangevin.methods import ChainMethod, Execution, Plan, Release, guaranteed
from dplangevin.privacy import Adjacency, Budget, noise_for
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import PUBLIC_RECORDS
from dplangevin.problems import Facts, Problem
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import thinned

MOMENTUM = 0.9
STEP = 1.0  # share of the step that is stable, below 2
CLIP_SHARE = 0.5  # of the bound on a record's gradient
MARGIN_NOISE = 0.5  # what the noise may do to a margin
AVERAGED = 0.5  # share of the steps, the last ones, that are averaged; 0: only the last iterate
CHOSEN = PUBLIC_RECORDS, "steps, clip and momentum chosen without accounting"


@dataclass(frozen=True)
class DpGd(ChainMethod):
    """Full-batch gradient descent with momentum, whose release is the mean of the last T/2 iterates.

    For k = 1, ..., T::

        v     <- 0.9 v + (sum_i clipped(g_i) + N(0, (sigma C)^2 I))/n
        theta <- theta - eta v

    Every step sees all rows, so T steps are one Gaussian mechanism with ``mu = 2 sqrt(T)/sigma`` for replace_one,
    and half of it for add_remove (Dong et al. 2022).  Momentum and the mean, which has less noise than the last
    iterate, are post-processing.

    All numbers follow from public facts.  ``C = L/2``, with L the problem's bound on one record's gradient: for the
    logistic loss no gradient is longer at theta = 0.  With beta the smoothness of one record's loss, and beta_m that
    of the mean loss, eta is the lesser of

    * ``1.9/beta_m``, half of the largest stable step with momentum 0.9, and
    * ``0.1 n/(sqrt(T) sigma beta)``: without curvature of the loss, the noise moves a margin by a standard deviation
      of at most ``lipschitz/(2 smoothness)``, which is 2 for the logistic loss.

    Momentum and shares (of L, of the stable step, of a margin and of T) were chosen on the development tables of
    docs/methods.md.

    Source: bassily2014; dong2022, for the composition.
    Differs: the paper samples one record in each step, and its steps shrink as 1/sqrt(k).

    Attributes
    ----------
    steps : int, >= 1.  T.
    adjacency : neighbour relation for which the noise is calibrated.
    noise_multiplier : float, > 0, or None.  sigma; None: the smallest that fits the budget.
    """

    accountant: ClassVar[Accountant] = Tight()
    steps: int = 200
    adjacency: Adjacency = "replace_one"
    noise_multiplier: float | None = None

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        facts.need_linear()
        sigma, event = self.noise_multiplier or 0.0, None
        if self.noise_multiplier is None and budget.epsilon < math.inf:
            sigma = self.calibrated(budget) * math.sqrt(self.steps)
        eta = STEP * (1 + MOMENTUM) / facts.mean_smoothness
        if sigma > 0:
            event = SelfComposedDpEvent(GaussianDpEvent(sigma), self.steps)
            reach = MARGIN_NOISE * facts.n / (math.sqrt(self.steps) * CLIP_SHARE * sigma)
            eta = min(eta, (1 - MOMENTUM) * reach / facts.smoothness)
        clip = CLIP_SHARE * facts.bounded("dp_gd")
        keep = thinned(self.steps, 1 - AVERAGED, max(1, round(AVERAGED * self.steps)))
        more = {"clip": clip, "momentum": MOMENTUM, "keep": keep}
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
