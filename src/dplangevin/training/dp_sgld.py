"""Differentially private SGLD of networks (Li, Chen, Liu and Carin 2019, Algorithm 1)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from dplangevin.chains.chain import Chain
from dplangevin.checks import positive, require
from dplangevin.methods.dp_sgld_li2019 import HEAT, check_chain, step_sizes
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.stepsize import Schedule, multiplier_of, smallest_multiplier, step_of
from dplangevin.sgmcmc import thinned
from dplangevin.training import Task, Trained
from dplangevin.training.loop import Steps
from dplangevin.training.prices import Prices
from dplangevin.training.promises import check_settings, private


@dataclass(frozen=True)
class DpSgld:
    r"""``theta <- theta - eta_t ((1/tau) sum_S clipped(grad l) + precision/n theta) + N(0, eta_t/n I)``.

    S is a Poisson sample at q = tau/n and clipped gradients of one example have norm at most L (`clip`), so the noise
    multiplier is ``sigma_t = tau/(L sqrt(eta_t n))``.  One of `step` (eta_1) and `clip` may be None and then follows
    from the budget: the smallest sigma_1 that `accountant` allows; both given, the budget is what the paper claims for
    them and the price is what it is.  schedule: "fixed", or "decreasing", ``eta_t = eta_1 t^(-1/3)``.
    temperature: "printed", as above, or "proper", N(0, 2 eta_t/n), which targets exp(-U) where nothing is clipped.
    precision: of the Gaussian prior.  All iterates are released; `samples` of them after the `burn_in` share predict.
    """

    budgeted: ClassVar[bool] = True
    shares: ClassVar[bool] = False
    step: float | None
    clip: float | None
    schedule: Schedule
    precision: float
    samples: int
    burn_in: float
    minibatches: Steps
    accountant: Accountant
    temperature: Literal["printed", "proper"] = "printed"
    adjacency: Adjacency = "add_remove"

    def __post_init__(self) -> None:
        check_chain(self.schedule, self.temperature, self.burn_in)
        check_settings(self.precision, samples=self.samples)
        positive(**{k: v for k, v in {"step": self.step, "clip": self.clip}.items() if v is not None})
        require(
            self.step is not None or self.clip is not None, "step and clip are both null: give one of them"
        )

    def __call__(self, task: Task) -> Trained:
        n, budget = task.problem.facts.n, task.budget
        steps, rate = self.minibatches.count(n), self.minibatches.rate(n)
        step, clip, multiplier = self.calibrate(n, budget)
        eta = step_sizes([step], steps, self.schedule)[:, 0]
        std = self.minibatches.batch * (HEAT[self.temperature] / (eta * n)).sqrt()
        chain = Chain(eta, std, self.minibatches.sampling, clip, self.precision / n)
        prices = Prices(multiplier, rate, budget.delta, self.schedule)
        keep = thinned(steps, self.burn_in, self.samples)
        predicted, curve = self.minibatches.run(task, chain, prices, keep)
        guarantee = private(self.accountant, budget, multiplier, rate, steps, self.schedule, self.adjacency)
        settings = {"step": step, "clip": clip, "noise_multiplier": multiplier}
        return Trained(predicted, curve, guarantee, settings, {})

    def calibrate(self, n: int, budget: Budget) -> tuple[float, float, float]:
        """eta_1, L and sigma_1."""
        batch, heat = self.minibatches.batch, HEAT[self.temperature]
        if self.step is not None and self.clip is not None:
            sigma = multiplier_of(self.step / heat, records=n, batch=batch, lipschitz=self.clip)
            return self.step, self.clip, sigma
        sigma = smallest_multiplier(
            self.accountant,
            budget,
            rate=self.minibatches.rate(n),
            steps=self.minibatches.count(n),
            schedule=self.schedule,
            adjacency=self.adjacency,
        )
        if self.step is not None:
            return self.step, batch / (sigma * math.sqrt(self.step * n / heat)), sigma
        assert self.clip is not None
        return heat * step_of(sigma, records=n, batch=batch, lipschitz=self.clip), self.clip, sigma
