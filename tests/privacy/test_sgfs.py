"""DP-SGFS: wang2015 Theorem 5 and its Gaussian steps."""

import math

import pytest
from dp_accounting import ComposedDpEvent

from dplangevin.privacy import FisherScoringDpEvent, PosteriorSampleDpEvent
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015

N, TAU, T, STEPS = 32561, 180, 180, 32561  # N T/tau steps


def sigma(epsilon: float, delta: float) -> float:
    """Algorithm 4's noise, as printed."""
    variance = 32 * T * math.log(2.5 * N * T / (TAU * delta)) * math.log(2 / delta) / (N * TAU * epsilon**2)
    return math.sqrt(variance)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-7)])
def test_theorem_5_promises_twice_what_algorithm_4_is_given(epsilon: float, delta: float) -> None:
    event = FisherScoringDpEvent(N, TAU, STEPS, sigma(epsilon, delta))
    assert Wang2015().epsilon(event, 2 * delta) == pytest.approx(2 * epsilon, rel=1e-12)
    assert Wang2015().violated(event, 2 * delta) == ()
    both = ComposedDpEvent([PosteriorSampleDpEvent(0.1, 1.0), event])
    assert Wang2015("range").epsilon(both, 2 * delta) == pytest.approx(2 * epsilon + 0.2, rel=1e-12)


def test_condition_of_theorem_5() -> None:
    event = FisherScoringDpEvent(N, TAU, STEPS, 1e-4)
    needed = (Wang2015().epsilon(event, 2e-5) / 2) ** 2 * N / (32 * TAU * math.log(2 / 1e-5))
    assert Wang2015().violated(event, 2e-5) == (f"T = 180 < eps^2 N/(32 tau ln(2/delta)) = {needed:.4g}",)


def test_full_batch_is_gaussian() -> None:
    event = FisherScoringDpEvent(100, 100, 9, 0.5)
    mu = 3 * math.hypot(2 / (0.5 * 100), 1 / (0.5 * 99))
    assert Tight().epsilon(event, 1e-5) == pytest.approx(epsilon_of(mu, 1e-5), rel=1e-9)


def test_adult_at_epsilon_1_by_pld() -> None:
    event = FisherScoringDpEvent(N, TAU, STEPS, sigma(1.0, 1e-5))
    price = Tight().price(event, 1e-5)
    assert price.accountant == "PLD, larger of both directions"
    lower = 0.0707707  # by dp_accounting, of one worst pair of data sets: a mixture against one component
    assert lower * (1 - 1e-3) < price.epsilon < lower * 1.02
