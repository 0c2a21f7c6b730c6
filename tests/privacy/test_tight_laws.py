"""Laws that any price must obey."""

import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_steps import poisson, without_replacement

from dplangevin.privacy import (
    ObjectivePerturbationDpEvent,
    PosteriorSampleDpEvent,
)
from dplangevin.privacy.accountants import profiles
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.kifer2012 import Kifer2012
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015

DELTA = 1e-5
TIGHT = Tight()


noise = st.floats(0.5, 100.0)
more = st.floats(1.05, 5.0)
deltas = st.floats(1e-8, 1e-3)
SLACK = 1 + 3e-4  # how far grids of different fineness can be apart


def kinds(multiplier, count=100):
    return [
        (TIGHT, GaussianDpEvent(multiplier)),
        (TIGHT, without_replacement(multiplier, count)),
        (TIGHT, poisson(multiplier, count, 0.01)),
        (TIGHT, ObjectivePerturbationDpEvent(multiplier, 1.0, 0.25, 1.0)),
        (TIGHT, PosteriorSampleDpEvent(1 / multiplier, 2.0)),
        (TIGHT, ComposedDpEvent([PosteriorSampleDpEvent(1.0, 2.0), without_replacement(multiplier, count)])),
        (Kifer2012(), ObjectivePerturbationDpEvent(multiplier, 1.0, 0.25, 1.0)),
        (Wang2015(), without_replacement(multiplier, count)),
    ]


@settings(max_examples=5, deadline=None)
@given(noise, more, deltas)
def test_more_noise_never_costs_more(multiplier, factor, delta):
    for (accountant, less), (_, noisier) in zip(kinds(multiplier), kinds(multiplier * factor), strict=True):
        assert accountant.epsilon(noisier, delta) <= accountant.epsilon(less, delta) * SLACK


@settings(max_examples=5, deadline=None)
@given(noise, more, deltas)
def test_a_larger_delta_never_costs_more(multiplier, factor, delta):
    for accountant, event in kinds(multiplier):
        assert accountant.epsilon(event, delta * factor) <= accountant.epsilon(event, delta) * SLACK


@settings(max_examples=5, deadline=None)
@given(noise, st.integers(1, 200), st.integers(1, 200), deltas)
def test_more_steps_never_cost_less(multiplier, count, extra, delta):
    for accountant, kind in ((TIGHT, without_replacement), (Wang2015(), without_replacement)):
        few, many = kind(multiplier, count), kind(multiplier, count + extra)
        assert accountant.epsilon(few, delta) <= accountant.epsilon(many, delta) * SLACK
    few, many = poisson(multiplier, count, 0.02), poisson(multiplier, count + extra, 0.02)
    assert TIGHT.epsilon(few, delta) <= TIGHT.epsilon(many, delta) * SLACK


@settings(max_examples=200, deadline=None)
@given(st.floats(0.1, 1e3), st.floats(1e-2, 1e3), st.floats(0.0, 1.0), st.floats(1e-12, 0.1))
def test_hockey_stick_is_never_above_kifer(noise_std, ridge, smoothness, delta):
    event = ObjectivePerturbationDpEvent(noise_std, 1.0, smoothness, ridge)
    for adjacency in ("replace_one", "add_remove"):
        assert TIGHT.epsilon(event, delta, adjacency) <= Kifer2012().epsilon(event, delta, adjacency)


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-3, 50.0), st.floats(1e-9, 0.5))
def test_bounded_range_inverse(eta, delta):
    epsilon = profiles.bounded_range_epsilon(eta, delta)
    reached = math.expm1(min(epsilon - eta, 0.0) / 2) ** 2 / -math.expm1(-eta)  # the profile
    assert reached <= delta * (1 + 1e-6)
    if epsilon > 0:
        assert reached == pytest.approx(delta, rel=1e-6)


def test_a_large_range_with_tiny_steps_is_priced():
    # range 20 beside steps with losses near 1e-5: one grid must carry both
    steps = without_replacement(2000.0, 32561)
    found = TIGHT.epsilon(ComposedDpEvent([PosteriorSampleDpEvent(1.0, 10.0), steps]), DELTA)
    assert 19.9 < found < 20 + TIGHT.epsilon(steps, DELTA) * 1.1


def test_many_noise_levels():
    # decreasing step sizes: 2000 multipliers cost more than all at the largest, less than all at the smallest
    levels = np.geomspace(5.0, 50.0, 2000)
    event = ComposedDpEvent([without_replacement(float(level), 1) for level in levels])
    found = TIGHT.epsilon(event, DELTA)
    mu = 180 / 32561 * math.sqrt(np.expm1(4 / levels**2).sum())  # mu-GDP limit
    assert epsilon_of(mu, DELTA) < found < 1.15 * epsilon_of(mu, DELTA)
    assert TIGHT.epsilon(without_replacement(50.0, 2000), DELTA) < found
    assert found < TIGHT.epsilon(without_replacement(5.0, 2000), DELTA)
