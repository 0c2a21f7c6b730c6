"""Textbook mechanisms, and methods of the package, that keep what they claim for a replaced record.

Each takes X (n, 2) with rows of norm at most 1, labels 0 and 1, a number of runs and a generator.  It returns
an array (runs, k) of releases.  The claim is exact: no less epsilon would do for the worst pair.
"""

from collections.abc import Callable
from math import exp, log

import numpy as np
import torch
from scipy.optimize import brentq

from dplangevin import Budget, Glm, ObjPert, OutPert
from dplangevin.methods import Execution, Method, planned
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of

Mechanism = Callable[[np.ndarray, np.ndarray, int, np.random.Generator], np.ndarray]
MU = brentq(lambda mu: epsilon_of(mu, 1e-5) - 1, 0.01, 1)
PURE, APPROXIMATE = Budget(1.0, 0.0), Budget(1.0, 1e-5)


def laplace_sum(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    total = X[:, :1].clip(-1, 1).sum(0)
    return total + rng.laplace(0, 2, (runs, 1))


def laplace_histogram(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    return np.bincount(y, minlength=2) + rng.laplace(0, 2, (runs, 2))


def geometric_count(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    p = 1 - exp(-1)
    return y.sum() + rng.geometric(p, (runs, 1)) - rng.geometric(p, (runs, 1))


def randomised_labels(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random((runs, len(y))) < 1 / (1 + exp(1)), 1 - y, y)


def exponential_mechanism(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    weights = np.exp(0.5 * np.bincount(y, minlength=2))
    return (rng.random((runs, 1)) < weights[1] / weights.sum()).astype(float)


def noisy_max(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    votes = np.bincount(y, minlength=2) + rng.laplace(0, 2, (runs, 2))
    return votes.argmax(1)[:, None].astype(float)


def rounded_mean(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    """The number of rows is public under replaced records; rounding and clipping are post-processing."""
    mean = X[:, 0].clip(-1, 1).mean() + rng.laplace(0, 2 / len(X), (runs, 1))
    return mean.clip(-1, 1).round(1)


def gaussian_sum(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    return X.sum(0) + 2 / MU * rng.normal(size=(runs, 2))


def sampled_sum(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    """Each record takes part with probability q: ``log(1 + q (e^a - 1))`` is 1 (Balle et al., 2018)."""
    q = 0.5
    inner = log(1 + (exp(1) - 1) / q)
    chosen = rng.random((runs, len(X))) < q
    return (chosen @ X[:, 0].clip(-1, 1))[:, None] + rng.laplace(0, 2 / inner, (runs, 1))


def of(method: Method) -> Mechanism:
    """The releases of a method of the package, all runs at once."""

    def mechanism(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
        problem = Glm.from_arrays(X, y, row_bound=1.0, classes=[0, 1])
        plans = planned(method, problem.facts, [APPROXIMATE])
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        return method.release(problem, plans, Execution(runs, generator)).theta[:, 0, -1].double().numpy()

    return mechanism


RIGHT: dict[str, tuple[Mechanism, Budget]] = {
    **{
        each.__name__: (each, PURE)
        for each in (
            laplace_sum,
            laplace_histogram,
            geometric_count,
            randomised_labels,
            exponential_mechanism,
            noisy_max,
            rounded_mean,
            sampled_sum,
        )
    },
    "gaussian_sum": (gaussian_sum, APPROXIMATE),
    "objpert": (of(ObjPert()), APPROXIMATE),
    "outpert": (of(OutPert()), APPROXIMATE),
}
