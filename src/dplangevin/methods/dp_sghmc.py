"""Stochastic gradient Hamiltonian Monte Carlo, with and without privacy, and a thermostat."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from dplangevin import random
from dplangevin.checks import require
from dplangevin.methods import ChainMethod, Plan, no_budget
from dplangevin.methods.dp_sgld import OnSubsets
from dplangevin.methods.dp_sgld_li2019 import DpSgldLi2019, tied
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.problems import Facts, Problem
from dplangevin.problems.chain import Kernel, State
from dplangevin.problems.sampling import POISSON, SUBSETS, Sampling
from dplangevin.samplers import kernels
from dplangevin.samplers.chains.loop import columns, schedules
from dplangevin.samplers.chains.steps import Steps, Unit
from dplangevin.samplers.kernels.stochastic import sghmc, sgnht


@dataclass(frozen=True)
class DpSghmc(OnSubsets):
    """DP-SGHMC: eq. 4.4 on uniform subsets, with noise ``N(0, 2 (a - b) eta I)`` on the velocity.

    The gradient of a minibatch S is ``n/tau sum_S grad l + grad r``.  b is a guess of the gradient's own noise;
    here b = 0, so all the noise of eq. 4.4 protects the records.  Theorem 4 makes the chain private if ``2 a eta >=
    C eta^2`` (the paper prints it divided by eta), so the step size is ``eta = min(2 a/C, step/n)``.

    In units of 1/smoothness the step must be in (0, a).  Then ``eta h < a`` for every curvature h of the data's
    loss, and the chain is stable.  The noise of the minibatches heats the chain, and no thermostat corrects this.
    The velocity starts from N(0, eta I), and theta_1 = 0 unless `start` is given.

    Source: wang2015, eq. 4.4 and Theorem 4.

    Attributes
    ----------
    friction : float in (0, 1).  a.
    step, unit : Step size, as in `samplers.chains.steps`.
    precision, samples, burn_in, clip : As in `DpSgldWang2015`.
    """

    friction: float = 0.1
    step: float = 0.05
    precision: float = 0.0
    samples: int = 50
    burn_in: float = 0.5
    accountant: Accountant = field(default_factory=Wang2015)
    sampling: Sampling = SUBSETS
    clip: float | None = None
    unit: Unit = "smoothness"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_step()

    def check_step(self) -> None:
        require(
            self.unit != "smoothness" or self.step < self.friction,
            f"step must be in (0, friction) = (0, {self.friction}), not {self.step}: the chain is unstable above",
        )

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        n, variance = facts.n, self.variance(facts, budget)
        eta = Steps(self.step, self.unit).first(facts) / n
        if variance > 0:
            eta = min(eta, 2 * self.friction / variance)
        # the noise on the velocity is -eta (n/tau) times the noise on the minibatch's sum
        noise = math.sqrt(2 * self.friction / eta) * self.sampling.size(n) / n
        return self.gaussian(facts, budget, eta * n, noise)

    def kernel(self, problem: Problem, plans: Sequence[Plan], rng: torch.Generator) -> Kernel:
        return Hamiltonian(sghmc(self.friction), problem, plans)


@dataclass(frozen=True)
class DpSgnht(DpSghmc):
    """DP-SGNHT: eq. 4.5 on uniform subsets, with noise ``N(0, 2 a eta I)`` on the velocity.

    Gradient and privacy are those of `DpSghmc`.  The thermostat starts at the friction a < 1/2.  It has an
    equilibrium where 2 a + eta V < 1, with V the variance of a coordinate of the minibatch gradient. Else it diverges.

    Source: wang2015, eq. 4.5.
    """

    step: float = 0.1

    def check_step(self) -> None:
        require(
            self.friction < 0.5, f"friction must be below 1/2, not {self.friction}: there is no equilibrium"
        )

    def kernel(self, problem: Problem, plans: Sequence[Plan], rng: torch.Generator) -> Kernel:
        return Hamiltonian(sgnht(), problem, plans, self.friction)


@dataclass(frozen=True)
class DpSghmcLi2019(DpSgldLi2019):
    """SGHMC on Poisson samples of clipped gradients, priced as in Algorithm 1 of Li et al. (2019).

    The dynamics are those of Chen, Fox and Guestrin (2014), with ``z ~ N(0, 2 a eta_t/n I)``::

        theta <- theta + v
        v     <- v - a v - eta_t ((1/tau) sum_S clipped(grad l) + precision/n theta) + z

    They target exp(-U) if no gradient is clipped.  The noise multiplier is ``sigma_t = tau/(L sqrt(eta_t n/(2
    a)))``.  The velocity starts from N(0, eta_1/n I).  The rest is as in `DpSgldLi2019`; `temperature` has no effect.

    Source: li2019, Algorithm 1 and section 4.3; chen2014.
    Differs: li2019 prints no DP-SGHMC; section 4.3 says only that a GAN was trained by SGHMC at a budget.

    Attributes
    ----------
    friction : float in (0, 1).  a.
    """

    step: float | None = 0.05
    friction: float = 0.1

    @property
    def heat(self) -> float:
        """The variance of a step's noise on the velocity, in units of eta_t/n."""
        return 2 * self.friction

    def kernel(self, problem: Problem, plans: Sequence[Plan], rng: torch.Generator) -> Kernel:
        return Hamiltonian(sghmc(self.friction), problem, plans)


@dataclass(frozen=True)
class Sghmc(ChainMethod):
    """`DpSghmcLi2019` without a budget and without clipping, with eta = step/unit at every step."""

    budgeted: ClassVar[bool] = False
    accountant: ClassVar[Accountant] = Tight()
    friction: float = 0.1
    step: float = 0.05
    precision: float = 1.0
    samples: int = 50
    burn_in: float = 0.5
    sampling: Sampling = POISSON
    unit: Unit = "smoothness"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        no_budget(budget, type(self).__name__)
        first = Steps(self.step, self.unit).first(facts)
        chain = self.chain(facts, *tied(self.sampling, facts.n, first, 2 * self.friction))
        return Plan(self.promise(budget, None), chain, {"noise_std": float(chain.noise_std[0])})

    def kernel(self, problem: Problem, plans: Sequence[Plan], rng: torch.Generator) -> Kernel:
        return Hamiltonian(sghmc(self.friction), problem, plans)


class Hamiltonian:
    """A kernel with velocities on ``U = sum of losses + n l2/2 ||theta||^2``, with step sizes eta for U.

    The estimate of the gradient is ``(n/tau) G_t + n l2 theta``.  The noise of the update is already in G_t.  The
    velocity starts from N(0, eta I), and a thermostat at `thermostat`, ``(S, E, 1)``.
    """

    def __init__(
        self,
        dynamics: kernels.Dynamics,
        problem: Problem,
        plans: Sequence[Plan],
        thermostat: float | None = None,
    ) -> None:
        chains, n = [plan.work for plan in plans], problem.facts.n
        self.dynamics, self.thermostat = dynamics, thermostat
        self.share = n / chains[0].sampling.size(n)
        self.eta = schedules(chains, "step", problem.device) / n
        self.precision = n * columns(chains, "l2", problem.device)

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        drawn = random.normals(rng, len(theta), 1, theta.shape[-1], device=theta.device)
        state = theta, self.eta[0].sqrt() * drawn
        if self.thermostat is None:
            return state
        return *state, torch.full((*theta.shape[:2], 1), self.thermostat, device=theta.device)

    def step(self, state: State, noisy: Tensor, t: int, batch: random.Batch) -> State:
        gradient = (self.share * noisy).add_(self.precision * state[0])
        found = self.dynamics.step(self.dynamics.init(*state), gradient, None, self.eta[t])
        return tuple(found)
