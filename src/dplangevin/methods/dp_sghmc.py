"""Differentially private stochastic gradient Hamiltonian Monte Carlo (Wang, Fienberg and Smola 2015, eq. 4.4)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from dplangevin.checks import not_negative, positive, require
from dplangevin.kernels.sghmc import SghmcState, sghmc
from dplangevin.methods import Release
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem
from dplangevin.sgmcmc import Minibatches, thinned


@dataclass(frozen=True)
class DpSghmc:
    r"""Eq. 4.4 with minibatch gradients ``N/tau sum_S grad l + grad r`` and ``N(0, 2 (a - b) eta I)`` on the velocity.

    b, the guess of the gradient's own noise, is 0, so all the noise that 4.4 asks for is there to hide behind, and
    Theorem 4 makes it private at ``eta = min(2 a/C, step/(beta N))`` (`Minibatches.momentum`).  friction: a in (0, 1).
    step: in (0, a), for then ``eta h < a`` for all curvatures h of the data's loss, and the chain is stable on them.
    The minibatch's noise heats the chain, which without a thermostat does not notice; it vanishes with eta.
    Velocity starts from N(0, eta I), theta_1 = 0 unless `start` is given; the rest as in DpSgld.
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
        require(
            0 < self.step < self.friction,
            f"step must be in (0, friction) = (0, {self.friction}), not {self.step}: the chain is unstable above",
        )
        positive(samples=self.samples)
        not_negative(precision=self.precision)
        require(0 <= self.burn_in < 1, f"burn_in must be in [0, 1), not {self.burn_in}")

    def __call__(
        self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator, start: Tensor | None = None
    ) -> Release:
        """start: theta_1 ``(R, E, d)``, independent of the data or itself private."""
        eta, guarantee = self.minibatches.momentum(
            problem, budgets, self.friction, self.step, self.accountant
        )
        std = (2 * self.friction * eta).sqrt()  # (E, 1)
        theta = torch.zeros(problem.repeats, len(budgets), problem.d) if start is None else start
        velocity = eta.sqrt() * torch.randn(problem.repeats, 1, problem.d, generator=rng)
        keep = thinned(self.minibatches.steps(problem), self.burn_in, self.samples)
        args = (lambda t: eta), (lambda t: std), self.precision, keep, rng
        state = SghmcState(theta, velocity)
        draws = self.minibatches.run(problem, sghmc(self.friction), state, *args)
        return Release(draws, guarantee, {"violated": [""] * len(budgets)})
