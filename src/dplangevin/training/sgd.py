"""Stochastic gradient descent with momentum, without privacy: the baseline of networks."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from dplangevin.chains.chain import Chain
from dplangevin.checks import require
from dplangevin.training import Task, Trained
from dplangevin.training.loop import Steps
from dplangevin.training.prices import Prices
from dplangevin.training.promises import check_settings, public


@dataclass(frozen=True)
class Sgd:
    """``v <- momentum v + (1/tau) sum_S grad l + precision/n theta``, ``theta <- theta - eta v``.

    S: a Poisson sample.  schedule: "cosine", eta falls from `step` to 0 as ``(1 + cos(pi t/T))/2``, or "fixed".
    momentum: in [0, 1).
    """

    budgeted: ClassVar[bool] = False
    shares: ClassVar[bool] = False
    step: float
    momentum: float
    precision: float
    minibatches: Steps
    schedule: Literal["fixed", "cosine"] = "cosine"

    def __post_init__(self) -> None:
        check_settings(self.precision, self.momentum, step=self.step)
        known = ("fixed", "cosine")
        require(self.schedule in known, f"schedule must be one of {known}, not {self.schedule!r}")

    def __call__(self, task: Task) -> Trained:
        n = task.problem.facts.n
        steps = self.minibatches.count(n)
        sizes = cosine(self.step, steps) if self.schedule == "cosine" else torch.full((steps,), self.step)
        chain = Chain(
            sizes,
            torch.zeros(steps),
            self.minibatches.sampling,
            l2=self.precision / n,
            momentum=self.momentum,
        )
        prices = Prices(0.0, self.minibatches.rate(n), task.budget.delta)
        predicted, curve = self.minibatches.run(task, chain, prices)
        return Trained(predicted, curve, public(task.budget), {"step": self.step}, {})


def cosine(step: float, steps: int) -> torch.Tensor:
    """``step (1 + cos(pi t/T))/2`` for t = 0..T-1."""
    return step * (1 + torch.cos(math.pi * torch.arange(steps, dtype=torch.float64) / steps)) / 2
