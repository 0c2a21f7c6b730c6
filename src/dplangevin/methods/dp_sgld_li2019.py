"""Differentially private SGLD in the form of Li, Chen, Liu and Carin (2019), Algorithm 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from dp_accounting import DpEvent, NonPrivateDpEvent
from torch import Tensor

from dplangevin.checks import not_negative, positive, require
from dplangevin.methods import Release
from dplangevin.poisson import Poisson, poisson_guarantee
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.stepsize import (
    Schedule,
    multiplier_of,
    smallest_multiplier,
    step_of,
    steps_event,
)
from dplangevin.problem import Problem
from dplangevin.sgmcmc import thinned

HEAT = {"printed": 1.0, "proper": 2.0}  # noise variance in units of eta/N


@dataclass(frozen=True)
class DpSgldLi2019:
    r"""``theta <- theta - eta_t ((1/tau) sum_S clipped(grad l) + precision/N theta) + z``, ``z ~ N(0, eta_t/N I)``.

    S is a Poisson sample at q = tau/N and clipped gradients have norm at most L (`clip`), so the noise multiplier is
    ``sigma_t = tau/(L sqrt(eta_t N))`` and the budget is spent through the step size: eta is the largest whose steps
    the accountant allows, but never more than ``step/beta`` (beta: smoothness of one row's loss), where gradient
    descent is stable.  Where ``step/beta`` is the smaller, the chain is standard SGLD and costs less than the budget.
    schedule: "fixed", or "decreasing", ``eta_t = eta_1 t^(-1/3)``, with the bound on eta_1.
    temperature "printed": as above, which targets exp(-2U); "proper": z ~ N(0, 2 eta_t/N), which targets exp(-U), so
    that ``sigma_t = tau/(L sqrt(eta_t N/2))``.  (Where a gradient is clipped neither is the target.)
    Differs: the paper prints ``- eta grad log``; read as minus the gradient of the loss and of -log prior.
    Differs: without a budget (eps = inf) gradients are clipped all the same; `Sgld` does not.
    theta_1 = 0; precision: of the Gaussian prior, >= 0; all iterates are released, of which `samples` after the
    `burn_in` share are kept.  adjacency: what the accountant is asked for.
    """

    budgeted: ClassVar[bool] = True
    schedule: Schedule
    clip: float
    step: float
    precision: float
    samples: int
    burn_in: float
    accountant: Accountant
    minibatches: Poisson
    temperature: Literal["printed", "proper"] = "printed"
    adjacency: Adjacency = "add_remove"

    def __post_init__(self) -> None:
        check_chain(self.schedule, self.temperature, self.burn_in)
        positive(clip=self.clip, step=self.step, samples=self.samples)
        not_negative(precision=self.precision)

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        steps, heat = self.minibatches.steps(problem), HEAT[self.temperature]
        found = [self.calibrate(problem, budget) for budget in budgets]
        rate, guarantee = self.minibatches.rate(problem), []
        for budget, (_, multiplier) in zip(budgets, found, strict=True):
            event: DpEvent = NonPrivateDpEvent()
            if budget.epsilon < math.inf:
                event = steps_event(multiplier, rate=rate, steps=steps, schedule=self.schedule)
            claimed = self.accountant.epsilon(event, budget.delta, self.adjacency)
            guarantee.append(poisson_guarantee(claimed, budget, event, self.adjacency))
        eta = step_sizes([first for first, _ in found], steps, self.schedule)
        std = (heat * eta / problem.n).sqrt()
        keep = thinned(steps, self.burn_in, self.samples)
        draws = self.minibatches.run(problem, eta, std, self.clip, self.precision, keep, rng)
        return Release(draws, guarantee, {"violated": [""] * len(budgets)})

    def calibrate(self, problem: Problem, budget: Budget) -> tuple[float, float]:
        """eta_1, and the noise multiplier sigma_1 that goes with it."""
        setting: dict[str, Any] = {
            "records": problem.n,
            "batch": self.minibatches.batch,
            "lipschitz": self.clip,
        }
        heat, most = HEAT[self.temperature], self.step / problem.smoothness
        least = multiplier_of(most / heat, **setting)  # at the largest step size
        if budget.epsilon == math.inf:
            return most, least
        multiplier = smallest_multiplier(
            self.accountant,
            budget,
            rate=self.minibatches.rate(problem),
            steps=self.minibatches.steps(problem),
            schedule=self.schedule,
            adjacency=self.adjacency,
            low=least,
        )
        return (most if multiplier == least else heat * step_of(multiplier, **setting)), multiplier


def check_chain(schedule: str, temperature: str, burn_in: float) -> None:
    """ValueError for a schedule, a temperature or a share of burn-in that is not one."""
    schedules = ("fixed", "decreasing")
    require(schedule in schedules, f"schedule must be one of {schedules}, not {schedule!r}")
    require(temperature in HEAT, f"temperature must be one of {tuple(HEAT)}, not {temperature!r}")
    require(0 <= burn_in < 1, f"burn_in must be in [0, 1), not {burn_in}")


def step_sizes(first: Sequence[float], steps: int, schedule: Schedule) -> Tensor:
    """eta_t, ``(steps, E)``, from the eta_1 of every budget."""
    t = torch.arange(1, steps + 1, dtype=torch.float64)[:, None]
    eta = torch.tensor(list(first), dtype=torch.float64)
    return eta * t ** (-1 / 3) if schedule == "decreasing" else eta.expand(steps, -1)
