"""Textbook mechanisms that keep what they claim for a replaced record.

Each takes X (n, 2) with rows of norm at most 1, labels 0 and 1, a number of runs and a generator.  It returns
an array (runs, k) of releases.  The claim is exact: no less epsilon would do for the worst pair.
"""

from collections.abc import Callable
from math import exp

import numpy as np
from scipy.optimize import brentq

from dplangevin import Budget
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of

Mechanism = Callable[[np.ndarray, np.ndarray, int, np.random.Generator], np.ndarray]
MU = brentq(lambda mu: epsilon_of(mu, 1e-5) - 1, 0.01, 1)


def laplace_sum(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    total = X[:, :1].clip(-1, 1).sum(0)
    return total + rng.laplace(0, 2, (runs, 1))


def geometric_count(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    p = 1 - exp(-1)
    return y.sum() + rng.geometric(p, (runs, 1)) - rng.geometric(p, (runs, 1))


def randomised_labels(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random((runs, len(y))) < 1 / (1 + exp(1)), 1 - y, y)


def rounded_mean(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    """The number of rows is public under replaced records; rounding and clipping are post-processing."""
    mean = X[:, 0].clip(-1, 1).mean() + rng.laplace(0, 2 / len(X), (runs, 1))
    return mean.clip(-1, 1).round(1)


def gaussian_sum(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    return X.sum(0) + 2 / MU * rng.normal(size=(runs, 2))


PURE, APPROXIMATE = Budget(1.0, 0.0), Budget(1.0, 1e-5)
RIGHT: dict[str, tuple[Mechanism, Budget]] = {
    "laplace_sum": (laplace_sum, PURE),
    "geometric_count": (geometric_count, PURE),
    "randomised_labels": (randomised_labels, PURE),
    "rounded_mean": (rounded_mean, PURE),
    "gaussian_sum": (gaussian_sum, APPROXIMATE),
}
