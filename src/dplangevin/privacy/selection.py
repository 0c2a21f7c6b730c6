"""What tuning costs: a mechanism runs a random number of times, and the best result is released.

`dp_accounting.RepeatAndSelectDpEvent(event, mean, shape)` says that `event` ran K times. K is Poisson (shape inf) or
truncated negative binomial (shape eta >= 0; 0: logarithmic, 1: geometric). Only the best result is released, by an
order that is fixed beforehand. Whatever the order looks at is part of the result of a run, and so of `event`.

Source: Papernot, Steinke (2022), "Hyperparameter tuning with Renyi differential privacy".
"""

import math
from collections.abc import Callable

import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from scipy.optimize import brentq

from dplangevin.checks import require
from dplangevin.privacy.curve import Curve

LEVELS = 20_000  # probabilities p between which `_kinks` rounds up
LOWEST = 1e-7  # least p > 0, relative to 1/mean
BELOW = 30.0  # the least delta of the curve is delta/mean divided by this


def check_runs(mean: float, shape: float) -> None:
    """Raise ValueError unless the law of the number of runs exists."""
    require(1 <= mean < math.inf, f"mean number of runs = {mean} must be in [1, inf)")
    require(shape >= 0, f"shape = {shape} must be in [0, inf]: 0 logarithmic, 1 geometric, inf Poisson")


def gamma(mean: float, shape: float) -> float:
    """Return the parameter gamma in (0, 1] of the truncated negative binomial law with this mean.

    P(K = k) is proportional to (1 - gamma)^k Gamma(k + eta)/k! for k >= 1. The mean is eta (1 - gamma)/(gamma (1 -
    gamma^eta)), and (1/gamma - 1)/log(1/gamma) at eta = 0.
    """
    check_runs(mean, shape)
    if shape == 1 or mean == 1:
        return 1 / mean

    def excess(log: float) -> float:
        """Return log(mean at gamma = exp(-log) / wanted mean)."""
        whole = -math.expm1(-shape * log) / shape if shape > 0 else log
        return math.log(math.expm1(log) / whole / mean)

    high = 1.0
    while excess(high) < 0:
        high *= 2
    return math.exp(-float(brentq(excess, 1e-12, high, xtol=1e-15, rtol=1e-14)))


def weight(p: np.ndarray, mean: float, shape: float) -> np.ndarray:
    """Return f'(1 - p)/f'(1), where f is the probability generating function of K and f'(1) its mean.

    The released result has density f'(1 - p) with respect to one run's, where p in [0, 1] is the probability of a
    better result of one run.
    """
    if shape == math.inf:
        return np.exp(-mean * p)
    least = gamma(mean, shape)
    return (least / (least + (1 - least) * p)) ** (shape + 1)


def selected(event: RepeatAndSelectDpEvent, delta: float, price: Callable[[DpEvent, float], float]) -> float:
    """Return an epsilon of the best of a random number of runs at delta, from the whole curve of one run.

    Let q, q' be the densities of one run on neighbours, and p, p' the probabilities of a better result. The release
    has the densities f'(1 - p) q and f'(1 - p') q'. With `Curve.power` G, p' <= G(p), and f' does not decrease. With
    w(p) = f'(1 - p)/E K and t = q/q',

        delta(epsilon) <= E K integral q' H(t),   H(t) = sup_p max(0, w(p) t - e^epsilon w(G(p))).

    H is convex, increasing and 0 at 0, so it is a sum of terms m_j max(0, t - t_j) with m_j > 0. The integral is the
    sum of m_j delta_1(log t_j), with delta_1 the curve of one run. p runs over a grid, between whose points w(p) is
    taken at the lower and w(G(p)) at the upper one, so H is never understated. Ties of the order are broken at random.
    A Poisson K of 0 releases nothing, with the same probability on neighbours.

    This is below Theorems 2 and 6 of Papernot and Steinke, which `Rdp` has. At delta = 0 and for a negative binomial
    it is epsilon_1 + (1 + eta) log((gamma + e^epsilon_1)/(1 + gamma e^epsilon_1)), at most their (2 + eta) epsilon_1.
    """
    mean, shape = event.mean, event.shape
    check_runs(mean, shape)
    if mean == 1 and shape < math.inf:
        return price(event.event, delta)
    if delta == 0:
        pure = price(event.event, 0.0)
        if pure == math.inf:
            return math.inf
        curve = Curve(np.array([pure]), np.array([0.0]))
    else:
        curve = Curve.of(lambda each: price(event.event, each), min(delta / mean / BELOW, 1e-3))
    mass, shift = _kinks(curve, mean, shape)
    if delta == 0:
        return max(0.0, pure - float(shift.min()))

    def spent(epsilon: float) -> float:
        return mean * float(mass @ curve.delta_at(epsilon + shift))

    high = 1.0
    while spent(high) > delta:
        high *= 2
        if high > 1e6:
            return math.inf
    low = 0.0
    if spent(low) <= delta:
        return 0.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if spent(middle) <= delta else (middle, high)
    return high


def _kinks(curve: Curve, mean: float, shape: float) -> tuple[np.ndarray, np.ndarray]:
    """Return m_j and log t_j - epsilon of `selected`, which do not depend on epsilon."""
    p = np.append(0.0, np.geomspace(LOWEST / mean, 1.0, LEVELS))
    slopes = weight(p, mean, shape)[:-1]
    offsets = weight(curve.power(p), mean, shape)[1:]
    slopes, first = np.unique(slopes[::-1], return_index=True)
    offsets = offsets[::-1][first]
    hull = [(0.0, 0.0, 0.0)]  # slope, offset, and the t from which this line is the highest
    for slope, offset in zip(slopes[slopes > 0].tolist(), offsets[slopes > 0].tolist(), strict=True):
        start = (offset - hull[-1][1]) / (slope - hull[-1][0])
        while len(hull) > 1 and start <= hull[-1][2]:
            hull.pop()
            start = (offset - hull[-1][1]) / (slope - hull[-1][0])
        hull.append((slope, offset, start))
    mass = np.diff([slope for slope, _, _ in hull])
    return mass, np.log(np.maximum([start for _, _, start in hull[1:]], 1e-300))
