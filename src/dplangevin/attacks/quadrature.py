"""The exact law of DP-Langevin's last iterate on pairs of `attacks.langevin`, and its divergences."""

import math
from typing import NamedTuple, get_args

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom

from dplangevin.attacks.langevin import Others, initial_std, kept_shares, most_uses, pair_for
from dplangevin.checks import require
from dplangevin.privacy.events import LangevinDpEvent

RARE = 1e-40  # probability that is neglected: of numbers of uses, and of iterates outside of C
SHARES = 1000  # the remaining shares of shifts are rounded to multiples of the largest share/SHARES
FINE, CELLS = 50, 20  # values of the sum of uses, and points of theta, in one standard deviation of the noise
REACH = 30.0  # theta's range beyond the extreme shifts, in standard deviations of the noise
CHUNK = 2**24  # points times values that are in memory together


class Distributions(NamedTuple):
    """Log masses of theta_K under D and under D' on the same quadrature points, (nodes,) each."""

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
    """Compute the exact distribution of theta_K by repeated Gauss-Legendre quadrature, for few steps.

    All terms are positive, so tails are accurate in relative terms. The two ends of C, with their masses, are two
    nodes. Without projection the line is cut off at 60 standard deviations beyond the largest shift.
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


def unprojected_distributions(
    event: LangevinDpEvent,
    init_std: float | None = None,
    others: Others | None = None,
    project: float | None = None,
) -> Distributions:
    """Compute the exact distribution of theta_K for any number of steps, if projections are rarer than 1e-40.

    ``theta_K = drift + push sum_k s_k b_k + N(0, v)`` with independent uses ``b_k ~ Bernoulli(batch/records)``.
    ``s_k`` is the share of a shift at step k that remains in theta_K, rounded to 1/1000 of the largest, so that the
    sum follows a product of binomial laws on a grid. Points of theta are 1/20 of a standard deviation apart. All terms
    are positive. Together these roundings move epsilon by less than 1e-3 of its value.
    """
    require(
        event.radius == math.inf, f"radius = {event.radius:g} projects: the law of all steps is not known"
    )
    spread = initial_std(event, init_std)
    pair = pair_for(event, spread, project, others, RARE)
    left, shares = kept_shares(event)
    variance = (left * spread) ** 2 + float((2 * event.step_sizes() * shares**2).sum()) * event.noise_std**2
    std, sizes = math.sqrt(variance), event.step_sizes() * shares
    centre = pair.drift * float(sizes.sum())
    sums, log_mass = _sum_of_uses(sizes, event.batch / event.records, max(map(abs, pair.pushes)) / std)
    shifts = np.array([push * end for push in pair.pushes for end in (sums[0], sums[-1])])
    low, high = centre + shifts.min() - REACH * std, centre + shifts.max() + REACH * std
    count = math.ceil((high - low) / std * CELLS)
    points = np.linspace(low, high, count)
    log_width = math.log((points[1] - points[0]) / (std * math.sqrt(2 * math.pi)))
    logs = [np.empty(count), np.empty(count)]
    for push, out in zip(pair.pushes, logs, strict=True):
        size = max(1, CHUNK // len(sums))
        for at in range(0, count, size):
            away = (points[at : at + size, None] - centre - push * sums) / std
            out[at : at + size] = logsumexp(log_mass - away**2 / 2, axis=1) + log_width
    return Distributions(points, logs[0], logs[1])


def _sum_of_uses(sizes: np.ndarray, rate: float, push: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of sum_k s_k b_k and their log probabilities; push is in standard deviations of the noise.

    Values closer than 1/50 of such a deviation are shared between the two nearest of a coarser grid, mean preserved.
    """
    if rate >= 1:
        return np.array([float(sizes.sum())]), np.zeros(1)
    unit = float(sizes.max()) / SHARES
    places, counts = np.unique(np.rint(sizes / unit).astype(int), return_counts=True)
    most = most_uses(len(sizes), rate, RARE) * SHARES
    mass = np.zeros(most + 1)
    mass[0] = 1.0
    for place, count in zip(places.tolist(), counts.tolist(), strict=True):
        uses = np.arange(most_uses(count, rate, RARE) + 1)
        new = np.zeros_like(mass)
        for use, chance in zip(uses.tolist(), binom.pmf(uses, count, rate).tolist(), strict=True):
            if use * place <= most:
                new[use * place :] += chance * mass[: most + 1 - use * place]
        mass = new
    coarse = max(unit, 1 / (FINE * push))
    whole = np.arange(most + 1) * (unit / coarse)
    low = np.floor(whole).astype(int)
    shared = np.bincount(low, mass * (1 - (whole - low)), low[-1] + 2)
    shared += np.bincount(low + 1, mass * (whole - low), low[-1] + 2)
    there = shared > 0
    return np.flatnonzero(there) * coarse, np.log(shared[there])


def worst_epsilon(event: LangevinDpEvent, delta: float, init_std: float | None = None) -> float:
    """Return the exact epsilon of the last iterate (infinite radius) for the worse pair of `attacks.langevin`.

    It is a lower bound, without sampling error, on what a theorem may promise if its hypotheses admit the pair.
    """
    return max(
        epsilon_of(unprojected_distributions(event, init_std, others), delta) for others in get_args(Others)
    )


def epsilon_of(pair: Distributions, delta: float) -> float:
    """Return the smallest epsilon >= 0 at which `hockey_stick` is at most delta, in (0, 1)."""
    if hockey_stick(pair, 0.0) <= delta:
        return 0.0
    high = 1.0
    while hockey_stick(pair, high) > delta:
        high *= 2
    return float(brentq(lambda e: hockey_stick(pair, e) / delta - 1, 0.0, high, rtol=1e-12))


def drawn(pair: Distributions, runs: int, rng: torch.Generator) -> np.ndarray:
    """Return log-likelihood ratios of runs ``(2, runs)``, drawn under D and under D'."""
    with np.errstate(invalid="ignore"):
        ratio = pair.first - pair.second
    out = []
    for mass in (pair.first, pair.second):
        edges = np.cumsum(np.exp(mass - logsumexp(mass)))
        uniform = torch.rand(runs, generator=rng, dtype=torch.float64).numpy() * edges[-1]
        out.append(ratio[np.searchsorted(edges, uniform, "right").clip(max=len(edges) - 1)])
    return np.stack(out)


def renyi(found: Distributions, alpha: float) -> float:
    """Return the larger Renyi divergence of order alpha > 1 of the two directions."""
    if not alpha > 1:
        raise ValueError(f"alpha = {alpha} must be greater than 1")
    pairs = (found.first, found.second), (found.second, found.first)
    return max(float(logsumexp(alpha * p + (1 - alpha) * q)) for p, q in pairs) / (alpha - 1)


def hockey_stick(found: Distributions, epsilon: float) -> float:
    """Return the larger delta(epsilon) of the two directions, up to 1e-4 of it (the integrand has a kink)."""
    pairs = (found.first, found.second), (found.second, found.first)
    return max(float(np.maximum(np.exp(p) - np.exp(epsilon + q), 0).sum()) for p, q in pairs)


def _spread(points: np.ndarray, log_weight: np.ndarray, mean: np.ndarray, std: float) -> np.ndarray:
    """Return the log masses ``(len(mean), nodes)`` that Proj N(mean, std^2) puts on the nodes."""
    away = (points - mean[:, None]) / std
    logs = -0.5 * away**2 - math.log(std * math.sqrt(2 * math.pi))
    logs[:, 1:-1] += log_weight
    logs[:, 0], logs[:, -1] = log_ndtr(away[:, 0]), log_ndtr(-away[:, -1])
    return logs
