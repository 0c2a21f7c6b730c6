"""Numerical composition of privacy losses by PLD, from above, with every rounding error charged.

The losses of a step are put on multiples of h by "connect the dots" (Doroshenko et al. 2022): mass between two
multiples is split so that its likelihood ratio keeps its mean under Q, which never understates delta(epsilon). Large
losses use fewer multiples, never farther apart than 2/FLAT of the loss.

Let K be the log moment generating function of the sum S of all losses. The sum is convolved after exponential tilting,
``P'(s) = exp(lambda s - K(lambda)) P(s)``, where lambda K'(lambda) - K(lambda) = log(1/delta). This moves the mean of
S to where delta is decided (Gopi, Lee, Wutschitz 2021, section 5). Then all tails are as accurate as the centre.

The errors of float64 arithmetic are bounded and counted as delta, with u = 2^-53:

- Entry k of a step's pmf has a relative error ``u (64 + |log p_k| + |tilt_k|)``. The errors are summed over the tilted
  pmf, times its count.
- Every loss is moved up by ``u (64 + 16 |loss| + x^2)`` before it is split between two multiples of h.
- A Fourier transform of n numbers has an error of at most 4 u log2(n) of its L2 norm (Higham 2002, section 24.1, has
  less for radix 2). A coefficient that is summed up directly, in runs of r, has an error of u (4 r + 2 n/r + 64).
  Powers and products propagate these errors. We count this to first order and double it.
- What is cut off above counts as infinite loss. What is cut off below counts as the lowest loss. What wraps around in
  the convolution only adds mass.

Where these errors would weigh as much as delta itself, the Renyi bound of the same losses is the answer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.signal import lfilter

from dplangevin.privacy.accountants.profiles import Atoms, DominatingPair

Parts = Sequence[tuple[DominatingPair | Atoms, int]]  # pairs, with the number of times that each is composed

FINEST, COARSEST = 64, 16  # values of (root mean square spread of a step)/h
FLAT = 512  # multiples of h on either side of 0 that are all used, see `multiples`
LARGEST_PMF, LARGEST_SUM = 2**22, 2**24  # largest range of a step's losses, and of the sum, over h
ROOM = 24.0  # expected width of the sum's grid, in standard deviations
CUT = 1e-8  # share of delta that all upper tails together may have
BELOW = 1e-7  # probability of all lower tails together; a tail counts as its upper end
WRAPPED = 1e-12  # mass of the tilted sum that may wrap around, at either end of its grid
FAR = 16.0  # so that exp(FAR) WRAPPED, about 1e-5, is small: see `LossSum._convolved`
TOLERANCE = 2.5e-4  # share of epsilon that the grid may add before it is refined
UNIT = 2.0**-53
FOURIER = 4 * UNIT
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)
NARROW, SHALLOW = 0.05, 0.25  # widths in x and in loss: narrower masses use quadrature
ROOT, RUN = 64, 32  # see `_transformed`
NEGLIGIBLE = 1e-25  # modulus below which a Fourier coefficient is dropped
SMALLEST_DELTA = 1e-200
LARGEST_LOSS = 1e11  # quadrature fails to find the spread of larger losses


class Pmf(NamedTuple):
    """The masses (n,) of a loss on whole multiples of h, (n,) increasing, and at infinity.

    `split` (n,) is E (L - a) (b - L) of the losses between a multiple, a, and the next, b: the variance that is added.
    """

    multiples: np.ndarray
    mass: np.ndarray
    infinity: float
    split: np.ndarray


class Composed(NamedTuple):
    """An epsilon, never below the exact one, and a first-order estimate (no bound) of what grid and rounding added."""

    epsilon: float
    estimate: float


def compose(parts: Parts, delta: float, enough: float = 0.0) -> Composed:
    """Return the smallest epsilon at delta, in (1e-200, 1), that can be proved for the composition of `parts`.

    Epsilon is never understated. It is within 1e-3 of the exact epsilon for Gaussian steps that are together 10-GDP or
    less, for up to 1e8 steps and delta from 1e-14 to .1. Below `enough`, an epsilon that the caller charges in any
    case, the grid is not refined.
    """
    if not SMALLEST_DELTA < delta < 1:
        raise ValueError(f"delta = {delta} must be in ({SMALLEST_DELTA}, 1) for numerical composition")
    if not all(on_a_grid(pair) for pair, _ in parts):
        raise ValueError(
            f"privacy losses of {LARGEST_LOSS:.0e} and more are not composed on a grid: add noise"
        )
    parts = [(pair, count) for pair, count in parts if pair.spread > 0]
    parts.sort(key=lambda part: -part[1] * part[0].spread ** 2)  # `LossSum._on_grid` needs the widest first
    best = Composed(math.inf if parts else 0.0, 0.0)
    step, flat = grid_step(parts, delta) if parts else 0.0, FLAT
    while parts:
        built = [(connected(pair, step, flat, *_cuts(parts, count, delta)), count) for pair, count in parts]
        before, best = best, min(best, LossSum(built, step, delta).composed())
        step, flat = step / 2, flat * 2
        fine = best.epsilon <= enough or best.estimate <= TOLERANCE * best.epsilon
        converged = before.epsilon - best.epsilon <= TOLERANCE / 4 * best.epsilon
        if fine or converged or not _fits(parts, step, delta):
            break
    return best


def on_a_grid(pair: DominatingPair | Atoms) -> bool:
    """Return whether a grid resolves the pair's losses, that is, whether they are below LARGEST_LOSS."""
    with np.errstate(all="ignore"):
        low, high = pair.reach(BELOW, SMALLEST_DELTA)
    return -LARGEST_LOSS < low <= high < LARGEST_LOSS


def grid_step(parts: Parts, delta: float) -> float:
    """Return h, a power of two, as fine as the grids have room for: 1/16 to 1/64 of the spread of a step.

    A finer grid divides a coarser one, and more noise or fewer steps never make it coarser. So neither raises epsilon.
    """
    count = sum(n for _, n in parts)
    spread = math.sqrt(sum(n * pair.spread**2 for pair, n in parts) / count)
    resolution = min(FINEST, max(COARSEST, LARGEST_SUM / (ROOM * math.sqrt(count))))
    step = 2.0 ** math.floor(math.log2(spread / resolution))
    while not _fits(parts, step, delta):
        step *= 2
    return step


def _fits(parts: Parts, step: float, delta: float) -> bool:
    reaches = [pair.reach(*_cuts(parts, count, delta)) for pair, count in parts]
    if max(high - low for low, high in reaches) > LARGEST_PMF * step:
        return False
    farthest = sum(count * max(-low, high) for (low, high), (_, count) in zip(reaches, parts, strict=True))
    if farthest > 2**45 * step:  # beyond this, whole numbers and losses lose digits
        return False
    spread = math.sqrt(sum(count * pair.spread**2 for pair, count in parts))
    return ROOM * spread <= LARGEST_SUM * step


def _cuts(parts: Parts, count: int, delta: float) -> tuple[float, float]:
    """Return the probabilities that a pair composed `count` times may move at its lower and upper end."""
    return BELOW / (count * len(parts)), CUT * delta / (count * len(parts))


def multiples(low: float, high: float, flat: int) -> np.ndarray:
    """Return whole numbers covering low to high: all up to `flat` (even), every 2nd up to 2 flat, and so on."""
    far = max(-low, high, 1.0)
    octaves = max(0, math.ceil(math.log2(far / flat)))
    scaled = [2**k * np.arange(flat, 2 * flat, 2) for k in range(octaves)]
    up = np.concatenate([np.arange(flat), *scaled, [flat * 2**octaves]])
    grid = np.concatenate([-up[:0:-1], up])
    first = np.searchsorted(grid, low, "right") - 1
    last = max(int(np.searchsorted(grid, high)), int(first) + 1)
    return grid[first : last + 1]


def connected(pair: DominatingPair | Atoms, step: float, flat: int, below: float, above: float) -> Pmf:
    """Return P of a dominating pair with its losses put on multiples of `step` by "connect the dots".

    Of the mass in [a, b], where a and b are neighbouring losses, the share ``E (1 - exp(a - L))/(1 - exp(a - b))``
    goes up and the rest goes down. `below` and `above` are probabilities that may be moved at the two ends.
    """
    low, high = pair.reach(below, above)
    if isinstance(pair, Atoms):
        return _placed(pair, step, multiples(low / step, high / step, flat))
    index = multiples(0.0 if pair.symmetric else low / step, high / step, flat)
    loss = step * index
    x = pair.place(loss)
    mass, up, split = _split(pair, loss, x)
    grid, split = np.zeros(len(loss)), np.append(split, 0.0)
    grid[1:] += up
    grid[:-1] += mass - up
    infinity = pair.above(float(x[-1]))
    if pair.symmetric:
        weight = np.exp(-loss[:0:-1])
        mirrored = grid[:0:-1] * weight
        at_zero = max(0.0, 1 - float(grid[1:].sum()) - float(mirrored.sum()) - infinity)
        index = np.concatenate([-index[:0:-1], index])
        split = np.concatenate([split[-2::-1] * weight, split])
        return Pmf(index, np.concatenate([mirrored, [at_zero], grid[1:]]), infinity, split)
    grid[0] += max(0.0, 1 - float(grid.sum()) - infinity)  # the mass of P below the lowest loss
    return Pmf(index, grid, infinity, split)


def _placed(pair: Atoms, step: float, index: np.ndarray) -> Pmf:
    grid = step * index
    at = np.searchsorted(grid, pair.loss, "right") - 1
    floor, inside = np.clip(at, 0, len(grid) - 2), at < len(grid) - 1
    gap = np.diff(grid)[floor]
    above = np.clip(pair.loss - grid[floor] + UNIT * (64 + 16 * np.abs(pair.loss)), 0.0, gap)
    mass = np.where(inside, pair.mass, 0.0)
    up = mass * np.expm1(-above) / np.expm1(-gap)
    found = np.bincount(floor, mass - up, len(grid)) + np.bincount(floor + 1, up, len(grid))
    last = pair.mass[~inside & (pair.loss <= grid[-1])].sum()  # at the highest multiple itself
    found[-1] += last
    infinity = pair.infinity + float(pair.mass[pair.loss > grid[-1]].sum())
    found = np.maximum(found, 0.0)  # rounding may leave -1e-19 of a mass that goes up as a whole
    return Pmf(index, found, infinity, np.bincount(floor, mass * above * (gap - above), len(grid)))


def _split(  # noqa: PLR0914
    pair: DominatingPair, loss: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return P between neighbouring losses, the part that goes up, rounded up, and `Pmf.split`: (n - 1,) each."""
    gap = np.diff(loss)
    with np.errstate(invalid="ignore"):
        width = np.diff(x)
    narrow = (width < NARROW) & (gap < SHALLOW)
    mass, up, split = np.zeros((3, len(width)))
    start, half, floor, room = x[:-1][narrow], width[narrow] / 2, loss[:-1][narrow], gap[narrow]
    share = -1 / np.expm1(-gap)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        at = start + half * (1 + node)
        p = half * weight * pair.density(at)
        mass[narrow] += p
        above = np.clip(pair.loss(at) - floor, 0.0, room)
        up[narrow] -= p * np.expm1(-above) * share[narrow]
        split[narrow] += p * above * (room - above)
    wide = np.flatnonzero(~narrow)
    if len(wide):
        p, q = (found[wide] for found in pair.mass(x))
        mass[wide] = p
        with np.errstate(divide="ignore"):
            down = np.exp(np.minimum(loss[wide] + np.log(q), 700.0))
        up[wide] = np.clip((p - down) * share[wide], 0.0, p)
        split[wide] = up[wide] * (1 - up[wide] / np.maximum(p, 1e-300)) * gap[wide] ** 2
    finite = np.where(np.isfinite(x), x, 0.0)
    far = np.maximum(np.abs(finite[:-1]), np.abs(finite[1:]))
    relative = np.where(narrow, 1.0, 1 + 1 / np.fmax(width, 1e-9))
    moved = UNIT * (64 + 16 * np.abs(loss[1:]) + far**2 * relative)
    return mass, np.clip(up + moved * share * mass, 0.0, mass), split


@dataclass(frozen=True)
class _Part:
    """A pmf composed `count` times; `keep` (n,) are the indices of the multiples that have a mass."""

    pmf: Pmf
    count: int
    keep: np.ndarray
    loss: np.ndarray
    log_mass: np.ndarray

    def tilted(self, tilt: float) -> tuple[np.ndarray, float]:
        """Return the log masses after tilting, minus the largest of them, (n,), and the largest."""
        power = tilt * self.loss + self.log_mass
        top = float(power.max())
        return power - top, top


class LossSum:
    """The composition of (pmf, count) on one grid of step h, near the epsilon that belongs to delta."""

    def __init__(self, parts: Sequence[tuple[Pmf, int]], step: float, delta: float) -> None:
        self.step, self.delta = step, delta
        self.count = sum(count for _, count in parts)
        self.infinity = -math.expm1(sum(count * math.log1p(-pmf.infinity) for pmf, count in parts))
        self.parts = []
        for pmf, count in parts:
            keep = np.flatnonzero(pmf.mass)
            self.parts.append(_Part(pmf, count, keep, step * pmf.multiples[keep], np.log(pmf.mass[keep])))
        self.tilt = self._saddle()

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Return K, K' and K'' of the finite part of the sum at `tilt`."""
        cumulants = np.zeros(3)
        for part in self.parts:
            power, top = part.tilted(tilt)
            weight = np.exp(power)
            total = float(weight.sum())
            mean = float(weight @ part.loss) / total
            variance = float(weight @ (part.loss - mean) ** 2) / total
            cumulants += part.count * np.array([top + math.log(total), mean, variance])
        return float(cumulants[0]), float(cumulants[1]), float(cumulants[2])

    def _saddle(self) -> float:
        """Return the tilt at which tilt K' - K = log(1/delta), or the largest tilt that is tried."""
        wanted = -math.log(self.delta)

        def missing(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            value, slope, _ = self.cumulants(tilt)
            return tilt * slope - value - wanted

        variance = max(self.cumulants(0.0)[2], 1e-300)
        guess = math.log(math.sqrt(2 * max(wanted, 0.1) / variance))
        low, high = guess - 1.0, guess + 1.0
        most = math.log(4 / self.step)  # no tilt solves it if the highest loss outweighs delta
        while missing(low) > 0 and low > guess - 60:
            low -= 3.0
        while missing(high) < 0:
            if high >= most:
                return math.exp(most)
            high = min(high + 1.5, most)
        return math.exp(float(brentq(missing, low, high, xtol=1e-3)))

    def composed(self) -> Composed:
        epsilon, charged = self._convolved()
        grid = self._grid_variance() * (1 + self.tilt) / 2  # adding a law N(v/2, v) to the sum would add this
        result = Composed(epsilon, grid + charged / (self.delta * self.tilt) if epsilon > 0 else 0.0)
        return min(result, Composed(self._renyi(), math.inf))

    def _grid_variance(self) -> float:
        """Return what connecting the dots adds to the variance of the tilted sum."""
        added = 0.0
        for part in self.parts:
            power, top = part.tilted(self.tilt)
            upper = np.append(part.pmf.multiples[1:], part.pmf.multiples[-1])[part.keep]
            ends = self.tilt * self.step * upper - top  # at the upper multiple, where the weight is largest
            between = float(part.pmf.split[part.keep] @ np.exp(np.minimum(ends, 600.0)))
            added += part.count * between / float(np.exp(power).sum())
        return added

    def _room(self, mean: float, sigma: float) -> tuple[int, int, float]:
        """Return the grid of the sum, (low, high), and a bound, by Chernoff at most CUT delta, on P above it.

        The masses that wrap around, P'(S < low) and P'(S > high), are at most WRAPPED each and only raise the price.
        """
        value, share = self.cumulants(self.tilt)[0], CUT * self.delta
        most = sum(part.count * int(part.pmf.multiples[-1]) for part in self.parts)
        least = sum(part.count * int(part.pmf.multiples[0]) for part in self.parts)
        above, wrapped, below = [], [], []
        for factor in (1.02, 1.05, 1.15, 1.3, 1.5, 2.0, 3.0):
            tilt = factor * self.tilt
            moment = self.cumulants(tilt)[0]
            above.append((moment - math.log(share)) / tilt)
            wrapped.append((moment - value - math.log(WRAPPED)) / (tilt - self.tilt))
        for factor in (0.9, 0.75, 0.5, 0.25, 0.0, -1.0):
            tilt = factor * self.tilt  # P'(S < low) <= exp(K(tilt) - K - (tilt - self.tilt) low)
            below.append((self.cumulants(tilt)[0] - value - math.log(WRAPPED)) / (tilt - self.tilt))
        high = math.ceil(max(min(above), min(wrapped)) / self.step) + 1
        low = math.floor(max(below) / self.step) - 1
        low = min(low, math.floor((mean - sigma) / self.step))
        return max(low, least), min(high, most), 0.0 if high >= most else share

    def _convolved(self) -> tuple[float, float]:
        """Return epsilon, and the part of delta that it spends on rounding and cut tails."""
        for _ in range(16):
            value, mean, variance = self.cumulants(self.tilt)
            low, high, above = self._room(mean, math.sqrt(variance))
            if high - low < LARGEST_SUM:  # otherwise large losses: a smaller tilt keeps them rare
                epsilon, charged = self._on_grid(value, low, high, above)
                # mass that wraps around is exp(tilt (mean - epsilon)) times as likely at epsilon
                if epsilon in (0.0, math.inf) or self.tilt * (mean - epsilon) <= FAR:
                    return epsilon, charged
            self.tilt /= math.sqrt(2)
        return math.inf, 0.0

    def _on_grid(self, value: float, low: int, high: int, above: float) -> tuple[float, float]:  # noqa: PLR0914
        """Return the same as `_convolved`, with the sum on h (low, ..., high); value: K; above: a bound on P beyond."""
        tilt, size = self.tilt, next_fast_len(max(high - low + 1, 16), real=True)
        logs = np.zeros(size // 2 + 1, dtype=complex)
        live = np.arange(len(logs))
        carried, weights = np.zeros(len(logs)), 0.0  # for the error bound at the end
        l1, offset = 0.0, 0
        for part in self.parts:
            power, _ = part.tilted(tilt)
            count, weight = part.count, np.exp(power)
            weight /= weight.sum()
            rounding = 64 + np.abs(part.log_mass) + np.abs(power) + np.abs(tilt * part.loss)
            l1 += count * UNIT * float(weight @ rounding)
            index = part.pmf.multiples[part.keep]
            centre = round(float(weight @ index))
            offset += count * centre
            coefficients, off = _transformed((index - centre) % size, weight, live, size)
            modulus = np.maximum(np.abs(coefficients), 1e-100)
            logs[live] += count * np.log(np.where(coefficients == 0, 1e-300, coefficients))
            carried[live] += count * off / modulus**2
            weights += count * off
            live = live[logs.real[live] > math.log(NEGLIGIBLE)]
        product = np.zeros(size // 2 + 1, dtype=complex)
        product[live] = np.exp(logs[live])
        moduli = np.abs(product[live])
        transform = FOURIER * math.log2(size)
        # max norm of the sum's error, relative to a total mass of 1: see the module docstring
        error = 4 * UNIT * (self.count + 60) * 2 * float(moduli.sum()) / size
        error += transform * math.sqrt(2 * float((moduli**2).sum()) / size)
        error += NEGLIGIBLE
        # adds up count |transform's error| |product/factor| over parts, by Cauchy-Schwarz
        error += 2 * math.sqrt(weights * 2 * float(moduli**2 @ carried[live]) / size)
        mass = np.roll(irfft(product, size), (offset - low) % size)[: high - low + 1]
        mass = np.maximum(mass, 0.0)
        return self._inverted(mass, low, value, error, l1, above)

    def _inverted(  # noqa: PLR0914
        self, mass: np.ndarray, low: int, value: float, error: float, l1: float, above: float
    ) -> tuple[float, float]:
        """Return epsilon from the tilted masses on low, low + 1, ..., and the part of delta that it spends."""
        step, tilt, fixed = self.step, self.tilt, self.infinity + above
        if fixed >= self.delta:
            return math.inf, fixed
        first = max(low, 0)
        mass = mass[first - low :]
        if not len(mass):
            return 0.0, fixed
        index = first + np.arange(len(mass))
        # divide all by exp(K - tilt * anchor), so that no weight overflows
        anchor = step * index[0]
        scale = value - tilt * anchor  # log of this divisor
        log_weight = -tilt * (step * index - anchor)
        weights = mass * np.exp(log_weight)
        tails, sticks = _hockey_stick(weights, step)
        # rounding at epsilon = jh: L1 errors times the largest exp(-tilt s) (1 - exp(-s)),
        # max-norm errors times the sum of these
        peak = math.exp(_log_peak(tilt))
        total = -1 / math.expm1(-tilt * step) + 1 / math.expm1(-(1 + tilt) * step)
        charge = np.exp(log_weight) * (2 * l1 * peak + error * total)
        allowed = math.exp(min(math.log(self.delta - fixed) - scale, 700.0))
        cost = sticks * (1 + 1e-9) + charge
        below = np.flatnonzero(cost <= allowed)
        if not len(below):
            return math.inf, fixed
        j = int(below[0])
        charged = fixed + float(charge[j]) * math.exp(min(scale, 700.0))
        if j == 0:
            return float(step * first), charged
        # between two multiples delta(epsilon) is tail - exp(epsilon - (j - 1) h) (tail - delta((j - 1) h))
        tail, stick = tails[j], sticks[j - 1]
        rise = (tail * (1 + 1e-9) + charge[j - 1] - allowed) / max(tail - stick, 1e-300)
        between = math.log(rise) if rise > 0 else 0.0
        return float(step * (first + j - 1) + min(max(between, 0.0), step) * (1 + 1e-12)), charged

    def _renyi(self) -> float:
        """Return the Renyi bound on epsilon (Canonne, Kamath, Steinke 2020, Proposition 12, of order 1 + tilt).

        It is the minimum over tilts of (K + log(1/delta) + tilt log(tilt/(1 + tilt)) - log(1 + tilt))/tilt, by E
        max(0, 1 - exp(epsilon - S)) <= peak exp(K - tilt epsilon), with peak = max_s exp(-tilt s)(1 - exp(-s)).
        """
        spare = self.delta - self.infinity
        if spare <= 0:
            return math.inf
        largest = max(float(np.abs(part.loss).max()) for part in self.parts)
        bounds = []
        for factor in np.geomspace(0.5, 2.0, 9):
            tilt = float(factor) * self.tilt
            value = self.cumulants(tilt)[0]
            value += self.count * UNIT * (128 + 16 * tilt * largest)
            bounds.append((value - math.log(spare) + _log_peak(tilt)) / tilt)
        return max(0.0, min(bounds))


def _transformed(
    index: np.ndarray, weight: np.ndarray, wanted: np.ndarray, size: int
) -> tuple[np.ndarray, float]:
    """Return the Fourier coefficients `wanted` of weights (n,) at index (n,) in [0, size), and a bound on their error.

    The bound is the L2 norm of the errors of these coefficients and of their conjugates, over sqrt(size). Few
    coefficients of few weights (>= 0, of sum 1) are summed up directly, in runs of RUN, with exp(-2 pi i j k/size) as
    a product of two factors, k = ROOT a + b.
    """
    blocks, place = np.unique(wanted // ROOT, return_inverse=True)
    if 16 * len(wanted) > size or len(index) * (ROOT + len(blocks)) > size:
        folded = np.bincount(index, weights=weight, minlength=size)
        return rfft(folded)[wanted], FOURIER * math.log2(size) * float(np.linalg.norm(folded))
    rest = (0, -len(index) % RUN)
    index, weight = np.pad(index, rest).reshape(-1, 1, RUN), np.pad(weight, rest).reshape(-1, 1, RUN)
    turn = -2j * math.pi / size
    within = np.exp(turn * (np.arange(ROOT)[:, None] * index % size))
    across = weight * np.exp(turn * (ROOT * blocks[:, None] * index % size))
    coefficients: np.ndarray = (across @ within.swapaxes(1, 2)).sum(0)[place, wanted % ROOT]
    return coefficients, UNIT * (4 * RUN + 2 * len(index) + 64) * math.sqrt(2 * len(wanted) / size)


def _log_peak(tilt: float) -> float:
    """Return the log of the largest value of exp(-tilt s) (1 - exp(-s)) for s > 0."""
    return -tilt * math.log1p(1 / tilt) - math.log1p(tilt)


def _hockey_stick(mass: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return, for masses (..., n) on consecutive multiples of h, the mass from each multiple on, and delta_j.

    delta_j = sum_(k > j) m_k (1 - exp((j - k) h)) = exp(-h) delta_(j+1) + (1 - exp(-h)) (mass from j + 1 on).
    """
    tails = np.cumsum(mass[..., ::-1], -1)
    sticks = lfilter([-math.expm1(-step)], [1.0, -math.exp(-step)], tails, axis=-1)
    later = np.zeros_like(mass)
    later[..., :-1] = sticks[..., ::-1][..., 1:]
    return tails[..., ::-1], later
