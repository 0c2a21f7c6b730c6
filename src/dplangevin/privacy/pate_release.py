"""The data-dependent price of a run of Confident-GNMax, and its private release."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from dplangevin.privacy import votes
from dplangevin.privacy.events import Budget

ORDERS = np.geomspace(1.5, 4096, 30)


class Settings(NamedTuple):
    """teachers: their number, K.  threshold: T, in votes, at most K.  threshold_std, answer_std: in votes, > 0."""

    teachers: int
    threshold: float
    threshold_std: float
    answer_std: float


class Release(NamedTuple):
    """The published Renyi divergence (R,) of this order, the cost of publishing it included, and as epsilon (R,)."""

    order: float
    rdp: np.ndarray
    epsilon: np.ndarray


class Group(NamedTuple):
    """Votes of one kind: s and m of `votes`, and how many of a repeat's votes are in each cell, (R, cells)."""

    noise_std: float
    classes: int
    tally: np.ndarray

    def costs(self, order: float) -> np.ndarray:
        return votes.cell_costs(self.tally.shape[1], self.noise_std, self.classes, order)


@dataclass(frozen=True)
class Run:
    """What happened to each query: votes (R, Q, m); whether its test was made, and whether it was answered, (R, Q).

    The price is that of the tests that were made and the answers that were given, as in the published experiments: it
    is a statement about this run, not a bound that held before it.
    """

    settings: Settings
    counts: np.ndarray
    asked: np.ndarray
    answered: np.ndarray

    def spent(self, order: float) -> np.ndarray:
        """Renyi divergence of order lambda, (R,): the sum of `votes.renyi`, each rounded up to the end of its cell."""
        return sum((group.tally @ group.costs(order) for group in self._groups), np.zeros(len(self.counts)))

    def epsilon(self, delta: float) -> np.ndarray:
        """Epsilon (R,) at the best order; it depends on the votes, so it is private itself."""
        log = math.log(1 / delta)
        flat = self.asked.sum(1).max() / (2 * self.settings.threshold_std**2)
        flat += self.answered.sum(1).max() / self.settings.answer_std**2
        best = 1 + math.sqrt(log / flat) if flat > 0 else 2.0  # of the data-independent bound
        return np.min([self.spent(order) + log / (order - 1) for order in (*ORDERS, best)], axis=0)

    def release(self, budget: Budget, normals: np.ndarray, decay: float, share: float) -> Release:
        """The epsilon that may be published: noise scaled to the smooth sensitivity, and the cost of publishing added.

        Order: lambda = 1 + 2 ln(1/delta)/epsilon, which leaves half of the budget to the divergence.  The sensitivity
        is e^(decay/lambda)-smooth, decay < 1/2, and the noise costs about share * epsilon/(1 - 2 decay).  None of these
        looks at the votes.
        normals: (R,), standard.
        Differs: as in the paper, the published number is an unbiased estimate of a bound, not a bound.
        """
        log = math.log(1 / budget.delta)
        order = 1 + 2 * log / budget.epsilon
        multiplier = math.sqrt(order / (2 * share * budget.epsilon))
        groups = [(group.costs(order), group.tally) for group in self._groups]
        smooth = votes.smooth_sensitivity(groups, decay / order, self.settings.teachers)
        noisy = self.spent(order) + multiplier * smooth * normals
        rdp = noisy + votes.release_cost(order, decay / order, multiplier)
        return Release(order, rdp, rdp + log / (order - 1))

    @cached_property
    def _groups(self) -> list[Group]:
        """The tests and the answers."""
        teachers, threshold, threshold_std, answer_std = self.settings
        away = np.abs(self.counts.max(-1) - threshold)
        test_std = math.sqrt(2) * threshold_std  # a test is a vote of two classes 2 |count - T| apart
        kinds = (
            (self.asked, test_std, 2, log_ndtr(-away / threshold_std)),
            (self.answered, answer_std, self.counts.shape[-1], votes.log_error(self.counts, answer_std)),
        )
        groups = []
        for seen, std, classes, log_q in kinds:
            where = votes.cell(log_q, std, classes)
            size = max(votes.CELLS * teachers, int(where.max())) + 1
            tally = np.stack([np.bincount(w[s], minlength=size) for w, s in zip(where, seen, strict=True)])
            groups.append(Group(std, classes, tally))
        return groups
