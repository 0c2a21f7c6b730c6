"""Differentially private SGLD (Wang, Fienberg and Smola 2015, Algorithm 2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dplangevin.checks import not_negative, positive, require
from dplangevin.kernels.sgld import SgldState, sgld
from dplangevin.methods import Release
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem
from dplangevin.sgmcmc import Minibatches, minibatch_guarantee, stable_step, thinned


@dataclass(frozen=True)
class DpSgld:
    r"""``theta <- theta - eta_t (grad r + N/tau sum_S grad l) + z``, ``z ~ N(0, max(C eta_t^2, eta_t) I)``.

    C is Theorem 4's gradient noise (`Minibatches.gradient_variance`); below the step 1/C Langevin noise alone pays.
    Schedules of section 4.1, with ``eta_0 = min(1/C, step/(beta N))``:
    "phase": ``eta_t = alpha (N T/tau)/(C t)``, so that the last (1 - alpha) of the steps are plain SGLD;
    "constant": eta_0;
    "harmonic": ``max(1/(t + 1), eta_0)`` as printed, which is far from stable for losses summed over N rows.
    Differs: the phase schedule, which has no finite value at eps = inf, is cut at ``step/(beta N)``.
    temperature "printed": as above, and the noise N(0, eta) makes exp(-2U) the target, not the posterior; "proper": the
    variance is ``max(C eta_t^2, 2 eta_t)``, which targets exp(-U) and costs no more.
    theta_1 = 0 unless `start` is given; precision: of the Gaussian prior, >= 0; all iterates are released, of which
    `samples` after the `burn_in` share are kept.
    """

    budgeted: ClassVar[bool] = True
    schedule: Literal["phase", "constant", "harmonic"]
    step: float
    precision: float
    samples: int
    burn_in: float
    accountant: Accountant
    alpha: float = 0.5
    temperature: Literal["printed", "proper"] = "printed"
    minibatches: Minibatches = field(default_factory=Minibatches)

    def __post_init__(self) -> None:
        known = ("phase", "constant", "harmonic")
        require(self.schedule in known, f"schedule must be one of {known}, not {self.schedule!r}")
        temperatures = ("printed", "proper")
        require(
            self.temperature in temperatures,
            f"temperature must be one of {temperatures}, not {self.temperature!r}",
        )
        positive(step=self.step, samples=self.samples)
        not_negative(precision=self.precision)
        require(0 < self.alpha < 1, f"alpha must be in (0, 1), not {self.alpha}")
        require(0 <= self.burn_in < 1, f"burn_in must be in [0, 1), not {self.burn_in}")

    def __call__(
        self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator, start: Tensor | None = None
    ) -> Release:
        """start: theta_1 ``(R, E, d)``, independent of the data or itself private."""
        steps = self.minibatches.steps(problem)
        variances = [self.minibatches.gradient_variance(problem, b) for b in budgets]
        variance = torch.tensor(variances, dtype=torch.float64)
        eta = self.step_sizes(problem, steps, variance)  # (steps, E)
        langevin = eta if self.temperature == "printed" else 2 * eta
        std = torch.maximum(variance * eta**2, langevin).sqrt()
        guarantee = []
        for e, budget in enumerate(budgets):
            event = self.minibatches.event(problem, budget, std[:, e] / eta[:, e])
            claimed = self.accountant.epsilon(event, budget.delta, "replace_one")
            guarantee.append(minibatch_guarantee(problem, claimed, budget, event))
        eta, std = eta.float()[..., None], std.float()[..., None]  # (steps, E, 1)
        theta = torch.zeros(problem.repeats, len(budgets), problem.d) if start is None else start
        keep = thinned(steps, self.burn_in, self.samples)
        state, kernel = SgldState(theta), sgld()
        args = eta.__getitem__, std.__getitem__, self.precision, keep, rng
        draws = self.minibatches.run(problem, kernel, state, *args)
        return Release(draws, guarantee, {"violated": [""] * len(budgets)})

    def step_sizes(self, problem: Problem, steps: int, variance: Tensor) -> Tensor:
        """eta_t, ``(steps, E)``, for the noise constants C ``(E,)``."""
        t = torch.arange(1, steps + 1, dtype=torch.float64)[:, None]
        most = stable_step(problem, self.step)
        free = torch.where(variance > 0, 1 / variance, math.inf).clamp(max=most)  # eta_0
        if self.schedule == "phase":
            return torch.where(variance > 0, self.alpha * steps / (variance * t), math.inf).clamp(max=most)
        if self.schedule == "harmonic":
            return torch.maximum(1 / (t + 1), free)
        return free.expand(steps, -1)
