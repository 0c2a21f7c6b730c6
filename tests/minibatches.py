"""Minibatches of every sampler, and the epsilon of a Gaussian mechanism, for the tests of receipts."""

import numpy as np

from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of

DELTA = 1e-5
RNG = np.random.default_rng(5)
Rows = list[np.ndarray]


def poisson(n: int, b: int, steps: int) -> Rows:
    return [np.flatnonzero(RNG.random(n) < b / n) for _ in range(steps)]


def subset(n: int, b: int, steps: int) -> Rows:
    return [RNG.choice(n, b, replace=False) for _ in range(steps)]


def epochs(n: int, b: int, steps: int, drop: bool = False, shuffle: bool = True) -> Rows:
    found: Rows = []
    while len(found) < steps:
        order = RNG.permutation(n) if shuffle else np.arange(n)
        found += [order[at : at + b] for at in range(0, n // b * b if drop else n, b)]
    return found[:steps]


def allocated(n: int, b: int, steps: int) -> Rows:
    drawn = (RNG.integers(0, n // b, n) for _ in range(steps // (n // b) + 1))
    return [np.flatnonzero(step == at) for step in drawn for at in range(n // b)][:steps]


def replaced(n: int, b: int, steps: int, weights: float = 1.0) -> Rows:
    share = np.where(np.arange(n) < n // 5, weights, 1.0)
    return [RNG.choice(n, b, p=share / share.sum()) for _ in range(steps)]


def gaussian(mu: float, delta: float = DELTA) -> float:
    return epsilon_of(mu, delta)
