"""Exact risks of Algorithm 1 of ryffel2022 in one dimension, and the paper's bounds on them.

A batch is one of a few losses with lambda <= l_i'' <= beta, or all of them. The law of theta_k on C = [low, high],
projections included, comes from repeated Gauss-Legendre quadrature, with masses on both ends of C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.optimize import brentq
from scipy.special import ndtr, spence

BEND = 0.1  # width over which a loss's second derivative changes from its left to its right value


@dataclass(frozen=True)
class Losses:
    """Losses on C = [low, high] with l'' in [lambda, beta]: from a_i far left of c_i to b_i far right.

    l_i'(x) = a_i u + (b_i - a_i) w (ln(1 + e^(u/w)) - ln 2) + tilt, with u = x - c_i and w = `BEND`.
    """

    left: np.ndarray  # a, (k,)
    right: np.ndarray  # b, (k,)
    centre: np.ndarray  # c, (k,)
    low: float
    high: float
    strength: float  # lambda
    smoothness: float  # beta
    tilt: float = 0.0

    @property
    def condition(self) -> float:
        """The condition beta/lambda."""
        return self.smoothness / self.strength

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return l_i'(x), (k, len(x))."""
        u = np.atleast_1d(x)[None] - self.centre[:, None]
        bend = BEND * (np.logaddexp(0, u / BEND) - math.log(2))
        return self.left[:, None] * u + (self.right - self.left)[:, None] * bend + self.tilt

    def mean_loss(self, x: np.ndarray) -> np.ndarray:
        """Return (1/k) sum_i l_i(x), up to a constant, (len(x),); the integral of ln(1 + e^v) is -Li_2(-e^v)."""
        u = np.atleast_1d(x)[None] - self.centre[:, None]
        bend = -(BEND**2) * spence(1 + np.exp(u / BEND)) - BEND * math.log(2) * u
        values = self.left[:, None] * u**2 / 2 + (self.right - self.left)[:, None] * bend + self.tilt * u
        return np.asarray(values.mean(axis=0))

    def slope(self, x: float) -> float:
        """Return the derivative of the mean loss."""
        return float(self.gradients(np.array([x])).mean())

    def minimiser(self) -> float:
        """Return theta*, the minimiser of the mean loss in C."""
        if self.slope(self.low) >= 0:
            return self.low
        return self.high if self.slope(self.high) <= 0 else float(brentq(self.slope, self.low, self.high))

    def lipschitz(self) -> float:
        """Return the smallest L on C: gradients increase with x, so the largest one is at an end."""
        return float(np.abs(self.gradients(np.array([self.low, self.high]))).max())

    def batches(self, x: np.ndarray, batch: str) -> np.ndarray:
        """Return the gradients of the equally likely batches, (batches, len(x)); batch: "1" or "full"."""
        each = self.gradients(x)
        return each.mean(axis=0, keepdims=True) if batch == "full" else each

    def xi2(self, batch: str) -> float:
        """Return xi^2 = E|grad L_B(theta*)|^2."""
        return float((self.batches(np.array([self.minimiser()]), batch) ** 2).mean())


class IterateLaws:
    """The laws of theta_0, theta_1, ... of Algorithm 1 on `losses`, as masses on `points`; `batch` is "1" or "full"."""

    def __init__(self, losses: Losses, noise_std: float, batch: str, nodes: int) -> None:
        x, weight = leggauss(nodes)
        half, middle = (losses.high - losses.low) / 2, (losses.high + losses.low) / 2
        self.points = np.concatenate([[losses.low], middle + half * x, [losses.high]])
        self.weight = half * weight
        self.noise_std = noise_std
        self.gradients = losses.batches(self.points, batch)
        start = noise_std * math.sqrt(2 / losses.strength)
        self.mass = self.projected(np.zeros(1), start)[0]
        self._last: tuple[float, np.ndarray] | None = None

    def projected(self, mean: np.ndarray, std: float) -> np.ndarray:
        """Return the masses of Proj_C N(mean, std^2), (len(mean), points)."""
        away = (self.points - mean[:, None]) / std
        masses = np.empty_like(away)
        masses[:, 1:-1] = self.weight * np.exp(-0.5 * away[:, 1:-1] ** 2) / (std * math.sqrt(2 * math.pi))
        masses[:, 0], masses[:, -1] = ndtr(away[:, 0]), ndtr(-away[:, -1])
        return masses

    def step(self, eta: float) -> np.ndarray:
        """Take one more step of size eta and return the masses after it."""
        if self._last is None or self._last[0] != eta:
            std = math.sqrt(2 * eta) * self.noise_std
            each = [self.projected(self.points - eta * gradient, std) for gradient in self.gradients]
            self._last = (eta, np.mean(each, axis=0))
        self.mass = self.mass @ self._last[1]
        return self.mass


@dataclass(frozen=True)
class Risks:
    """The exact risks of one run."""

    start: float  # E|theta_0 - theta*|^2
    excess: np.ndarray  # E[L(theta_k)] - L(theta*) for k = 1, ..., K, (K,)


def risks(losses: Losses, etas: np.ndarray, noise_std: float, batch: str, nodes: int) -> Risks:
    """Compute the exact risks of Algorithm 1 with step sizes etas (K,)."""
    chain = IterateLaws(losses, noise_std, batch, nodes)
    best = losses.minimiser()
    above = losses.mean_loss(chain.points) - losses.mean_loss(np.array([best]))[0]
    start = float(chain.mass @ (chain.points - best) ** 2)
    return Risks(start, np.array([float(chain.step(float(eta)) @ above) for eta in etas]))


def constant_steps(losses: Losses, steps: int, share: float = 1.0) -> np.ndarray:
    """Return `share` of the largest constant step 1/(2 beta), (steps,)."""
    return np.full(steps, share / (2 * losses.smoothness))


def decreasing_steps(losses: Losses, steps: int) -> np.ndarray:
    """Return eta_k = 1/(2 beta + lambda k/2) for k = 0, ..., K - 1."""
    return 1 / (2 * losses.smoothness + losses.strength / 2 * np.arange(steps))


def equation_7(losses: Losses, start: float, eta: float, steps: int, noise_std: float, batch: str) -> float:
    """Return (beta/2) E|theta_0 - theta*|^2 e^(-lambda eta K) + beta eta xi^2/(2 lambda) + beta sigma^2/lambda."""
    first = losses.smoothness / 2 * start * math.exp(-losses.strength * eta * steps)
    return first + losses.condition * (eta * losses.xi2(batch) / 2 + noise_std**2)


def equation_11(losses: Losses, start: float, steps: int, noise_std: float, batch: str) -> float:
    """Return (2 beta/K) E|theta_0 - theta*|^2 + 4 xi^2/(K lambda) ln(1 + lambda K/(4 beta)) + 2 sigma^2."""
    strength, smoothness = losses.strength, losses.smoothness
    noisy = 4 * losses.xi2(batch) / (steps * strength) * math.log1p(strength * steps / (4 * smoothness))
    return 2 * smoothness / steps * start + noisy + 2 * noise_std**2
