"""Empirical audit: from runs of a mechanism on two neighbouring data sets to lower bounds on its epsilon and mu.

If a mechanism is (epsilon, delta)-DP then ``P(E) <= e^epsilon Q(E) + delta`` for every event E and for (P, Q) either
order of its laws on the two data sets, so

    epsilon >= log((p - delta)/q),   p <= P(E), q >= Q(E).

E is a half-line of a statistic.  Order, side, threshold, and the statistic where there are several, are chosen on one
half of the runs; p and q are Clopper-Pearson limits from the other half, where each fails with probability at most
(1 - confidence)/2.

The bound on epsilon holds for any mechanism.  If the mechanism is mu-GDP then ``Phi^-1(P(E)) - Phi^-1(Q(E)) <= mu`` as
well (Dong, Roth and Su 2022, Definition 4), which gives a lower bound on mu.  An epsilon computed from that mu, by
`analytic_gaussian.epsilon_of`, is a statement about mechanisms known to be GDP only.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri

from dplangevin.privacy.events import check_delta

EXTREMES = 64  # smallest and largest values that are all tried as thresholds
RANKS = 400  # further thresholds in each tail, in geometric steps of rank, and as many evenly spaced
STRICTER = (
    1000  # so much less error is allowed in choosing, or the choice would fall on lucky counts in the tails
)


class Audit(NamedTuple):
    """Lower bounds at the given confidence, each on its own (not jointly).

    epsilon: at delta, >= 0.  mu: of any mu-GDP mechanism, >= 0; mu_estimate: the same without margins of error, at mu's
    threshold.  runs: per data set.
    """

    epsilon: float
    delta: float
    confidence: float
    mu: float
    mu_estimate: float
    runs: int


class _Test(NamedTuple):
    """An event: {x >= threshold} or {x < threshold} for x = statistic `which`; flipped: the second data set plays P."""

    which: int
    threshold: float
    below: bool
    flipped: bool


def audit(first: np.ndarray, second: np.ndarray, delta: float, confidence: float = 0.95) -> Audit:
    """Lower bounds from statistics of independent runs on each data set, ``(runs,)`` or ``(runs, k)``; runs >= 8.

    Entry i of `first` may depend on entry i of `second` (common random numbers), never on another i: even
    positions choose, odd positions bound.  Infinite values are allowed.  delta in [0, 1); confidence in (0, 1).
    Raises ValueError for other delta or confidence, arrays of different or too small size, nan.
    """
    check_delta(delta)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence} must be in (0, 1); 0.95 is usual")
    first, second = _checked(first, "first"), _checked(second, "second")
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} runs: audit needs as many on either data set")
    error = (1 - confidence) / 2
    kept = first[1::2], second[1::2]
    strict = error / STRICTER
    best: dict[str, tuple[float, _Test]] = {}
    for which, below in product(range(first.shape[1]), (False, True)):
        seen = np.sort(first[::2, which]), np.sort(second[::2, which])
        thresholds = _thresholds(*seen)
        counts = [np.searchsorted(values, thresholds, "left") for values in seen]
        counts = counts if below else [len(seen[0]) - count for count in counts]
        for flipped in (False, True):
            hits, misses = counts[::-1] if flipped else counts
            low, high = lower_rate(hits, len(seen[0]), strict), upper_rate(misses, len(seen[0]), strict)
            for name, bound in (("epsilon", _epsilon(low, high, delta)), ("mu", ndtri(low) - ndtri(high))):
                at = int(np.argmax(bound))
                if name not in best or bound[at] > best[name][0]:
                    best[name] = float(bound[at]), _Test(which, float(thresholds[at]), below, flipped)
    hits, misses, of = _counts(best["epsilon"][1], *kept)
    epsilon = _epsilon(lower_rate(hits, of, error), upper_rate(misses, of, error), delta)
    hits, misses, of = _counts(best["mu"][1], *kept)
    mu = ndtri(lower_rate(hits, of, error)) - ndtri(upper_rate(misses, of, error))
    estimate = ndtri((hits + 0.5) / (of + 1)) - ndtri((misses + 0.5) / (of + 1))
    return Audit(
        max(0.0, float(epsilon)), delta, confidence, max(0.0, float(mu)), float(estimate), len(first)
    )


def _checked(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim not in (1, 2) or len(values) < 8:
        raise ValueError(
            f"{name} has shape {values.shape}: audit needs one statistic per run, at least 8 runs"
        )
    if np.isnan(values).any():
        raise ValueError(f"{name} holds nan: give every run a statistic")
    return values.reshape(len(values), -1)


def _thresholds(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Values of both sorted samples, dense in rank towards either end; distinct."""
    size = len(first)
    tail = np.geomspace(1, size, RANKS).astype(int) - 1
    ranks = np.concatenate([np.arange(min(EXTREMES, size)), tail])
    ranks = np.unique(np.concatenate([ranks, size - 1 - ranks, np.linspace(0, size - 1, RANKS).astype(int)]))
    return np.unique(np.concatenate([first[ranks], second[ranks]]))


def _counts(test: _Test, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """How often the event occurs under P and under Q, of how many runs."""
    columns = first[:, test.which], second[:, test.which]
    inside = [values < test.threshold if test.below else values >= test.threshold for values in columns]
    hits, misses = (np.array(part.sum()) for part in (inside[::-1] if test.flipped else inside))
    return hits, misses, len(first)


def lower_rate(count: np.ndarray, of: int, error: float) -> np.ndarray:
    """One-sided Clopper-Pearson limit: a rate below it gives `count` or more with probability at most `error`."""
    return np.where(count > 0, betaincinv(np.maximum(count, 1), of - count + 1, error), 0.0)


def upper_rate(count: np.ndarray, of: int, error: float) -> np.ndarray:
    """The other side: a rate above it gives `count` or fewer with probability at most `error`."""
    return np.where(count < of, betaincinv(count + 1, np.maximum(of - count, 1), 1 - error), 1.0)


def _epsilon(low: np.ndarray, high: np.ndarray, delta: float) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log((low - delta) / high), -np.inf)
