"""Sampled Gaussian steps: the tight price against closed forms, dp_accounting and a worst pair."""

import math

import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    SampledWithoutReplacementDpEvent,
)
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dp_accounting.rdp import RdpAccountant
from sampled_steps import poisson, without_replacement

from dplangevin.privacy import (
    Budget,
    calibrate,
)
from dplangevin.privacy.accountants import profiles
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015

DELTA = 1e-5
TIGHT = Tight()


# Sampling: our multiplier is relative to one record's norm, so replace_one at rate 1 has mu = 2 sqrt(k)/z.


@pytest.mark.parametrize("multiplier", [0.7, 4.0, 80.0])
@pytest.mark.parametrize(("adjacency", "sensitivity"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_full_rate_poisson_is_gaussian(multiplier, adjacency, sensitivity):
    exact = epsilon_of(sensitivity * 3 / multiplier, DELTA)
    price = TIGHT.price(poisson(multiplier, 9, 1.0), DELTA, adjacency)
    assert price.accountant == "PLD"
    assert exact <= price.epsilon <= exact * (1 + 1e-4)


@pytest.mark.parametrize("multiplier", [0.7, 4.0, 80.0])
def test_full_batch_without_replacement_is_gaussian(multiplier):
    exact = epsilon_of(2 * 3 / multiplier, DELTA)
    found = TIGHT.epsilon(without_replacement(multiplier, 9, batch=100, records=100), DELTA)
    assert exact <= found <= exact * (1 + 1e-4)


def test_rate_tends_to_one_continuously():
    found = TIGHT.epsilon(without_replacement(4.0, 9, batch=99_999, records=100_000), DELTA)
    assert found == pytest.approx(epsilon_of(1.5, DELTA), rel=2e-3)


def test_gaussian_composed_with_sampled_steps_is_no_cheaper_than_either():
    gaussian, sampled = GaussianDpEvent(4.0), without_replacement(5.0, 50)
    both = TIGHT.epsilon(ComposedDpEvent([gaussian, sampled]), DELTA)
    assert both > max(TIGHT.epsilon(gaussian, DELTA), TIGHT.epsilon(sampled, DELTA))


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_poisson_agrees_with_dp_accounting(relation):
    direct = from_gaussian_mechanism(
        1.5,
        value_discretization_interval=1e-3,
        sampling_prob=0.01,
        neighboring_relation={
            "replace_one": NeighboringRelation.REPLACE_ONE,
            "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
        }[relation],
    ).self_compose(1000)
    expected = direct.get_epsilon_for_delta(DELTA)
    assert TIGHT.epsilon(poisson(1.5, 1000, 0.01), DELTA, relation) == pytest.approx(expected, rel=2e-3)


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
    # dp_accounting's RDP without replacement, at the order it picks among 2..256: 0.0702
    accountant = RdpAccountant(orders=[168, 169, 170], neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(SampledWithoutReplacementDpEvent(32561, 180, GaussianDpEvent(noise / 2)), 32561)
    assert accountant.get_epsilon(DELTA) == pytest.approx(0.0702, rel=1e-2)


def test_without_replacement_needs_replace_one():
    with pytest.raises(ValueError, match="needs replace_one"):
        TIGHT.epsilon(without_replacement(1.0, 1), DELTA, "add_remove")


def test_no_delta_no_bound() -> None:
    assert TIGHT.epsilon(without_replacement(1.0, 1), 0.0) == math.inf
