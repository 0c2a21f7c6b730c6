"""Accountants of Poisson-sampled Gaussian steps, such as those of DP-SGD: the moments accountant, and RDP."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import compute_epsilon

from dplangevin import checks
from dplangevin.privacy.accountants.protocol import Theorem, leaves, refuse, trivial
from dplangevin.privacy.events import Adjacency
from dplangevin.privacy.li2019 import lemma_2

Bound = Literal["numerical", "printed"]

# spacing of the integration grid in noise standard deviations s; at most s/2 if an order is not an integer
SPACING = 0.5
TAIL = 9.0  # the grid ends this many standard deviations beyond the outermost Gaussian
BLOCK, WIDEST = 32, 64  # orders that share a grid: their number, and their ratio
MOST = 2**25  # numbers on a grid, about a gigabyte and a half
ORDERS = np.concatenate([np.arange(11, 110) / 10, np.arange(11, 64), [128, 256, 512, 1024]])  # of `Rdp`


def log_moment(rate: float, noise_multiplier: float, orders: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return alpha(lambda) = log max(E1, E2) (K,) of one Poisson-sampled Gaussian step, under add_remove.

    With mu0 = N(0, s^2) and mu = (1 - q) N(0, s^2) + q N(1, s^2), E1 = E_mu0[(mu0/mu)^lambda] and E2 =
    E_mu[(mu/mu0)^lambda]. E2 is the larger (Mironov, Talwar, Zhang 2019, Theorem 5), so only E2 is integrated. With a
    = lambda + 1, v = (2 x - 1)/(2 s^2) and t = mu/mu0 - 1 = q (exp(v) - 1),

        E2 - 1 = E_mu0[(1 + t)^a - 1 - a t],

    because E_mu0[t] = 0. The integrand is >= 0, and no digits are lost where E2 is close to 1.

    For an integer a the integrand is a sum of Gaussians in x/s of width 1, centred at k/s, k <= a. The trapezoid rule
    at spacing 1/2 then has an error of exp(-8 pi^2). For any other a the integrand is analytic within pi s of the real
    line (where 1 + t = 0). The rule at spacing h then has an error of exp(-2 pi^2 s/h).
    """
    powers = np.asarray(orders, dtype=float) + 1
    if powers.ndim != 1 or not np.all(powers > 1):
        raise ValueError(f"orders = {orders} must be a sequence of positive numbers")
    if not 0 <= rate <= 1:
        raise ValueError(f"rate = {rate} must be in [0, 1]")
    if not noise_multiplier > 0:
        raise ValueError(f"noise_multiplier = {noise_multiplier} must be positive")
    if rate == 0:
        return np.zeros(len(powers))
    by_size, found = np.argsort(powers), np.empty(len(powers))
    start = 0
    while start < len(powers):
        within = np.searchsorted(powers[by_size], WIDEST * powers[by_size[start]])
        block = by_size[start : min(start + BLOCK, within)]
        found[block] = _integrated(rate, noise_multiplier, powers[block])
        start += len(block)
    return found


def _integrated(q: float, s: float, powers: np.ndarray) -> np.ndarray:
    """Return log E2 for powers a = lambda + 1, on one grid; the largest is less than WIDEST times the smallest."""
    whole = np.all(powers == np.floor(powers))
    spacing = SPACING if whole else min(SPACING, s / 2)
    if (float(powers.max()) / s + 2 * TAIL) / spacing * len(powers) > MOST:
        raise ValueError(
            f"log_moment, noise multiplier {s:.4g}; its grid takes more than a gigabyte: add noise"
        )
    u = np.arange(-TAIL, powers.max() / s + TAIL, spacing)  # x/s, (points,)
    v = u / s - 1 / (2 * s * s)
    t = q * np.expm1(np.clip(v, -700.0, 700.0))
    log_ratio = np.where(v < 700, np.log1p(t), v + math.log(q)) if q < 1 else v  # log(1 + t), increasing
    density = np.exp(-(u**2) / 2)
    a = powers[:, None]
    power = a * log_ratio  # (K, points)
    exponent = power - u**2 / 2
    scale = np.maximum(exponent.max(axis=1, keepdims=True), 0.0)
    shrink = np.exp(-scale)
    split = int(np.searchsorted(log_ratio, 0.5 / powers.min()))
    # below the split (1 + t)^a may be near 1, so sum two differences of second order
    near = density[:split] * _exp_less_line(power[:, :split])
    near -= a * (density * _less_log(t, log_ratio))[:split]
    # above the split t times the density may overflow, so use a difference of Gaussians
    shifted = q * (np.exp(-((u - 1 / s) ** 2) / 2) - density)[split:]
    far = np.exp(exponent[:, split:] - scale) - shrink * (density[split:] + a * shifted)
    total = (shrink[:, 0] * near.sum(axis=1) + far.sum(axis=1)) * (spacing / math.sqrt(2 * math.pi))
    scale = scale[:, 0]
    return np.where(scale < 100, np.log1p(np.exp(np.minimum(scale, 100.0)) * total), scale + np.log(total))


def _exp_less_line(x: np.ndarray) -> np.ndarray:
    series = x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6))))
    return np.where(np.abs(x) < 1e-2, series, np.expm1(x) - x)


def _less_log(t: np.ndarray, log_ratio: np.ndarray) -> np.ndarray:
    """Return t - log(1 + t) for t > -1 without cancellation, where log_ratio = log(1 + t)."""
    small = np.clip(t, -1e-2, 1e-2)
    series = small**2 * (
        1 / 2 - small * (1 / 3 - small * (1 / 4 - small * (1 / 5 - small * (1 / 6 - small / 7))))
    )
    return np.where(np.abs(t) < 1e-2, series, t - log_ratio)


@lru_cache(maxsize=8192)
def _moments(bound: Bound, rate: float, noise_multiplier: float, first: int, last: int) -> np.ndarray:
    orders = np.arange(first, last + 1)
    if bound == "numerical":
        return log_moment(rate, noise_multiplier, orders)
    return rate**2 * orders * (orders + 1) / noise_multiplier**2


@dataclass(frozen=True)
class Moments(Theorem):
    """Moments accountant (Abadi et al. 2016) of Poisson-sampled Gaussian steps, as li2019 used it; add_remove.

    The log moments alpha(lambda) of the steps add up (Theorem 1), and

        epsilon = min over lambda = 1..max_order of (sum of alpha(lambda) + ln(1/delta)) / lambda.

    Differs: the paper defines neighbours as differing in one record. Its Lemma 2 and the code price the addition or
    removal of one record. With replace_one the sensitivity would be 2.

    Attributes
    ----------
    max_order : int >= 1, largest lambda; 32 in the code of Abadi et al. (2016) that the paper refers to.
    bound : {"numerical", "printed"}
        "numerical" integrates the moments (`log_moment`). "printed" takes alpha = q^2 lambda (lambda + 1)/s^2
        (Remark 1) and drops its O(q^3). This formula holds only under Lemma 2's conditions (`violated`).
    """

    max_order: int = 32
    bound: Bound = "numerical"
    adjacencies = ("add_remove",)

    def __post_init__(self) -> None:
        checks.settings(self)
        checks.count(1, max_order=self.max_order)

    @property
    def name(self) -> str:
        return f"Li et al. 2019 ({self.bound}, {self.max_order} orders)"

    def least(self, delta: float) -> float:
        """Return ln(1/delta)/max_order, the smallest epsilon that this accountant can report."""
        return math.inf if delta == 0 else math.log(1 / delta) / self.max_order

    def violated(self, event: DpEvent, delta: float) -> tuple[str, ...]:
        """Return the conditions of Lemma 2 that the steps fail at the best lambda; none for a "numerical" bound."""
        if self.bound == "numerical" or trivial(event, delta) is not None:
            return ()
        epsilon, order = self.best(event, delta)
        if order == 0 or math.isinf(epsilon):
            return ()
        steps = [_step(self.name, leaf) for leaf, _ in leaves(event)]
        return lemma_2(max(q for q, _ in steps), [s for _, s in steps], order)

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        return self.best(event, delta)[0]

    def best(self, event: DpEvent, delta: float) -> tuple[float, int]:
        """Return epsilon and its order (0 where no order is needed).

        alpha is convex in lambda, so (alpha + ln(1/delta))/lambda is quasi-convex, and the search ends where it rises.
        """
        steps = [(*_step(self.name, leaf), count) for leaf, count in leaves(event)]
        steps = [(rate, multiplier, count) for rate, multiplier, count in steps if rate > 0]
        if any(multiplier == 0 for _, multiplier, _ in steps):
            return math.inf, 0
        if delta == 0:
            return (math.inf if steps else 0.0), 0
        found = (math.inf, 0)
        for first in range(1, self.max_order + 1, BLOCK):
            last = min(first + BLOCK - 1, self.max_order)
            total = np.zeros(last - first + 1)
            for rate, multiplier, count in steps:
                total += count * _moments(self.bound, rate, multiplier, first, last)
            epsilons = (total + math.log(1 / delta)) / np.arange(first, last + 1)
            best = int(np.argmin(epsilons))
            found = min(found, (float(epsilons[best]), first + best))
            if epsilons[-1] > found[0]:
                break
        return found


@dataclass(frozen=True)
class Rdp(Theorem):
    """Accountant of Gaussian steps by Renyi differential privacy (Mironov 2017); Poisson samples under add_remove only.

    The divergences of a step are `log_moment`/lambda (Mironov, Talwar, Zhang 2019) at dp_accounting's default orders.
    `dp_accounting.rdp.compute_epsilon` converts them to epsilon.
    Differs: dp_accounting's own divergences are too large at orders that are not integers (18 % at q = .05, multiplier
    1, order 1.5), because its series stops early. Elsewhere they are equal.
    """

    name: str = "RDP"

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        sensitivity, steps = 2 if adjacency == "replace_one" else 1, Counter[tuple[float, float]]()
        for leaf, count in leaves(event):
            rate, multiplier = _step(self.name, leaf)
            if rate < 1 and adjacency == "replace_one":
                raise refuse(self.name, leaf, "Poisson samples need add_remove")
            steps[rate, multiplier / sensitivity] += count
        if any(multiplier == 0 for _, multiplier in steps):
            return math.inf
        total = sum(count * _renyi(rate, multiplier) for (rate, multiplier), count in steps.items())
        return float(compute_epsilon(ORDERS, total, delta)[0])


@lru_cache(maxsize=4096)
def _renyi(rate: float, multiplier: float) -> np.ndarray:
    if rate == 1:
        return ORDERS / (2 * multiplier**2)
    return log_moment(rate, multiplier, ORDERS - 1) / (ORDERS - 1)


def _step(name: str, leaf: DpEvent) -> tuple[float, float]:
    """Return the sampling rate (1: every record) and the noise multiplier of a Gaussian step."""
    if isinstance(leaf, PoissonSampledDpEvent) and isinstance(leaf.event, GaussianDpEvent):
        return leaf.sampling_probability, leaf.event.noise_multiplier
    if isinstance(leaf, GaussianDpEvent):
        return 1.0, leaf.noise_multiplier
    raise refuse(name, leaf, "it prices Gaussian steps, Poisson-sampled or full")
