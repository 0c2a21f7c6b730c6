"""Differentially private variational inference (Jalko, Dikmen and Honkela 2017)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from dplangevin import random
from dplangevin.checks import require, settings
from dplangevin.methods import Execution, Plan, Release, guaranteed
from dplangevin.methods.dp_sgd import CHOSEN, MOMENTS
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.calibration import noise_for
from dplangevin.privacy.gaussian_steps import steps_event
from dplangevin.problems import DefaultSteps, Facts, Problem, Sums
from dplangevin.problems.chain import Chain, State
from dplangevin.problems.glm import Glm
from dplangevin.problems.sampling import POISSON, Sampling
from dplangevin.samplers.chains.loop import run, schedules


@dataclass(frozen=True)
class Dpvi:
    """Mean-field Gaussian ``q = N(m, diag e^(2s))``, fitted by DP-SGD; for linear models of one margin.

    The loss is ``-ELBO = KL(q || prior) + E_q U``.  A whole minibatch uses one draw ``theta = m + e^s eps``, ``eps
    ~ N(0, I)``.  A record has a gradient g_i in m and a gradient ``g_i eps e^s`` in s.  The latter is multiplied by
    kappa/u.  Both are clipped jointly to norm `clip` and summed over a Poisson sample, rate q.  The sum gets noise
    ``N(0, (clip sigma)^2 I)``.  Prior ``N(0, I/precision)`` and entropy need no data.  With g the clipped sum and
    z, z' the noise:

        m <- m - eta_t u^2 ((g + z)/q + precision m)
        s <- s - eta_t ((g eps e^s + (u/kappa) z')/q + precision e^(2s) - 1)

    u is the smallest standard deviation that the posterior can have, ``u^2 = 1/(beta n + precision)``, with beta
    the smoothness.  m starts at 0, and s at log u.  s stays in ``[log u, -log(precision)/2]``, which has its optimum.
    eta_t falls linearly to 0.  It starts at `step`, or at ``sqrt(3/(T precision)) q/(u^2 clip sigma)`` if that is
    less: there the noise alone would move m by the prior's standard deviation.  The release is `samples` draws from
    the last q, which cost no further privacy.

    Source: jalko2017.
    Differs: the paper optimises with Adagrad.
    Differs: the paper clips with kappa = u.

    Attributes
    ----------
    clip : float, > 0; inf only without privacy.
    step : float, > 0.  First step size; stable up to about 1.
    precision : float, > 0.  Precision of the Gaussian prior.
    spread : float, > 0.  kappa.  Larger values add less noise to s, and clip more gradients once e^s > u.
    samples : int, >= 1.
    """

    budgeted: ClassVar[bool] = True
    clip: float = 1.0
    step: float = 1.0
    precision: float = 1.0
    spread: float = 0.02
    samples: int = 50
    accountant: Accountant = MOMENTS
    sampling: Sampling = POISSON
    adjacency: Adjacency = "add_remove"

    def __post_init__(self) -> None:
        settings(self, clip="positive", precision="positive and finite")
        drawn = self.sampling.scheme
        require(drawn == "poisson", f"dpvi is priced for poisson samples, not {drawn!r}")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        require(
            facts.linear.classes == 1,
            f"dpvi is written for losses of one margin, two classes or a regression, not for {facts.classes} classes: "
            "use dp_sgd, dp_sgld_li2019, objpert, ops or outpert",
        )
        n, rate, steps = facts.n, self.sampling.rate(facts.n), self.sampling.steps(facts.n)
        sigma, event = 0.0, None
        if budget.epsilon < math.inf:
            require(self.clip < math.inf, "clip must be finite where epsilon is")
            make = partial(steps_event, rate=rate, steps=steps, schedule="fixed")
            sigma = noise_for(self.accountant, make, budget, adjacency=self.adjacency)
            event = make(sigma)
        noise = sigma * self.clip if sigma else 0.0
        most = math.inf
        if noise:
            most = math.sqrt(3 / (steps * self.precision)) * rate / (self.unit(facts) ** 2 * noise)
        chain = Chain(
            step=min(self.step, most) * (1 - torch.arange(steps, dtype=torch.float64) / steps),
            noise_std=torch.full((steps,), noise, dtype=torch.float64),
            sampling=self.sampling,
            clip=self.clip,
            l2=self.precision / n,
        )
        assumptions = *CHOSEN, *facts.rows
        guarantee = guaranteed(
            self.accountant, event, budget, self.adjacency, "all_iterates", "poisson", assumptions
        )
        return Plan(guarantee, chain, {"noise_multiplier": sigma, "noise_std": noise})

    def unit(self, facts: Facts) -> float:
        """Return u, the smallest standard deviation that the posterior can have."""
        return float((facts.smoothness * facts.n + self.precision) ** -0.5)

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        chains = [plan.work for plan in plans]
        unit = self.unit(problem.facts)
        elbo = _Elbo(problem, unit / self.spread, math.log(unit), how.rng)
        kernel = _MeanField(elbo, chains, self.precision, unit)
        fitted = run(
            elbo, chains, how.seeds, how.rng, kernel=kernel, checkpoint=how.checkpoint, drawn_in=how.drawn_in
        )
        mean, log_std = fitted.split(problem.d, -1)  # (S, E, 1, d)
        normals = random.normals(how.rng, how.seeds, 1, self.samples, problem.d, device=mean.device)
        return Release(mean + log_std.exp() * normals)


class _Elbo(DefaultSteps):
    """The parameters m and s of q as a problem, ``(S, E, 2 d)``; `clipped_sum` draws the eps of its minibatch.

    A record's gradient is its gradient in m, followed by its gradient in s divided by `scale` = u/kappa.
    """

    def __init__(self, model: Glm, scale: float, low: float, rng: torch.Generator) -> None:
        self.model, self.scale, self.low, self.rng = model, scale, low, rng
        self.y_test = model.y_test

    @property
    def facts(self) -> Facts:
        return self.model.facts._replace(d=2 * self.model.d)

    @property
    def device(self) -> torch.device:
        return self.model.device

    def to(self, device: torch.device) -> "_Elbo":
        return _Elbo(self.model.to(device), self.scale, self.low, self.rng)

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        mean = self.model.init(seeds, rng)
        return torch.cat([mean, torch.full_like(mean, self.low)], -1)

    def clipped_sum(self, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor | None) -> Sums:
        mean, log_std = theta.split(self.model.d, -1)
        shift = log_std.exp() * random.normals(self.rng, len(theta), 1, self.model.d, device=theta.device)
        weight = 1 + (shift / self.scale).square()
        found = self.model.clipped_sum(mean + shift, rows, mask, clip, weight).gradient
        return Sums(torch.cat([found, found * shift / self.scale], -1))

    def predict(self, theta: Tensor) -> Tensor:
        return self.model.predict(theta[..., : self.model.d])


class _MeanField:
    """The updates of m and s as a kernel."""

    def __init__(self, elbo: _Elbo, chains: Sequence[Chain], precision: float, unit: float) -> None:
        self.scale, self.low, self.precision, self.unit = elbo.scale, elbo.low, precision, unit
        self.high = -math.log(precision) / 2
        self.rate = chains[0].sampling.rate(elbo.model.n)
        self.eta, self.d = schedules(chains, "step", elbo.device), elbo.model.d

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        return (theta,)

    def step(self, state: Any, noisy: Tensor, t: int, batch: random.Batch) -> State:
        mean, log_std = state[0].split(self.d, -1)
        in_mean, in_log_std = noisy.split(self.d, -1)
        slope = in_mean / self.rate + self.precision * mean
        pull = self.scale * in_log_std / self.rate + self.precision * (2 * log_std).exp() - 1
        mean = mean - self.eta[t] * self.unit**2 * slope
        log_std = (log_std - self.eta[t] * pull).clamp(self.low, self.high)
        return (torch.cat([mean, log_std], -1),)
