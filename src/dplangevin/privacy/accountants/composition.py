"""Numerical composition of discretised privacy losses: one product of Fourier transforms for all of them."""

import math
from collections.abc import Sequence

import numpy as np
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.fft import irfft, next_fast_len, rfft

from dplangevin.privacy.accountants.profiles import Discretised

SMALLEST_DELTA = 1e-10
LARGEST_GRID = 2**20
RELATIVE_CHANGE = 3e-3
LOST = 1e-15  # mass of a composition's tails that is cut off, and counted as infinite loss
NEGLIGIBLE = 1e-22  # modulus of a Fourier coefficient


def compose(parts: Sequence[tuple[Discretised, int]], losses: Sequence[float], delta: float) -> float:
    """Epsilon at delta of the composition of `parts`, each (distribution, how often); never understated.

    The grid's step starts at 1/64 of the smallest of `losses`, the parts' largest single losses (but no
    finer than 2^-18 of the largest), and is divided by 4 until epsilon moves by less than 0.3 % or the grid
    is too long. What is left is then below 0.1 %: a third of that move if the error falls with the step, a
    fifteenth if, as it does, with its square.
    Raises ValueError for delta below 1e-10, where the rounding of the convolution would show.
    """
    if delta < SMALLEST_DELTA:
        raise ValueError(
            f"delta = {delta} is below {SMALLEST_DELTA}, the smallest that numerical composition resolves"
        )
    step, before = max(min(losses) / 64, max(losses) / (LARGEST_GRID / 4)), math.inf
    while True:
        built = [(build(step), count) for build, count in parts]
        removal = _convolved([(part._pmf_remove.to_dense_pmf(), count) for part, count in built])
        symmetric = all(part._symmetric for part, _ in built)
        addition = (
            None
            if symmetric
            else _convolved([(part._pmf_add.to_dense_pmf(), count) for part, count in built])
        )
        epsilon = float(PrivacyLossDistribution(removal, addition).get_epsilon_for_delta(delta))
        if before - epsilon <= RELATIVE_CHANGE * epsilon or 4 * removal.size > LARGEST_GRID:
            return min(epsilon, before)
        step, before = step / 4, epsilon


def _convolved(parts: Sequence[tuple[DensePLDPmf, int]]) -> DensePLDPmf:
    """The distribution of the sum of `count` losses of each part: one product of Fourier transforms.

    The grid covers all but LOST of the sum (Chernoff's bound); that much is added to the infinite losses,
    which makes up for what wraps around.
    """
    index = np.arange(max(pmf.size for pmf, _ in parts))
    means = [float(pmf._probs @ index[: pmf.size]) for pmf, _ in parts]
    spread = sum(
        count * float(pmf._probs @ (index[: pmf.size] - mean) ** 2)
        for (pmf, count), mean in zip(parts, means, strict=True)
    )
    orders = np.geomspace(1 / len(index), max(16 / math.sqrt(spread or 1.0), 20 / len(index)), 12)[:, None]
    above, below = np.zeros((2, len(orders)))  # log E exp(+-order (sum - mean))
    high = shift = 0
    finite = 0.0
    for (pmf, count), mean in zip(parts, means, strict=True):
        above += count * _log_moment(pmf._probs, orders * (index[: pmf.size] - mean))
        below += count * _log_moment(pmf._probs, orders * (mean - index[: pmf.size]))
        high += count * (pmf.size - 1)
        shift += count * pmf._lower_loss
        finite += count * math.log1p(-pmf._infinity_mass)
    centre = sum(count * mean for (_, count), mean in zip(parts, means, strict=True))
    room = math.log(2 / LOST)
    high = math.ceil(min(high, centre + float(((above + room) / orders[:, 0]).min())))
    low = math.floor(max(0, centre - float(((below + room) / orders[:, 0]).min())))
    size = next_fast_len(max(high - low + 1, *(pmf.size for pmf, _ in parts)), real=True)
    product = np.ones(size // 2 + 1, dtype=complex)
    live = np.arange(len(product))  # the frequencies at which the product is not negligible
    for pmf, count in sorted(parts, key=lambda part: -part[1]):
        product[live] *= rfft(pmf._probs, size)[live] ** count
        live = live[np.abs(product[live]) > NEGLIGIBLE]
    mass = np.roll(irfft(product, size), -low)[: high - low + 1]
    step = parts[0][0]._discretization
    return DensePLDPmf(step, shift + low, mass, LOST - math.expm1(finite), True)


def _log_moment(mass: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """log sum mass exp(exponent) for each row of exponent; inf where that overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        moment = np.log(np.exp(exponent) @ mass)
    return np.where(np.isfinite(moment), moment, math.inf)
