"""Renyi accountant at dp_accounting's default orders."""

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent
from dp_accounting import PoissonSampledDpEvent as Poisson
from dp_accounting import SampledWithoutReplacementDpEvent as WithoutReplacement
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import compute_epsilon
from scipy.special import gammaln, logsumexp

from dplangevin.privacy.accountants.li2019 import log_moment
from dplangevin.privacy.accountants.protocol import Theorem, leaves, refuse
from dplangevin.privacy.events import Adjacency
from dplangevin.privacy.selection import check_runs, gamma

ORDERS = np.concatenate([np.arange(11, 110) / 10, np.arange(11, 64), [128, 256, 512, 1024]])
EXACT = 256  # up to this order each term of `without_replacement` is the smaller bound


@dataclass(frozen=True)
class Rdp(Theorem):
    """Accountant of Gaussian steps by Renyi differential privacy (Mironov 2017).

    add_remove and zero_out cover full steps and Poisson sampling (Mironov, Talwar, Zhang 2019), by `log_moment`.
    replace_one covers full steps and sampling without replacement. `dp_accounting.rdp.compute_epsilon` converts the
    divergences at all orders to epsilon. The best of a random number of runs has those of `repeated`.
    Differs: dp_accounting's own divergences of Poisson sampling are too large at orders that are not integers (18 % at
    q = .05, multiplier 1, order 1.5), because its series stops early. Its divergences of sampling without replacement
    lose their digits where the noise is large. Elsewhere its divergences equal ours.
    """

    name: str = "RDP"

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        return float(compute_epsilon(ORDERS, self._divergences(event, adjacency), delta)[0])

    def _divergences(self, event: DpEvent, adjacency: Adjacency) -> np.ndarray:
        steps: defaultdict[tuple[float, float], int] = defaultdict(int)
        total = np.zeros(len(ORDERS))
        for leaf, count in leaves(event):
            if isinstance(leaf, RepeatAndSelectDpEvent):
                total += count * repeated(self._divergences(leaf.event, adjacency), leaf.mean, leaf.shape)
            else:
                steps[self._step(leaf, adjacency)] += count
        if any(multiplier == 0 for _, multiplier in steps):
            return np.full(len(ORDERS), math.inf)
        one = _without_replacement if adjacency == "replace_one" else _poisson
        return total + sum(count * one(rate, multiplier) for (rate, multiplier), count in steps.items())

    def _step(self, leaf: DpEvent, adjacency: Adjacency) -> tuple[float, float]:
        """Return the sampling rate, and the noise multiplier relative to the sensitivity."""
        sensitivity = 2 if adjacency == "replace_one" else 1
        gaussian = leaf if isinstance(leaf, GaussianDpEvent) else getattr(leaf, "event", None)
        if not isinstance(gaussian, GaussianDpEvent):
            raise refuse(self.name, leaf, "it prices Gaussian steps, sampled or full")
        multiplier = gaussian.noise_multiplier / sensitivity
        if leaf is gaussian:
            return 1.0, multiplier
        if isinstance(leaf, Poisson) and adjacency != "replace_one":
            return leaf.sampling_probability, multiplier
        if isinstance(leaf, WithoutReplacement) and adjacency == "replace_one":
            return leaf.sample_size / leaf.source_dataset_size, multiplier
        raise refuse(self.name, leaf, "Poisson samples need add_remove or zero_out, subsets need replace_one")


def repeated(renyi: np.ndarray, mean: float, shape: float) -> np.ndarray:
    """Return the Renyi divergences (K,) of the best of a random number of runs from those of one, r, at ORDERS.

    Negative binomial (Theorem 2): r(a) + (1 + eta) ((1 - 1/b) r(b) + log(1/gamma)/b) + log(mean)/(a - 1), for the best
    order b. Poisson (Theorem 6): r(a) + mean d + log(mean)/(a - 1), where one run is (e, d)-DP with exp(e) = 1 + 1/(a
    - 1).

    Source: Papernot, Steinke (2022), Theorems 2 and 6.
    """
    check_runs(mean, shape)
    alike = math.log(mean) / (ORDERS - 1)
    if shape < math.inf:
        order = (1 - 1 / ORDERS) * renyi - math.log(gamma(mean, shape)) / ORDERS
        return renyi + alike + (1 + shape) * float(order.min())
    epsilon = np.log1p(1 / (ORDERS - 1))[:, None]
    deltas = np.exp(
        np.minimum((ORDERS - 1) * (renyi - epsilon + np.log1p(-1 / ORDERS)) - np.log(ORDERS), 0.0)
    )
    return renyi + alike + mean * deltas.min(axis=1)


@lru_cache(maxsize=4096)
def _poisson(rate: float, multiplier: float) -> np.ndarray:
    if rate == 1:
        return ORDERS / (2 * multiplier**2)
    return log_moment(rate, multiplier, ORDERS - 1) / (ORDERS - 1)


@lru_cache(maxsize=4096)
def _without_replacement(rate: float, multiplier: float) -> np.ndarray:
    """Return the Renyi divergences of a step sampled without replacement, at ORDERS.

    (alpha - 1) times the divergence is interpolated linearly between integer orders and is 0 at alpha = 1
    (Corollary 10 of Wang, Balle, Kasiviswanathan 2019).
    """
    if rate == 1:
        return ORDERS / (2 * multiplier**2)
    whole = np.unique(np.concatenate([np.floor(ORDERS), np.ceil(ORDERS)]))[1:]
    return np.interp(ORDERS, [1, *whole], [0, *without_replacement(rate, multiplier, whole)]) / (ORDERS - 1)


def without_replacement(rate: float, multiplier: float, orders: np.ndarray) -> np.ndarray:
    """Return (alpha - 1) times the Renyi divergence of a Gaussian step sampled without replacement, (K,), replace_one.

    With r(i) = i (i - 1)/(2 s^2), B(i) = E (mu/mu0 - 1)^i, and s the multiplier relative to the sensitivity, it is

        log(1 + sum over i = 2..alpha of C(alpha, i) q^i m(i)),
        m(i) = min(4 sqrt(B(2 floor(i/2)) B(2 ceil(i/2))), 2 exp r(i)).

    Above order 256 the minimum is its second argument, as in dp_accounting.

    Source: Wang, Balle, Kasiviswanathan (2019), Theorem 27.
    """
    i = np.arange(2, int(orders.max()) + 1)
    crude = math.log(2) + i * (i - 1) / (2 * multiplier**2)
    fine = np.full(len(i), np.inf)
    few = i[i <= EXACT]
    even = np.concatenate(
        [[0.0], _central_moments(multiplier, np.arange(2, EXACT + 3, 2))]
    )  # B at 0, 2, 4, ...
    fine[: len(few)] = math.log(4) + (even[few // 2] + even[(few + 1) // 2]) / 2
    a = orders[:, None]
    term = gammaln(a + 1) - gammaln(i + 1) - gammaln(np.maximum(a - i, 0) + 1) + i * math.log(rate)
    term = term + np.where(
        a <= EXACT, np.minimum(crude, fine), np.where(i == 2, np.minimum(crude, fine), crude)
    )
    total = logsumexp(np.where(i <= a, term, -np.inf), axis=1)
    return np.logaddexp(0.0, total)


def _central_moments(s: float, powers: np.ndarray) -> np.ndarray:
    """Return log E_mu0 (mu/mu0 - 1)^i for even i, with mu0 = N(0, s^2) and mu = N(1, s^2).

    The trapezoid rule at spacing 1/2 in x/s has an error of exp(-8 pi^2), see `li2019.log_moment`.
    """
    u = np.arange(-9, powers.max() / s + 9, 0.5)
    v = u / s - 1 / (2 * s * s)
    far = np.maximum(v, 1.0)
    near = np.log(np.maximum(np.abs(np.expm1(np.minimum(v, 1.0))), 1e-300))
    size = np.where(v > 1, far + np.log1p(-np.exp(-far)), near)
    return logsumexp(powers[:, None] * size - u**2 / 2, axis=1) + math.log(0.5 / math.sqrt(2 * math.pi))
