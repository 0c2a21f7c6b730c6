"""Differentially private SGD of networks (Abadi et al. 2016, Algorithm 1)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from dplangevin.chains.chain import Chain
from dplangevin.checks import require
from dplangevin.privacy import Adjacency
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.stepsize import smallest_multiplier
from dplangevin.training import Task, Trained
from dplangevin.training.loop import Steps
from dplangevin.training.prices import Prices
from dplangevin.training.promises import check_settings, private
from dplangevin.training.sgd import cosine


@dataclass(frozen=True)
class DpSgd:
    """``v <- momentum v + (1/tau) (sum_S clipped(grad l) + N(0, (sigma C)^2 I)) + precision/n theta``.

    ``theta <- theta - eta v``, with ``eta = step min(1, full_step_noise/sigma)``, or with `schedule` "cosine" that of
    `sgd.cosine` which starts there: the more noise, the shorter the steps.
    S is a Poisson sample at q = tau/n, clipped gradients of one example have norm at most C (`clip`), and the noise
    multiplier sigma is the smallest that `accountant` allows.  Momentum acts on what is private already.
    """

    budgeted: ClassVar[bool] = True
    shares: ClassVar[bool] = False
    step: float
    schedule: Literal["fixed", "cosine"]
    momentum: float
    clip: float
    precision: float
    minibatches: Steps
    accountant: Accountant
    adjacency: Adjacency = "add_remove"
    full_step_noise: float = math.inf

    def __post_init__(self) -> None:
        check_settings(self.precision, self.momentum, step=self.step, clip=self.clip)
        require(self.full_step_noise > 0, f"full_step_noise must be positive, not {self.full_step_noise}")
        known = ("fixed", "cosine")
        require(self.schedule in known, f"schedule must be one of {known}, not {self.schedule!r}")

    def __call__(self, task: Task) -> Trained:
        n, budget = task.problem.facts.n, task.budget
        steps, rate = self.minibatches.count(n), self.minibatches.rate(n)
        multiplier = smallest_multiplier(
            self.accountant, budget, rate=rate, steps=steps, schedule="fixed", adjacency=self.adjacency
        )
        step = self.step * min(1.0, self.full_step_noise / multiplier)
        sizes = cosine(step, steps) if self.schedule == "cosine" else torch.full((steps,), step)
        std = torch.full((steps,), multiplier * self.clip)
        chain = Chain(sizes, std, self.minibatches.sampling, self.clip, self.precision / n, self.momentum)
        predicted, curve = self.minibatches.run(task, chain, Prices(multiplier, rate, budget.delta))
        guarantee = private(self.accountant, budget, multiplier, rate, steps, "fixed", self.adjacency)
        settings = {"step": step, "clip": self.clip, "noise_multiplier": multiplier}
        return Trained(predicted, curve, guarantee, settings, {})
