"""The moments accountant by quadrature and by spline, and the tail bound that it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from dplangevin.privacy.accountants.moments_accountant import log_moment
from dplangevin.privacy.events import Adjacency
from dplangevin.privacy.gaussian_steps import StepSchedule

ORDERS = np.geomspace(1.0, 4000.0, 200)  # lambda of the moments accountant
LEVELS = 9  # noise multipliers of a decreasing schedule at which alpha is computed, a spline between them
SIDE = 12.0  # of a quadrature, in standard deviations on each side


def sampled_moment(rate: float, multiplier: float, orders: np.ndarray, adjacency: Adjacency) -> np.ndarray:
    """Compute alpha(lambda) = log E_P (P/Q)^lambda ``(K,)`` of a Poisson-sampled Gaussian step by the trapezoid rule.

    P = (1 - q) N(0, s^2) + q N(1, s^2); Q = N(0, s^2), or (1 - q) N(0, s^2) + q N(-1, s^2) for a replaced record. As
    log(1 + E_Q [(1 + t)^a - 1 - a t]), t = P/Q - 1, a = lambda + 1, it loses no digits where alpha is small.
    """
    a = np.asarray(orders, dtype=float)[:, None] + 1
    end = SIDE + a.max() / multiplier
    x = np.arange(-end, end, 0.05)
    up, down = (sign * x / multiplier - 1 / (2 * multiplier**2) for sign in (1, -1))
    log_keep, log_rate = math.log1p(-rate), math.log(rate)
    log_p = np.logaddexp(log_keep, log_rate + up)
    log_q = np.logaddexp(log_keep, log_rate + down) if adjacency == "replace_one" else np.zeros_like(x)
    log_base = log_q - x**2 / 2 - math.log(math.sqrt(2 * math.pi))
    gap = log_p - log_q
    t = np.expm1(np.minimum(gap, 700.0))
    power = a * gap
    small = power < 30
    near = np.exp(log_base) * (np.expm1(np.where(small, power, 0.0)) - a * t)
    far = np.exp(log_base + power) - np.exp(log_base) - a * np.exp(log_base + np.minimum(gap, 700.0))
    return np.log1p(np.where(small, near, far).sum(axis=1) * 0.05)


def moments_price(rate: float, multiplier: float, steps: int, delta: float, schedule: StepSchedule) -> float:
    """Return min over ORDERS of (sum_t alpha_t(lambda) + ln(1/delta))/lambda for add_remove neighbours.

    In a decreasing schedule, of T > 1 steps, step t has the multiplier s t^(1/6).
    """
    if schedule == "fixed":
        total = steps * log_moment(rate, multiplier, ORDERS)
    else:
        levels = np.linspace(0.0, math.log(steps) / 6, LEVELS)
        moments = np.stack([log_moment(rate, multiplier * math.exp(level), ORDERS) for level in levels])
        curve = CubicSpline(levels, np.log(moments))
        # cells of t; the first holds only t = 1
        edges = np.unique(np.floor(np.geomspace(1, steps + 1, 400)).astype(int))
        counts, middle = np.diff(edges), np.sqrt(edges[:-1] * (edges[1:] - 1.0))
        total = counts @ np.exp(curve(np.log(middle) / 6))
    return float(((total + math.log(1 / delta)) / ORDERS).min())


def tail_bound(moment: Callable[[float], float], epsilon: float) -> float:
    """Return min over lambda in [e^-6, e^6] of exp(alpha(lambda) - lambda epsilon), at most 1, for convex alpha."""

    def exponent(log_order: float) -> float:
        return moment(math.exp(log_order)) - math.exp(log_order) * epsilon

    best = minimize_scalar(exponent, bounds=(-6.0, 6.0), method="bounded", options={"xatol": 1e-9})
    return math.exp(min(float(best.fun), 0.0))


def sampled_delta(rate: float, multiplier: float, epsilon: float) -> float:
    """Return the exact delta(epsilon) of (1 - q) N(0, s^2) + q N(1, s^2), with the record, against N(0, s^2)."""
    edge = multiplier**2 * math.log1p(math.expm1(epsilon) / rate) + 0.5  # where the loss is epsilon
    moved, rest = ndtr((1 - edge) / multiplier), ndtr(-edge / multiplier)
    return float(rate * moved - (math.expm1(epsilon) + rate) * rest)
