"""The whole curve epsilon(delta) of a release, and what any attack can reach under it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

DECADE = 4  # points for each factor of 10 of delta: linear interpolation then adds up to 20 % to delta
NEAR = 14  # further points next to the delta at which epsilon reaches 0, each closer to it by a quarter
WIDTH = 0.01  # relative error of the delta at which epsilon reaches 0; epsilon is slow to compute close to it
LEAST = 1e-15  # smallest delta of a curve, except 0
ROUNDING = 1e-9  # relative; covers the rounding of everything here


@dataclass(frozen=True)
class Curve:
    """Points (n,) at which a release is (epsilon_i, delta_i)-DP in both directions; between them, bounds from above.

    epsilon does not increase, delta increases.
    """

    epsilon: np.ndarray
    delta: np.ndarray

    @classmethod
    def of(cls, price: Callable[[float], float], least: float = LEAST) -> "Curve":
        """Return the curve of a release that is (price(delta), delta)-DP for every delta in [0, 1).

        `least` in (0, 0.1) is the smallest delta besides 0. Calls share deltas, so a `price` that remembers is fast.
        """
        low, high = np.log(LEAST), 0.0
        starts = price(LEAST) > 0
        while starts and high - low > WIDTH:  # the delta at which epsilon reaches 0
            middle = (low + high) / 2
            low, high = (middle, high) if price(float(np.exp(middle))) > 0 else (low, middle)
        end = float(np.exp(high)) if starts else LEAST
        powers = 10.0 ** (-np.arange(1, np.ceil(-DECADE * np.log10(least)) + 1) / DECADE)
        near = end * (1 - 0.75 ** np.arange(1, NEAR + 1))
        delta = np.unique(np.concatenate([powers[powers < end], near[near > powers[-1]]]))
        epsilon = np.array([price(float(each)) for each in delta])
        delta, epsilon = np.append(delta, end), np.append(epsilon, 0.0 if starts else price(end))
        if np.isfinite(pure := price(0.0)):
            delta, epsilon = np.append(0.0, delta), np.append(pure, epsilon)
        finite = np.isfinite(epsilon)
        return cls(np.minimum.accumulate(epsilon[finite]), delta[finite] * (1 + ROUNDING))

    def power(self, fpr: np.ndarray | float) -> np.ndarray:
        """Return the largest true positive rate that an attack can have at a false positive rate, in [0, 1].

        Either data set may be the null: TPR <= e^epsilon FPR + delta, 1 - FPR <= e^epsilon (1 - TPR) + delta.
        Source: Kairouz, Oh, Viswanath (2015), Theorem 2.1.
        """
        fpr = np.asarray(fpr, dtype=float)[..., None]
        with np.errstate(over="ignore", invalid="ignore"):
            up = np.where(fpr > 0, np.exp(self.epsilon) * fpr, 0.0) + self.delta
        over = 1 - np.exp(-self.epsilon) * (1 - self.delta - fpr)
        bound: np.ndarray = np.minimum(up, over).min(-1) * (1 + ROUNDING)
        return np.clip(bound, fpr[..., 0], 1.0)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct epsilons, increasing from 0, and the delta of each; at 0 it is TPR - FPR where TPR = 1 - FPR."""
        least = (1 - self.delta) / (1 + np.exp(np.minimum(self.epsilon, 700.0)))
        at_zero = min(1.0, 1 - 2 * float(least.max()) + 2 * ROUNDING)
        positive = self.epsilon > 0
        epsilon, first = np.unique(self.epsilon[positive], return_index=True)
        return np.append(0.0, epsilon), np.append(at_zero, self.delta[positive][first])

    def delta_at(self, epsilon: np.ndarray | float) -> np.ndarray:
        """Return a delta at which the release is (epsilon, delta)-DP, for any real epsilon.

        delta is convex in e^epsilon, so the chord between two points is above it. With the data sets exchanged,
        delta(-epsilon) = 1 - exp(-epsilon) (1 - delta(epsilon)).
        """
        points, known = self._table
        size = np.minimum(np.abs(epsilon), points[-1])
        left = np.clip(np.searchsorted(points, size, "right") - 1, 0, max(len(points) - 2, 0))
        right = np.minimum(left + 1, len(points) - 1)
        gap = np.maximum(points[right] - points[left], 1e-300)
        share = np.exp(size - points[right]) * np.expm1(points[left] - size) / np.expm1(-gap)
        found = (known[left] + share * (known[right] - known[left])) * (1 + ROUNDING)
        back = np.exp(-np.abs(epsilon))
        return np.where(np.asarray(epsilon) >= 0, found, 1 - back * (1 - found))
