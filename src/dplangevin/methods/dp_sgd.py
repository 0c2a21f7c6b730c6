"""Differentially private SGD (Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang 2016, Algorithm 1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from dp_accounting import DpEvent, NonPrivateDpEvent

from dplangevin.checks import not_negative, positive, require
from dplangevin.methods import Release
from dplangevin.poisson import Poisson, poisson_guarantee
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.stepsize import smallest_multiplier, steps_event
from dplangevin.problem import Problem
from dplangevin.sgmcmc import thinned


@dataclass(frozen=True)
class DpSgd:
    r"""``theta <- theta - eta ((1/tau) (sum_S clipped(grad l) + N(0, (sigma C)^2 I)) + precision/N theta)``.

    S is a Poisson sample at q = tau/N, clipped gradients have norm at most C (`clip`), and the noise multiplier sigma
    is the smallest that the accountant allows, whatever the step size ``eta = step/beta`` (beta: smoothness of one
    row's loss).  DP-SGLD of li2019 is this with eta tied to sigma.
    precision: >= 0, of a Gaussian prior, that is an L2 penalty precision/N per row; it needs no data.  theta_1 = 0; all
    iterates are released, of which `samples` after the `burn_in` share are kept: 1 is the last.  Differs: the paper
    initialises at random, which a convex problem does not need.
    """

    budgeted: ClassVar[bool] = True
    clip: float
    step: float
    precision: float
    samples: int
    burn_in: float
    accountant: Accountant
    minibatches: Poisson
    adjacency: Adjacency = "add_remove"

    def __post_init__(self) -> None:
        positive(clip=self.clip, step=self.step, samples=self.samples)
        not_negative(precision=self.precision)
        require(0 <= self.burn_in < 1, f"burn_in must be in [0, 1), not {self.burn_in}")

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        steps, rate = self.minibatches.steps(problem), self.minibatches.rate(problem)
        multipliers, guarantee = [], []
        for budget in budgets:
            multiplier = 0.0
            event: DpEvent = NonPrivateDpEvent()
            if budget.epsilon < math.inf:
                multiplier = smallest_multiplier(
                    self.accountant,
                    budget,
                    rate=rate,
                    steps=steps,
                    schedule="fixed",
                    adjacency=self.adjacency,
                )
                event = steps_event(multiplier, rate=rate, steps=steps, schedule="fixed")
            claimed = self.accountant.epsilon(event, budget.delta, self.adjacency)
            guarantee.append(poisson_guarantee(claimed, budget, event, self.adjacency))
            multipliers.append(multiplier)
        eta = torch.full((steps, len(budgets)), self.step / problem.smoothness, dtype=torch.float64)
        std = eta * torch.tensor(multipliers, dtype=torch.float64) * (self.clip / self.minibatches.batch)
        keep = thinned(steps, self.burn_in, self.samples)
        draws = self.minibatches.run(problem, eta, std, self.clip, self.precision, keep, rng)
        return Release(draws, guarantee, {"violated": [""] * len(budgets)})
