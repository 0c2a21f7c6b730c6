"""The tight price of sampled steps, posterior samples and both: against closed forms, exact densities, dp_accounting's
worst pair and simulation."""

import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dp_accounting.rdp import RdpAccountant
from sampled_steps import without_replacement

from dplangevin.privacy import Budget, NearbyDpEvent, PosteriorSampleDpEvent, calibrate
from dplangevin.privacy.accountants import composition, profiles
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian, delta_of, epsilon_of
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015

DELTA = 1e-5
TIGHT = Tight()


# Sampling: our multiplier is relative to one record's norm, so replace_one at rate 1 has mu = 2 sqrt(k)/z.


@pytest.mark.parametrize(
    ("multiplier", "count", "batch"), [(188.0, 32561, 180), (20.0, 2000, 180), (4.0, 500, 600)]
)
def test_without_replacement_lies_between_a_worst_pair_and_rdp(multiplier, count, batch):
    # below: the fixed pair of data sets whose steps are that mixture; above: dp_accounting's RDP (Wang,
    # Balle, Kasiviswanathan 2019), whose multiplier is relative to the sensitivity 2
    event = without_replacement(multiplier, count, batch)
    found = TIGHT.epsilon(event, DELTA)
    step = profiles.without_replacement(batch / 32561, 2 / multiplier).spread / 16
    pair = from_gaussian_mechanism(
        multiplier / 2, value_discretization_interval=step, sampling_prob=batch / 32561
    ).self_compose(count)
    accountant = RdpAccountant(
        orders=[2, 4, 8, 16, 32, 64, 96, 128], neighboring_relation=NeighboringRelation.REPLACE_ONE
    )
    sampled = SampledWithoutReplacementDpEvent(32561, batch, GaussianDpEvent(multiplier / 2))
    accountant.compose(sampled, count)
    assert pair.get_epsilon_for_delta(DELTA) * (1 - 3e-3) <= found <= accountant.get_epsilon(DELTA)


def test_theorem_4_at_epsilon_1_on_adult():
    # N = 32561, tau = T = 180, so k = 32561 steps at the noise that wang2015 prices at epsilon 1
    noise = calibrate(
        Wang2015(), lambda z: without_replacement(z, 32561), Budget(1.0, DELTA), low=1.0, high=1e4, rtol=1e-6
    )
    found = TIGHT.epsilon(without_replacement(noise, 32561), DELTA)
    # independent: losses this small are nearly mu-GDP, mu = q sqrt(k (exp(4/z^2) - 1)) (Bu et al. 2020)
    mu = 180 / 32561 * math.sqrt(32561 * math.expm1(4 / noise**2))
    assert found == pytest.approx(epsilon_of(mu, DELTA), rel=0.01)
    assert found == pytest.approx(0.02916, rel=2e-3)


def test_without_replacement_needs_replace_one():
    with pytest.raises(ValueError, match="needs replace_one"):
        TIGHT.epsilon(without_replacement(1.0, 1), DELTA, "add_remove")


def test_no_delta_no_bound() -> None:
    assert TIGHT.epsilon(without_replacement(1.0, 1), 0.0) == math.inf


def test_many_noise_levels():
    # decreasing step sizes: 2000 multipliers cost more than all at the largest, less than all at the smallest
    levels = np.geomspace(5.0, 50.0, 2000)
    event = ComposedDpEvent([without_replacement(float(level), 1) for level in levels])
    found = TIGHT.epsilon(event, DELTA)
    mu = 180 / 32561 * math.sqrt(np.expm1(4 / levels**2).sum())  # mu-GDP limit
    assert epsilon_of(mu, DELTA) < found < 1.15 * epsilon_of(mu, DELTA)
    assert TIGHT.epsilon(without_replacement(50.0, 2000), DELTA) < found
    assert found < TIGHT.epsilon(without_replacement(5.0, 2000), DELTA)


# Posterior samples, and the hybrid of one and sampled steps


@pytest.mark.parametrize(
    ("eta", "delta", "expected"),
    [  # mpmath: golden-section over t of p_t - e^eps q_t, then bisection over eps
        (1.0, 1e-5, 0.994965266609),
        (0.1, 1e-2, 0.0373314731029),
        (10.0, 1e-3, 9.93573433452),
        (0.01, 1e-3, 0.00368125203659),
    ],
)
def test_bounded_range_epsilon(eta, delta, expected):
    event = PosteriorSampleDpEvent(eta / 8, 4.0)
    assert TIGHT.epsilon(event, delta) == pytest.approx(expected, rel=1e-9)
    assert TIGHT.epsilon(PosteriorSampleDpEvent(eta / 4, 4.0), delta, "add_remove") == pytest.approx(expected)
    assert TIGHT.epsilon(event, 0.0) == pytest.approx(eta)


def test_composed_posterior_samples():
    event = PosteriorSampleDpEvent(0.1, 5.0)
    three = SelfComposedDpEvent(event, 3)
    assert TIGHT.epsilon(three, 0.0) == pytest.approx(3.0)
    assert 1.0 < TIGHT.epsilon(three, 1e-3) < 3 * TIGHT.epsilon(event, 1e-3 / 3)
    single = composition.compose([(profiles.BoundedRange(1.0), 1)], DELTA)
    assert TIGHT.epsilon(event, DELTA) <= single.epsilon <= TIGHT.epsilon(event, DELTA) * (1 + 1e-3)


@pytest.mark.parametrize("nominal", [0.1, 1.0, 10.0])
def test_hybrid_is_between_its_parts_and_their_sum(nominal):
    sample = PosteriorSampleDpEvent(nominal / 40, 10.0)
    noise = calibrate(
        Wang2015(), lambda z: without_replacement(z, 32561), Budget(nominal / 2, DELTA), low=1e-2, high=1e6
    )
    gaussian = without_replacement(noise, 32561)
    found = TIGHT.price(ComposedDpEvent([sample, gaussian]), DELTA)
    assert found.accountant == "PLD, larger of both directions"
    parts = TIGHT.epsilon(sample, DELTA / 2) + TIGHT.epsilon(gaussian, DELTA / 2)
    assert TIGHT.epsilon(sample, DELTA) * (1 - 1e-3) <= found.epsilon <= parts * (1 + 1e-3)
    assert found.epsilon <= nominal


def test_a_large_range_with_tiny_steps_is_priced():
    # range 20 beside steps with losses near 1e-5: one grid must carry both
    steps = without_replacement(2000.0, 32561)
    found = TIGHT.epsilon(ComposedDpEvent([PosteriorSampleDpEvent(1.0, 10.0), steps]), DELTA)
    assert 19.9 < found < 20 + TIGHT.epsilon(steps, DELTA) * 1.1


@pytest.mark.parametrize(("multiplier", "away"), [(5.0, 1e-9), (5.0, 5e-7), (40.0, 1e-7)])
def test_distance_of_a_sampler_is_charged_to_delta(multiplier: float, away: float) -> None:
    event = NearbyDpEvent(GaussianDpEvent(multiplier), away)
    for accountant in (TIGHT, AnalyticGaussian()):
        epsilon = accountant.epsilon(event, DELTA)
        spent = float(delta_of(2 / multiplier, epsilon)) + (1 + math.exp(epsilon)) * away
        assert DELTA * (1 - 1e-6) <= spent <= DELTA * (1 + 1e-9)
        assert epsilon > accountant.epsilon(GaussianDpEvent(multiplier), DELTA)
        assert accountant.epsilon(NearbyDpEvent(GaussianDpEvent(multiplier), 0.0), DELTA) <= epsilon
        assert accountant.epsilon(NearbyDpEvent(GaussianDpEvent(multiplier), 6e-6), DELTA) == math.inf
