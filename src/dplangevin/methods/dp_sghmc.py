"""Differentially private stochastic gradient Hamiltonian Monte Carlo (Wang, Fienberg and Smola 2015, eq. 4.4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from dplangevin import kernels
from dplangevin.chains.chain import Chain, Kernel, Langevin, State, columns, schedules, thinned
from dplangevin.chains.sampling import SUBSETS, Sampling
from dplangevin.chains.steps import Steps, Unit
from dplangevin.checks import require
from dplangevin.kernels.sghmc import sghmc
from dplangevin.methods import ChainMethod, Plan
from dplangevin.methods.dp_sgd import check_chain, check_scheme, on_subsets
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.wang2015_noise import gradient_variance, record_bound, subset_event
from dplangevin.problems import Facts, Problem


@dataclass(frozen=True)
class DpSghmc(ChainMethod):
    r"""Eq. 4.4 with minibatch gradients ``n/tau sum_S grad l + grad r`` and ``N(0, 2 (a - b) eta I)`` on the velocity.

    b, the guess of the gradient's own noise, is 0, so all the noise that 4.4 asks for is there to hide behind, and
    Theorem 4 makes it private at ``eta = min(2 a/C, step/n)``, step and unit as in `chains.steps`: that is when
    ``2 a eta >= C eta^2``.  (The paper prints ``2 a >= C eta``, the same with eta divided out.)  friction: a in (0,
    1).  The step in units of 1/smoothness has to be in (0, a), for then ``eta h < a`` for all curvatures h of the
    data's loss, and the chain is stable on them.
    The minibatch's noise heats the chain, which without a thermostat does not notice; it vanishes with eta.
    Velocity starts from N(0, eta I), theta_1 = 0 unless `start` is given; the rest as in DpSgldWang2015.
    """

    budgeted: ClassVar[bool] = True
    name: ClassVar[str] = "dp_sghmc"
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
        require(0 < self.friction < 1, f"friction must be in (0, 1), not {self.friction}")
        self.check_step()
        check_chain(0.0, self.precision, self.samples, self.burn_in)
        check_scheme(self.name, self.sampling, "subset")

    def check_step(self) -> None:
        """ValueError for a step at which the chain is unstable on some rows."""
        require(
            self.unit != "smoothness" or self.step < self.friction,
            f"step must be in (0, friction) = (0, {self.friction}), not {self.step}: the chain is unstable above",
        )

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        n, steps, size = facts.n, self.sampling.steps(facts.n), self.sampling.size(facts.n)
        bound = record_bound(facts, self.clip, self.name, budget)
        variance = gradient_variance(steps, bound, budget)
        size_of = Steps(self.step, self.unit)
        eta = size_of.first(facts) / n
        if variance > 0:
            eta = min(eta, 2 * self.friction / variance)
        # the velocity's noise is -eta (n/tau) times that on the sum
        noise = torch.full((steps,), math.sqrt(2 * self.friction / eta) * size / n, dtype=torch.float64)
        event = subset_event(n, size, noise / bound) if budget.epsilon < math.inf else None
        chain = Chain(
            step=torch.full((steps,), eta * n, dtype=torch.float64),
            noise_std=noise,
            sampling=self.sampling,
            clip=math.inf if self.clip is None else self.clip,
            l2=self.precision / n,
            keep=thinned(steps, self.burn_in, self.samples),
        )
        guarantee = on_subsets(self.accountant, event, budget, facts, size_of)
        return Plan(guarantee, chain, {"noise_std": float(noise[0])})

    def kernel(self, problem: Problem, plans: Sequence[Plan], rng: torch.Generator) -> Kernel:
        chains, n = [plan.work for plan in plans], problem.facts.n
        eta = schedules(chains, "step", problem.device) / n

        def start(theta: Tensor, rng: torch.Generator) -> State:
            drawn = torch.randn(len(theta), 1, theta.shape[-1], generator=rng).to(theta.device)
            return eta[0].sqrt() * drawn, *self.rest(theta)

        share = n / self.sampling.size(n)
        return Langevin(self.dynamics(), start, eta, share, n * columns(chains, "l2", problem.device))

    def dynamics(self) -> kernels.Kernel:
        return sghmc(self.friction)

    def rest(self, theta: Tensor) -> State:
        """The state beside theta and the velocity, at the start."""
        return ()
