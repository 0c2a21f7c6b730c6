"""How slowly Algorithm 1 of li2019 mixes between two modes."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh_tridiagonal


def relaxation_time(step: float, barrier: float) -> float:
    """Return -1/ln of the slowest eigenvalue of SGLD on two modes, the steps in which it falls by a factor e.

    U(x) = B (x^2 - 1)^2 where U''/N at the modes is 1: x' = x - (eta/2) x (x^2 - 1) + N(0, eta/(8 B)), eta in (0, 1].
    The slowest eigenfunction is odd, so the midpoint rule on x > 0 is enough.
    """
    noise = math.sqrt(step / (8 * barrier))
    x = np.arange(noise / 4, math.sqrt(1 + math.sqrt(30 / barrier)), noise / 2)
    mean = x - step / 2 * x * (x**2 - 1)
    to, across = (np.exp(-(((sign * x[None, :] - mean[:, None]) / noise) ** 2) / 2) for sign in (1, -1))
    matrix = (to - across) / (2 * math.sqrt(2 * math.pi))
    return -1 / math.log(np.linalg.eigvals(matrix).real.max())


def diffusion_time(barrier: float) -> float:
    """Return the limit of eta times `relaxation_time` as eta goes to 0, on a reversible walk on a grid.

    It is 1 over the least odd eigenvalue of minus the generator f -> f''/(16 B) - x (x^2 - 1) f'/2.
    """
    spacing = 1e-3
    x = np.arange(spacing / 2, math.sqrt(1 + math.sqrt(30 / barrier)), spacing)
    potential = 2 * barrier * (x**2 - 1) ** 2
    between = 2 * barrier * (((x[:-1] + x[1:]) / 2) ** 2 - 1) ** 2
    up, down = np.exp(potential[:-1] - between), np.exp(potential[1:] - between)
    leave = np.append(up, 0.0) + np.insert(down, 0, 0.0)
    leave[0] += 2 * math.exp(potential[0] - 2 * barrier)  # an odd function changes its sign across 0
    least = eigh_tridiagonal(leave, -np.sqrt(up * down), eigvals_only=True, select="i", select_range=(0, 0))
    return 16 * barrier * spacing**2 / float(least[0])
