"""DP-SGLD as li2019 defines it: Poisson samples of clipped gradients, noise determined by the step size."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch

from dplangevin.checks import positive, require
from dplangevin.methods import ChainMethod, Plan, guaranteed
from dplangevin.methods.dp_sgd import CHOSEN, MOMENTS, check_chain, check_scheme
from dplangevin.methods.dp_sgld import HEAT, Temperature, check_temperature
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.stepsize import StepSchedule, multiplier_of, smallest_multiplier, step_of, steps_event
from dplangevin.problems import Facts
from dplangevin.problems.chain import Chain
from dplangevin.problems.sampling import POISSON, Sampling
from dplangevin.samplers.chains.loop import thinned
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
    precision : float, >= 0.  Precision of the Gaussian prior.
    samples, burn_in : Keep `samples` iterates, evenly spaced after the first `burn_in` share of the steps.
    calibrated : What is fitted to the smallest sigma_1 that `accountant` allows.  "step": eta_1, at most `step`; at
        this limit the chain is standard SGLD and costs less than the budget.  "clip": L follows from `step`.  None:
        step and clip are given, the budget is what is claimed, and the event may cost more.
    temperature : "printed": the noise above, which targets exp(-2U).  "proper": z ~ N(0, 2 eta_t/n), which targets
        exp(-U), with ``sigma_t = tau/(L sqrt(eta_t n/2))``.  Neither is the target if a gradient is clipped.
    adjacency : The neighbour relation for which the accountant calibrates.
    clipped : What has norm at most `clip`.  "record": each record's gradient.  "minibatch": the mean gradient of a
        minibatch.  Then one record moves the mean by up to 2 L instead of L/tau, and sigma is 2 tau times smaller.
    """

    budgeted: ClassVar[bool] = True
    name: ClassVar[str] = "dp_sgld_li2019"
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
        check_schedule(self.schedule)
        check_temperature(self.temperature)
        check_chain(0.0, self.precision, self.samples, self.burn_in)
        check_scheme(self.name, self.sampling, "poisson")
        known = ("step", "clip", None)
        require(self.calibrated in known, f"calibrated must be one of {known}, not {self.calibrated!r}")
        for name in ("step", "clip"):
            if (value := getattr(self, name)) is not None:
                positive(**{name: value})
        by = ("record", "minibatch")
        require(self.clipped in by, f"clipped must be one of {by}, not {self.clipped!r}")
        wanted = {"step": ("clip",), "clip": ("step",), None: ("step", "clip")}[self.calibrated]
        for name in wanted:
            require(
                getattr(self, name) is not None, f"{name} is null: give it, or let it follow from the budget"
            )

    @property
    def heat(self) -> float:
        """The variance of a step's noise in units of eta_t/n."""
        return HEAT[self.temperature]

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        n, steps, rate = facts.n, self.sampling.steps(facts.n), self.sampling.rate(facts.n)
        step, clip, sigma = self.step_clip_and_noise(facts, budget)
        eta = langevin_steps(step, steps, self.schedule)
        noise = self.sampling.size(n) * (self.heat / (eta * n)).sqrt()
        private = budget.epsilon < math.inf
        event = steps_event(sigma, rate=rate, steps=steps, schedule=self.schedule) if private else None
        keep = thinned(steps, self.burn_in, self.samples)
        bounds = {"clip": clip} if self.clipped == "record" else {"mean_clip": clip}
        chain = Chain(eta, noise, self.sampling, l2=self.precision / n, keep=keep, **bounds)
        read = () if self.step is None else Steps(self.step, self.unit).read(facts)
        by = (
            ()
            if self.clipped == "record"
            else ("the mean gradient of a minibatch is clipped, not each record's",)
        )
        assumptions = *CHOSEN, *by, *facts.rows, *read
        guarantee = guaranteed(
            self.accountant, event, budget, self.adjacency, "all_iterates", "poisson", assumptions
        )
        noise_given = self.calibrated is None
        settings = {
            "schedule": self.schedule,
            "calibration": "published" if noise_given else self.calibrated or "",
            "noise_multiplier": sigma,
            "noise_std": float(noise[0]),
            "clip": clip,
        }
        return Plan(guarantee, chain, settings, noise_given)

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
        sigma = smallest_multiplier(
            self.accountant,
            budget,
            rate=self.sampling.rate(n),
            steps=self.sampling.steps(n),
            schedule=self.schedule,
            adjacency=self.adjacency,
            **({"low": least} if self.calibrated == "step" and most is not None else {}),
        )
        if self.calibrated == "clip":
            assert most is not None
            return most, batch / (moved * sigma * math.sqrt(most * n / heat)), sigma
        assert self.clip is not None
        if most is not None and sigma == least:
            return most, self.clip, sigma
        return heat * step_of(sigma, records=n, batch=batch, lipschitz=moved * self.clip), self.clip, sigma


def langevin_steps(first: float, steps: int, schedule: StepSchedule) -> torch.Tensor:
    """Return the step sizes eta_t of a schedule, ``(steps,)`` in float64, with eta_1 = `first`."""
    t = torch.arange(1, steps + 1, dtype=torch.float64)
    return first * t ** (-1 / 3) if schedule == "decreasing" else torch.full_like(t, first)


def check_schedule(schedule: str) -> None:
    """Raise ValueError for an unknown schedule of step sizes."""
    known = get_args(StepSchedule)
    require(schedule in known, f"schedule must be one of {known}, not {schedule!r}")
