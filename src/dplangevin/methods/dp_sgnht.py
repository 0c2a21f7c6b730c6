"""Differentially private stochastic gradient Nose-Hoover thermostat (Wang, Fienberg and Smola 2015, eq. 4.5)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from dplangevin.kernels.sgnht import SgnhtState, sgnht
from dplangevin.methods import Release, not_negative, positive, require
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem
from dplangevin.sgmcmc import Minibatches, minibatch_guarantee, stable_step, thinned


@dataclass(frozen=True)
class DpSgnht:
    r"""Eq. 4.5 with minibatch gradients ``N/tau sum_S grad l + grad r`` and ``N(0, 2 a eta I)`` on the velocity.

    The noise is private by Theorem 4 when ``2 a eta >= C eta^2``, C as in `Minibatches.gradient_variance`, so
    ``eta = min(2 a/C, step/(beta N))``.  (The printed condition has ``2 a >= C eta``, the same with eta divided out.)
    a: friction, in (0, 1), also the thermostat's start; velocity starts from N(0, eta I), theta_1 = 0 unless `start` is
    given; the rest as in DpSgld.
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
        most = stable_step(problem, self.step)
        guarantee, sizes = [], []
        for budget in budgets:
            variance = self.minibatches.gradient_variance(problem, budget)
            eta = min(most, 2 * self.friction / variance) if variance else most
            gradient_std = torch.full((steps,), (2 * self.friction / eta) ** 0.5, dtype=torch.float64)
            event = self.minibatches.event(problem, budget, gradient_std)
            claimed = self.accountant.epsilon(event, budget.delta, "replace_one")
            guarantee.append(minibatch_guarantee(claimed, budget, event))
            sizes.append(eta)
        eta_e = torch.tensor(sizes)[:, None]  # (E, 1)
        std = (2 * self.friction * eta_e).sqrt()
        theta = torch.zeros(problem.repeats, len(budgets), problem.d) if start is None else start
        velocity = eta_e.sqrt() * torch.randn(problem.repeats, 1, problem.d, generator=rng)
        state = SgnhtState(theta, velocity, torch.full((*theta.shape[:2], 1), self.friction))
        keep = thinned(steps, self.burn_in, self.samples)
        args = (lambda t: eta_e), (lambda t: std), self.precision, keep, rng
        draws = self.minibatches.run(problem, sgnht(), state, *args)
        return Release(draws, guarantee, {"violated": [""] * len(budgets)})
