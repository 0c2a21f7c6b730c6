"""The papers' accountants, pinned to the published formulas as evaluated by mpmath (40 digits)."""

import math

import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    SelfComposedDpEvent,
)
from sampled_steps import poisson, without_replacement

from dplangevin.privacy import (
    FisherScoringDpEvent,
    LangevinDpEvent,
    ObjectivePerturbationDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
)
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian, epsilon_of
from dplangevin.privacy.accountants.last_iterate import Bok2024, Ryffel2022
from dplangevin.privacy.accountants.moments_accountant import Moments, Rdp, log_moment
from dplangevin.privacy.accountants.objective import Chaudhuri2011, Kifer2012
from dplangevin.privacy.accountants.papernot2018 import Papernot2018
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.events import PateDpEvent

ALL = [Wang2015("paper"), Wang2015("range"), Kifer2012(), Chaudhuri2011(), AnalyticGaussian(), Rdp(), Tight()]


@pytest.mark.parametrize("accountant", ALL, ids=lambda accountant: accountant.name)
def test_trivial_events(accountant):
    assert accountant.epsilon(NoOpDpEvent(), 1e-5) == 0
    assert accountant.epsilon(NonPrivateDpEvent(), 1e-5) == math.inf
    assert accountant.epsilon(ComposedDpEvent([NoOpDpEvent(), NonPrivateDpEvent()]), 1e-5) == math.inf


@pytest.mark.parametrize("accountant", ALL, ids=lambda accountant: accountant.name)
def test_refusals_name_the_event_the_adjacency_and_delta(accountant):
    with pytest.raises(ValueError, match=r"cannot price LaplaceDpEvent"):
        accountant.epsilon(LaplaceDpEvent(1.0), 1e-5)
    with pytest.raises(ValueError, match="'swap'"):
        accountant.epsilon(NoOpDpEvent(), 1e-5, "swap")
    with pytest.raises(ValueError, match=r"delta = 1\.5"):
        accountant.epsilon(NoOpDpEvent(), 1.5)


@pytest.mark.parametrize(
    ("mu", "delta", "expected"),
    [  # bisection on Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu) in mpmath
        (1.0, 1e-5, 4.37717809568),
        (0.01, 1e-5, 0.0272194198146),
        (40.0, 1e-5, 969.645591932),
    ],
)
def test_gaussian_epsilon(mu, delta, expected):
    assert epsilon_of(mu, delta) == pytest.approx(expected, rel=1e-10)
    accountant = AnalyticGaussian()
    assert accountant.epsilon(GaussianDpEvent(1 / mu), delta, "add_remove") == pytest.approx(
        expected, rel=1e-9
    )
    assert accountant.epsilon(GaussianDpEvent(2 / mu), delta) == pytest.approx(expected, rel=1e-9)
    four = SelfComposedDpEvent(GaussianDpEvent(4 / mu), 4)
    assert accountant.epsilon(four, delta) == pytest.approx(expected, rel=1e-9)


def test_gaussian_limits():
    assert epsilon_of(1.0, 0.0) == math.inf
    assert epsilon_of(1e-3, 0.1) == 0
    assert AnalyticGaussian().epsilon(GaussianDpEvent(0.0), 1e-5) == math.inf
    assert Rdp().epsilon(GaussianDpEvent(0.0), 1e-5) == math.inf


RIDGE = ObjectivePerturbationDpEvent(10.0, 1.0, 0.25, 5.0)
CURVED = ObjectivePerturbationDpEvent(50.0, 1.0, 0.25, 0.4)  # here the ridge decides: 2 beta/Lambda
PURE = PureObjectivePerturbationDpEvent(0.4, 1.0, 0.25, 5.0)
BALL = PosteriorSampleDpEvent(0.02, 10.0)


@pytest.mark.parametrize(
    ("accountant", "event", "delta", "adjacency", "expected", "rel"),
    [
        # (tau/N) sqrt(128 k ln(2.5 k/delta) ln(2/delta))/z in mpmath, N = 32561, tau = 180
        (Wang2015(), without_replacement(100.0, 32561), 1e-5, "replace_one", 1.8835417162, 1e-9),
        (Wang2015(), without_replacement(5.0, 181), 1e-5, "replace_one", 2.46851063298, 1e-9),
        # 4 rho log(1 + e^10) in mpmath
        (Wang2015("paper"), BALL, 0.0, "replace_one", 0.800003631912, 1e-10),
        (Wang2015("range"), BALL, 0.0, "replace_one", 0.4, 1e-12),
        # bisection in mpmath for the smallest epsilon that satisfies both conditions
        (Kifer2012(), RIDGE, 1e-5, "add_remove", 1.00837533945, 1e-10),
        (Kifer2012(), RIDGE, 1e-5, "replace_one", 1.5 * 1.00837533945, 1e-10),
        (Kifer2012(), CURVED, 1e-5, "add_remove", 1.25, 1e-12),
        # eps' + log(1 + 2c/(n Lambda) + c^2/(n Lambda)^2) in mpmath, eps' = 0.8, c = 1/4, n Lambda = 5
        (Chaudhuri2011(), PURE, 0.0, "replace_one", 0.897580328339, 1e-10),
        # log(1 + 0.25/5) + the Gaussian epsilon at mu = 0.2 and 0.1 in mpmath
        (Tight(), RIDGE, 1e-5, "replace_one", 0.774311915027, 1e-9),
        (Tight(), RIDGE, 1e-5, "add_remove", 0.389459528854, 1e-9),
        (Tight(), ObjectivePerturbationDpEvent(20.0, 2.0, 0.25, 5.0), 1e-5, "replace_one", 0.774311915027, 1e-9),
        (Tight(), ObjectivePerturbationDpEvent(20.0, 2.0, 0.25, 5.0), 1e-5, "add_remove", 0.389459528854, 1e-9),
        (Tight(), PURE, 0.0, "replace_one", 0.8 + math.log(1.05), 1e-12),
        (Tight(), PURE, 0.0, "add_remove", 0.4 + math.log(1.05), 1e-12),
    ],
)  # fmt: skip
def test_pinned_prices(accountant, event, delta, adjacency, expected, rel):
    assert accountant.epsilon(event, delta, adjacency) == pytest.approx(expected, rel=rel)


def test_wang2015_composition():
    sample, gaussian = PosteriorSampleDpEvent(0.02, 10.0), without_replacement(5.0, 181)
    alone = Wang2015("range").epsilon(sample, 0.0), Wang2015("range").epsilon(gaussian, 1e-5)
    both = ComposedDpEvent([sample, gaussian])
    assert Wang2015("range").epsilon(both, 1e-5) == pytest.approx(sum(alone), rel=1e-12)
    # different noise, one minibatch size: as if all steps had the smaller noise
    mixed = ComposedDpEvent([without_replacement(7.0, 100), without_replacement(5.0, 81)])
    assert Wang2015().epsilon(mixed, 1e-5) == pytest.approx(Wang2015().epsilon(gaussian, 1e-5), rel=1e-12)
    with pytest.raises(ValueError, match="one minibatch size"):
        Wang2015().epsilon(
            ComposedDpEvent([without_replacement(5.0, 3), without_replacement(5.0, 3, batch=90)]), 1e-5
        )


def test_wang2015_condition_of_theorem_4():
    accountant = Wang2015()
    good, bad = without_replacement(100.0, 32561), without_replacement(0.01, 32561)
    assert accountant.violated(good, 1e-5) == ()
    assert accountant.violated(PosteriorSampleDpEvent(1.0, 1.0), 1e-5) == ()
    needed = accountant.epsilon(bad, 1e-5) ** 2 * 32561 / (32 * 180 * math.log(2 / 1e-5))
    assert accountant.violated(bad, 1e-5) == (f"T = 180 < eps^2 N/(32 tau ln(2/delta)) = {needed:.4g}",)
    # in a composition the condition is that of the steps alone
    assert accountant.violated(ComposedDpEvent([PosteriorSampleDpEvent(1.0, 99.0), good]), 1e-5) == ()
    assert accountant.violated(ComposedDpEvent([PosteriorSampleDpEvent(1.0, 99.0), bad]), 1e-5) != ()


SAMPLE, SCORING = PosteriorSampleDpEvent(1.0, 1.0), FisherScoringDpEvent(100, 100, 9, 0.5)
SUBSETS, LANGEVIN = without_replacement(1.0, 3), LangevinDpEvent(1000, 10, 10, 0.05, 0.2, 1.0, 1.0, 10.0)
NO_RIDGE = LangevinDpEvent(1000, 10, 10, 0.05, 0.2, 1.0, 0.0, 10.0)
VOTES, ONE_STEP = PateDpEvent(200, 50, 40.0, 20.0), poisson(1.0, 1, 0.1)


@pytest.mark.parametrize(
    ("accountant", "event", "adjacency", "message"),
    [
        (Wang2015(), SAMPLE, "add_remove", "add_remove"),
        (Wang2015(), ONE_STEP, "replace_one", "PoissonSampledDpEvent"),
        (Wang2015(), GaussianDpEvent(1.0), "replace_one", "GaussianDpEvent"),
        (Wang2015(), ComposedDpEvent([SCORING, SCORING]), "replace_one", "Theorem 5 is for one run"),
        (Wang2015(), ComposedDpEvent([SCORING, SUBSETS]), "replace_one", "Theorem 5 is for one run"),
        (Tight(), SCORING, "add_remove", "add_remove"),
        (Tight(), SUBSETS, "add_remove", "needs replace_one"),
        (Tight(), SelfComposedDpEvent(RIDGE, 2), "replace_one", "not in a composition"),
        (Chaudhuri2011(), PURE, "add_remove", "add_remove"),
        (Moments(), ONE_STEP, "replace_one", "replace_one"),
        (Moments(), SUBSETS, "add_remove", "cannot price SampledWithoutReplacementDpEvent"),
        (Bok2024(), LANGEVIN, "add_remove", "add_remove"),
        (Bok2024(), SelfComposedDpEvent(LANGEVIN, 2), "replace_one", "one LangevinDpEvent"),
        (Bok2024(), GaussianDpEvent(1.0), "replace_one", "GaussianDpEvent"),
        (Ryffel2022(), LANGEVIN, "add_remove", "add_remove"),
        (Ryffel2022(), GaussianDpEvent(1.0), "replace_one", "GaussianDpEvent"),
        (Ryffel2022(), NO_RIDGE, "replace_one", "strong_convexity > 0"),
        (Rdp(), ONE_STEP, "replace_one", "Poisson samples need add_remove"),
        (Rdp(), SUBSETS, "replace_one", "Poisson-sampled or full"),
        (Papernot2018(), GaussianDpEvent(1.0), "replace_one", "Papernot"),
        (Papernot2018(), SelfComposedDpEvent(VOTES, 2), "replace_one", "Papernot"),
    ],
)
def test_what_has_no_price_is_refused(accountant, event, adjacency, message):
    with pytest.raises(ValueError, match=message):
        accountant.epsilon(event, 1e-5, adjacency)


@pytest.mark.parametrize(
    ("accountant", "event"),
    [
        *((Tight(), SUBSETS), (Wang2015(), SCORING), (Kifer2012(), RIDGE), (Rdp(), GaussianDpEvent(1.0))),
        *((Bok2024(), LANGEVIN), (Ryffel2022(), LANGEVIN)),
    ],
)
def test_without_delta_there_is_no_bound(accountant, event):
    assert accountant.epsilon(event, 0.0) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Wang2015("gdp"), "not 'gdp'"),  # type: ignore[arg-type]
        (lambda: Moments(0), "max_order = 0"),
        (lambda: Moments(bound="exact"), "not 'exact'"),  # type: ignore[arg-type]
        (lambda: Ryffel2022("half"), "not 'half'"),  # type: ignore[arg-type]
        (lambda: Ryffel2022().renyi(LANGEVIN, 1.0), "alpha = 1"),
        (lambda: log_moment(0.1, 1.0, [0.0]), r"orders = \[0\.0\]"),
        (lambda: log_moment(1.5, 1.0, [1]), r"rate = 1\.5"),
        (lambda: log_moment(0.1, 0.0, [1]), r"noise_multiplier = 0\.0"),
    ],
)
def test_wrong_settings_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
