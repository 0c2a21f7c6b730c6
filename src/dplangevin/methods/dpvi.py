"""Differentially private variational inference (Jalko, Dikmen and Honkela 2017)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from dp_accounting import DpEvent, NonPrivateDpEvent
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise
from dplangevin.checks import positive, require
from dplangevin.methods import Release, per_budget
from dplangevin.poisson import Poisson, poisson_guarantee
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.stepsize import smallest_multiplier, steps_event
from dplangevin.problem import Problem

TUNED = "step and spread chosen on the test rows of Adult"


@dataclass(frozen=True)
class Dpvi:
    r"""Mean-field Gaussian ``q = N(m, diag e^(2s))``, fitted by DP-SGD on ``-ELBO = KL(q || prior) + E_q U``.

    One draw ``theta = m + e^s eps``, ``eps ~ N(0, I)``, serves a whole minibatch.  A record's gradients, g_i in m and
    ``g_i eps e^s`` in s, the latter times kappa/u, are clipped jointly to norm `clip`, summed over a Poisson sample of
    rate q and blurred by ``N(0, (clip sigma)^2 I)``; sigma comes from the accountant.  Prior ``N(0, I/precision)`` and
    entropy need no data.  With g the clipped sum and z, z' the noise:

        m <- m - eta_t u^2 ((g + z)/q + precision m)
        s <- s - eta_t ((g eps e^s + (u/kappa) z')/q + precision e^(2s) - 1)

    u is the smallest standard deviation that the posterior can have, ``u^2 = 1/(beta n + precision)``, beta the
    smoothness.  m starts at 0, s at log u, and s is kept where its optimum is, in ``[log u, -log(precision)/2]``.
    kappa: `spread`, the weight of the gradient in s beside that in m when e^s = u: larger values blur s less, and clip
    more once e^s > u.  eta_t falls linearly to 0 from `step`, stable up to about 1, or from where the noise alone would
    carry m to the prior's standard deviation if that is less: ``sqrt(3/(T precision)) q/(u^2 clip sigma)``.  The last
    iterate is used; `samples` draws from q, which need no further privacy, are given out.
    precision, spread: > 0.  clip: inf only without privacy.
    Differs: the paper's optimiser is Adagrad, and it clips with kappa = u.
    """

    budgeted: ClassVar[bool] = True
    clip: float
    step: float
    precision: float
    spread: float
    samples: int
    accountant: Accountant
    minibatches: Poisson
    adjacency: Adjacency = "add_remove"

    def __post_init__(self) -> None:
        positive(step=self.step, precision=self.precision, spread=self.spread, samples=self.samples)
        require(self.clip > 0, f"clip must be positive, not {self.clip}")
        require(self.adjacency in ("add_remove", "replace_one"), f"adjacency {self.adjacency!r} is unknown")

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        rate, steps = self.minibatches.rate(problem), self.minibatches.steps(problem)
        stds, guarantee = [], []
        for budget in budgets:
            event: DpEvent = NonPrivateDpEvent()
            stds.append(0.0)
            if budget.epsilon < math.inf:
                require(self.clip < math.inf, "clip must be finite where epsilon is")
                sigma = smallest_multiplier(
                    self.accountant,
                    budget,
                    rate=rate,
                    steps=steps,
                    schedule="fixed",
                    adjacency=self.adjacency,
                )
                event = steps_event(sigma, rate=rate, steps=steps, schedule="fixed")
                stds[-1] = sigma * self.clip
            claimed = self.accountant.epsilon(event, budget.delta, self.adjacency)
            promise = poisson_guarantee(claimed, budget, event, self.adjacency)
            guarantee.append(promise._replace(assumptions=(*promise.assumptions, TUNED)))
        mean, log_std = self._fit(problem, per_budget(stds), rng)
        normals = noise.gaussian(rng, problem.repeats, self.samples * problem.d)
        normals = normals.view(-1, 1, self.samples, problem.d)
        draws = mean[:, :, None] + log_std.exp()[:, :, None] * normals  # (R, E, S, d)
        return Release(draws, guarantee, {"violated": [""] * len(budgets)})

    def _fit(self, problem: Problem, noise_std: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """m and s, each ``(R, E, d)``.  noise_std: of the noise on the clipped sum, ``(E, 1)``."""
        rate, steps = self.minibatches.rate(problem), self.minibatches.steps(problem)
        unit = (problem.smoothness * problem.n + self.precision) ** -0.5
        scale = unit / self.spread
        low, high = math.log(unit), -math.log(self.precision) / 2
        most = (3 / (steps * self.precision)) ** 0.5 * rate / (unit**2 * noise_std)  # inf without noise
        first = most.clamp(max=self.step)  # (E, 1)
        mean = torch.zeros(problem.repeats, len(noise_std), problem.d)
        log_std = torch.full_like(mean, low)
        stream = noise.poisson_stream(rng, problem.repeats, problem.n, rate, 3 * problem.d, steps)
        for t, (rows, mask, normals) in enumerate(
            tqdm(stream, total=steps, unit="step", leave=False, disable=None)
        ):
            draw, on_mean, on_std = normals.split(problem.d, -1)
            eta, std = first * (1 - t / steps), log_std.exp()
            shift = std * draw
            weight = 1 + (shift / scale).square()
            found = problem.clipped_grad(mean + shift, rows, mask, self.clip, weight)
            slope = (found + noise_std * on_mean) / rate + self.precision * mean
            pull = (found * shift + scale * noise_std * on_std) / rate + self.precision * std.square() - 1
            mean = mean - eta * unit**2 * slope
            log_std = (log_std - eta * pull).clamp(low, high)
        return mean, log_std
