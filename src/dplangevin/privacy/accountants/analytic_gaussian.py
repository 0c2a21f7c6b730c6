"""Exact (epsilon, delta) of the Gaussian mechanism (Balle, Wang 2018, Theorem 8), equivalently of mu-GDP.

>>> round(epsilon_of(1 / 3.730631635, 1e-5), 8)
1.0
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from dplangevin.privacy.accountants.protocol import Theorem, leaves, nearby, refuse
from dplangevin.privacy.events import Adjacency, check_delta

UNIT = 2.0**-53
NODES, WEIGHTS = (np.polynomial.legendre.leggauss(32) + np.array([[1.0], [0.0]])) / 2  # quadrature on [0, 1]
LARGEST = 1e150  # largest mu; its square is a finite float64
TAIL = 40.0  # weights below exp(-TAIL) are not integrated


def log_delta(mu: float, a: np.ndarray | float) -> np.ndarray:
    """Return the log of `delta_of` as a function of a = epsilon/mu - mu/2 >= -mu, up to `error_of_log`.

    This is log(Phi(-a) - exp(mu a + mu^2/2) Phi(-a - mu)). With M(a) = Phi(-a)/phi(a) this is log(phi(a) (M(a) - M(a +
    mu))). Where both M are nearly equal, their difference is computed as an integral of positive terms: exp(-a t -
    t^2/2) (1 - exp(-mu t)) over t > 0.
    """
    a = np.minimum(np.asarray(a, dtype=float), LARGEST)
    with np.errstate(over="ignore"):
        ratio = erfcx((a + mu) / math.sqrt(2)) / erfcx(a / math.sqrt(2))
    found = log_ndtr(-a) + np.log1p(-np.minimum(ratio, 0.5))
    near = ratio > 0.5
    if np.any(near):
        x = np.atleast_1d(a)[np.atleast_1d(near)][:, None]
        t = 2 * TAIL / (x + np.sqrt(x**2 + 2 * TAIL)) * NODES
        gap = (np.exp(-t * (x + t / 2)) * -np.expm1(-mu * t)) @ WEIGHTS * (t[:, 0] / NODES[0])
        found = np.array(found)
        found[near] = np.log(gap) - x[:, 0] ** 2 / 2 - math.log(2 * math.pi) / 2
    return found


def error_of_log(a: float, log: float) -> float:
    """Return 3 times the largest rounding error that we saw of `log_delta` at a and of the `log` compared with it."""
    return UNIT * (256 + 4 * (a * a + abs(log)))


def delta_of(mu: float, epsilon: np.ndarray | float) -> np.ndarray:
    """Return delta(epsilon >= 0) of the Gaussian mechanism; the relative error is small at any mu > 0.

    ``delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``
    """
    return np.exp(log_delta(mu, np.asarray(epsilon, dtype=float) / mu - mu / 2))


def epsilon_of(mu: float, delta: float) -> float:
    """Return the least epsilon >= 0 with delta_of(mu, epsilon) <= delta, rounded up; inf at delta = 0 or mu > 1e150."""
    check_delta(delta)
    if mu == 0:
        return 0.0
    if delta == 0 or mu > LARGEST:
        return math.inf
    wanted = math.log(delta)

    def missing(scaled: float) -> float:
        a = scaled - mu / 2
        return float(log_delta(mu, a)) + error_of_log(a, wanted) - wanted

    scaled = root_from_above(missing, mu / 2 + math.sqrt(-2 * wanted))
    return math.nextafter(mu * scaled * (1 + 4 * UNIT), math.inf) if scaled > 0 else 0.0


def root_from_above(missing: Callable[[float], float], high: float) -> float:
    """Return the least x >= 0 found with missing(x) <= 0, for a decreasing function with a root below about `high`."""
    if missing(0.0) <= 0:
        return 0.0
    while missing(high) > 0:
        high *= 2
    found = float(brentq(missing, 0.0, high, xtol=1e-300, rtol=8 * UNIT, maxiter=10_000))
    grow = 2 * UNIT
    while missing(found) > 0:
        found *= 1 + grow
        grow *= 2
    return found


def mu_of(noise_multiplier: float, adjacency: Adjacency) -> float:
    """Return mu = 1/z for add_remove and 2/z for replace_one, with z = noise std / record norm."""
    sensitivity = 2.0 if adjacency == "replace_one" else 1.0
    return sensitivity / noise_multiplier if noise_multiplier > 0 else math.inf


@dataclass(frozen=True)
class AnalyticGaussian(Theorem):
    """Accountant of Gaussian mechanisms, their compositions (mu^2 adds up), and a NearbyDpEvent of one; exact."""

    name: str = "analytic Gaussian"

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        price = nearby(event, delta, lambda inner, spare: self.epsilon(inner, spare, adjacency))
        if price is not None:
            return price
        each = []
        for leaf, count in leaves(event):
            if not isinstance(leaf, GaussianDpEvent):
                raise refuse(
                    self.name, leaf, "only Gaussian mechanisms without sampling have this closed form"
                )
            each.append(math.sqrt(count) * mu_of(leaf.noise_multiplier, adjacency))
        return epsilon_of(math.hypot(*each) * (1 + 16 * UNIT), delta)
