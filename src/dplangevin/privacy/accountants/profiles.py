"""Privacy profiles delta(epsilon), epsilon >= 0, and their discretisation.

A profile bounds the hockey-stick divergence of *both* directions of every neighbouring pair; by symmetry
delta(-e) = 1 - exp(-e) + exp(-e) delta(e), so it fixes a dominating pair, and dominating pairs compose,
adaptively too (Zhu, Dong, Wang 2022, Proposition 8 and Theorem 10). It is discretised by "connect the dots"
(Doroshenko et al. 2022), which only ever overstates the loss; `composition.compose` does the rest.
"""

import math
from collections.abc import Callable

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_gaussian_mechanism

from dplangevin.privacy.accountants.analytic_gaussian import delta_of
from dplangevin.privacy.events import Adjacency

TAIL = 1e-18
REACH = 9.0  # standard deviations of noise that a grid covers

Profile = Callable[[np.ndarray], np.ndarray]
Discretised = Callable[[float], PrivacyLossDistribution]


def bounded_range(eta: float) -> Profile:
    """The exact profile of eta-bounded range, (1 - exp((e - eta)/2))^2/(1 - exp(-eta)) for e <= eta.

    Dong, Durfee, Rogers (2020): the worst pair has losses t and t - eta, the first with probability p_t =
    (1 - exp(t - eta))/(1 - exp(-eta)); delta(e) = sup_t p_t (1 - exp(e - t)), attained at t = (eta + e)/2.
    """
    return lambda epsilon: np.expm1(np.minimum(epsilon - eta, 0.0) / 2) ** 2 / -math.expm1(-eta)


def bounded_range_epsilon(eta: float, delta: float) -> float:
    """The inverse of `bounded_range`: eta + 2 log(1 - sqrt(delta (1 - exp(-eta)))), at least 0."""
    return max(0.0, eta + 2 * math.log1p(-math.sqrt(delta * -math.expm1(-eta))))


def without_replacement(rate: float, mu: float) -> Profile:
    """Gaussian mechanism (replace_one mu) on a uniform subset of fixed size; rate = batch/records in (0, 1].

    rate delta_mu(log(1 + (exp(e) - 1)/rate)): Balle, Barthe, Gaboardi (2018), Theorem 11, replace_one.
    """

    def profile(epsilon: np.ndarray) -> np.ndarray:
        return rate * delta_of(mu, epsilon + np.log1p((1 - rate) / rate * -np.expm1(-epsilon)))

    return profile


def largest_loss(profile: Profile) -> float:
    """A power of two times 1e-9 beyond which the profile is below TAIL: where its discretisation may end."""
    loss = 1e-9
    while float(profile(np.array(loss))) > TAIL:
        loss *= 2
    return loss


def discretised(profile: Profile) -> Discretised:
    """step -> the profile's privacy loss distribution on multiples of step, pessimistic."""
    end = largest_loss(profile)

    def build(step: float) -> PrivacyLossDistribution:
        count = math.ceil(end / step)
        epsilon = step * np.arange(count + 1)
        delta = np.minimum.accumulate(np.minimum(profile(epsilon), 1.0))
        mirrored = (-np.expm1(-epsilon) + np.exp(-epsilon) * delta)[:0:-1]
        return PrivacyLossDistribution(_connected(step, -count, np.concatenate([mirrored, delta])))

    return build


def _connected(step: float, lowest: int, delta: np.ndarray) -> DensePLDPmf:
    """Connect the dots: the distribution on step * (lowest, lowest + 1, ...) that has these deltas there.

    Doroshenko et al. (2022), Algorithm 1. delta: (n,), n >= 2, not increasing up to rounding.
    """
    delta = np.minimum.accumulate(delta)
    falls = -np.diff(delta)
    mass = np.zeros(len(delta))
    above = -1 / math.expm1(-step)
    mass[1:] += falls * above
    mass[:-1] -= falls * (above * math.exp(-step))
    mass[0] += 1 - delta[0]
    return DensePLDPmf(step, lowest, np.maximum(mass, 0.0), float(delta[-1]), True)


def poisson(rate: float, noise_multiplier: float, adjacency: Adjacency) -> Discretised:
    """step -> the distributions of the Poisson-sampled Gaussian mechanism.

    replace_one is dp_accounting's, whose noise_multiplier is relative to one record's norm, as here. In
    add_remove, with P0 = N(0, 1), P1 = N(mu, 1), mu = 1/noise_multiplier, and f(e) = log(1 + (exp(e) - 1)/q)
    the loss before sampling,

        removal, (1 - q) P0 + q P1 against P0:  q delta_mu(f(e)),               1 - exp(e) below log(1 - q)
        addition, P0 against (1 - q) P0 + q P1: q exp(e + f(-e)) delta_mu(-f(-e)),  0 above -log(1 - q).
    """
    if adjacency == "replace_one" or rate == 1:
        relation = {
            "replace_one": NeighboringRelation.REPLACE_ONE,
            "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
        }[adjacency]
        return lambda step: from_gaussian_mechanism(
            noise_multiplier,
            value_discretization_interval=step,
            sampling_prob=rate,
            neighboring_relation=relation,
        )
    mu = 1 / noise_multiplier
    unsampled = REACH * mu + mu**2 / 2
    lowest = math.log1p(rate * math.expm1(-unsampled))
    highest = (
        math.log1p(rate * math.expm1(unsampled)) if unsampled < 700 else unsampled + math.log(rate)
    )  # of the loss of a removal

    def before(loss: np.ndarray) -> np.ndarray:
        ratio = np.expm1(np.minimum(loss, 700.0)) / rate
        return np.where(loss < 700, np.log1p(np.maximum(ratio, np.nextafter(-1, 0))), loss - math.log(rate))

    def build(step: float) -> PrivacyLossDistribution:
        low, high = math.floor(lowest / step), math.ceil(highest / step)
        grid = step * np.arange(low, high + 1)
        edge = math.log1p(-rate)
        removal = np.where(grid > edge, rate * delta_of(mu, before(grid)), -np.expm1(np.minimum(grid, 0)))
        loss = np.minimum(step * np.arange(-high, -low + 1), -edge)
        f = before(-loss)
        addition = np.where(-loss > edge, rate * np.exp(loss + f) * delta_of(mu, -f), 0.0)
        return PrivacyLossDistribution(_connected(step, low, removal), _connected(step, -high, addition))

    return build
