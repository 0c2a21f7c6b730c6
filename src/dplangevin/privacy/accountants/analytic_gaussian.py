"""Exact (epsilon, delta) of the Gaussian mechanism (Balle, Wang 2018, Theorem 8), equivalently of mu-GDP.

>>> round(epsilon_of(1 / 3.730631635, 1e-5), 8)
1.0
"""

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent
from scipy.optimize import brentq
from scipy.special import log_ndtr

from dplangevin.privacy.accountants.protocol import leaves, nearby, refuse, trivial
from dplangevin.privacy.events import Adjacency, check_adjacency, check_delta


def delta_of(mu: float, epsilon: np.ndarray | float) -> np.ndarray:
    """delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), in log space.

    mu: sensitivity / noise std, > 0. epsilon: array >= 0. Returns an array of the same shape, relatively
    accurate in the tail.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return np.exp(first) * -np.expm1(np.minimum(second - first, 0.0))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 with delta_of(mu, epsilon) <= delta; inf at delta = 0 or mu = inf."""
    check_delta(delta)
    if mu == 0:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return math.inf
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(mu, high) > delta:
        high *= 2
    root = brentq(lambda e: float(delta_of(mu, e)) / delta - 1, 0.0, high, xtol=1e-300, rtol=1e-14)
    return float(root) * (1 + 1e-13)


def mu_of(noise_multiplier: float, adjacency: Adjacency) -> float:
    """mu of a Gaussian mechanism: 1/z for add_remove, 2/z for replace_one (z: noise std / record norm)."""
    sensitivity = 2.0 if adjacency == "replace_one" else 1.0
    return sensitivity / noise_multiplier if noise_multiplier > 0 else math.inf


@dataclass(frozen=True)
class AnalyticGaussian:
    """Prices Gaussian mechanisms and their compositions: mu^2 adds up."""

    name: str = "analytic Gaussian"

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Exact epsilon at delta. event: GaussianDpEvents, composed at will, or a NearbyDpEvent of them."""
        check_adjacency(adjacency, who=self.name)
        price = trivial(event, delta)
        if price is None:
            price = nearby(event, delta, lambda inner, spare: self.epsilon(inner, spare, adjacency))
        if price is not None:
            return price
        square = 0.0
        for leaf, count in leaves(event):
            if not isinstance(leaf, GaussianDpEvent):
                raise refuse(
                    self.name, leaf, "only Gaussian mechanisms without sampling have this closed form"
                )
            square += count * mu_of(leaf.noise_multiplier, adjacency) ** 2
        return epsilon_of(math.sqrt(square), delta)
