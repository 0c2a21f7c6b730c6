"""Posterior samples and the hybrid: the tight price against exact densities and simulation."""

import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    SelfComposedDpEvent,
)
from sampled_steps import without_replacement

from dplangevin.privacy import (
    Budget,
    NearbyDpEvent,
    PosteriorSampleDpEvent,
    calibrate,
)
from dplangevin.privacy.accountants import composition, profiles
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian, delta_of
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015

DELTA = 1e-5
TIGHT = Tight()


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


def test_bounded_range_profile_by_simulation():
    eta, epsilon, rng = 2.0, 0.5, np.random.default_rng(0)
    best = 0.0
    for t in np.linspace(epsilon, eta, 16):
        first = np.expm1(eta - t) / (np.exp(eta - t) - np.exp(-t))
        loss = np.where(rng.random(200_000) < first, t, t - eta)
        assert np.exp(-loss).mean() == pytest.approx(1.0, abs=0.02)  # the pair is a pair of distributions
        best = max(best, np.maximum(0.0, -np.expm1(epsilon - loss)).mean())
    law = profiles.BoundedRange(eta)
    x = np.linspace(epsilon, eta, 20_001)
    assert best == pytest.approx(np.trapezoid(law.density(x) * -np.expm1(epsilon - x), x), abs=4e-3)
    assert profiles.bounded_range_epsilon(eta, best) == pytest.approx(epsilon, abs=0.02)


@pytest.mark.parametrize(("rho", "radius"), [(0.1, 3.0), (1.0, 1.0), (0.02, 10.0)])
def test_posterior_sample_bounds_exact_one_dimensional_posteriors(rho, radius):
    theta = np.linspace(-radius, radius, 40_001)
    cell = theta[1] - theta[0]

    def posterior(margins):
        log_density = -rho * sum(np.logaddexp(0.0, -margin * theta) for margin in margins) - theta**2 / 8
        density = np.exp(log_density - log_density.max())
        return density / (density.sum() * cell)

    others = [0.5, -0.2, 0.9]
    one, two = posterior([*others, 1.0]), posterior([*others, -1.0])
    for delta in (0.0, 1e-3, 1e-2):
        epsilon = TIGHT.epsilon(PosteriorSampleDpEvent(rho, radius), delta)
        assert np.maximum(0.0, one - np.exp(epsilon) * two).sum() * cell <= delta + 1e-9
    worst = np.abs(np.log(one / two)).max()
    assert 0.3 * 2 * rho * radius < worst <= 2 * rho * radius


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
