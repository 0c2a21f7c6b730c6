"""Propositions 5 and 6 of li2019: error of a posterior average against the number of steps, by schedule.

Half of the records ``d_i`` are 1 and half are -1, with likelihood N(theta, 1) and prior N(0, 1/prior), so the posterior
is ``N(0, v)``, ``v = 1/(N + prior)``. Algorithm 1 of li2019 with tau records J, drawn without replacement::

    theta <- theta - eta_t (prior theta/N + theta - mean_J d) + N(0, kappa eta_t/N)

kappa = 1 as printed; kappa = 2 targets the posterior. Errors of ``sum_t eta_t phi(theta_t)/sum_t eta_t`` are squared
and over the posterior variance of phi. A privacy budget acts only through the step size: no gradient is clipped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.stats import hypergeom

from dplangevin import random
from dplangevin.checks import require
from dplangevin.papers.statistics import Interval, t_interval
from dplangevin.privacy import Budget
from dplangevin.privacy.li2019 import wang_step
from dplangevin.samplers.kernels.stochastic import sgld

TEMPERATURES = {"printed": 1.0, "proper": 2.0}  # kappa: the noise is N(0, kappa eta/N)
PRIVATE = ("private_fixed", "private_decreasing")
SCHEDULES = ("optimal", "decreasing", *PRIVATE, "wang2015")
FUNCTIONS = ("theta", "theta squared")


@dataclass(frozen=True)
class Target:
    """The Gaussian posterior and the minibatch sampling that the module describes."""

    records: int  # N, even
    batch: int  # tau, in 1..N
    prior: float  # precision of the prior, >= 0
    start: float  # theta_1, in posterior standard deviations

    def __post_init__(self) -> None:
        require(self.records % 2 == 0, f"records = {self.records} must be even")

    @property
    def variance(self) -> float:
        """The posterior variance v."""
        return 1 / (self.records + self.prior)

    @cached_property
    def batch_mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and probabilities of the mean of a minibatch, ``(tau + 1,)`` each."""
        ones = np.arange(self.batch + 1)
        chances = hypergeom.pmf(ones, self.records, self.records // 2, self.batch)
        return (2 * ones - self.batch) / self.batch, chances

    def closed_form(self, eta: np.ndarray, kappa: np.ndarray) -> np.ndarray:
        """Compute the relative errors ``(2, E)``, a row for each of FUNCTIONS, exactly, from step sizes ``(T, E)``.

        The recursion is on the moments of theta and of ``S = sum eta theta`` and ``Q = sum eta theta^2``.
        """
        values, chances = self.batch_mean
        second, fourth = (float(chances @ values**k) for k in (2, 4))
        gauss, shaken = eta * kappa / self.records, eta**2
        noise2 = gauss + shaken * second
        noise4 = 3 * gauss**2 + 6 * gauss * shaken * second + shaken**2 * fourth
        keep = 1 - eta / (self.records * self.variance)
        m2 = np.full(eta.shape[1], self.start**2 * self.variance)
        m4 = m2**2
        s_theta, s_s, q, q_theta2, q_q = (np.zeros_like(m2) for _ in range(5))
        for step, b, w2, w4 in zip(eta, keep, noise2, noise4, strict=True):
            b2 = b * b
            m4 = b2 * b2 * m4 + 6 * b2 * w2 * m2 + w4  # E theta^4, from the old E theta^2
            m2 = b2 * m2 + w2
            s_theta = b * s_theta  # E S theta_t, S still without theta_t
            s_s = s_s + 2 * step * s_theta + step**2 * m2
            s_theta = s_theta + step * m2
            q_theta2 = b2 * q_theta2 + w2 * q
            q_q = q_q + 2 * step * q_theta2 + step**2 * m4
            q_theta2 = q_theta2 + step * m4
            q = q + step * m2
        total, v = eta.sum(0), self.variance
        return np.stack([s_s / total**2 / v, (q_q / total**2 - 2 * v * q / total + v**2) / (2 * v**2)])

    def simulate(self, eta: np.ndarray, kappa: np.ndarray, chains: int, rng: torch.Generator) -> np.ndarray:
        """Draw the relative squared errors ``(2, chains, E)``; all cases of one chain have the same draws."""
        values, chances = self.batch_mean
        ladder = torch.tensor(np.cumsum(chances)[:-1])
        size = torch.tensor(eta)[..., None]  # (T, E, 1)
        std = torch.tensor(np.sqrt(eta * kappa / self.records))[..., None]
        kernel, start = sgld(), self.start * math.sqrt(self.variance)
        state = kernel.init(torch.full((chains, eta.shape[1], 1), start, dtype=torch.float64))
        sums = torch.zeros(2, *state.theta.shape, dtype=torch.float64)
        for block in zip(size.split(256), std.split(256), strict=True):
            shape = len(block[0]), chains, 1, 1
            batch = torch.searchsorted(ladder, torch.rand(shape, generator=rng).double())
            normals = torch.randn(shape, generator=rng, dtype=torch.float64)
            for step, scale, mean, normal in zip(*block, torch.tensor(values)[batch], normals, strict=True):
                gradient = state.theta * (1 + self.prior / self.records) - mean
                state = kernel.step(state, gradient, scale * normal, step)
                weighted = step * state.theta
                sums += torch.stack([weighted, weighted * state.theta])
        average = sums[..., 0].numpy() / eta.sum(0)
        v = self.variance
        return np.stack([average[0] ** 2 / v, (average[1] - v) ** 2 / (2 * v**2)])


@dataclass(frozen=True)
class PosteriorAverages:
    """Mean squared errors on the problem of `Target`, simulated and in closed form.

    With ``eta~ = eps^2/(constant L^2 ln(1/delta))`` the step sizes of t = 1..T are

        optimal             step_size T^(-1/3)                           Proposition 6
        decreasing          step_size t^(-1/3)                           Theorem 3 without its privacy
        private_fixed       eta~ N/T                                     Theorem 4
        private_decreasing  eta~ N t^(-1/3) T^(-2/3)                     Theorem 3, Proposition 5
        wang2015            eps^2 N/(128 L^2 T ln(2.5 T/delta) ln(2/delta))
    """

    target: Target
    steps: Sequence[int]  # T of the panel "steps", at the budget `epsilon`
    budgets: Sequence[float]  # eps of the panel "budget"
    budget_steps: int  # T of the panel "budget"
    chains: int  # number of simulated chains
    step_size: float  # eta of the schedules without privacy
    epsilon: float
    delta: float
    lipschitz: float  # L
    constant: float  # c_2^2 of Theorem 3 and c^2 of Theorem 4

    def units(self) -> list[str]:
        return [*(f"steps {steps}" for steps in self.steps), "budget"]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        """Return the errors, relative to the posterior variance, with 95 % Student limits over chains."""
        if unit == "budget":
            cases = [(name, epsilon) for name in PRIVATE for epsilon in self.budgets]
            return self.errors("budget", cases, self.budget_steps, seed)
        steps = int(unit.removeprefix("steps "))
        return self.errors("steps", [(name, self.epsilon) for name in SCHEDULES], steps, seed)

    def budget_step(self, epsilon: float) -> float:
        """Return eta~ for this epsilon."""
        return epsilon**2 / (self.constant * self.lipschitz**2 * math.log(1 / self.delta))

    def schedule(self, name: str, epsilon: float, steps: int) -> np.ndarray:
        """Return the step sizes ``(T,)`` of one of SCHEDULES; those without privacy ignore epsilon."""
        t = np.arange(1, steps + 1, dtype=float)
        n, eta = self.target.records, self.budget_step(epsilon)
        if name == "optimal":
            return np.full(steps, self.step_size * steps ** (-1 / 3))
        if name == "decreasing":
            return self.step_size * t ** (-1 / 3)
        if name == "private_fixed":
            return np.full(steps, eta * n / steps)
        if name == "private_decreasing":
            return eta * n * t ** (-1 / 3) * steps ** (-2 / 3)
        budget = Budget(epsilon, self.delta)
        return np.full(steps, wang_step(budget, records=n, steps=steps, lipschitz=self.lipschitz))

    def errors(
        self, panel: str, cases: Sequence[tuple[str, float]], steps: int, seed: int
    ) -> list[dict[str, Any]]:
        """Return the rows of several (schedule, epsilon) at one T; all of them use the same noise."""
        columns = [(*case, heat) for case in cases for heat in TEMPERATURES]
        eta = np.stack([self.schedule(name, epsilon, steps) for name, epsilon, _ in columns], 1)
        kappa = np.array([TEMPERATURES[heat] for *_, heat in columns])
        exact = self.target.closed_form(eta, kappa)
        rng = random.generator(seed, f"li2019_mse {panel} {steps}")
        squares = self.target.simulate(eta, kappa, self.chains, rng)
        rows = []
        for e, (name, epsilon, heat) in enumerate(columns):
            private = name in PRIVATE
            base = {
                "panel": panel,
                "schedule": name,
                "temperature": heat,
                "steps": steps,
                "epsilon": epsilon if private or name == "wang2015" else math.nan,
                "eta": self.budget_step(epsilon) if private else math.nan,
            }
            for f, function in enumerate(FUNCTIONS):
                base["function"] = function
                rows.append({**base, "kind": "simulated", **t_interval(squares[f, :, e]).columns()})
                rows.append({**base, "kind": "closed form", **Interval.exact(exact[f, e]).columns()})
        return rows
