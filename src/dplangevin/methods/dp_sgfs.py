"""Differentially private stochastic gradient Fisher scoring (Wang, Fienberg and Smola 2015, Algorithm 4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dplangevin import random
from dplangevin.checks import require
from dplangevin.methods import Plan
from dplangevin.methods.dp_sgld import OnSubsets, Temperature
from dplangevin.privacy import Budget, FisherScoringDpEvent
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.calibration import rounded_up
from dplangevin.problems import Facts, Problem
from dplangevin.problems.chain import Chain, Kernel, State
from dplangevin.problems.glm import Glm
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import columns
from dplangevin.samplers.chains.steps import Steps, Unit
from dplangevin.samplers.kernels.stochastic import SgfsState, sgfs

HEAT = {"printed": 1.0, "proper": 4.0}  # variance of the sampler's own noise, in units of F F^T/eta


@dataclass(frozen=True)
class DpSgfs(OnSubsets):
    """DP-SGFS with ``F = L I``, where L is the Lipschitz constant of one row's loss; for linear models only.

    One step is::

        gradient    = N (mean of minibatch gradients + F Z) + grad r,    Z ~ N(0, max(sigma^2, 1/(N^2 eta)) I)
        V           = PSD(their sample covariance + W),                  W_ij ~ N(0, 49 L^4 sigma^2)
        I           = (1 - kappa) I + kappa V
        theta_{t+1} = theta_t - 2 ((tau + N) N/tau I + 4 F F^T/eta)^-1 gradient

    PSD takes the symmetric part and drops its negative eigenvalues.  theta_1 = 0, and I starts at 0.
    By Theorem 5, gradients and covariances cost (eps', delta') each, so ``eps' = eps/2, delta' = delta/2``:
    ``sigma^2 = 32 T/(N tau eps'^2) ln(2.5 N T/(tau delta')) ln(2/delta')``.

    V is computed at the steps 1, 1 + refresh, 1 + 2 refresh, ... only.  At the j-th of these kappa = 1/j, so that I
    is the mean of all V so far; at all other steps kappa = 0.  The step size is ``eta = 2 L^2 step/N``, with which
    the drift is that of DP-SGLD while I = 0.  The chain is stable for every I if `step` is at most 2 in units of
    1/smoothness.  Memory grows as ``S E d^2``.

    Source: wang2015, Algorithm 4, Theorem 5 and section C.2.
    Differs: the paper leaves kappa open; with refresh > 1 fewer covariances are released than the event counts.
    Differs: Theorem 5 asks that F bounds the loss's curvature.  Its proof needs, and section C.2 says, that F times
    the unit ball contains all gradients.  F = L I satisfies this.
    Differs: the sign of the update is not the printed one, see `stochastic.sgfs`.

    Attributes
    ----------
    step, unit : Step size, as in `samplers.chains.steps`.
    refresh : int, >= 1.  Number of steps between two computations of V.
    temperature : "printed" targets exp(-4U); "proper" targets exp(-U), with Var Z ``max(sigma^2, 4/(N^2 eta))``.
    precision, samples, burn_in, sampling : As in `DpSgldWang2015`.
    """

    step: float = 0.5
    refresh: int = 10
    precision: float = 0.0
    samples: int = 50
    burn_in: float = 0.5
    accountant: Accountant = field(default_factory=Wang2015)
    temperature: Temperature = "printed"
    sampling: Sampling = field(default_factory=lambda: Sampling("subset", epochs=10))
    unit: Unit = "smoothness"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        n, size, steps = facts.n, self.sampling.size(facts.n), self.sampling.steps(facts.n)
        require(size > 4, f"batch = {size} is too small: Lemma 6 needs more than 4 rows; raise batch")
        facts.need_linear()
        bound, sigma = facts.bounded(type(self).__name__), self.noise_std(facts, budget)
        eta = 2 * bound**2 * Steps(self.step, self.unit).first(facts) / n
        noise = size * bound * max(sigma, math.sqrt(HEAT[self.temperature] / eta) / n)
        event = FisherScoringDpEvent(n, size, steps, sigma) if budget.epsilon < math.inf else None
        promise = self.promise(budget, event, self.assumptions(facts))
        return Plan(promise, self.chain(facts, eta, noise), {"noise_std": sigma})

    def noise_std(self, facts: Facts, budget: Budget) -> float:
        """Return sigma for half of the budget, without unit, because F carries that of the gradients."""
        if budget.epsilon == math.inf:
            return 0.0
        require(budget.delta > 0, f"Theorem 5 of wang2015 needs delta > 0, not {budget.delta}")
        steps, epsilon, delta = self.sampling.steps(facts.n), budget.epsilon / 2, budget.delta / 2
        logs = math.log(2.5 * steps / delta) * math.log(2 / delta)  # steps is N T/tau, rounded down
        return rounded_up(math.sqrt(32 * steps * logs) / (facts.n * epsilon))

    def kernel(self, problem: Problem, plans: Sequence[Plan], rng: torch.Generator) -> Kernel:
        assert isinstance(problem, Glm)
        stds = [[float(plan.settings["noise_std"])] for plan in plans]
        sigma = torch.tensor(stds, dtype=torch.float64, device=problem.device)
        return _Scoring(problem, [plan.work for plan in plans], sigma, self.refresh, rng)


class _Scoring:
    """The kernel of `sgfs`, which also reads the rows of the minibatch to compute V; the event counts V's own noise."""

    def __init__(
        self, problem: Glm, chains: Sequence[Chain], sigma: Tensor, refresh: int, rng: torch.Generator
    ) -> None:
        self.problem, self.sigma, self.refresh, self.rng = problem, sigma, refresh, rng
        n, size = problem.n, chains[0].sampling.size(problem.n)
        self.size = size
        self.share, self.precision = n / size, n * columns(chains, "l2", problem.device)
        exact: Any = {"dtype": torch.float64, "device": problem.device}
        self.eta = torch.tensor([[float(c.step[0])] for c in chains], **exact)
        factor = problem.lipschitz * torch.eye(problem.d, **exact)
        self.dynamics = sgfs(factor, n, size)

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        d = self.problem.d
        fisher = torch.zeros(1, 1, d, d, dtype=torch.float64, device=theta.device)
        return theta, fisher, torch.zeros(0, device=theta.device)

    def step(self, state: Any, noisy: Tensor, t: int, batch: random.Batch) -> State:
        theta, fisher, cholesky = state
        now = SgfsState(theta, fisher, cholesky if len(cholesky) else None)
        gradient = self.share * noisy + self.precision * theta
        covariance = rate = None
        if t % self.refresh == 0:
            covariance = self.covariance(theta, batch.rows[:, : self.size])
            rate = torch.full_like(self.eta[:1], 1 / (t // self.refresh + 1))
        found = self.dynamics.step(now, gradient, gradient.new_zeros(()), self.eta, covariance, rate)
        return found.theta, found.fisher, found.cholesky

    def covariance(self, theta: Tensor, rows: Tensor) -> Tensor:
        """Return V ``(S, E, d, d)`` in float64 for the minibatch `rows` ``(S, tau)``; all budgets share W."""
        d = self.problem.d
        grads = self.problem.example_grads(theta, rows)  # (S, E, tau, d)
        unit = 2.0 ** math.floor(math.log2(self.problem.lipschitz))  # so that squares fit into float32
        grads = (grads - grads.mean(2, keepdim=True)) / unit
        found = (grads.mT @ grads).double() / (rows.shape[1] - 1) * unit**2
        normals = random.noise(self.rng, len(theta), 1, d, d, device=theta.device)
        std = 7 * self.problem.lipschitz**2 * self.sigma[..., None]
        found = found.nan_to_num(0.0, 0.0, 0.0)  # of a chain that diverged
        found = random.on_grid(found + std * (normals + normals.mT) / 2, std)
        values, vectors = torch.linalg.eigh(found)
        return (vectors * values.clamp(min=0)[..., None, :]) @ vectors.mT
