"""DP-SGLD as wang2015 defines it: uniform subsets, noise by Theorem 4, units of the summed loss."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch

from dplangevin.checks import require
from dplangevin.methods import ChainMethod, Plan
from dplangevin.methods.dp_sgd import check_chain, check_scheme, on_subsets, record_bound
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.wang2015_noise import gradient_variance, subset_event
from dplangevin.problems import Facts
from dplangevin.problems.chain import Chain
from dplangevin.problems.sampling import SUBSETS, Sampling
from dplangevin.samplers.chains.loop import thinned
from dplangevin.samplers.chains.steps import Steps, Unit

Temperature = Literal["printed", "proper"]
HEAT = {"printed": 1.0, "proper": 2.0}  # noise variance in units of the step size of the summed loss


@dataclass(frozen=True)
class DpSgldWang2015(ChainMethod):
    """DP-SGLD, Algorithm 2 of Wang, Fienberg and Smola (2015).

    One step is, with ``z ~ N(0, max(C eta_t^2, eta_t) I)``::

        theta <- theta - eta_t (grad r + n/tau sum_S grad l) + z

    C is the gradient noise of Theorem 4 (`wang2015_noise.gradient_variance`).  Below eta_t = 1/C, the Langevin
    noise alone is enough for privacy.  theta_1 = 0 unless `start` is given.  All iterates are released.

    The schedules are those of section 4.1, with ``eta_0 = min(1/C, most)`` and ``most = step/n``:

    - "phase": ``eta_t = alpha (n T/tau)/(C t)``; the last (1 - alpha) of the steps are then plain SGLD.
    - "constant": eta_0.
    - "harmonic": ``max(1/(t + 1), eta_0)`` as printed, which is far from stable for losses summed over n rows.

    Source: wang2015, Algorithm 2, Theorem 4 and section 4.1.
    Differs: the phase schedule is cut at `most`; without the cut it has no finite value at eps = inf.

    Attributes
    ----------
    schedule : "phase", "constant" or "harmonic".
    step, unit : Largest step size, as in `samplers.chains.steps`.
    precision : float, >= 0.  Precision of the Gaussian prior.
    samples, burn_in : Keep `samples` iterates, evenly spaced after the first `burn_in` share of the steps.
    alpha : float in (0, 1).  Share of the steps in the first phase.
    temperature : "printed": the noise above; N(0, eta) makes exp(-2U) the target, not the posterior.  "proper": the
        variance is ``max(C eta_t^2, 2 eta_t)``, which targets exp(-U) and costs no more privacy.
    clip : float, > 0, or None.  L is the smaller of `clip` and the problem's bound on a record's gradient.
    """

    budgeted: ClassVar[bool] = True
    schedule: Literal["phase", "constant", "harmonic"] = "phase"
    step: float = 0.5
    precision: float = 0.0
    samples: int = 50
    burn_in: float = 0.5
    accountant: Accountant = field(default_factory=Wang2015)
    sampling: Sampling = SUBSETS
    alpha: float = 0.5
    temperature: Temperature = "printed"
    clip: float | None = None
    unit: Unit = "smoothness"

    def __post_init__(self) -> None:
        known = ("phase", "constant", "harmonic")
        require(self.schedule in known, f"schedule must be one of {known}, not {self.schedule!r}")
        check_temperature(self.temperature)
        check_chain(0.0, self.precision, self.samples, self.burn_in)
        check_scheme("dp_sgld", self.sampling, "subset")
        require(0 < self.alpha < 1, f"alpha must be in (0, 1), not {self.alpha}")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        n, steps, size = facts.n, self.sampling.steps(facts.n), self.sampling.size(facts.n)
        bound = record_bound(facts, self.clip, "dp_sgld", budget)
        variance = gradient_variance(steps, bound, budget)
        size_of = Steps(self.step, self.unit)
        eta = self.step_sizes(size_of.first(facts) / n, steps, variance)
        std = torch.maximum(variance * eta**2, HEAT[self.temperature] * eta).sqrt()
        noise = std / eta * (size / n)  # on the sum of the minibatch
        event = subset_event(n, size, noise / bound) if budget.epsilon < math.inf else None
        chain = Chain(
            step=eta * n,
            noise_std=noise,
            sampling=self.sampling,
            clip=math.inf if self.clip is None else self.clip,
            l2=self.precision / n,
            keep=thinned(steps, self.burn_in, self.samples),
        )
        guarantee = on_subsets(self.accountant, event, budget, facts, size_of)
        return Plan(guarantee, chain, {"schedule": self.schedule, "noise_std": float(noise[0])})

    def step_sizes(self, most: float, steps: int, variance: float) -> torch.Tensor:
        """Return eta_t, ``(steps,)``; `variance` is C, 0 without privacy, and `most` bounds "phase" and "constant"."""
        t = torch.arange(1, steps + 1, dtype=torch.float64)
        largest = min(most, 1 / variance) if variance > 0 else most  # eta_0
        if self.schedule == "phase":
            return (
                (self.alpha * steps / (variance * t)).clamp(max=most)
                if variance > 0
                else torch.full_like(t, most)
            )
        if self.schedule == "harmonic":
            return (1 / (t + 1)).clamp(min=largest)
        return torch.full_like(t, largest)


def check_temperature(temperature: str) -> None:
    """Raise ValueError for an unknown temperature."""
    require(temperature in HEAT, f"temperature must be one of {tuple(HEAT)}, not {temperature!r}")
