"""Accountants of the last iterate, where earlier iterates stay hidden: Bok et al. (2024), Ryffel et al. (2022).

Source: Bok, Su, Altschuler (2024), "Shifted interpolation for differential privacy". Chien, Li (2024), "Convergent
privacy loss of noisy-SGD without convexity and smoothness". Annamalai (2024), "It's our loss: no privacy
amplification for hidden state DP-SGD with non-convex loss".
"""

import itertools
import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import attr
import numpy as np
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent
from scipy.special import logsumexp
from scipy.stats import binom

from dplangevin.checks import settings
from dplangevin.privacy.accountants import composition, profiles
from dplangevin.privacy.accountants.analytic_gaussian import UNIT, epsilon_of
from dplangevin.privacy.accountants.protocol import Theorem, leaves, refuse, trivial
from dplangevin.privacy.events import Adjacency, LangevinDpEvent, check_adjacency
from dplangevin.privacy.gaussian_steps import composed_steps, rate_and_multiplier

ORDERS = 1 + np.geomspace(0.02, 255.0, 36)  # of the Renyi estimate
SHARES = (0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)  # values of v1/v that are tried
SPENT = 0.1  # share of delta for the bound on R, see `Bok2024`
SMALLEST_MU, LARGEST_MU = 1e-9, 100.0
LARGEST_WEIGHT = 1e30  # of a step; a t0 before it could not lower a price visibly

Orders = Literal["real", "integer"]
Corner = tuple[float, float, float]  # of `_cheapest`: X, Y, and the cost of the steps to the left


@dataclass(frozen=True)
class Ryffel2022(Theorem):
    """Accountant of ryffel2022 for the last iterate of DP-Langevin; replace_one.

    Theorem 3.1: R_alpha = a alpha, with a = 4 L^2/(lambda n^2 sigma^2) (1 - exp(-lambda/2 sum_k eta_k)). Runs in
    sequence add up. Proposition 2.1: eps = min over alpha > 1 of a alpha + ln(1/delta)/(alpha - 1).

    The batch size does not enter, because the proof averages a step's sensitivity over batches to 2L/n. That average
    does not bound the Renyi divergence of the mixture over batches. So with sampled batches the result is the paper's
    claim and no guarantee.
    Differs: sum_k eta_k is summed exactly over k = 0, ..., K - 1. Corollary 3.3 replaces it by an integral, (2/lambda)
    ln(1 + lambda K/(4 beta)), which is smaller (it is above the sum over k = 1, ..., K).

    Attributes
    ----------
    orders : {"real", "integer"}
        "real": alpha = 1 + sqrt(ln(1/delta)/a), so eps = a + 2 sqrt(a ln(1/delta)). "integer": the best of 2, 3, ...
    """

    orders: Orders = "real"
    adjacencies = ("replace_one",)

    def __post_init__(self) -> None:
        settings(self)

    @property
    def name(self) -> str:
        return f"Ryffel et al. 2022 ({self.orders} orders)"

    def renyi(self, event: LangevinDpEvent, alpha: float) -> float:
        """Return R_alpha of Theorem 3.1, for alpha > 1."""
        if not alpha > 1:
            raise ValueError(f"alpha = {alpha} must be greater than 1")
        return alpha * self._slope(event)

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        slope = sum(count * self._slope(leaf) for leaf, count in leaves(event))
        if delta == 0:
            return math.inf
        log = -math.log(delta)
        best = 1 + math.sqrt(log / slope)
        if self.orders == "real":
            return slope * best + log / (best - 1)
        return min(
            slope * alpha + log / (alpha - 1) for alpha in (max(2, math.floor(best)), max(2, math.ceil(best)))
        )

    def violated(self, event: DpEvent, delta: float) -> tuple[str, ...]:
        """Return the conditions of Theorem 3.1 that `event` fails, as text with the values."""
        if trivial(event, delta) is not None:
            return ()
        return tuple(
            f"eta = {leaf.step_size:.4g} >= 1/beta = {1 / leaf.smoothness:.4g}"
            for leaf, _ in leaves(event)
            if isinstance(leaf, LangevinDpEvent) and leaf.step_size * leaf.smoothness >= 1
        )

    def _slope(self, event: DpEvent) -> float:
        if not isinstance(event, LangevinDpEvent):
            raise refuse(self.name, event, "it prices the last iterate of DP-SGLD (LangevinDpEvent)")
        if event.strong_convexity == 0:
            raise refuse(self.name, event, "Theorem 3.1 needs strong_convexity > 0")
        scale = 4 / event.strong_convexity * (event.lipschitz / (event.records * event.noise_std)) ** 2
        return scale * -math.expm1(-event.strong_convexity / 2 * float(event.step_sizes().sum()))


@dataclass(frozen=True)
class Bok2024:
    """Accountant of a LangevinDpEvent whose inner iterates stay hidden; never above that of all iterates.

    Every record's loss must be lambda-strongly convex and beta-smooth, not only their mean; lambda may be 0.

    A step moves by at most s_k = eta_k 2L/batch when one record changes (add_remove: eta_k L/batch). Its noise has
    variance v_k = 2 eta_k sigma^2. Its map x - eta_k grad L_B(x) is c_k-Lipschitz, with c_k = ``max(|1 - eta_k
    lambda|, |1 - eta_k beta|)``. Projections do not expand. Let w_k = prod_(j > k) c_j.

    Full batch: mu-GDP, where mu^2 is the least sum_k a_k^2/v_k over a_k such that

        z_0 = 0,  z_(k+1) = c_k z_k + s_k - a_k >= 0,  z_K = 0.

    Proof. A_(k+1) = Proj(phi_k(A_k) + Z_k) and A' are the chains of the two data sets, with equal starts (under
    add_remove phi_k is c_k-Lipschitz for the smaller one; `records` in the mean is a fixed number). Let H start at
    A'_0 = A_0, and H_(k+1) = Proj(phi'_k(H_k) + u_k + Z_k). The shift u_k goes from phi'_k(H_k) towards phi_k(A_k), by
    a_k or until it is there. By induction ||H_k - A_k|| <= z_k, so H_K = A_K. Z_k is independent of H_k and of u_k, so
    (u_k + Z_k, Z_k) given H_k is a_k/sqrt(v_k)-GDP for each u_k, thus for their mixture. Compose over k and project:
    T(A_K, A'_K) = T(H_K, A'_K) is at least that of mu-GDP.

    With T_k = sum_(j >= k) w_j a_j and Y_k = sum_(j >= k) w_j s_j the condition is T_k >= Y_k, with T_0 = Y_0, and a
    step costs (T_k - T_(k+1))^2/(w_k^2 v_k). So T over X_k = sum_(j >= k) w_j^2 v_j is the least concave majorant of
    Y. Where it is a straight line, this is their Theorem for NoisyGD, with equality for a quadratic loss. For c_k >= 1
    it is the price of all iterates. Some losses that are not convex show in the last iterate what all iterates show
    (Annamalai 2024).

    Sampled batches (in the manner of their section on NoisySGD), replace_one only; for c_k > 1 the epsilon is that of
    all iterates:

    1. Couple A and A' by the same batches and noise. Let R bound ||A_t0 - A'_t0||. It is at most 2 radius.
    2. From t0 on, split the noise: v_k = v1_k + v2_k. H starts at A'_t0 and runs with A's data and batches. It adds
       shifts a_k towards A, with sum_(k >= t0) w_k a_k = R prod_(j >= t0) c_j.
    3. Given H_k = x, releasing W = x - eta_k grad L_B(x) + Z2 costs the sampled Gaussian step of s_k/sqrt(v2_k),
       because B is fresh. Then W + shift + Z1 costs a_k/sqrt(v1_k), because Z1 is independent of the shift and of W,
       and hockey-stick divergences are jointly convex.
    4. Hence K - t0 sampled steps and a Gaussian mechanism with mu = R prod_(j >= t0) c_j / sqrt(sum_(k >= t0) w_k^2
       v1_k), composed, dominate the last iterate.

    Every t0 and v1/v2 gives a valid bound. A Renyi estimate chooses them, and PLD prices the choice.
    Differs: R is the smaller of their worst case sum_(k < t0) g_k, where g_k = s_k prod_(k < j < t0) c_j, and a
    Chernoff bound of sum_(k < t0) g_k b_k, where b_k ~ Bernoulli(batch/records) says whether the batch has the record.
    It fails with probability delta/10, and the rest is priced at 0.9 delta.
    """

    name: str = "Bok et al. 2024"

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Return epsilon at delta of one LangevinDpEvent; see `price`."""
        return self.price(event, delta, adjacency)[0]

    def price(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> tuple[float, str]:
        """Return epsilon at delta of one LangevinDpEvent, and its argument: "last iterate", or "all iterates"."""
        check_adjacency(adjacency, who=self.name)
        known = trivial(event, delta)
        if known is not None:
            return known, "all iterates"
        (leaf, count), *others = leaves(event)
        if others or count != 1 or not isinstance(leaf, LangevinDpEvent):
            raise refuse(self.name, event, "it prices one LangevinDpEvent")
        if leaf.batch == leaf.records:
            return epsilon_of(full_batch(leaf, adjacency), delta), "last iterate"
        check_adjacency(adjacency, ("replace_one",), f"{self.name} (sampled batches)")
        return _sampled(leaf, delta) if delta > 0 else (math.inf, "all iterates")


def contractions(event: LangevinDpEvent) -> np.ndarray:
    """Return c_k, (steps,), the Lipschitz constants of the noiseless steps."""
    eta = event.step_sizes()
    return np.maximum(np.abs(1 - eta * event.strong_convexity), np.abs(1 - eta * event.smoothness))


def full_batch(event: LangevinDpEvent, adjacency: Adjacency = "replace_one") -> float:
    """Return mu of the last iterate with full batches, rounded up; exact for a quadratic without projections."""
    cost = _cheapest(attr.evolve(event, noise_std=1.0), 2 if adjacency == "replace_one" else 1)
    return math.sqrt(cost) / event.noise_std * (1 + 8 * event.steps * UNIT)


@lru_cache(maxsize=4096)
def _cheapest(event: LangevinDpEvent, records: int) -> float:
    """Return the least sum_k a_k^2/v_k if so many records' gradients change; see `Bok2024`."""
    eta = event.step_sizes()
    shift = eta * event.lipschitz / event.records * records
    variance = 2 * eta * event.noise_std**2
    every = float((shift**2 / variance).sum())  # of all iterates
    corners: list[Corner] = [(0.0, 0.0, 0.0)]  # of the least concave majorant of Y over X
    x, y, weight = 0.0, 0.0, 1.0
    steps = list(zip(contractions(event).tolist(), shift.tolist(), variance.tolist(), strict=True))
    for c, s, v in reversed(steps):
        x, y, weight = x + weight**2 * v, y + weight * s, weight * c
        if weight > LARGEST_WEIGHT:
            return every

        def covered(i: int, x: float = x, y: float = y) -> bool:
            """Return whether corner i is on or below the line from the corner before it to (x, y)."""
            (x0, y0, _), (x1, y1, _) = corners[i - 1], corners[i]
            return (y1 - y0) * (x - x1) <= (y - y1) * (x1 - x0)

        last = len(corners) - 1
        if last > 0 and covered(last):
            last = bisect_left(range(1, last), True, key=covered)
        x0, y0, cost = corners[last]
        corners[last + 1 :] = [(x, y, cost + (y - y0) ** 2 / (x - x0))]
    return min(every, corners[-1][2])


def _log_weights(event: LangevinDpEvent) -> np.ndarray:
    logs = np.log(np.maximum(contractions(event), 1e-12))
    return np.concatenate([np.cumsum(logs[:0:-1])[::-1], [0.0]])


@lru_cache(maxsize=4096)
def _sampled(event: LangevinDpEvent, delta: float) -> tuple[float, str]:
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
    """Return R prod_(j >= t0) c_j for t0 in `firsts`, decreasing; each is exceeded with probability <= `failure`."""
    rate = event.batch / event.records
    weight = np.exp(_log_weights(event))
    ball = 2 * event.radius * np.maximum(weight, 1e-300)
    gain = weight * event.step_sizes() * 2 * event.lipschitz / event.batch
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
        found.append(float(min(total[first - 1], bound, ball[first - 1])))
    return found


def _renyi(rate: float, mu: np.ndarray) -> np.ndarray:
    """Return R_alpha of (1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1), (mu, ORDERS); 1e300 if very large."""
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
    """Return epsilon of Gaussian steps, full or without replacement, under replace_one; never above unsampled steps.

    A single sampled step has its exact epsilon, others PLD. Where a sampled step has mu > LARGEST_MU, the batches are
    taken as known: at most h of the k sampled steps meet the record, except with probability delta/2. So mu^2 is at
    most h times the largest mu^2.
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
