"""The tight price of sampled steps, posterior samples and both: against closed forms, exact densities, dp_accounting's
worst pair and simulation."""

import math
from collections import Counter

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

from dplangevin.privacy import NearbyDpEvent, PosteriorSampleDpEvent
from dplangevin.privacy.accountants import composition, profiles
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian, delta_of, epsilon_of
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.gaussian_steps import coarsened, rate_and_multiplier

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


def test_many_noise_levels():
    # decreasing step sizes: 2000 multipliers cost more than all at the largest, less than all at the smallest
    levels = np.geomspace(5.0, 50.0, 2000)
    event = ComposedDpEvent([without_replacement(float(level), 1) for level in levels])
    found = TIGHT.epsilon(event, DELTA)
    mu = 180 / 32561 * math.sqrt(np.expm1(4 / levels**2).sum())  # mu-GDP limit
    assert epsilon_of(mu, DELTA) < found < 1.15 * epsilon_of(mu, DELTA)
    assert TIGHT.epsilon(without_replacement(50.0, 2000), DELTA) < found
    assert found < TIGHT.epsilon(without_replacement(5.0, 2000), DELTA)
    kept = coarsened(Counter(leaf for leaf, _ in leaves(event)))
    rounded = np.sort([rate_and_multiplier(leaf)[1] for leaf in kept.elements()])
    assert (rounded <= levels * (1 + 1e-12)).all()  # never up


# Posterior samples, and the hybrid of one and sampled steps


def test_composed_posterior_samples():
    event = PosteriorSampleDpEvent(0.1, 5.0)
    assert TIGHT.epsilon(PosteriorSampleDpEvent(0.2, 5.0), DELTA, "add_remove") == TIGHT.epsilon(event, DELTA)
    three = SelfComposedDpEvent(event, 3)
    assert TIGHT.epsilon(three, 0.0) == pytest.approx(3.0)
    assert 1.0 < TIGHT.epsilon(three, 1e-3) < 3 * TIGHT.epsilon(event, 1e-3 / 3)
    single = composition.compose([(profiles.BoundedRange(1.0), 1)], DELTA)
    assert TIGHT.epsilon(event, DELTA) <= single.epsilon <= TIGHT.epsilon(event, DELTA) * (1 + 1e-3)


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
