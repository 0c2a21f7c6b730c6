"""Differentially private stochastic gradient Fisher scoring (Wang, Fienberg and Smola 2015, Algorithm 4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from dp_accounting import DpEvent, NonPrivateDpEvent
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise
from dplangevin.checks import not_negative, positive, require
from dplangevin.kernels.sgfs import sgfs
from dplangevin.methods import Release
from dplangevin.privacy import Budget, FisherScoringDpEvent
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem
from dplangevin.sgmcmc import Minibatches, minibatch_guarantee, stable_step, thinned

HEAT = {"printed": 1.0, "proper": 4.0}  # variance of the sampler's own noise in units of F F^T/eta


@dataclass(frozen=True)
class DpSgfs:
    r"""Algorithm 4 with ``F = L I``, L the Lipschitz constant of one row's loss::

        gradient    = N (mean of the minibatch's gradients + F Z) + grad r,    Z ~ N(0, max(sigma^2, 1/(N^2 eta)) I)
        V           = PSD(their sample covariance + W),                        W_ij ~ N(0, 49 L^4 sigma^2)
        I           = (1 - kappa) I + kappa V
        theta_{t+1} = theta_t - 2 ((tau + N) N/tau I + 4 F F^T/eta)^-1 gradient

    PSD drops negative eigenvalues of the symmetric part.  Gradients and covariances cost (eps', delta') each by Theorem
    5, so each gets half of the budget, ``eps' = eps/2, delta' = delta/2``:
    ``sigma^2 = 32 T/(N tau eps'^2) ln(2.5 N T/(tau delta')) ln(2/delta')``.
    step: ``eta = step 2 L^2/(beta N)``; where I is 0 the drift is then that of DpSgld with the same `step`, and up to
    twice 1 it is stable whatever I is.  I starts at 0; kappa is 1/j at the j-th of the steps 1, 1 + refresh,
    1 + 2 refresh, ..., so that I is the mean of the V seen, and 0 at all others, where V is not computed.
    temperature "printed": as above, which targets exp(-4U); "proper": ``max(sigma^2, 4/(N^2 eta))``, exp(-U).
    Differs: the paper leaves kappa open; with refresh > 1 fewer covariances are released than the event counts.
    Differs: Theorem 5 asks of F a bound on the loss's curvature; its proof needs, and section C.2 says, that F times
    the unit ball holds all gradients.  That is what F = L I does.
    Differs: the printed sign of the update, see `kernels.sgfs`.
    theta_1 = 0 unless `start` is given; memory is ``R E d^2``; the rest as in DpSgld.
    """

    budgeted: ClassVar[bool] = True
    step: float
    refresh: int
    precision: float
    samples: int
    burn_in: float
    accountant: Accountant
    temperature: Literal["printed", "proper"] = "printed"
    minibatches: Minibatches = field(default_factory=Minibatches)

    def __post_init__(self) -> None:
        require(
            self.temperature in HEAT,
            f"temperature must be one of {tuple(HEAT)}, not {self.temperature!r}",
        )
        positive(step=self.step, refresh=self.refresh, samples=self.samples)
        not_negative(precision=self.precision)
        require(0 <= self.burn_in < 1, f"burn_in must be in [0, 1), not {self.burn_in}")

    def __call__(
        self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator, start: Tensor | None = None
    ) -> Release:
        """start: theta_1 ``(R, E, d)``, independent of the data or itself private."""
        size, steps = self.minibatches.size(problem), self.minibatches.steps(problem)
        require(size > 4, f"batch = {size} is too small: Lemma 6 needs more than 4 rows; raise batch")
        require(
            math.isfinite(problem.lipschitz),
            f"dp_sgfs needs a Lipschitz loss, {problem.loss.name} is not",
        )
        sigmas, guarantee = [], []
        for budget in budgets:
            sigma = self.noise_std(problem, budget)
            event: DpEvent = NonPrivateDpEvent()
            if budget.epsilon < math.inf:
                event = FisherScoringDpEvent(problem.n, size, steps, sigma)
            claimed = self.accountant.epsilon(event, budget.delta, "replace_one")
            guarantee.append(minibatch_guarantee(problem, claimed, budget, event))
            sigmas.append(sigma)
        theta = torch.zeros(problem.repeats, len(budgets), problem.d) if start is None else start
        draws = self.run(problem, theta, torch.tensor(sigmas, dtype=torch.float64)[:, None], rng)
        return Release(draws, guarantee, {"violated": [""] * len(budgets)})

    def noise_std(self, problem: Problem, budget: Budget) -> float:
        """sigma for half of the budget, unitless (F carries the gradients' unit); 0 for eps = inf."""
        if budget.epsilon == math.inf:
            return 0.0
        require(budget.delta > 0, f"Theorem 5 of wang2015 needs delta > 0, not {budget.delta}")
        steps, epsilon, delta = self.minibatches.steps(problem), budget.epsilon / 2, budget.delta / 2
        logs = math.log(2.5 * steps / delta) * math.log(2 / delta)  # N T/tau counted in whole steps
        return math.sqrt(32 * steps * logs) / (problem.n * epsilon)

    def run(self, problem: Problem, theta: Tensor, sigma: Tensor, rng: torch.Generator) -> Tensor:
        """The kept iterates ``(R, E, samples, d)`` from theta_1 ``(R, E, d)``, with sigma ``(E, 1)``."""
        size, steps, n = self.minibatches.size(problem), self.minibatches.steps(problem), problem.n
        bound, d = problem.lipschitz, problem.d
        eta = 2 * bound**2 * torch.full((1, 1), stable_step(problem, self.step), dtype=torch.float64)
        langevin = math.sqrt(HEAT[self.temperature]) / (n * eta.sqrt())
        std = (n * bound * torch.maximum(sigma, langevin)).float()  # of N F Z, (E, 1)
        kernel = sgfs(bound * torch.eye(d, dtype=torch.float64), n, size)
        state = kernel.init(theta, torch.zeros(1, 1, d, d, dtype=torch.float64))
        wanted, kept = set(thinned(steps, self.burn_in, self.samples)), []
        stream = noise.minibatch_stream(rng, problem.repeats, n, size, d, steps)
        for t, (rows, normals) in enumerate(
            tqdm(stream, total=steps, unit="step", leave=False, disable=None)
        ):
            gradient = problem.batch_grad(state.theta, rows) * (n / size) + self.precision * state.theta
            covariance = rate = None
            if t % self.refresh == 0:
                covariance = self.covariance(problem, state.theta, rows, sigma, rng)
                rate = torch.full((1, 1), 1 / (t // self.refresh + 1), dtype=torch.float64)
            state = kernel.step(state, gradient, std * normals, eta, covariance, rate)
            if t + 1 in wanted:
                kept.append(state.theta)
        return torch.stack(kept, 2)

    def covariance(
        self, problem: Problem, theta: Tensor, rows: Tensor, sigma: Tensor, rng: torch.Generator
    ) -> Tensor:
        """V ``(R, E, d, d)`` in float64 of the minibatch `rows` ``(R, tau)``; W is shared along the budget axis."""
        d = problem.d
        grads = problem.example_grads(theta, rows)  # (R, E, tau, d)
        grads = grads - grads.mean(2, keepdim=True)
        found = (grads.mT @ grads).double() / (rows.shape[1] - 1)
        normals = noise.gaussian(rng, problem.repeats, d * d, torch.float64).view(-1, 1, d, d)
        noisy = found + 7 * problem.lipschitz**2 * sigma[..., None] * (normals + normals.mT) / 2
        values, vectors = torch.linalg.eigh(noisy)
        return (vectors * values.clamp(min=0)[..., None, :]) @ vectors.mT
