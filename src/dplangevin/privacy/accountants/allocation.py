"""Dominating pairs of Gaussian steps on random allocation: each record is in one random step of an epoch.

Let mu = 1/(noise multiplier), and let g_1, ..., g_t be independent standard normals. An epoch has t steps. Let

    W_i = exp(mu g_i - mu^2/2),    V_i = exp(-mu g_i - mu^2/2),    A = mean of W_i,    B = mean of V_i.

R is the law of an epoch's results without the record. P is their law with it.

**add_remove.** For a removal, delta(e) = E max(0, A - exp(e)). For an addition, delta(e) = E max(0, 1 - exp(e) A).
Proof: given the other records' batches, dP/dR is the mean of exp(<u_i, x_i>/s^2 - ||u_i||^2/(2 s^2)), where x_i is the
noise N(0, s^2 I) of step i under R, and the record's share u_i, ||u_i|| <= 1, depends on earlier results. Given these,
each term is log-normal with a smaller or equal mu and mean 1, so at most W_i in the convex order. By induction from the
last step to the first, dP/dR is at most A in the convex order, and both delta are expectations of convex functions of
it. Steps without the record, in an incomplete epoch, have the constant 1 in place of W_i.

**replace_one.** delta(e) = E max(0, A - exp(e) B) in both directions, for the shares u and -u of the two records.
Proof: let the shares be u_i and v_i, and R the law with neither record. Then delta(e) is 1/t of E max(0, sum of Y_i),
with Y_i = W(u_i) - exp(e) V(v_i), where W and V are the density ratios of N(u_i, s^2 I) and N(v_i, s^2 I). All Y_i have
the mean 1 - exp(e). So the same induction works, if E max(0, Y - k) = N_u(E) - exp(e) N_v(E) - k N_0(E), with E the set
on which Y > k, is largest at v = -u, ||u|| = 1, for every k. Its derivatives are those at a fixed E. Turn v on its
sphere away from u, in the direction r orthogonal to v with <r, u> < 0. Along r, W(u) falls and V(v) is constant, so E
is a lower set in <x, r>, and -exp(e) E_(N_v) [<x - v, r> in E] >= 0. So v is opposite to u. On that line E is a
half-line x > x*. Longer u and longer v move N_u up and N_v down, so neither lowers the value.

For little noise a second bound is smaller. Let P, R and Q be the laws with one record, with neither, and with the
other. For every real a, P - exp(e) Q is (P - exp(a) R) + exp(a) (R - exp(e - a) Q). So delta(e) is at most delta(a) of
a removal, plus exp(a) times delta(e - a) of an addition. The pair has the smaller bound at every e. Both directions
are alike, so delta(0) <= (2 delta(e) + exp(e) - 1)/(exp(e) + 1), and the pair's masses add up to 1.

Epochs compose as any dominating pairs do (Zhu, Dong, Wang 2022, Theorem 10). That the pair of add_remove dominates is
in Chua et al. (2024) and in Feldman and Shenfeld (2025).

**Numbers.** A sum grows in the convex order if a term does. So values are spread between two neighbours on a grid with
the mean kept, which never understates any delta(e) above. Rounding is counted: masses are multiplied by 1 + (a bound
on their relative error), and losses are moved up.

- Sums of W_i are on geometric grids, as fine as the spread of the sum needs, and are doubled without Fourier
  transforms. All terms are positive, so all masses have small relative errors at any delta.
- Sums of Y_i are exponentially tilted and transformed, one law for each of a few e. Between these e the profile is
  replaced by its chord as a function of exp(e), which lies above it.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, rfft
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri_exp

from dplangevin.privacy.accountants.analytic_gaussian import UNIT, delta_of, epsilon_of
from dplangevin.privacy.accountants.composition import FLAT, FOURIER, multiples
from dplangevin.privacy.accountants.profiles import Atoms, normal_masses
from dplangevin.privacy.events import Adjacency

FINE = 24  # least number of grid points to the standard deviation of a sum
WIDEST = 2.0**-4  # largest step of a grid, in log(value)
POINTS = 1000  # most points of a grid
SHARE, REPLACED = 1e-9, 1e-4  # shares of delta for what is cut off, of sums of W and of sums of Y
LITTLE = 1e-6  # share of the variance of a sum that its lower end may add
REACH = 40.0  # standard normal numbers beyond it have no mass in float64
LEAST = 1e-250  # share that float64 still resolves
SMALLEST, LARGEST = 1e-8, 10.0  # values of mu whose sums are computed
SIZES = 12, 17  # least and largest log2 of the size of the Fourier transform of a sum of Y
FINEST = 16  # grid points to the standard deviation of Y, where there is room
WINDOW, ROOM = 4.0, 16.0  # its width: in largest terms, and on either side in standard deviations
STEEPEST = 50.0  # largest product of tilt and largest term
NODES = 24.0  # values of e to the spread of the loss
ROUGH = 3.0  # mu beyond which sums of Y need finer grids than there is room for
SPLITS = 2000  # values of a, see `_through_neither`


class _Sum(NamedTuple):
    """A law that is at least the sum of m = `terms` terms W_i in the convex order, at exp(step * power), (n,).

    `zero` is the probability of 0, `missing` the mean that lies at infinity, `error` bounds the masses' relative error.
    """

    step: float
    power: np.ndarray
    mass: np.ndarray
    zero: float
    missing: float
    error: float
    terms: int

    @property
    def value(self) -> np.ndarray:
        return np.exp(self.step * self.power)


class _Limits(NamedTuple):
    """What may be cut off a sum: `share` is a probability, `variance` is that of one W_i, `terms` is t."""

    mu: float
    share: float
    variance: float
    terms: int

    def step(self, terms: int, low: float, high: float) -> float:
        """Return the step of the grid of a sum of m terms W_i, whose ends are the log values low and high."""
        needed = min(WIDEST, math.sqrt(math.log1p(self.variance / terms)) / FINE)
        return max(needed, (high - low) / POINTS)

    def lowest(self, value: np.ndarray, mass: np.ndarray, mean: np.ndarray, terms: int) -> int:
        """Return how many values (n,) are so rare or so small that they may be spread between 0 and the next one."""
        variance = min(self.variance, 1.0)
        small = value * mean <= LITTLE * variance * terms
        small &= value <= math.sqrt(variance * self.terms) / (2 * FINE)
        small &= np.log(np.maximum(mass, 1e-300)) <= math.log(self.share) * terms / self.terms
        return int(np.argmin(np.append(small | (mass <= self.share * terms / self.terms), False)))


def pairs(noise_multiplier: float, steps: int, delta: float, adjacency: Adjacency) -> list[Atoms]:
    """Return the pairs of an epoch, one for each direction (one under replace_one), delta being its share."""
    if adjacency == "replace_one":
        return [replacement(noise_multiplier, steps, REPLACED * delta)]
    share = SHARE * delta
    return [removal(noise_multiplier, steps, share), addition(noise_multiplier, steps, share)]


def removal(noise_multiplier: float, steps: int, share: float) -> Atoms:
    """Return the pair of an epoch with the record against one without it; the probability `share` may be cut off."""
    total, loss = _mean(noise_multiplier, steps, share)
    grown = 1 + total.error
    return Atoms(loss + _moved(total), np.exp(loss) * total.mass * grown, total.missing / steps * grown)


def addition(noise_multiplier: float, steps: int, share: float) -> Atoms:
    """Return the pair of an epoch without the record against one with it, as `removal` does."""
    total, loss = _mean(noise_multiplier, steps, share)
    grown = 1 + total.error
    return Atoms(-loss[::-1] + _moved(total), total.mass[::-1] * grown, total.zero * grown)


def _moved(total: _Sum) -> float:
    """Return a bound on the error of a loss: of means, which every addition rounds, and of logarithms."""
    return UNIT * 256 * (total.terms.bit_length() + 1)


@lru_cache(maxsize=64)
def _mean(noise_multiplier: float, steps: int, share: float) -> tuple[_Sum, np.ndarray]:
    """Return the sum of W_1, ..., W_t, and the log of A at its values."""
    mu = 1 / noise_multiplier
    limits = _Limits(mu, share, math.expm1(min(mu**2, 700.0)), steps)
    one = total = _one(limits)
    for bit in bin(steps)[3:]:
        total = _added(total, total, limits)
        if bit == "1":
            total = _added(total, one, limits)
    return total, total.step * total.power - math.log(steps)


def _one(limits: _Limits) -> _Sum:
    mu = limits.mu
    normal: np.ndarray = np.linspace(-REACH, REACH, 4001)
    # the upper end: E W above it is at most the share
    high = mu**2 / 2 + mu * float(normal[np.argmax(log_ndtr(-normal) <= math.log(limits.share))])
    mass, mean = np.exp(log_ndtr(normal)), np.exp(log_ndtr(normal - mu))
    low = mu * float(normal[max(0, limits.lowest(np.exp(mu * normal - mu**2 / 2), mass, mean, 1) - 1)])
    low -= mu**2 / 2
    step = limits.step(1, low, high)
    index = np.arange(math.floor(low / step), math.ceil(high / step) + 1)
    value = np.exp(step * index)
    normal = (step * index + mu**2 / 2) / mu
    inside, weighted = normal_masses(normal), normal_masses(normal - mu)
    up = np.clip((weighted - value[:-1] * inside) / (value[:-1] * math.expm1(step)), 0.0, inside)
    mass = np.zeros(len(index))
    mass[1:] += up
    mass[:-1] += inside - up
    below, lifted = math.exp(log_ndtr(normal[0])), math.exp(log_ndtr(normal[0] - mu)) / value[0]
    mass[0] += min(lifted, below)
    mass[-1] += math.exp(log_ndtr(-normal[-1]))
    missing = math.exp(log_ndtr(mu - normal[-1]))
    error = UNIT * (256 + 2 * float(np.max(normal**2)))
    return _Sum(step, index, mass, max(0.0, below - lifted), missing, error, 1)


def _added(a: _Sum, b: _Sum, limits: _Limits) -> _Sum:  # noqa: PLR0914
    terms = a.terms + b.terms
    missing, error = a.missing + b.missing, a.error + b.error
    mass, value = np.multiply.outer(a.mass, b.mass), np.add.outer(a.value, b.value)
    if a is b:  # each pair once
        mass = np.triu(2 * mass)
        mass[np.diag_indices(len(mass))] /= 2
    kept = mass * value > limits.share * 1e-9 / mass.size
    zero = a.zero * b.zero + float(mass[~kept].sum())
    missing += float(mass[~kept] @ value[~kept])
    # sums with a term that is 0 keep the value of the other one
    value = np.concatenate([value[kept], a.value, b.value])
    mass = np.concatenate([mass[kept], b.zero * a.mass, a.zero * b.mass])
    logs = np.log(value)
    # a coarse histogram of the logs shows where the ends may be cut
    fine = (float(logs.max()) - float(logs.min())) / (8 * POINTS)
    cell = np.minimum(((logs - logs.min()) / fine).astype(np.int64), 8 * POINTS - 1)
    edges = np.exp(float(logs.min()) + fine * np.arange(1, 8 * POINTS + 1))
    masses, means = (np.bincount(cell, weights, 8 * POINTS) for weights in (mass, mass * value))
    start = limits.lowest(edges, np.cumsum(masses), np.cumsum(means), terms)
    beyond = np.cumsum(means[::-1])[::-1]  # partial mean from each cell on
    stop = (
        int(np.argmax(beyond <= limits.share * terms)) if beyond[-1] <= limits.share * terms else len(edges)
    )
    low = math.log(edges[max(start - 1, 0)]) if start else float(logs.min())
    high = math.log(edges[min(stop, len(edges) - 1)])
    step = limits.step(terms, low, high)
    place = logs / step
    first, last = math.floor(low / step), math.ceil(high / step)
    floor = np.clip(np.floor(place), first - 1, last).astype(np.int64)
    # mass below the grid is between 0 and its first value; mass above it goes down to its last value
    share = np.expm1(step * np.minimum(place - floor, 1.0)) / math.expm1(step)
    under, over = floor < first, floor >= last
    share = np.where(under, value / math.exp(step * first), np.where(over, 0.0, np.clip(share, 0.0, 1.0)))
    up = np.clip(share, 0.0, 1.0) * mass
    size = last - first + 2
    found = np.bincount(floor - first + 1, mass - up, size)
    found[1:] += np.bincount(floor - first + 1, up, size)[:-1]
    missing += float(mass[over] @ (value[over] - math.exp(step * last)).clip(min=0.0))
    most = int(np.bincount(floor - first + 1, minlength=size).max())
    zero += float(found[0])
    return _Sum(step, np.arange(first, last + 1), found[1:], zero, missing, error + UNIT * (most + 8), terms)


def replacement(noise_multiplier: float, steps: int, share: float) -> Atoms:
    """Return the pair of two epochs whose records differ, from its profile at a few e, alike in both directions."""
    mu = 1 / noise_multiplier
    spread = 2 * math.sqrt(math.expm1(min(mu**2, 50.0)) / steps)
    last = epsilon_of(2 * mu, share)  # without sampling, which never costs less
    epsilons, deltas, tilt = [0.0], [1.0], 0.0
    through = _through_neither(noise_multiplier, steps, share, last)
    misses = skipped = 0  # where sums of Y gave nothing they are left out for a while, which is never wrong
    while deltas[-1] > 8 * share and epsilons[-1] < last:
        unsampled = float(delta_of(2 * mu, epsilons[-1])) * (1 + 1e-9)
        deltas[-1] = min(deltas[-1], through(epsilons[-1]), unsampled)
        skipped += 1
        if mu <= ROUGH and skipped > misses:
            delta, tilt = _replaced(mu, steps, math.exp(epsilons[-1]), share, tilt)
            misses, skipped = 0 if delta < deltas[-1] else min(2 * misses + 1, 7), 0
            deltas[-1] = min(deltas[-1], delta)
        epsilons.append(min(last, epsilons[-1] + max(min(spread, 1.0), epsilons[-1] / 2) / NODES))
        deltas.append(deltas[-1])
    deltas[-1] = min(deltas[-1], float(delta_of(2 * mu, epsilons[-1])) * (1 + 1e-9))
    ratio, delta_at = np.exp(epsilons), np.array(deltas)
    # see the module docstring
    delta_at[0] = min(delta_at[0], (1 + 1e-9) * float(np.min((2 * delta_at + ratio - 1) / (ratio + 1))))
    ratio, corners = _hull(ratio, delta_at)
    slope = np.append(-np.diff(corners) / np.diff(ratio), 0.0)
    mass = ratio[1:] * np.maximum(-np.diff(slope), 0.0) * (1 + 1e-9)
    loss = np.log(ratio[1:])
    mirrored, infinity = mass * np.exp(-loss), float(corners[-1])
    zero = max(0.0, 1 - float(mass.sum()) - float(mirrored.sum()) - infinity)
    return Atoms(
        np.concatenate([-loss[::-1], [0.0], loss]), np.concatenate([mirrored[::-1], [zero], mass]), infinity
    )


def _through_neither(
    noise_multiplier: float, steps: int, share: float, last: float
) -> Callable[[float], float]:
    """Return the bound on delta(e), for e up to `last`, by a removal and then an addition."""
    share = max(SHARE * share * math.exp(-last), LEAST)  # delta of an addition counts exp(a) times
    removed = _profile(removal(noise_multiplier, steps, share))
    added = _profile(addition(noise_multiplier, steps, share))
    a = np.linspace(0.0, last, SPLITS)
    first, factor = removed(a), np.exp(a)
    return lambda epsilon: float(np.min(first + factor * added(epsilon - a))) * (1 + 1e-9)


def _profile(pair: Atoms) -> Callable[[np.ndarray], np.ndarray]:
    sums = [np.append(x[::-1].cumsum()[::-1], 0.0) for x in (pair.mass, pair.mass * np.exp(-pair.loss))]
    error = 4 * UNIT * (len(pair.mass) + 700)  # of the sums, and of exponentials of up to 700

    def delta(epsilon: np.ndarray) -> np.ndarray:
        above = np.searchsorted(pair.loss, epsilon, side="right")
        first, second = (each[above] for each in sums)
        found: np.ndarray = np.maximum(first - np.exp(epsilon) * second, 0.0) + error * first + pair.infinity
        return found

    return delta


def _hull(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the lower convex hull of points with increasing x."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1 and (y[kept[-1]] - y[kept[-2]]) * (x[i] - x[kept[-2]]) >= (y[i] - y[kept[-2]]) * (
            x[kept[-1]] - x[kept[-2]]
        ):
            kept.pop()
        kept.append(i)
    return x[kept], y[kept]


def _replaced(mu: float, steps: int, ratio: float, share: float, tilt: float) -> tuple[float, float]:  # noqa: PLR0914, PLR0915
    """Return a bound on E max(0, sum of Y)/t, with Y = W - ratio V, and its tilt; `tilt` starts the search."""
    far = mu - float(ndtri_exp(math.log(share)))  # E W beyond it is at most the share
    top = math.exp(mu * far - mu**2 / 2) - ratio * math.exp(-mu * far - mu**2 / 2)
    if top <= 0:
        return share, tilt
    spread = math.sqrt((1 + ratio**2) * math.expm1(mu**2) - 2 * ratio * math.expm1(-(mu**2)))
    window = WINDOW * top + 2 * ROOM * math.sqrt(steps) * min(spread, top)
    size = 2 ** round(min(max(math.log2(window / spread * FINEST), SIZES[0]), SIZES[1]))
    h = window / size
    # values below the lowest are raised to it
    index = multiples(-min(max(top, 3 * (ratio - 1)), window / 4) / h, top / h, FLAT)
    value = h * index
    normal = (np.arcsinh(value * math.exp(mu**2 / 2) / (2 * math.sqrt(ratio))) + math.log(ratio) / 2) / mu
    inside = normal_masses(normal)
    more, less = normal_masses(normal - mu), ratio * normal_masses(normal + mu)
    error = UNIT * (256 + 2 * float(np.max(normal**2)))
    up = more - less - value[:-1] * inside + error * (more + less + np.abs(value[:-1]) * inside)
    up = np.clip(up / np.diff(value), 0.0, inside)
    mass = np.append(inside - up, 0.0)
    mass[1:] += up
    mass[0] += math.exp(log_ndtr(normal[0]))
    mass[-1] += math.exp(log_ndtr(-normal[-1]))
    missing = math.exp(log_ndtr(mu - normal[-1]))

    def tilted(tilt: float) -> tuple[float, np.ndarray]:
        """Return the log of E exp(tilt Y), and the masses after tilting."""
        weight = mass * np.exp(tilt * (value - value[-1]))
        total = float(weight.sum())
        return math.log(total) + tilt * float(value[-1]), weight / total

    def slope(log_tilt: float) -> float:
        return float(tilted(math.exp(log_tilt))[1] @ value)

    # the tilted sum has the mean 0, which is where delta is decided, unless large terms outweigh that
    low = high = math.log(min(tilt or 1e-3 / spread, STEEPEST / top))
    stride = 0.1
    while slope(low) > 0 and low > math.log(1e-9 / top):
        low, stride = low - stride, 2 * stride
    while slope(high) < 0 and high < math.log(STEEPEST / top):
        high, stride = high + stride, 2 * stride
    found = low < high and slope(low) < 0 < slope(high)
    tilt = math.exp(float(brentq(slope, low, high, xtol=1e-2)) if found else high)
    log_moment, weight = tilted(tilt)
    if steps * log_moment > 700:  # beyond float64; other bounds then decide
        return math.inf, tilt
    coefficients = rfft(np.bincount(index % size, weight, size))
    logs = np.log(np.where(coefficients == 0, 1e-300, coefficients))
    sums = np.maximum(irfft(np.exp(steps * logs), size)[: size * 3 // 4], 0.0)
    # the same bounds as in `composition`, with t |error| |factor|^(t - 1) summed by Cauchy-Schwarz
    transform = FOURIER * math.log2(size)
    powers = [math.sqrt(2 / size * float(np.exp(2 * k * logs.real).sum())) for k in (steps - 1, steps)]
    off = transform * (steps * float(np.linalg.norm(weight)) * powers[0] + powers[1] / math.sqrt(size))
    off += 8 * UNIT * (steps + 60) * 2 / size * float(np.exp(steps * logs.real).sum())
    at = h * np.arange(len(sums))
    decay = at * np.exp(-tilt * at)
    total = (float(sums @ decay) + 2 * off * float(decay.sum())) * math.exp(steps * log_moment)
    end, beyond = h * len(sums), math.inf
    for steeper in max(tilt, 1 / top) * np.array([1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0]):
        if steeper * end > 1 and steeper * top < 300:
            log_mean = steps * tilted(steeper)[0] - steeper * end
            beyond = min(beyond, end * math.exp(min(log_mean, 700.0)))
    rounding = 1 + steps * (error + UNIT * (64 + 4 * tilt * top))
    return (total * rounding + beyond) / steps + missing, tilt
