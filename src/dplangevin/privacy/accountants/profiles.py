"""Privacy profiles delta(epsilon), epsilon >= 0, and the numerical composition of mechanisms that have one.

A profile bounds the hockey-stick divergence of *both* directions of every neighbouring pair; by symmetry
delta(-e) = 1 - exp(-e) + exp(-e) delta(e), so it fixes a dominating pair, and dominating pairs compose,
adaptively too (Zhu, Dong, Wang 2022, Proposition 8 and Theorem 10). `compose` discretises it by "connect
the dots" (Doroshenko et al. 2022), which only ever overstates the loss, and leaves the convolution to
dp_accounting.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_gaussian_mechanism,
    identity,
)

from dplangevin.privacy.accountants.analytic_gaussian import delta_of
from dplangevin.privacy.events import Adjacency

TAIL = 1e-18
SMALLEST_DELTA = 1e-10
LARGEST_GRID = 2**20
RELATIVE_CHANGE = 1e-3

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
        pmf = create_pmf_pessimistic_connect_dots_fixed_gap(
            step, -count, count, np.concatenate([mirrored, delta])
        )
        return PrivacyLossDistribution(pmf)

    return build


def poisson(rate: float, noise_multiplier: float, adjacency: Adjacency) -> Discretised:
    """step -> dp_accounting's distribution for the Poisson-sampled Gaussian mechanism.

    dp_accounting takes noise_multiplier relative to one record's norm under both relations, as this project
    does.
    """
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


def compose(parts: Sequence[tuple[Discretised, int]], losses: Sequence[float], delta: float) -> float:
    """Epsilon at delta of the composition of `parts`, each (distribution, how often); never understated.

    The grid's step starts at 1/64 of the smallest of `losses`, the parts' largest single losses (but no
    finer than 2^-18 of the largest), and is divided by 4 until epsilon moves by less than 0.1 % (the error
    falls with the square of the step) or the grid is too long.
    Raises ValueError for delta below 1e-10, where the rounding of the convolution would show.
    """
    if delta < SMALLEST_DELTA:
        raise ValueError(
            f"delta = {delta} is below {SMALLEST_DELTA}, the smallest that numerical composition resolves"
        )
    step, before = max(min(losses) / 64, max(losses) / (LARGEST_GRID / 4)), math.inf
    while True:
        total = identity(value_discretization_interval=step)
        for build, count in parts:
            total = total.compose(build(step).self_compose(count))
        epsilon = float(total.get_epsilon_for_delta(delta))
        size = total._pmf_remove.size
        if before - epsilon <= RELATIVE_CHANGE * epsilon or 4 * size > LARGEST_GRID:
            return min(epsilon, before)
        step, before = step / 4, epsilon
