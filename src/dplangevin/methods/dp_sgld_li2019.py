"""DP-SGLD as li2019 defines it: Poisson samples of clipped gradients, noise determined by the step size."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from dp_accounting import DpEvent
from torch import Tensor

from dplangevin.checks import require
from dplangevin.methods import ChainMethod, Plan, no_budget
from dplangevin.methods.dp_sgd import CHOSEN, MOMENTS
from dplangevin.methods.dp_sgld import HEAT, Temperature
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibration import SMALLEST, noise_for
from dplangevin.privacy.gaussian_steps import StepSchedule, steps_event
from dplangevin.privacy.li2019 import multiplier_of, step_of
from dplangevin.problems import Facts
from dplangevin.problems.sampling import POISSON, Sampling
from dplangevin.samplers.chains.steps import Steps, Unit


@dataclass(frozen=True)
class DpSgldLi2019(ChainMethod):
    """DP-SGLD, Algorithm 1 of Li, Chen, Liu and Carin (2019).

    One step is::

        theta <- theta - eta_t ((1/tau) sum_S clipped(grad l) + precision/n theta) + z,    z ~ N(0, eta_t/n I)

    S is a Poisson sample with rate q = tau/n.  Clipped gradients have norm at most L, so the noise multiplier is
    ``sigma_t = tau/(L sqrt(eta_t n))``.  All iterates are released.

    Source: li2019, Algorithm 1.
    Differs: the paper prints ``- eta grad log``; we read it as minus the gradient of the loss and of -log prior.
    Differs: without a budget (eps = inf) gradients are clipped all the same; `Sgld` does not clip.
    Differs: clipped = "minibatch" does not follow Algorithm 1, whose privacy needs "record"; we price what it does.

    Attributes
    ----------
    schedule : "fixed", or "decreasing": ``eta_t = eta_1 t^(-1/3)``.
    step, unit : The step size ``step/unit``, as in `samplers.chains.steps`; step None: no limit on the step size.
    clip : float, > 0, or None.  L.
    precision, samples, burn_in : As in `DpSgldWang2015`.
    calibrated : What is fitted to the smallest sigma_1 that `accountant` allows.  "step": eta_1, at most `step`; at
        this limit the chain is standard SGLD and costs less than the budget.  "clip": L follows from `step`.  None:
        step and clip are given, the budget is what is claimed, and the event may cost more.
    temperature : "printed": the noise above, which targets exp(-2U).  "proper": z ~ N(0, 2 eta_t/n), which targets
        exp(-U), with ``sigma_t = tau/(L sqrt(eta_t n/2))``.  Neither is the target if a gradient is clipped.
    adjacency : The neighbour relation for which the accountant calibrates.
    clipped : What has norm at most `clip`.  "record": each record's gradient.  "minibatch": the mean gradient of a
        minibatch.  Then one record moves the mean by up to 2 L instead of L/tau, and sigma is 2 tau times smaller.
    """

    schemes = ("poisson",)
    schedule: StepSchedule = "fixed"
    step: float | None = 0.5
    clip: float | None = 1.0
    precision: float = 1.0
    samples: int = 50
    burn_in: float = 0.5
    accountant: Accountant = MOMENTS
    sampling: Sampling = POISSON
    calibrated: Literal["step", "clip"] | None = "step"
    unit: Unit = "smoothness"
    temperature: Temperature = "printed"
    adjacency: Adjacency = "add_remove"
    clipped: Literal["record", "minibatch"] = "record"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in {"step": ("clip",), "clip": ("step",), None: ("step", "clip")}[self.calibrated]:
            given = getattr(self, name) is not None
            require(given, f"{name} is null: give it, or let it follow from the budget")

    @property
    def heat(self) -> float:
        """The variance of a step's noise in units of eta_t/n."""
        return HEAT[self.temperature]

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        n, by_record, noise_given = facts.n, self.clipped == "record", self.calibrated is None
        step, clip, sigma = self.step_clip_and_noise(facts, budget)
        event = None
        if budget.epsilon < math.inf:
            event = self.event_of(n)(sigma)
        eta, noise = tied(self.sampling, n, step, self.heat, self.schedule)
        chain = self.chain(facts, eta, noise, **{"clip" if by_record else "mean_clip": clip})
        by = () if by_record else ("the mean gradient of a minibatch is clipped, not each record's",)
        read = () if self.step is None else Steps(self.step, self.unit).read(facts)
        settings = {
            "schedule": self.schedule,
            "calibration": self.calibrated or "published",
            "noise_multiplier": sigma,
            "noise_std": float(noise[0]),
            "clip": clip,
        }
        promise = self.promise(budget, event, (*CHOSEN, *by, *facts.rows, *read))
        return Plan(promise, chain, settings, noise_given)

    def event_of(self, n: int) -> Callable[[float], DpEvent]:
        """Return the function of sigma_1 that gives the event of the steps."""
        rate, steps = self.sampling.rate(n), self.sampling.steps(n)
        return partial(steps_event, rate=rate, steps=steps, schedule=self.schedule)

    def step_clip_and_noise(self, facts: Facts, budget: Budget) -> tuple[float, float, float]:
        """Return the step size eta_1, the clip L and the noise multiplier sigma_1 for a budget."""
        n, batch, heat = facts.n, self.sampling.size(facts.n), self.heat
        # one record moves a minibatch's sum by at most `moved` clips
        moved = 1.0 if self.clipped == "record" else 2.0 * batch
        most = None if self.step is None else Steps(self.step, self.unit).first(facts)
        if self.clip is not None and most is not None:
            least = multiplier_of(most / heat, records=n, batch=batch, lipschitz=moved * self.clip)
            if self.calibrated is None or (budget.epsilon == math.inf and self.calibrated == "step"):
                return most, self.clip, least
        require(budget.epsilon < math.inf, "without a budget give both step and clip")
        low = least if self.calibrated == "step" and most is not None else SMALLEST
        sigma = noise_for(self.accountant, self.event_of(n), budget, low=low, adjacency=self.adjacency)
        if self.calibrated == "clip":
            assert most is not None
            return most, batch / (moved * sigma * math.sqrt(most * n / heat)), sigma
        assert self.clip is not None
        if most is not None and sigma == least:
            return most, self.clip, sigma
        return heat * step_of(sigma, records=n, batch=batch, lipschitz=moved * self.clip), self.clip, sigma


@dataclass(frozen=True)
class Sgld(ChainMethod):
    """`DpSgldLi2019` without a budget and without clipping, with eta_1 = step/unit.

    li2019 calls its baseline "standard SGLD" and gives neither its step size nor its minibatches.
    """

    budgeted: ClassVar[bool] = False
    accountant: ClassVar[Accountant] = Tight()
    schedule: StepSchedule = "fixed"
    step: float = 0.5
    precision: float = 1.0
    samples: int = 50
    burn_in: float = 0.5
    sampling: Sampling = POISSON
    unit: Unit = "smoothness"
    temperature: Temperature = "printed"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        no_budget(budget, type(self).__name__)
        first, heat = Steps(self.step, self.unit).first(facts), HEAT[self.temperature]
        chain = self.chain(facts, *tied(self.sampling, facts.n, first, heat, self.schedule))
        return Plan(self.promise(budget, None), chain, {"schedule": self.schedule})


def tied(
    sampling: Sampling, n: int, first: float, heat: float, schedule: StepSchedule = "fixed"
) -> tuple[Tensor, Tensor]:
    """Return step sizes eta_t from `first` on, ``(T,)``, and noise that moves theta by N(0, heat eta_t/n)."""
    t = torch.arange(1, sampling.steps(n) + 1, dtype=torch.float64)
    eta = first * t ** (-1 / 3) if schedule == "decreasing" else torch.full_like(t, first)
    return eta, sampling.size(n) * (heat / (eta * n)).sqrt()
