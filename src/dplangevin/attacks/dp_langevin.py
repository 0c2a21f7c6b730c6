"""The last iterate of DP-Langevin (ryffel2022, Algorithm 1) in one dimension: runs, and its exact law.

C = [-radius, radius]. Every loss is ``lambda/2 theta^2 + c theta``, so it is lambda-strongly convex and lambda-smooth.
The differing record has c = -g under D and c = g under D'. The other records give two pairs:

    "flat"      c = 0; the paths of D and D' mirror each other
    "opposite"  c = g, like the record under D'; all paths drift together, by at most g times the sum of the step sizes

``g = L - lambda radius`` makes all gradients at most L on C. With radius = inf, ``g = L``, and L bounds only the
gradient of the linear part, which differs, as if the ridge did not depend on the data.

A step uses the record with probability batch/records, independently of earlier steps. Such a step shifts theta by
eta_k/batch times the difference of the gradients. Everything else is linear and Gaussian.
"""

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from scipy.special import log_ndtr, logsumexp, ndtri
from scipy.stats import binom
from tqdm import tqdm

from dplangevin.attacks.laws import Distributions, epsilon_of
from dplangevin.checks import count, require
from dplangevin.privacy.events import LangevinDpEvent

Others = Literal["flat", "opposite"]
NEGLIGIBLE = 1e-12  # probability that some iterate of a run leaves C, if the radius is chosen here
RARE = 1e-40  # probability that exact laws neglect: of numbers of uses, and of iterates outside of C
SHARES = 1000  # the remaining shares of shifts are rounded to multiples of the largest share/SHARES
FINE, CELLS = 50, 20  # values of the sum of uses, and points of theta, in one standard deviation of the noise
REACH = 30.0  # theta's range beyond the extreme shifts, in standard deviations of the noise
AT_ONCE = 2**24  # points times values that are in memory together


class Pushes(NamedTuple):
    """Radius of C, and per unit of step size: drift without the record, and what a use adds under D and under D'."""

    drift: float
    pushes: tuple[float, float]
    radius: float


def last_iterate(
    event: LangevinDpEvent,
    runs: int,
    rng: torch.Generator,
    init_std: float | None = None,
    project: float | None = None,
    others: Others = "flat",
) -> tuple[np.ndarray, np.ndarray]:
    """Draw theta_K (runs,) of Algorithm 1 under D and D', step by step; their likelihood ratio grows with theta.

    - `init_std`: theta_0 ~ Proj_C N(0, init_std^2); None: the paper's variance ``2 sigma^2/lambda``.
    - `project`: radius of C. None: the event's, or if that is inf a radius so large that the projection acts in a run
      with probability below 1e-12.

    Source: ryffel2022, Algorithm 1.
    """
    count(1, runs=runs)
    spread = initial_std(event, init_std)
    pair = pair_for(event, spread, project, others)
    rate, out = event.batch / event.records, []
    for push in pair.pushes:
        theta = spread * torch.randn(runs, generator=rng, dtype=torch.float64)
        theta.clamp_(-pair.radius, pair.radius)
        for eta in tqdm(event.step_sizes().tolist(), unit="step", leave=False, disable=None):
            used = torch.rand(runs, generator=rng, dtype=torch.float64) < rate
            theta.mul_(1 - eta * event.strong_convexity).add_(eta * pair.drift).add_(used, alpha=eta * push)
            normals = torch.randn(runs, generator=rng, dtype=torch.float64)
            theta.add_(normals, alpha=math.sqrt(2 * eta) * event.noise_std).clamp_(-pair.radius, pair.radius)
        out.append(theta.numpy())
    return out[0], out[1]


def pair_for(
    event: LangevinDpEvent,
    init_std: float,
    project: float | None,
    others: Others,
    negligible: float = NEGLIGIBLE,
) -> Pushes:
    """Return the pair of data sets, with its radius and the largest g that this radius allows; see `last_iterate`."""
    project = event.radius if project is None and event.radius < math.inf else project
    ridge, etas = event.strong_convexity, event.step_sizes()
    if event.step_size * ridge > 1:
        raise ValueError(
            f"step_size = {event.step_size} must be at most 1/strong_convexity = {1 / ridge:.4g}"
        )
    radius = _radius(event, init_std, others, negligible) if project is None else project
    require(radius > 0, f"project = {radius} must be positive, or None for a radius that hardly matters")
    g = event.lipschitz - (ridge * radius if radius < math.inf else 0.0)
    if g <= 0:
        raise ValueError(
            f"radius = {radius:.4g} leaves no gradient: strong_convexity * radius must be below lipschitz = "
            f"{event.lipschitz}; lower project or the noise (over {len(etas)} steps)"
        )
    if others == "flat":
        return Pushes(0.0, (g / event.batch, -g / event.batch), radius)
    return Pushes(-g, (2 * g / event.batch, 0.0), radius)


def initial_std(event: LangevinDpEvent, init_std: float | None) -> float:
    """Return init_std, or the standard deviation of the paper's initial law if it is None."""
    if init_std is not None:
        require(init_std >= 0, f"init_std = {init_std} must be >= 0, or None for sqrt(2 sigma^2/lambda)")
        return init_std
    if event.strong_convexity == 0:
        raise ValueError("strong_convexity = 0 has no initial law N(0, 2 sigma^2/lambda): give init_std")
    return event.noise_std * math.sqrt(2 / event.strong_convexity)


def _radius(event: LangevinDpEvent, init_std: float, others: Others, negligible: float) -> float:
    """Return radius = noise + g reach, g = L - lambda radius, with P(some iterate exceeds it) <= `negligible`."""
    ridge, eta = event.strong_convexity, float(event.step_sizes()[0])
    total = float(event.step_sizes().sum())
    grown = init_std**2 + 2 * event.noise_std**2 * total
    if ridge:
        stationary = 2 * event.noise_std**2 / (ridge * (2 - eta * ridge))
        grown = min(grown, max(init_std**2, stationary))
    noise = -float(ndtri(negligible / (4 * (event.steps + 1)))) * math.sqrt(grown)
    most = most_uses(event.steps, event.batch / event.records, negligible / 2) / event.batch
    longest = min(total, 1 / ridge) if ridge else total
    push = min(most * eta, longest / event.batch)
    reach = push if others == "flat" else longest + 2 * push
    return (noise + reach * event.lipschitz) / (1 + ridge * reach)


def most_uses(steps: int, rate: float, negligible: float) -> int:
    """Return the largest number of uses, of Binomial(steps, rate), with probability above `negligible` by itself."""
    if rate >= 1:
        return steps
    likely = binom.logpmf(np.arange(steps + 1), steps, rate) > math.log(negligible)
    return int(np.flatnonzero(likely)[-1])


def last_iterate_distributions(
    event: LangevinDpEvent,
    init_std: float | None = None,
    project: float | None = None,
    others: Others = "flat",
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
    others: Others = "flat",
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
    kept = np.cumprod(1 - event.step_sizes()[::-1] * event.strong_convexity)[
        ::-1
    ]  # shares that remain in theta_K
    shares = np.append(kept[1:], 1.0)
    variance = (float(kept[0]) * spread) ** 2 + float(
        (2 * event.step_sizes() * shares**2).sum()
    ) * event.noise_std**2
    std, sizes = math.sqrt(variance), event.step_sizes() * shares
    centre = pair.drift * float(sizes.sum())
    sums, log_mass = _sum_of_uses(sizes, event.batch / event.records, max(map(abs, pair.pushes)) / std)
    shifts = np.array([push * end for push in pair.pushes for end in (sums[0], sums[-1])])
    low, high = centre + shifts.min() - REACH * std, centre + shifts.max() + REACH * std
    size = math.ceil((high - low) / std * CELLS)
    points = np.linspace(low, high, size)
    log_width = math.log((points[1] - points[0]) / (std * math.sqrt(2 * math.pi)))
    logs = [np.empty(size), np.empty(size)]
    for push, out in zip(pair.pushes, logs, strict=True):
        block = max(1, AT_ONCE // len(sums))
        for at in range(0, size, block):
            away = (points[at : at + block, None] - centre - push * sums) / std
            out[at : at + block] = logsumexp(log_mass - away**2 / 2, axis=1) + log_width
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
    for place, times in zip(places.tolist(), counts.tolist(), strict=True):
        uses = np.arange(most_uses(times, rate, RARE) + 1)
        new = np.zeros_like(mass)
        for use, chance in zip(uses.tolist(), binom.pmf(uses, times, rate).tolist(), strict=True):
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


def worst_epsilon(event: LangevinDpEvent, delta: float) -> float:
    """Return the exact epsilon of the last iterate (infinite radius) for the worse pair of this module.

    It is a lower bound, without sampling error, on what a theorem may promise if its hypotheses admit the pair.
    """
    return max(
        epsilon_of(unprojected_distributions(event, None, others), delta) for others in get_args(Others)
    )


def _spread(points: np.ndarray, log_weight: np.ndarray, mean: np.ndarray, std: float) -> np.ndarray:
    """Return the log masses ``(len(mean), nodes)`` that Proj N(mean, std^2) puts on the nodes."""
    away = (points - mean[:, None]) / std
    logs = -0.5 * away**2 - math.log(std * math.sqrt(2 * math.pi))
    logs[:, 1:-1] += log_weight
    logs[:, 0], logs[:, -1] = log_ndtr(away[:, 0]), log_ndtr(-away[:, -1])
    return logs
