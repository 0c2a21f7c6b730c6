"""Differentially private SGD (Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang 2016, Algorithm 1)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from dp_accounting import DpEvent

from dplangevin.checks import require
from dplangevin.methods import ChainMethod, Plan, no_budget
from dplangevin.privacy import Adjacency, Budget, noise_for
from dplangevin.privacy.accountants.moments_accountant import Moments
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import PUBLIC_RECORDS, RandomAllocationDpEvent, ShuffledEpochsDpEvent
from dplangevin.privacy.gaussian_steps import steps_event
from dplangevin.problems import Facts
from dplangevin.problems.sampling import POISSON, Sampling
from dplangevin.samplers.chains.steps import Schedule, Steps, Unit, shown

CHOSEN = PUBLIC_RECORDS, "step size, clip, batch, epochs and prior chosen without accounting"
MOMENTS = Moments(max_order=2048)  # for eps down to 0.01, because the best order is about 2 ln(1/delta)/eps


@dataclass(frozen=True)
class DpSgd(ChainMethod):
    """DP-SGD with momentum, an L2 penalty and a choice of step sizes.

    One step is::

        v     <- momentum v + (sum_S clipped(g_i) + N(0, (sigma C)^2 I))/tau + l2 theta
        theta <- theta - eta_k v

    S is a Poisson sample with rate q = tau/n.  The clipped gradient of one record has norm at most C.  Momentum and
    L2 penalty act on values that are already private.  All iterates are released.  With random allocation (Chua et
    al. 2024) each record is in one random minibatch of every epoch; only `Tight` prices it.  On shuffled epochs,
    priced as `ShuffledEpochsDpEvent`, `noise_multiplier` must be given: the accountants are for Poisson samples.

    Source: abadi2016, Algorithm 1.
    Differs: linear models start at 0; the paper starts at random.

    Attributes
    ----------
    step, unit, schedule : Step sizes, as in `samplers.chains.steps`.
    clip : float, > 0.  C.
    noise_multiplier : float, > 0, or None.  sigma; None: the smallest that `accountant` allows for the budget.
    full_step_noise : float, > 0.  All steps are multiplied by ``min(1, full_step_noise/sigma)``.
    momentum : float in [0, 1).
    l2 : float, >= 0.  Weight of the L2 penalty on the mean loss; chosen without the data.
    precision : float, >= 0.  Precision of a Gaussian prior, which adds precision/n to l2; chosen without the data.
    samples, burn_in : Keep `samples` iterates, evenly spaced after the first `burn_in` share of the steps.
    """

    schemes = ("poisson", "random_allocation", "shuffled")
    step: float = 0.5
    clip: float = 1.0
    sampling: Sampling = POISSON
    accountant: Accountant = MOMENTS
    unit: Unit = "smoothness"
    schedule: Schedule = "constant"
    adjacency: Adjacency = "add_remove"
    noise_multiplier: float | None = None
    full_step_noise: float = math.inf
    momentum: float = 0.0
    l2: float = 0.0
    precision: float = 1.0
    samples: int = 1
    burn_in: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        priced = self.noise_multiplier is not None or self.sampling.scheme != "shuffled"
        require(priced, "dp_sgd on shuffled epochs has no accountant: give noise_multiplier")

    @property
    def steps(self) -> Steps:
        return Steps(self.step, self.unit, self.schedule)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        steps, rate = self.sampling.steps(facts.n), self.sampling.rate(facts.n)
        l2 = self.l2 + self.precision / facts.n
        sigma, allocated = self.noise_multiplier or 0.0, self.sampling.scheme == "random_allocation"

        def event_of(sigma: float) -> DpEvent:
            if allocated:
                return RandomAllocationDpEvent.of(self.sampling.per_epoch(facts.n), np.full(steps, sigma))
            return steps_event(sigma, rate=rate, steps=steps, schedule="fixed")

        if self.noise_multiplier is None and budget.epsilon < math.inf:
            sigma = noise_for(self.accountant, event_of, budget, adjacency=self.adjacency)
        event = event_of(sigma) if sigma > 0 else None
        shorter = min(1.0, self.full_step_noise / sigma) if sigma > 0 else 1.0
        eta = self.steps.sizes(facts, steps, l2, shorter)
        more: dict[str, Any] = {"clip": self.clip, "l2": l2, "momentum": self.momentum}
        chain = self.chain(facts, eta, sigma * self.clip, **more)
        promise = self.promise(budget, event, (*CHOSEN, *facts.rows, *self.steps.read(facts)))
        violated: tuple[str, ...] = ()
        if event is not None and self.sampling.scheme == "shuffled":
            of_epochs = ShuffledEpochsDpEvent.of(self.sampling.per_epoch(facts.n), np.full(steps, sigma))
            promise = promise._replace(event=of_epochs)
            violated = (f"{self.accountant.name} is for Poisson samples, not for shuffled epochs",)
        noise_given = self.noise_multiplier is not None
        calibration = (
            "published" if noise_given else "tight" if isinstance(self.accountant, Tight) else "paper"
        )
        settings: dict[str, float | str] = {
            "schedule": shown(self.schedule),
            "calibration": calibration,
            "noise_multiplier": sigma,
            "noise_std": sigma * self.clip,
            **self.steps.settings(facts, l2),
        }
        return Plan(promise, chain, settings, noise_given, violated)


@dataclass(frozen=True)
class Sgd(ChainMethod):
    """`DpSgd` without noise and without clipping, on minibatches of any sampling scheme."""

    budgeted: ClassVar[bool] = False
    accountant: ClassVar[Accountant] = Tight()
    step: float = 0.5
    sampling: Sampling = POISSON
    unit: Unit = "smoothness"
    schedule: Schedule = "constant"
    momentum: float = 0.0
    l2: float = 0.0
    precision: float = 1.0

    @property
    def steps(self) -> Steps:
        return Steps(self.step, self.unit, self.schedule)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        no_budget(budget, type(self).__name__)
        l2 = self.l2 + self.precision / facts.n
        sizes = self.steps.sizes(facts, self.sampling.steps(facts.n), l2)
        chain = self.chain(facts, sizes, 0.0, l2=l2, momentum=self.momentum)
        columns = self.steps.settings(facts, l2)
        return Plan(self.promise(budget, None), chain, {"schedule": shown(self.schedule), **columns})
