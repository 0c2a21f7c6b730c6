"""Accountant of Bok, Su, Altschuler (2024) for the last iterate, where earlier iterates stay hidden.

References
----------
Bok, Su, Altschuler (2024), "Shifted interpolation for differential privacy".
"""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent
from scipy.special import logsumexp
from scipy.stats import binom

from dplangevin.privacy.accountants import composition, profiles
from dplangevin.privacy.accountants.analytic_gaussian import UNIT, epsilon_of
from dplangevin.privacy.accountants.protocol import leaves, refuse, trivial
from dplangevin.privacy.events import Adjacency, LangevinDpEvent, check_adjacency
from dplangevin.privacy.subsampled_gaussian import composed_steps, rate_and_multiplier

ORDERS = 1 + np.geomspace(0.02, 255.0, 36)  # of the Renyi estimate
SHARES = (0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)  # values of v1/v that are tried
SPENT = 0.1  # share of delta for the bound on R, see `Bok2024`
SMALLEST_MU, LARGEST_MU = 1e-9, 100.0


@dataclass(frozen=True)
class Bok2024:
    """Accountant of a LangevinDpEvent whose inner iterates stay hidden.

    Its epsilon is never above that of all iterates.

    Notation: a step moves by at most s_k = eta_k 2L/batch when one record changes (add_remove: eta_k
    L/batch). The noise of the step has variance v_k = 2 eta_k sigma^2. Every record's loss is lambda-strongly
    convex and beta-smooth, so x - eta_k grad L_B(x) is c_k-Lipschitz with
    ``c_k = max(|1 - eta_k lambda|, |1 - eta_k beta|)``. c_k < 1 for lambda > 0 and eta_k < 2/beta. Let
    w_k = prod_(j > k) c_j. Projections do not expand. If a c_k is above 1, the epsilon is that of all
    iterates.

    Full batch (their Theorem for NoisyGD, with steps that may differ): mu-GDP with
    mu^2 = (sum_k w_k s_k)^2 / sum_k w_k^2 v_k. Proof sketch: the chain H follows the neighbour's chain. At
    step k it is shifted by a_k towards the chain A, so that H_K = A_K. This requires sum_k w_k a_k = sum_k
    w_k s_k. Step k costs a_k/sqrt(v_k). The sum of a_k^2/v_k is least if a_k is proportional to w_k v_k. This
    choice is feasible because w_k does not decrease. Equality holds for a quadratic loss. Under add_remove,
    `records` in the mean is a fixed number.

    Sampled batches (in the manner of their section on NoisySGD), replace_one only:

    1. Couple the chains A, A' of the two data sets by the same batches and noise. Let R bound
       ||A_t0 - A'_t0||.
    2. From step t0 on, split the noise: v_k = v1_k + v2_k. The chain H starts at A'_t0 and runs with A's data
       and batches. It adds shifts a_k towards A, with sum_(k >= t0) w_k a_k = R prod_(j >= t0) c_j.
    3. Given H_k = x, release W = x - eta_k grad L_B(x) + Z2. This costs the sampled Gaussian step of
       s_k/sqrt(v2_k), because B is fresh.
    4. Then W + shift + Z1 costs a_k/sqrt(v1_k), because Z1 is independent of the shift and of W, and
       hockey-stick divergences are jointly convex.
    5. Hence a Gaussian mechanism composed with K - t0 sampled steps dominates the last iterate. The Gaussian
       mechanism has mu = R prod_(j >= t0) c_j / sqrt(sum_(k >= t0) w_k^2 v1_k).

    Every t0 and v1/v2 gives a valid bound. A Renyi estimate chooses them, and PLD prices the choice. PLD also
    prices all iterates (t0 = 0).
    Differs: R is not the worst case sum_(k < t0) g_k, where g_k = s_k prod_(k < j < t0) c_j. It is the
    smaller of the worst case and a Chernoff bound of sum_(k < t0) g_k b_k, where the b_k are independent
    Bernoulli(batch/records) variables (is the record in the batch?). The Chernoff bound fails with
    probability delta/10, and the rest is priced at 0.9 delta.
    """

    name: str = "Bok et al. 2024"

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Return epsilon at delta of one LangevinDpEvent; see `price`."""
        return self.price(event, delta, adjacency)[0]

    def price(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> tuple[float, str]:
        """Return epsilon at delta, and which argument gave it.

        Returns
        -------
        epsilon : float
            Epsilon of the last iterate.
        argument : {"last iterate", "all iterates"}
            "all iterates" where the price of all iterates is not higher.
        """
        check_adjacency(adjacency, who=self.name)
        known = trivial(event, delta)
        if known is not None:
            return known, "all iterates"
        (leaf, count), *others = leaves(event)
        if others or count != 1 or not isinstance(leaf, LangevinDpEvent):
            raise refuse(self.name, event, "it prices one LangevinDpEvent")
        if leaf.batch == leaf.records:
            return epsilon_of(full_batch_mu(leaf, adjacency), delta), "last iterate"
        check_adjacency(adjacency, ("replace_one",), f"{self.name} (sampled batches)")
        return _sampled(leaf, delta) if delta > 0 else (math.inf, "all iterates")


def contractions(event: LangevinDpEvent) -> np.ndarray:
    """Return c_k, (steps,), the Lipschitz constants of the noiseless steps."""
    eta = event.step_sizes()
    return np.maximum(np.abs(1 - eta * event.strong_convexity), np.abs(1 - eta * event.smoothness))


def full_batch_mu(event: LangevinDpEvent, adjacency: Adjacency = "replace_one") -> float:
    """Return mu of the last iterate with full batches, which is exact for a quadratic loss; see `Bok2024`."""
    eta = event.step_sizes()
    shift = eta * event.lipschitz / event.records * (2 if adjacency == "replace_one" else 1)
    variance = 2 * eta * event.noise_std**2
    if contractions(event).max() > 1:
        return float(np.sqrt((shift**2 / variance).sum()))
    weight = np.exp(_log_weights(event))
    return float((weight * shift).sum() / np.sqrt((weight**2 * variance).sum()))


def _log_weights(event: LangevinDpEvent) -> np.ndarray:
    """Return log w_k, (steps,); see `Bok2024`."""
    logs = np.log(np.maximum(contractions(event), 1e-12))
    return np.concatenate([np.cumsum(logs[:0:-1])[::-1], [0.0]])


@lru_cache(maxsize=4096)
def _sampled(event: LangevinDpEvent, delta: float) -> tuple[float, str]:
    """Return epsilon with sampled batches, and which argument gave it."""
    last, estimate, visible = _candidate(event, delta)
    best = (math.inf, "last iterate")
    if last is not None:
        best = (_compose(last, (1 - SPENT) * delta), "last iterate")
    if max(best[0], estimate) <= 0.7 * visible and 2 / event.multipliers()[0] <= LARGEST_MU:
        return best
    return min((_compose(event.all_iterates(), delta), "all iterates"), best)


def _candidate(event: LangevinDpEvent, delta: float) -> tuple[DpEvent | None, float, float]:
    """Return the best (t0 > 0, v1/v) as an event, and estimates of its epsilon and of all iterates'."""
    rate, k = event.batch / event.records, event.steps
    multipliers = event.multipliers()
    levels, where = np.unique(np.exp(np.floor(np.log(multipliers) * 50) / 50), return_inverse=True)
    lengths = np.unique(np.floor(1.15 ** np.arange(math.log(k) / math.log(1.15)))).astype(int)
    lengths = np.append(lengths[lengths < k], k)  # values of K - t0; the last one is t0 = 0
    counts = np.array([np.bincount(where[k - r :], minlength=len(levels)) for r in lengths])
    visible = _estimate(counts[-1] @ _renyi(rate, 2 / levels), delta)
    if contractions(event).max() > 1 or k == 1:
        return None, math.inf, visible
    weight = np.exp(_log_weights(event))
    noise = np.cumsum((weight**2 * 2 * event.step_sizes() * event.noise_std**2)[::-1])
    distances = _distances(event, k - lengths[:-1], SPENT * delta)
    best: tuple[float, int, float, float] = (math.inf, 0, 0.0, 0.0)
    for share in SHARES:
        tails = counts @ _renyi(rate, 2 / (levels * math.sqrt(1 - share)))
        for r, tail, distance in zip(lengths.tolist(), tails, distances, strict=False):
            mu = max(float(distance / math.sqrt(share * noise[r - 1])), SMALLEST_MU)
            best = min(best, (_estimate(tail + ORDERS * mu**2 / 2, (1 - SPENT) * delta), r, share, mu))
    estimate, r, share, mu = best
    if r == 0:
        return None, math.inf, visible
    steps = composed_steps(event.records, event.batch, multipliers[-r:] * math.sqrt(1 - share))
    return ComposedDpEvent([GaussianDpEvent(2 / mu), steps]), estimate, visible


def _distances(event: LangevinDpEvent, firsts: np.ndarray, failure: float) -> list[float]:
    """Return R prod_(j >= t0) c_j for each t0 of `firsts` (decreasing).

    Each distance is exceeded with probability at most `failure`.
    """
    rate = event.batch / event.records
    gain = np.exp(_log_weights(event)) * event.step_sizes() * 2 * event.lipschitz / event.batch
    total = np.cumsum(gain)
    level = np.ceil(50 * np.log(np.maximum(gain, 1e-300))).astype(int)  # sizes rounded up by at most 2 %
    lowest, theta = level.min(), np.geomspace(1e-3, 50.0, 60)
    counts, end, found = np.bincount(level - lowest), len(gain), []
    for first in firsts:
        counts = counts - np.bincount(level[first:end] - lowest, minlength=len(counts))
        end = first
        size, present = np.exp((np.flatnonzero(counts) + lowest) / 50), counts[counts > 0]
        common = size > 1e-3 * rate * size[-1]  # the others count as always present
        relative = size[common] / size[-1]
        moment = (present[common] * np.log1p(rate * np.expm1(theta[:, None] * relative))).sum(axis=1)
        bound = size[-1] * ((moment - math.log(failure)) / theta).min() + (size * present)[~common].sum()
        found.append(float(min(total[first - 1], bound)))
    return found


def _renyi(rate: float, mu: np.ndarray) -> np.ndarray:
    """Return Renyi divergences of a sampled Gaussian step by quadrature, (mu, ORDERS).

    They are R_alpha((1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1)), or 1e300 where alpha mu is very
    large.
    """
    found = np.full((len(mu), len(ORDERS)), 1e300)
    for i, j in itertools.product(range(len(mu)), range(len(ORDERS))):
        far, order = ORDERS[j] * mu[i], ORDERS[j]
        if far < 300:
            x = np.linspace(-9.0, far + 9.0, 100 + int(8 * far))
            ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + mu[i] * x - mu[i] ** 2 / 2)
            moment = logsumexp(order * ratio - x**2 / 2) + math.log((x[1] - x[0]) / math.sqrt(2 * math.pi))
            found[i, j] = max(float(moment), 0.0) / (order - 1)
    return found


def _estimate(renyi: np.ndarray, delta: float) -> float:
    """Return epsilon from Renyi divergences at ORDERS (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    spare = np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return max(float((renyi + spare).min()), 0.0)


def _compose(event: DpEvent, delta: float) -> float:
    """Return epsilon of Gaussian steps, full or without replacement, under replace_one, by PLD.

    A single sampled step has its exact epsilon. The result is never above that of the steps on all records,
    see `Tight`. Where a sampled step has mu > LARGEST_MU, the batches are taken as known. Then at most h of
    the k sampled steps meet the record, except with probability delta/2. So mu^2 is at most h times the
    largest mu^2.
    """
    steps = [(*rate_and_multiplier(leaf), count) for leaf, count in leaves(event)]
    rate, noise = min((rate, noise) for rate, noise, _ in steps)
    if rate < 1 and sum(count for _, _, count in steps) == 1:
        return profiles.sampled_epsilon(rate, 2 / noise, delta)
    if 2 / noise > LARGEST_MU:
        hits = binom.isf(delta / 2, sum(count for q, _, count in steps if q == rate), rate)
        square = sum(count * (2 / z) ** 2 for q, z, count in steps if q > rate) + hits * (2 / noise) ** 2
        return epsilon_of(math.sqrt(square), delta / 2)
    parts = [(profiles.without_replacement(rate, 2 / multiplier), count) for rate, multiplier, count in steps]
    unsampled = math.hypot(*(math.sqrt(count) * 2 / multiplier for _, multiplier, count in steps))
    return min(composition.compose(parts, delta).epsilon, epsilon_of(unsampled * (1 + 16 * UNIT), delta))
