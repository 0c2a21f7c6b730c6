"""Error of a posterior average along Langevin steps on a Gaussian posterior, simulated and in closed form.

Half of the records ``d_i`` are 1 and half are -1, with likelihood N(theta, 1) and prior N(0, 1/prior), so the posterior
is ``N(0, v)``, ``v = 1/(N + prior)``. Algorithm 1 of li2019 with tau records J, drawn without replacement::

    theta <- theta - eta_t (prior theta/N + theta - mean_J d) + N(0, kappa eta_t/N)

kappa = 1 as printed; kappa = 2 targets the posterior. Errors of ``sum_t eta_t phi(theta_t)/sum_t eta_t`` are squared
and over the posterior variance of phi. A privacy budget acts only through the step size: no gradient is clipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.stats import hypergeom

from dplangevin.samplers.kernels.sgld import sgld

FUNCTIONS = ("theta", "theta squared")


@dataclass(frozen=True)
class Target:
    """The Gaussian posterior and the minibatch sampling that the module describes."""

    records: int  # N, even
    batch: int  # tau, in 1..N
    prior: float  # precision of the prior, >= 0
    start: float  # theta_1, in posterior standard deviations

    def __post_init__(self) -> None:
        if self.records % 2 or not 0 < self.batch <= self.records:
            raise ValueError(
                f"records = {self.records} must be even and batch = {self.batch} between 1 and that number"
            )

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
