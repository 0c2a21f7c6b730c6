"""Exact Renyi divergences and log-Sobolev constants, against Lemmas 3.1 and 3.2 and two theorems of ryffel2022."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from dplangevin.privacy.events import LangevinDpEvent


def gaussian_renyi(contractions: np.ndarray) -> float:
    """Compute R_alpha/alpha of theta_K for full batches and eta_k lambda (K,), in units of L^2/(lambda n^2 sigma^2).

    For losses (lambda/2) theta^2 -+ L theta, two Gaussians whose means differ by 2L/(n lambda) (1 - prod(1 - eta_k
    lambda)), with variance v sigma^2/lambda: v <- (1 - eta lambda)^2 v + 2 eta lambda. No projection: largest over C.
    """
    shrinkage, variance = 1.0, 2.0
    for contraction in contractions:
        shrinkage *= 1 - contraction
        variance = (1 - contraction) ** 2 * variance + 2 * contraction
    return 2 * (1 - shrinkage) ** 2 / variance


def every_constant(event: LangevinDpEvent, order: float) -> float:
    """Return the supremum over c > 0 of the theorem under c-LSI, 2 alpha L^2 sum_k eta_k/(n^2 sigma^2), as c -> 0."""
    share = event.lipschitz / (event.records * event.noise_std)
    return 2 * order * share**2 * float(event.step_sizes().sum())


def gaussian_dynamics(contraction: float, start: float, steps: int) -> tuple[float, float]:
    """Compute R_alpha of theta_K and the epsilon of the theorem under c-LSI, both divided by alpha L^2/n^2.

    eta = sigma = 1, full batches, losses (h/2) theta^2 -+ L theta, h = `contraction` in [0, 2), and a wide C. All laws
    are Gaussian from the variance `start`, so c is 1 over the largest variance: that of a step, by convexity in time.
    """
    distance, variance, largest = 0.0, start, start
    for _ in range(steps):
        distance = (1 - contraction) * distance + 2
        variance = (1 - contraction) ** 2 * variance + 2
        largest = max(largest, variance)
    return distance**2 / (2 * variance), 2 * largest * -math.expm1(-steps / largest)


def fokker_planck(
    starts: np.ndarray, drifts: np.ndarray, mass: np.ndarray, diffusion: float, time: float, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute both sides of the equation of Lemma 3.1 at the points `at`, `time` after the step, by complex steps.

    The law is start - time drift + N(0, 2 time sigma^2) with atoms (starts, drifts) of probabilities `mass`.
    """
    tiny = 1e-30

    def each(t: complex, x: np.ndarray) -> np.ndarray:
        """Return mass times density of every atom, (atoms, points)."""
        away = x - (starts - t * drifts)[:, None]
        scale = mass[:, None] / np.sqrt(4 * np.pi * diffusion * t)
        return np.asarray(scale * np.exp(-(away**2) / (4 * diffusion * t)))

    def slope(x: np.ndarray) -> np.ndarray:
        """Return the derivative of the density in x."""
        away = x - (starts - time * drifts)[:, None]
        return np.asarray((each(time, x) * -away / (2 * diffusion * time)).sum(axis=0))

    beside = at + tiny * 1j
    left = each(time + tiny * 1j, at.astype(complex)).sum(axis=0).imag / tiny
    density = each(time, beside)
    drift = (drifts @ density) / density.sum(axis=0)  # E[drift | theta]
    flow = (density.sum(axis=0) * drift).imag / tiny
    return left, flow + diffusion * slope(beside).imag / tiny


def shifted_renyi(order: float, time: float, radius: float, pull: float) -> float:
    """Compute R_order(Theta_t || Theta'_t) of two diffusions whose densities are shifts of each other (S_g = 1).

    dTheta = -(pull Theta -+ 1/2) dt + sqrt(2) dW, from clip(N(0, 1), -radius, radius), where radius may be inf.
    """
    decay, noise = math.exp(-pull * time), 2 * _integral(2 * pull, time)
    shift, end, total = _integral(pull, time) / 2, decay * radius, decay**2 + noise

    def log_density(theta: np.ndarray) -> np.ndarray:
        """Return the log-density of the law without its shift."""
        gaussian = np.exp(-(theta**2) / (2 * total)) / math.sqrt(2 * math.pi * total)
        if math.isinf(radius):
            return np.asarray(np.log(gaussian))
        mean, std = np.abs(theta) * decay**2 / total, decay * math.sqrt(noise / total)
        inner = gaussian * (ndtr((end - mean) / std) - ndtr((-end - mean) / std))
        atoms = sum(np.exp(-((theta - side) ** 2) / (2 * noise)) for side in (-end, end))
        return np.asarray(np.log(inner + ndtr(-radius) * atoms / math.sqrt(2 * math.pi * noise)))

    reach = 12 * math.sqrt(total) + 2 * order * shift
    theta, width = np.linspace(-reach, reach, 4001, retstep=True)
    log = order * log_density(theta - shift) + (1 - order) * log_density(theta + shift)
    return float(np.log(np.exp(log).sum() * width) / (order - 1))


def _integral(rate: float, time: float) -> float:
    """Return the integral of e^(-rate s) over s from 0 to time."""
    return -math.expm1(-rate * time) / rate if rate else time


def renyi_dynamics(
    order: float, time: float, radius: float, pull: float, gamma: float
) -> tuple[float, float]:
    """Compute both sides of Lemma 3.2 for the diffusions of `shifted_renyi`, by differences over 1e-4.

    dR/dt + 2 (1 - gamma) sigma^2 c [R/alpha + (alpha - 1) dR/dalpha] <= alpha S_g^2/(4 gamma sigma^2), where 1/c =
    e^(-2 pull t) + the variance of the noise: the law is a 1-Lipschitz image of that Gaussian.
    """
    small = 1e-4
    later, earlier = (shifted_renyi(order, time + sign * small, radius, pull) for sign in (1, -1))
    above, below = (shifted_renyi(order + sign * small, time, radius, pull) for sign in (1, -1))
    constant = 1 / (math.exp(-2 * pull * time) + 2 * _integral(2 * pull, time))
    bracket = shifted_renyi(order, time, radius, pull) / order + (order - 1) * (above - below) / (2 * small)
    return (later - earlier) / (2 * small) + 2 * (1 - gamma) * constant * bracket, order / (4 * gamma)
