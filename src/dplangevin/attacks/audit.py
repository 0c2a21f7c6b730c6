"""Lower bounds on epsilon from runs on two neighbouring data sets.

Let P and Q be the distributions of a mechanism's output on the two data sets, in either order. If the mechanism is
(epsilon, delta)-DP, then ``P(E) <= e^epsilon Q(E) + delta`` for every event E. This gives::

    epsilon >= log((p - delta)/q),   p <= P(E), q >= Q(E).

E is a half-line of a statistic. One half of the runs chooses it. The other half gives Clopper-Pearson limits p and q,
each of which fails with probability at most (1 - confidence)/2.

`known_ratio` needs the exact log-likelihood ratio L of the two laws. It bounds the whole profile, without an event::

    delta(epsilon) = E_P max(0, 1 - e^(epsilon - L)) = P(L - X > epsilon),   X ~ Exp(1) independent.

So the smallest epsilon at a delta is a quantile of ``L - X``, and an order statistic bounds it.
"""

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import betaincinv
from scipy.stats import binom

from dplangevin.privacy.events import check_delta

EXTREMES = 64  # so many of the smallest and of the largest values are all tried as thresholds
RANKS = 400  # further thresholds in each tail, at geometrically spaced ranks; as many at evenly spaced ranks
STRICTER = 1000  # the choice allows so many times less error, or lucky counts in the tails would win


class Audit(NamedTuple):
    """A lower bound on epsilon.

    Attributes
    ----------
    epsilon : float >= 0, attack epsilon at delta.
    delta : float in [0, 1).
    confidence : float in (0, 1).
    runs : int, for each data set.
    """

    epsilon: float
    delta: float
    confidence: float
    runs: int

    def columns(self, pair: str) -> dict[str, Any]:
        """Return the columns of a result row that say what the attack on a pair shows."""
        return {"epsilon_attack": self.epsilon, "attack_confidence": self.confidence, "attack_pair": pair}


class Event(NamedTuple):
    """{x >= threshold} of statistic number `which`, or {x < threshold}; `flipped`: P belongs to the second data set."""

    which: int
    threshold: float
    below: bool
    flipped: bool

    def counts(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how often the event occurs in statistics (runs, k) under P and under Q."""
        columns = first[:, self.which], second[:, self.which]
        inside = [values < self.threshold if self.below else values >= self.threshold for values in columns]
        hits, misses = (np.array(part.sum()) for part in (inside[::-1] if self.flipped else inside))
        return hits, misses

    def epsilon(self, first: np.ndarray, second: np.ndarray, delta: float, error: float) -> float:
        """Return the bound by runs (runs, k) that did not choose the event; it fails with probability <= 2 `error`."""
        hits, misses = self.counts(first, second)
        low, high = lower_rate(hits, len(first), error), upper_rate(misses, len(first), error)
        return max(0.0, float(_epsilon(low, high, delta)))


def audit(first: np.ndarray, second: np.ndarray, delta: float, confidence: float = 0.95) -> Audit:
    """Compute a lower bound from statistics (runs,) or (runs, k) of 8 or more runs on two neighbouring data sets.

    Entry i of `first` may depend on entry i of `second` (common random numbers), but on no other entry. Runs with even
    index choose the event, runs with odd index give the bound. Infinite values are allowed.
    """
    check_delta(delta)
    check_confidence(confidence)
    first, second = _checked(first, "first"), _checked(second, "second")
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} runs: audit needs as many on either data set")
    error = (1 - confidence) / 2
    event = chosen(first[::2], second[::2], delta, error / STRICTER)
    epsilon = event.epsilon(first[1::2], second[1::2], delta, error)
    return Audit(epsilon, delta, confidence, len(first))


def chosen(first: np.ndarray, second: np.ndarray, delta: float, error: float) -> Event:
    """Return the event with the largest bound on epsilon from statistics (runs, k).

    For an event that is given, each of the two limits of the bound fails with probability at most `error`.
    """
    best, event = -math.inf, None
    for which, below in product(range(first.shape[1]), (False, True)):
        seen = np.sort(first[:, which]), np.sort(second[:, which])
        thresholds = _thresholds(*seen)
        counts = [np.searchsorted(values, thresholds, "left") for values in seen]
        counts = counts if below else [len(seen[0]) - count for count in counts]
        for flipped in (False, True):
            hits, misses = counts[::-1] if flipped else counts
            low, high = lower_rate(hits, len(seen[0]), error), upper_rate(misses, len(seen[0]), error)
            bound = _epsilon(low, high, delta)
            at = int(np.argmax(bound))
            if event is None or bound[at] > best:
                best, event = float(bound[at]), Event(which, float(thresholds[at]), below, flipped)
    assert event is not None
    return event


def known_ratio(
    first: np.ndarray, second: np.ndarray, delta: float, rng: torch.Generator, confidence: float = 0.95
) -> float:
    """Return a lower bound, >= 0, on epsilon at delta from log P/Q of 8 or more runs under P and under Q, each (runs,).

    In each direction the k-th largest ``L - X`` is the bound, where at least k of the runs exceed the true epsilon with
    probability at most (1 - confidence)/2. The bound may not hold if the ratio is not exact: then take `audit`.
    """
    check_delta(delta)
    check_confidence(confidence)
    bound = 0.0
    for ratio in (_checked(first, "first", 1)[:, 0], -_checked(second, "second", 1)[:, 0]):
        runs = len(ratio)
        k = int(binom.isf((1 - confidence) / 2, runs, delta)) + 1
        if k <= runs:
            less = torch.empty(runs, dtype=torch.float64).exponential_(generator=rng).numpy()
            bound = max(bound, float(np.partition(ratio - less, runs - k)[runs - k]))
    return bound


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless 0 < confidence < 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence} must be in (0, 1); 0.95 is usual")


def _checked(values: np.ndarray, name: str, axes: int = 2) -> np.ndarray:
    values = np.asarray(values)
    if not 1 <= values.ndim <= axes or len(values) < 8:
        wanted = "one number" if axes == 1 else "one statistic or more"
        raise ValueError(f"{name} has shape {values.shape}: give {wanted} for each of at least 8 runs")
    if np.isnan(values).any():
        raise ValueError(f"{name} holds nan: give every run a statistic")
    return values.reshape(len(values), -1)


def _thresholds(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return distinct values of both sorted samples, dense in rank near both ends."""
    size = len(first)
    tail = np.geomspace(1, size, RANKS).astype(int) - 1
    ranks = np.concatenate([np.arange(min(EXTREMES, size)), tail])
    ranks = np.unique(np.concatenate([ranks, size - 1 - ranks, np.linspace(0, size - 1, RANKS).astype(int)]))
    return np.unique(np.concatenate([first[ranks], second[ranks]]))


def lower_rate(count: np.ndarray, of: int, error: float) -> np.ndarray:
    """Return the lower Clopper-Pearson limit: a rate below it gives `count` or more with probability <= error."""
    return np.where(count > 0, betaincinv(np.maximum(count, 1), of - count + 1, error), 0.0)


def upper_rate(count: np.ndarray, of: int, error: float) -> np.ndarray:
    """Return the upper Clopper-Pearson limit: a rate above it gives `count` or fewer with probability <= error."""
    return np.where(count < of, betaincinv(count + 1, np.maximum(of - count, 1), 1 - error), 1.0)


def _epsilon(low: np.ndarray, high: np.ndarray, delta: float) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log((low - delta) / high), -np.inf)
