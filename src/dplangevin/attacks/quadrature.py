"""The exact distribution of DP-SGLD's last iterate on the pairs of `attacks.langevin`, and its divergences."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp

from dplangevin.attacks.langevin import Others, initial_std, pair_for
from dplangevin.privacy.events import LangevinDpEvent


class Distributions(NamedTuple):
    """The distributions of theta_K under D and D': logs of the masses ``(nodes,)`` of the same quadrature nodes."""

    points: np.ndarray
    first: np.ndarray
    second: np.ndarray


def last_iterate_distributions(
    event: LangevinDpEvent,
    init_std: float | None = None,
    project: float | None = None,
    others: Others | None = None,
    nodes: int = 1200,
) -> Distributions:
    """The exact distribution of theta_K by repeated Gauss-Legendre quadrature, for few steps.

    All terms are positive, so tails are relatively accurate; what the projection puts on the two ends of C is two
    nodes of its own.  Without projection the line is cut off at 60 standard deviations beyond the largest shift.
    """
    spread = initial_std(event, init_std)
    pair = pair_for(event, spread, project, others)
    etas = event.step_sizes()
    end = pair.radius
    if math.isinf(end):
        reach = float(etas.sum()) * (abs(pair.drift) + max(map(abs, pair.pushes)))
        end = reach + 60 * math.sqrt(spread**2 + 2 * event.noise_std**2 * float(etas.sum()))
    x, weight = np.polynomial.legendre.leggauss(nodes)
    points, log_weight = np.concatenate([[-end], x * end, [end]]), np.log(weight * end)
    logs = []
    for push in pair.pushes:
        if spread:
            mass = _spread(points, log_weight, np.zeros(1), spread)[0]
            sources = points
        else:
            mass, sources = np.zeros(1), np.zeros(1)
        for eta in etas:
            mean = (1 - eta * event.strong_convexity) * sources + eta * pair.drift
            std = math.sqrt(2 * eta) * event.noise_std
            used, rate = _spread(points, log_weight, mean + eta * push, std), event.batch / event.records
            if rate < 1:
                idle = _spread(points, log_weight, mean, std)
                used = np.logaddexp(used + math.log(rate), idle + math.log1p(-rate))
            mass, sources = logsumexp(mass[:, None] + used, axis=0), points
        logs.append(mass)
    return Distributions(points, logs[0], logs[1])


def renyi(found: Distributions, alpha: float) -> float:
    """The larger R_alpha of the two directions, alpha > 1."""
    if not alpha > 1:
        raise ValueError(f"alpha = {alpha} must be greater than 1")
    pairs = (found.first, found.second), (found.second, found.first)
    return max(float(logsumexp(alpha * p + (1 - alpha) * q)) for p, q in pairs) / (alpha - 1)


def hockey_stick(found: Distributions, epsilon: float) -> float:
    """The larger delta(epsilon) of the two directions, to about 1e-4 of it (its integrand has a kink)."""
    pairs = (found.first, found.second), (found.second, found.first)
    return max(float(np.maximum(np.exp(p) - np.exp(epsilon + q), 0).sum()) for p, q in pairs)


def _spread(points: np.ndarray, log_weight: np.ndarray, mean: np.ndarray, std: float) -> np.ndarray:
    """log masses ``(len(mean), nodes)`` that Proj N(mean, std^2) puts on the nodes."""
    away = (points - mean[:, None]) / std
    logs = -0.5 * away**2 - math.log(std * math.sqrt(2 * math.pi))
    logs[:, 1:-1] += log_weight
    logs[:, 0], logs[:, -1] = log_ndtr(away[:, 0]), log_ndtr(-away[:, -1])
    return logs
