"""PATE: its accountant, the data-dependent Renyi privacy of noisy votes, and its publication by smooth sensitivity.

The noisy vote is argmax_j (n_j + N(0, s^2)), where n_j of K teachers vote for class j of m. Its Renyi divergence of
order lambda is at most lambda/s^2 (Proposition 8), and less where the teachers agree: `renyi` computes it from a bound
q >= Pr[the noisy winner is not the true winner]. All standard deviations are in votes.

A threshold test at T adds N(0, s1^2) to a count. It is priced as the vote between two classes whose counts differ by 2
``|count - T|``, with s = sqrt(2) s1: divergence, q, and its change with one vote are the same.

The sum over all queries depends on the private votes. To publish it, noise is scaled to its smooth sensitivity (Nissim,
Raskhodnikova and Smith 2007). The coordinate z is defined by q = (m - 1) erfc(z)/2. One vote moves z by at most 1/s,
because erfc(erfc^-1(p) - 1/s) is concave in p (the paper's B_U and B_L). The line of z is cut into cells of width
1/(CELLS s). Each cell costs what its left end costs, an upper bound. Sensitivities are maxima over windows of cells.

Source: Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson (2018). All propositions and theorems are theirs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from dp_accounting import DpEvent
from scipy.ndimage import maximum_filter1d
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from dplangevin.privacy.accountants.protocol import Theorem, leaves, refuse
from dplangevin.privacy.events import Adjacency, Budget, PateDpEvent

CELLS = 4  # cells of z for each vote; two-class gaps then lie on cell ends
FINE = 2.0**-20  # grid of the published divergence, whose last bits would depend on the votes
ORDERS = np.geomspace(1.5, 4096, 30)  # tried by `Run.epsilon`


@dataclass(frozen=True)
class Papernot2018(Theorem):
    """Accountant of Confident-GNMax by Renyi privacy.

    epsilon = rdp(lambda) + ln(1/delta)/(lambda - 1). Data-independent: rdp = rho lambda (Proposition 8), so epsilon =
    rho + 2 sqrt(rho ln(1/delta)) at the best real order. If an event carries a published data-dependent value
    (`PateDpEvent.released_rdp`), the smaller epsilon counts. A record reaches one teacher, so relations cost the same.
    """

    name: str = "Papernot et al. 2018"

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        parts = list(leaves(event))
        (leaf, count), *more = parts
        if more or count != 1 or not isinstance(leaf, PateDpEvent):
            raise refuse(self.name, event, "it prices a single PateDpEvent")
        if leaf.rho == 0:
            return 0.0
        if delta == 0:
            return math.inf
        log = math.log(1 / delta)
        found = leaf.rho + 2 * math.sqrt(leaf.rho * log)
        if leaf.order > 1:
            found = min(found, leaf.released_rdp + log / (leaf.order - 1))
        return max(found, 0.0)


def log_error(counts: np.ndarray, noise_std: float) -> np.ndarray:
    """Return log q (...) of Proposition 7 from the votes, (..., m); q may exceed 1 for m > 2.

    ``q = sum_{j != j*} erfc((n_j* - n_j)/(2 s))/2 >= Pr[the noisy winner is not j*]``
    """
    ordered = np.sort(counts, axis=-1)
    return logsumexp(log_ndtr((ordered[..., :-1] - ordered[..., -1:]) / (math.sqrt(2) * noise_std)), axis=-1)


def renyi(log_q: np.ndarray, noise_std: float, order: np.ndarray | float) -> np.ndarray:
    """Return a bound on the Renyi divergence D_lambda(M(D) || M(D')) of one noisy vote, lambda > 1.

    The bound is Theorem 6 with Proposition 10's mu_2 = s sqrt(-log q) and mu_1 = mu_2 + 1::

        1/(lambda - 1) log((1 - q) A^(lambda - 1) + q B^(lambda - 1)),
        A = (1 - q)/(1 - (q e^(mu_2/s^2))^((mu_2 - 1)/mu_2)),      B = e^(mu_1/s^2)/q^(1/mu_2).

    It applies where 1 < lambda <= mu_1, mu_2 > 1 and q <= e^((mu_2 - 1) mu_2/s^2) (mu_1/(mu_1 - 1) mu_2/(mu_2 -
    1))^(-mu_2). Elsewhere, and wherever it is smaller, the bound is lambda/s^2.

    The bound holds only with the votes of D as the first argument. D_lambda(M(D') || M(D)) may exceed it.
    """
    log_q, order = np.broadcast_arrays(np.asarray(log_q, float), np.asarray(order, float))
    variance = noise_std**2
    flat = order / variance
    inside = log_q < -1 / variance  # mu_2 > 1
    log_q = np.where(inside, log_q, -4 / variance - 1)  # any value for which the formulas below are defined
    second = noise_std * np.sqrt(-log_q)  # mu_2
    first = second + 1
    most = (second - 1) * second / variance - second * np.log(first / (first - 1) * second / (second - 1))
    inside = inside & (order <= first) & (log_q <= most)
    other = np.minimum(
        (second - 1) / second * (log_q + second / variance), -1e-12
    )  # log of a bound on p' = Pr[not j*] on D'
    log_a = np.log1p(-np.exp(log_q)) - np.log(-np.expm1(other))
    log_b = first / variance - log_q / second
    stay = np.log1p(-np.exp(log_q)) + (order - 1) * log_a
    leave = log_q + (order - 1) * log_b
    return np.where(inside, np.minimum(np.logaddexp(stay, leave) / (order - 1), flat), flat)


def cell(log_q: np.ndarray, noise_std: float, classes: int) -> np.ndarray:
    """Return the cell of z >= 0, where q = (m - 1) erfc(z)/2: integers of the shape of log_q."""
    z = -ndtri_exp(np.minimum(log_q - math.log(classes - 1), -math.log(2))) / math.sqrt(2)
    return np.floor(np.maximum(z, 0) * noise_std * CELLS + 1e-6).astype(int)  # rounding must not lower it


def cell_costs(cells: int, noise_std: float, classes: int, order: float) -> np.ndarray:
    """Return upper bounds on `renyi` in each of the first `cells` cells, (cells,), not increasing."""
    z = np.arange(cells) / (CELLS * noise_std)
    log_q = np.minimum(math.log(classes - 1) + log_ndtr(-math.sqrt(2) * z), 0.0)
    return np.maximum.accumulate(renyi(log_q, noise_std, order)[::-1])[::-1]


def smooth_sensitivity(
    groups: Sequence[tuple[np.ndarray, np.ndarray]], decay: float, distances: int
) -> np.ndarray:
    """Return max_d e^(-decay d) LS_d (R,), the smooth sensitivity of a sum of costs, for d up to `distances` teachers.

    A group has the costs, (cells,), and the number of queries in each cell, (R, cells). One teacher moves every query
    by at most CELLS cells. LS_d adds up, over the queries, the largest change of cost by one vote within d votes. So
    LS_d bounds the local sensitivity at distance d, and LS_d at a neighbour is at most LS_(d + 1) here.
    """
    spans = [_steps(costs) for costs, _ in groups]
    best = np.zeros(len(groups[0][1]))
    for distance in range(distances + 1):
        total = sum(tally @ span for (_, tally), span in zip(groups, spans, strict=True))
        best = np.maximum(best, math.exp(-decay * distance) * total)
        spans = [maximum_filter1d(span, 2 * CELLS + 1, mode="nearest") for span in spans]
    return best


def _steps(costs: np.ndarray) -> np.ndarray:
    """Return the largest change of cost by one vote, from each cell; costs are constant beyond both ends."""
    padded = np.pad(costs, CELLS, mode="edge")
    middle = slice(CELLS, -CELLS)
    return np.maximum(padded[: -2 * CELLS] - padded[middle], padded[middle] - padded[2 * CELLS :])


def release_cost(order: float, decay: float, multiplier: float) -> float:
    """Return the Renyi divergence of publishing f(D) + multiplier SS(D) N(0, 1), where SS is e^decay-smooth.

    Let r be the other data set's standard deviation divided by this one's: e^-decay <= r <= e^decay. The means differ
    by at most min(1, r) SS. Gaussians of unequal variance then have the divergence

        (lambda log r - log(v)/2)/(lambda - 1) + lambda min(1, r)^2/(2 multiplier^2 v),

    with v = 1 - lambda + lambda r^2, which is inf where v <= 0. The first term grows with ``|log r|``, the second
    falls with r. So the worst r is one of the two ends.
    Differs: this is exact. The paper (GNSS) bounds it by lambda e^(2 decay)/multiplier^2 + (decay lambda - log(1 - 2
    lambda decay)/2)/(lambda - 1).
    """
    found = []
    for r, largest in ((math.exp(-decay), math.exp(-decay)), (math.exp(decay), 1.0)):
        v = 1 - order + order * r * r
        if v <= 0:
            return math.inf
        spread = (order * math.log(r) - math.log(v) / 2) / (order - 1)
        shift = largest**2 / v if r < 1 else largest
        found.append(spread + order * shift / (2 * multiplier**2))
    return max(found)


class Settings(NamedTuple):
    """K, T, and the standard deviations of the noise of a threshold test and of a vote, all in votes."""

    teachers: int
    threshold: float
    threshold_std: float
    answer_std: float


class Release(NamedTuple):
    """The published price of a run, including the cost of publishing it: Renyi divergence (R,) and epsilon (R,)."""

    order: float
    rdp: np.ndarray
    epsilon: np.ndarray


@dataclass(frozen=True)
class Run:
    """The queries of R repeats: votes (R, Q, m), which were tested, (R, Q), and which were answered, (R, Q).

    The price is a statement about these tests and answers. It is not a bound that held before the run.
    """

    settings: Settings
    counts: np.ndarray
    asked: np.ndarray
    answered: np.ndarray

    def divergence(self, order: float) -> np.ndarray:
        """Return the Renyi divergence of order lambda, (R,): the sum of `renyi`, rounded up to cell costs."""
        return sum((tally @ costs for costs, tally in self._costs(order)), np.zeros(len(self.counts)))

    def epsilon(self, delta: float) -> np.ndarray:
        """Return epsilon (R,) at the best order; it depends on the votes, so it is private itself."""
        log = math.log(1 / delta)
        counts = self.asked.sum(1).max(), self.answered.sum(1).max()
        flat = PateDpEvent(*counts, self.settings.threshold_std, self.settings.answer_std).rho
        best = 1 + math.sqrt(log / flat) if flat > 0 else 2.0  # best order of the data-independent bound
        return np.min([self.divergence(order) + log / (order - 1) for order in (*ORDERS, best)], axis=0)

    def release(self, budget: Budget, normals: np.ndarray, decay: float, share: float) -> Release:
        """Return the epsilon that may be published, with the cost of publishing it; `normals` (R,) are standard normal.

        The order is lambda = 1 + 2 ln(1/delta)/epsilon, which leaves half of the budget to the divergence. The
        sensitivity is e^(decay/lambda)-smooth, decay < 1/2. The noise costs about share * epsilon/(1 - 2 decay). None
        of these choices depends on the votes.
        Differs: as in the paper, the published number is an unbiased estimate of a bound. It is not a bound.
        """
        log = math.log(1 / budget.delta)
        order = 1 + 2 * log / budget.epsilon
        multiplier = math.sqrt(order / (2 * share * budget.epsilon))
        smooth = smooth_sensitivity(self._costs(order), decay / order, self.settings.teachers)
        noisy = self.divergence(order) + multiplier * smooth * normals
        noisy = np.ceil(noisy / FINE) * FINE
        rdp = noisy + release_cost(order, decay / order, multiplier)
        return Release(order, rdp, rdp + log / (order - 1))

    def _costs(self, order: float) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the costs, (cells,), and the votes in each cell, (R, cells), of the tests and of the answers."""
        return [(cell_costs(t.shape[1], std, classes, order), t) for std, classes, t in self._tallies]

    @cached_property
    def _tallies(self) -> list[tuple[float, int, np.ndarray]]:
        teachers, threshold, threshold_std, answer_std = self.settings
        away = np.abs(self.counts.max(-1) - threshold)
        test_std = math.sqrt(2) * threshold_std  # a test is a vote of two classes, see the module docstring
        kinds = (
            (self.asked, test_std, 2, log_ndtr(-away / threshold_std)),
            (self.answered, answer_std, self.counts.shape[-1], log_error(self.counts, answer_std)),
        )
        groups = []
        for seen, std, classes, log_q in kinds:
            where = cell(log_q, std, classes)
            size = max(CELLS * teachers, int(where.max())) + 1
            tally = np.stack([np.bincount(w[s], minlength=size) for w, s in zip(where, seen, strict=True)])
            groups.append((std, classes, tally))
        return groups
