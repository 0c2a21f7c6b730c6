"""Exact privacy of mechanisms with few outputs, and exact laws of chains on few points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement, product

import numpy as np
from scipy.special import gammaln, logsumexp

# Privacy


def worst_ratio(table: np.ndarray, mass: float, n: int) -> float:
    """Return the largest |log ratio| of posteriors of neighbours; `table` is log p(x|theta), (3 parameters, points)."""
    prior = np.log([mass, (1 - mass) / 2, (1 - mass) / 2])
    worst = 0.0
    for others in combinations_with_replacement(range(table.shape[1]), n - 1):
        joint = (prior + table[:, list(others)].sum(1))[:, None] + table
        log_posterior = joint - logsumexp(joint, axis=0)
        worst = max(worst, float(np.ptp(log_posterior, axis=1).max()))
    return worst


def worst_within(p: np.ndarray, q: np.ndarray, epsilon: float, distance: float) -> float:
    """Return the largest P'(S) - e^epsilon Q'(S) over events S, P' within the L1 `distance` of p, and Q' of q."""
    worst = 0.0
    for bits in product((False, True), repeat=len(p)):
        event = np.array(bits)
        first, second = float(p[event].sum()), float(q[event].sum())
        moved = min(first + distance / 2, 1.0) if event.any() else 0.0
        worst = max(worst, moved - math.exp(epsilon) * max(second - distance / 2, 0.0))
    return worst


def composed(k: int, epsilon: float, delta: float, total: float) -> float:
    """Return the exact delta at `total` of the worst k-fold adaptive composition of (epsilon, delta)-DP mechanisms."""
    flips = np.arange(k + 1)
    log = gammaln(k + 1) - gammaln(flips + 1) - gammaln(k - flips + 1) - k * np.logaddexp(0, epsilon)
    log += (k - flips) * epsilon  # log probability of that number of flips in k randomised responses
    over = (k - 2 * flips) * epsilon - total
    pure = float((np.exp(log) * -np.expm1(-np.maximum(over, 0))).sum())
    return -math.expm1(k * math.log1p(-delta) + math.log1p(-pure))


def transcripts(channels: Sequence[Sequence[float]], rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the 2^rounds probabilities on X and on X' of binary mechanisms, chosen by the number of ones so far."""
    table = np.asarray(channels, dtype=float)
    p, q, ones = np.ones(1), np.ones(1), np.zeros(1, dtype=int)
    for _ in range(rounds):
        one, other = table[ones % len(table)].T
        p = np.concatenate([p * (1 - one), p * one])
        q = np.concatenate([q * (1 - other), q * other])
        ones = np.concatenate([ones, ones + 1])
    return p, q


def finite_moment(p: np.ndarray, q: np.ndarray, order: float) -> float:
    """Return alpha(lambda) of the moments accountant for one pair of laws (K,), in the larger direction."""
    loss = np.log(p) - np.log(q)
    directions = (np.logaddexp.reduce(np.log(of) + sign * order * loss) for of, sign in ((p, 1), (q, -1)))
    return float(max(directions))


# Chains


def fixed_point(move: np.ndarray) -> np.ndarray:
    """Return the stationary law ``(points,)`` of the transition matrix `move`, whose rows sum to one."""
    system = move.T - np.eye(len(move))
    system[-1] = 1.0  # the law sums to one
    return np.asarray(np.linalg.solve(system, np.eye(len(move))[-1]))


def moments(theta: np.ndarray, law: np.ndarray) -> tuple[float, float]:
    """Return the mean and variance of a law ``(points,)`` on the lattice theta."""
    mean = float(law @ theta)
    return mean, float(law @ (theta - mean) ** 2)


def metropolis(law: np.ndarray, steps: int) -> np.ndarray:
    """Return the law after `steps` steps of a Metropolis chain from 0 on 0..K-1; both neighbours are proposed."""
    count = len(law)
    move = np.zeros((count, count))
    for i in range(count):
        for j in (i - 1, i + 1):
            if 0 <= j < count:
                move[i, j] = 0.5 * min(1.0, law[j] / law[i])
        move[i, i] = 1 - move[i].sum()
    return np.asarray(np.linalg.matrix_power(move, steps)[0])
