"""Events, budgets and calibration."""

import math

import pytest
from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent, SelfComposedDpEvent

from dplangevin.privacy import (
    Budget,
    Guarantee,
    ObjectivePerturbationDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
    calibrate,
)
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian, mu_for
from dplangevin.privacy.accountants.kifer2012 import Kifer2012
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_budget_refuses_epsilon(epsilon):
    with pytest.raises(ValueError, match=f"epsilon = {epsilon}"):
        Budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_budget_refuses_delta(delta):
    with pytest.raises(ValueError, match=f"delta = {delta}"):
        Budget(1.0, delta)


def test_budget_accepts_no_privacy():
    assert Budget(math.inf, 0.0).epsilon == math.inf


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: PosteriorSampleDpEvent(0.0, 1.0), "rho = 0.0"),
        (lambda: PosteriorSampleDpEvent(1.0, math.inf), "radius = inf"),
        (lambda: ObjectivePerturbationDpEvent(1.0, 1.0, -0.25, 1.0), "smoothness = -0.25"),
        (lambda: PureObjectivePerturbationDpEvent(1.0, 1.0, 0.25, 0.0), "ridge = 0.0"),
    ],
)
def test_events_refuse_values_outside_their_domain(make, field):
    with pytest.raises(ValueError, match=field):
        make()


def test_events_are_values():
    one, two = PosteriorSampleDpEvent(0.1, 5.0), PosteriorSampleDpEvent(0.1, 5.0)
    assert one == two
    assert hash(one) == hash(two)
    guarantee = Guarantee(1.0, 0.0, one, "replace_one", "sample", "full", ("exact posterior sample",))
    assert guarantee.event.range == 1.0


def test_calibrate_recovers_the_gaussian_closed_form():
    budget = Budget(1.0, 1e-5)
    noise = calibrate(AnalyticGaussian(), GaussianDpEvent, budget, low=0.1, high=1e3, rtol=1e-6)
    assert noise == pytest.approx(2 / mu_for(1.0, 1e-5), rel=2e-6)
    assert AnalyticGaussian().epsilon(GaussianDpEvent(noise), 1e-5) <= 1.0


def test_calibrate_inverts_theorem_4():
    def steps(noise):
        return SelfComposedDpEvent(SampledWithoutReplacementDpEvent(1000, 30, GaussianDpEvent(noise)), 300)

    noise = calibrate(Wang2015(), steps, Budget(0.5, 1e-5), low=1e-3, high=1e6)
    reached = Wang2015().epsilon(steps(noise), 1e-5)
    assert 0.5 * (1 - 2e-4) < reached <= 0.5


def test_calibrate_returns_low_when_it_fits():
    assert calibrate(AnalyticGaussian(), GaussianDpEvent, Budget(1.0, 1e-5), low=50.0, high=100.0) == 50.0
    assert calibrate(Tight(), GaussianDpEvent, Budget(math.inf, 1e-5), low=0.5, high=1.0) == 0.5


def test_calibrate_says_why_a_budget_is_out_of_reach():
    def event(noise):
        return ObjectivePerturbationDpEvent(noise, 1.0, 0.25, 0.01)  # Lambda = 0.01 needs epsilon >= 75

    with pytest.raises(ValueError, match=r"epsilon = 1\.0 .*out of reach.*high = 1000\.0.*costs 75"):
        calibrate(Kifer2012(), event, Budget(1.0, 1e-5), low=1.0, high=1000.0)


def test_calibrate_refuses_bad_ends():
    with pytest.raises(ValueError, match=r"low = 2\.0, high = 1\.0"):
        calibrate(AnalyticGaussian(), GaussianDpEvent, Budget(1.0, 1e-5), low=2.0, high=1.0)
