"""Statistics that tell the releases on two tables apart, learned from a first part of the runs.

Each is a linear score of the numbers of a release, one number, or the distance of one from its median. The scores are
regularised least squares, and find noise that several numbers share. Side channels are in no score.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dplangevin.attacks.learners.releases import LOWEST, SAID, Release

RIDGES = 1e-6, 1.0  # of the linear scores, in units of the runs: small follows correlations, large the means
# SINGLE numbers are statistics by themselves, SPREAD by their distance from the median, and SPREAD side channels
SINGLE, SPREAD = 6, 3
TINY = 1e-12  # a weight below this share of the largest is 0


@dataclass(frozen=True)
class Statistic:
    """The function ``sum_k a_k x_k + b_k x_k^2`` of named numbers (0 if absent), or ``|x - center|`` of one."""

    names: tuple[str, ...]
    a: np.ndarray
    b: np.ndarray
    center: float | None = None

    @property
    def text(self) -> str:
        if len(self.names) == 1:
            return self.names[0] if self.center is None else f"|{self.names[0]} - {self.center:.6g}|"
        heaviest = self.names[int(np.argmax(np.abs(self.a) + np.abs(self.b)))]
        return f"a score of {len(self.names)} numbers such as {heaviest}"

    def __call__(self, releases: Sequence[Release]) -> np.ndarray:
        x = matrix(releases, self.names)
        if self.center is not None:
            return np.abs(x[:, 0] - self.center)
        if len(self.names) == 1:
            return x[:, 0]
        return x @ self.a + np.square(x) @ self.b


def matrix(releases: Sequence[Release], names: Sequence[str]) -> np.ndarray:
    """Return the numbers of these names (runs, names), 0 where a release has none."""
    return np.asarray([[each.get(name, 0.0) for name in names] for each in releases]).reshape(
        len(releases), -1
    )


def varying(first: Sequence[Release], second: Sequence[Release]) -> list[str]:
    """Return the names of the numbers that are not the same in all releases."""
    names = dict.fromkeys(name for each in (*first, *second) for name in each)
    x = matrix([*first, *second], [*names])
    return [name for name, differs in zip(names, (x != x[0]).any(0), strict=True) if differs]


def learned(first: Sequence[Release], second: Sequence[Release]) -> list[Statistic]:
    """Return statistics that tell these releases apart; [] if all are the same."""
    # errors first: where a fit fails, the other statements are about what is missing
    names = sorted(varying(first, second), key=lambda name: not name.startswith(SAID))
    channels = [name for name in names if name.startswith(LOWEST)]
    names = [name for name in names if not name.startswith(LOWEST)]
    found = _single(channels, matrix(first, channels), matrix(second, channels))[:SPREAD] if channels else []
    if not names:
        return found
    x, y = matrix(first, names), matrix(second, names)
    found += _single(names, x, y)[:SINGLE]
    center = np.median(np.concatenate([x, y]), 0)
    apart = np.argsort(-_distance(np.abs(x - center), np.abs(y - center)), kind="stable")
    found += [Statistic((names[i],), np.ones(1), np.zeros(1), float(center[i])) for i in apart[:SPREAD]]
    if len(names) > 1:
        found += [_linear(names, x, y, ridge, squares=False) for ridge in RIDGES]
        found.append(_linear(names, x, y, RIDGES[-1], squares=True))
    return found


def _single(names: Sequence[str], x: np.ndarray, y: np.ndarray) -> list[Statistic]:
    """Return each number as a statistic by itself, the most different one first."""
    order = np.argsort(-_distance(x, y), kind="stable")
    return [Statistic((names[i],), np.ones(1), np.zeros(1)) for i in order]


def _distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the largest distance of the empirical distribution functions of each column."""
    runs = len(x)
    order = np.argsort(both := np.concatenate([x, y]), 0, kind="stable")
    step = np.where(order < runs, 1.0 / runs, -1.0 / len(y)).cumsum(0)
    ordered = np.take_along_axis(both, order, 0)
    last = np.concatenate([ordered[1:] != ordered[:-1], np.ones((1, x.shape[1]), bool)])
    found: np.ndarray = (np.abs(step) * last).max(0)
    return found


def _linear(names: list[str], x: np.ndarray, y: np.ndarray, ridge: float, squares: bool) -> Statistic:
    """Return the score by regularised least squares on standardised numbers, and on their squares."""
    both = np.concatenate([x, y])
    if squares:
        both = np.concatenate([both, both**2], 1)
    both = both - both.mean(0)
    scale = np.maximum(np.abs(both).max(0), 1e-300)
    scale *= np.maximum((both / scale).std(0), 1e-9)
    z = both / scale
    side = np.concatenate([np.ones(len(x)), -np.ones(len(y))])
    gram = z @ z.T
    weights = z.T @ np.linalg.solve(gram + ridge * len(z) * np.eye(len(z)), side) / scale
    weights[np.abs(weights * scale) < TINY * np.abs(weights * scale).max()] = 0.0
    d = len(names)
    return Statistic(tuple(names), weights[:d], weights[d:] if squares else np.zeros(d))
