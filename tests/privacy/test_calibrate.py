"""The inverse of an accountant: bracket, edges, memory and speed."""

import math
from dataclasses import dataclass, field

import pytest
from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_steps import poisson

from dplangevin.privacy import Budget, ObjectivePerturbationDpEvent, noise_for
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian
from dplangevin.privacy.accountants.moments_accountant import Moments
from dplangevin.privacy.accountants.objective import Kifer2012
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibration import remembered
from dplangevin.privacy.events import Adjacency

BUDGET = Budget(1.0, 1e-5)
NOISE = 3.73063163482  # 1/mu at this budget (Balle, Wang 2018), by bisection in mpmath
RATE, STEPS = 128 / 50_000, 10_000  # li2019's size


@dataclass(frozen=True)
class Curve:
    """Prices a GaussianDpEvent by any falling function of its noise; remembers what it was asked."""

    power: float
    jump: float = 1.0
    floor: float = 0.0
    name: str = "curve"
    asked: list[float] = field(default_factory=list, compare=False)

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        assert isinstance(event, GaussianDpEvent)
        noise = event.noise_multiplier
        self.asked.append(noise)
        return self.floor + noise**-self.power * (self.jump if noise < 2 else 1.0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(0.05, 8), st.floats(1, 1e3), st.floats(0, 0.9), st.floats(0.01, 100))
def test_the_answer_fits_and_barely(power: float, jump: float, floor: float, scale: float) -> None:
    curve = Curve(power, jump, floor * scale)
    budget = Budget(scale, 1e-5)
    low, high = 1e-3, (0.05 * scale) ** (-1 / power) + 2
    noise = noise_for(curve, GaussianDpEvent, budget, low=low, high=high)
    assert curve.epsilon(GaussianDpEvent(noise), 1e-5) <= scale
    assert noise == low or curve.epsilon(GaussianDpEvent(noise / (1 + 1e-4)), 1e-5) > scale


def test_small_noise_is_not_asked_for() -> None:
    curve = Curve(1.0)
    assert noise_for(curve, GaussianDpEvent, Budget(0.01, 0.0), low=1e-6, high=1e6) == pytest.approx(
        100, rel=1e-4
    )
    assert min(curve.asked) > 30
    assert len(curve.asked) <= 8


def test_calibrate_returns_low_when_it_fits() -> None:
    assert noise_for(AnalyticGaussian(), GaussianDpEvent, BUDGET, low=50.0, high=100.0) == 50.0
    no_privacy = Budget(math.inf, 1e-5)
    assert noise_for(Tight(), GaussianDpEvent, no_privacy, low=0.5, high=1.0) == 0.5
    assert noise_for(Tight(), lambda _: NonPrivateDpEvent(), no_privacy, low=0.5, high=1.0) == 0.5


def test_calibrate_starts_from_a_price_of_zero() -> None:
    event = GaussianDpEvent(1e9)
    assert AnalyticGaussian().epsilon(event, 1e-5) == 0
    noise = noise_for(AnalyticGaussian(), GaussianDpEvent, BUDGET, low=0.1, high=1e9)
    assert noise == pytest.approx(2 * NOISE, rel=1e-4)


def test_calibrate_says_why_a_budget_is_out_of_reach() -> None:
    def event(noise: float) -> DpEvent:
        return ObjectivePerturbationDpEvent(noise, 1.0, 0.25, 0.01)  # Lambda = 0.01 needs epsilon >= 75

    with pytest.raises(ValueError, match=r"epsilon = 1\.0 .*out of reach.*high = 1000\.0.*costs 75"):
        noise_for(Kifer2012(), event, BUDGET, low=1.0, high=1000.0)
    with pytest.raises(ValueError, match=r"out of reach.*costs inf"):
        noise_for(Tight(), lambda _: NonPrivateDpEvent(), BUDGET, low=0.5, high=1.0)


def test_calibrate_says_that_the_orders_are_too_few() -> None:
    reason = r"32 orders\) cannot report an epsilon below ln\(1/delta\)/max_order = 0\.3598.*raise max_order or delta"
    with pytest.raises(ValueError, match=reason):
        noise_for(
            Moments(),
            lambda z: poisson(z, STEPS, RATE),
            Budget(0.1, 1e-5),
            low=0.1,
            high=1e6,
            adjacency="add_remove",
        )


def test_calibrate_refuses_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"low = 2\.0, high = 1\.0"):
        noise_for(AnalyticGaussian(), GaussianDpEvent, BUDGET, low=2.0, high=1.0)
    with pytest.raises(ValueError, match=r"rtol = 0\.0"):
        noise_for(AnalyticGaussian(), GaussianDpEvent, BUDGET, low=1.0, high=2.0, rtol=0.0)


def test_the_same_question_is_answered_once() -> None:
    curve = Curve(1.0, name="asked once")
    event = GaussianDpEvent(3.0)
    for same in (event, GaussianDpEvent(3.0)):
        assert remembered(curve, same, 0.0, "replace_one") == pytest.approx(1 / 3)
    assert len(curve.asked) == 1
    remembered(curve, event, 0.0, "add_remove")
    remembered(curve, event, 0.5, "replace_one")
    remembered(Curve(2.0, name="asked once", asked=curve.asked), event, 0.0, "replace_one")
    assert len(curve.asked) == 4


def test_errors_are_not_remembered() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="replace_one"):
            remembered(Moments(), poisson(1.0, 1, 0.1), 1e-5, "replace_one")
