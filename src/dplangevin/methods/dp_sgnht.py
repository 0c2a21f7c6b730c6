"""Differentially private stochastic gradient Nose-Hoover thermostat (Wang, Fienberg and Smola 2015, eq. 4.5)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from dplangevin.checks import not_negative, positive, require
from dplangevin.kernels.sgnht import SgnhtState, sgnht
from dplangevin.methods import Release
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem
from dplangevin.sgmcmc import Minibatches, thinned


@dataclass(frozen=True)
class DpSgnht:
    r"""Eq. 4.5 with minibatch gradients ``N/tau sum_S grad l + grad r`` and ``N(0, 2 a eta I)`` on the velocity.

    Theorem 4 makes it private at ``eta = min(2 a/C, step/(beta N))`` (`Minibatches.momentum`).  a: friction, in (0, 1),
    also the thermostat's start; velocity starts from N(0, eta I), theta_1 = 0 unless `start` is given; the rest as in
    DpSgld.
    """

    budgeted: ClassVar[bool] = True
    friction: float
    step: float
    precision: float
    samples: int
    burn_in: float
    accountant: Accountant
    minibatches: Minibatches = field(default_factory=Minibatches)

    def __post_init__(self) -> None:
        require(0 < self.friction < 1, f"friction must be in (0, 1), not {self.friction}")
        positive(step=self.step, samples=self.samples)
        not_negative(precision=self.precision)
        require(0 <= self.burn_in < 1, f"burn_in must be in [0, 1), not {self.burn_in}")

    def __call__(
        self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator, start: Tensor | None = None
    ) -> Release:
        """start: theta_1 ``(R, E, d)``, independent of the data or itself private."""
        steps = self.minibatches.steps(problem)
        eta, guarantee = self.minibatches.momentum(
            problem, budgets, self.friction, self.step, self.accountant
        )
        std = (2 * self.friction * eta).sqrt()
        theta = torch.zeros(problem.repeats, len(budgets), problem.d) if start is None else start
        velocity = eta.sqrt() * torch.randn(problem.repeats, 1, problem.d, generator=rng)
        state = SgnhtState(theta, velocity, torch.full((*theta.shape[:2], 1), self.friction))
        keep = thinned(steps, self.burn_in, self.samples)
        args = (lambda t: eta), (lambda t: std), self.precision, keep, rng
        draws = self.minibatches.run(problem, sgnht(), state, *args)
        return Release(draws, guarantee, {"violated": [""] * len(budgets)})
