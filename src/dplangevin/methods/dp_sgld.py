"""DP-SGLD as wang2015 defines it: uniform subsets, noise by Theorem 4, units of the summed loss."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from dplangevin.checks import require
from dplangevin.methods import ChainMethod, Plan
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.calibration import rounded_up
from dplangevin.privacy.gaussian_steps import composed_steps
from dplangevin.problems import Facts
from dplangevin.problems.sampling import SUBSETS, Sampling
from dplangevin.samplers.chains.steps import Steps, Unit

Temperature = Literal["printed", "proper"]
HEAT = {"printed": 1.0, "proper": 2.0}  # noise variance in units of the step size of the summed loss


class OnSubsets(ChainMethod):
    """Base of the chains of wang2015: uniform subsets, replace-one neighbours, all iterates released."""

    schemes = ("subset",)
    step: float
    unit: Unit
    clip: float | None = None

    def bound(self, facts: Facts, budget: Budget) -> float:
        """Return L, the bound on a record's gradient: the problem's, or `clip` if that is less; 0 without a budget."""
        if budget.epsilon == math.inf:
            return 0.0
        return facts.bounded(type(self).__name__) if self.clip is None else min(self.clip, facts.lipschitz)

    def variance(self, facts: Facts, budget: Budget) -> float:
        """Return C, the variance of the noise on ``(n/tau) sum_S grad`` by Theorem 4, rounded up; 0 without a budget.

        ``C = 128 n T L^2/(tau eps^2) ln(2.5 n T/(tau delta)) ln(2/delta)``, with n T/tau steps.
        """
        if budget.epsilon == math.inf:
            return 0.0
        require(budget.delta > 0, f"Theorem 4 of wang2015 needs delta > 0, not {budget.delta}")
        steps, bound = self.sampling.steps(facts.n), self.bound(facts, budget)
        logs = math.log(2.5 * steps / budget.delta) * math.log(2 / budget.delta)
        return rounded_up(128 * steps * (bound / budget.epsilon) ** 2 * logs)

    def gaussian(
        self, facts: Facts, budget: Budget, step: Tensor | float, noise: Tensor | float, **settings: str
    ) -> Plan:
        """Return the plan of Gaussian steps, see `ChainMethod.chain`."""
        chain = self.chain(facts, step, noise, clip=math.inf if self.clip is None else self.clip)
        event = None
        if budget.epsilon < math.inf:
            multipliers = chain.noise_std / self.bound(facts, budget)
            event = composed_steps(facts.n, self.sampling.size(facts.n), multipliers.double().numpy())
        promise = self.promise(budget, event, self.assumptions(facts))
        return Plan(promise, chain, {**settings, "noise_std": float(chain.noise_std[0])})

    def assumptions(self, facts: Facts) -> tuple[str, ...]:
        read = Steps(self.step, self.unit).read(facts)
        return *facts.rows, *read, "step size, prior and scaling chosen without accounting"


@dataclass(frozen=True)
class DpSgldWang2015(OnSubsets):
    """DP-SGLD, Algorithm 2 of Wang, Fienberg and Smola (2015).

    One step is, with ``z ~ N(0, max(C eta_t^2, eta_t) I)``::

        theta <- theta - eta_t (grad r + n/tau sum_S grad l) + z

    C is the gradient noise of Theorem 4 (`OnSubsets.variance`).  Below eta_t = 1/C, the Langevin
    noise alone is enough for privacy.  theta_1 = 0 unless `start` is given.  All iterates are released.

    The schedules are those of section 4.1, with ``eta_0 = min(1/C, most)`` and ``most = step/n``:

    - "phase": ``eta_t = alpha (n T/tau)/(C t)``; the last (1 - alpha) of the steps are then plain SGLD.
    - "constant": eta_0.
    - "harmonic": ``max(1/(t + 1), eta_0)`` as printed, which is far from stable for losses summed over n rows.

    Source: wang2015, Algorithm 2, Theorem 4 and section 4.1.
    Differs: the phase schedule is cut at `most`; without the cut it has no finite value at eps = inf.

    Attributes
    ----------
    step, unit : Largest step size, as in `samplers.chains.steps`.
    precision : float, >= 0.  Precision of the Gaussian prior.
    samples, burn_in : Keep `samples` iterates, evenly spaced after the first `burn_in` share of the steps.
    alpha : float in (0, 1).  Share of the steps in the first phase.
    temperature : "printed": the noise above; N(0, eta) makes exp(-2U) the target, not the posterior.  "proper": the
        variance is ``max(C eta_t^2, 2 eta_t)``, which targets exp(-U) and costs no more privacy.
    clip : float, > 0, or None.  L is the smaller of `clip` and the problem's bound on a record's gradient.
    """

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

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        n, variance = facts.n, self.variance(facts, budget)
        eta = self.step_sizes(Steps(self.step, self.unit).first(facts) / n, self.sampling.steps(n), variance)
        std = torch.maximum(variance * eta**2, HEAT[self.temperature] * eta).sqrt()
        noise = std / eta * (self.sampling.size(n) / n)  # on the sum of the minibatch
        return self.gaussian(facts, budget, eta * n, noise, schedule=self.schedule)

    def step_sizes(self, most: float, steps: int, variance: float) -> Tensor:
        """Return eta_t, ``(steps,)``; `variance` is C, 0 without privacy, and `most` bounds "phase" and "constant"."""
        t = torch.arange(1, steps + 1, dtype=torch.float64)
        first = torch.full_like(t, min(most, 1 / variance) if variance > 0 else most)  # eta_0
        if self.schedule == "phase" and variance > 0:
            return (self.alpha * steps / (variance * t)).clamp(max=most)
        return (1 / (t + 1)).maximum(first) if self.schedule == "harmonic" else first
