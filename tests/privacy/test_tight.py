"""The tight accountant against closed forms, dp_accounting's own paths, exact densities and simulation."""

import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from dplangevin.privacy import (
    ObjectivePerturbationDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
    calibrate,
)
from dplangevin.privacy.accountants import profiles
from dplangevin.privacy.accountants.analytic_gaussian import delta_of, epsilon_of
from dplangevin.privacy.accountants.chaudhuri2011 import Chaudhuri2011
from dplangevin.privacy.accountants.kifer2012 import Kifer2012
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.events import Budget

DELTA = 1e-5
TIGHT = Tight()


def without_replacement(multiplier, count, batch=180, records=32561):
    sampled = SampledWithoutReplacementDpEvent(records, batch, GaussianDpEvent(multiplier))
    return SelfComposedDpEvent(sampled, count)


def poisson(multiplier, count, rate):
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)), count)


# Sampling: our multiplier is relative to one record's norm, so replace_one at rate 1 has mu = 2 sqrt(k)/z.


@pytest.mark.parametrize("multiplier", [0.7, 4.0, 80.0])
@pytest.mark.parametrize(("adjacency", "sensitivity"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_full_rate_poisson_is_gaussian(multiplier, adjacency, sensitivity):
    exact = epsilon_of(sensitivity * 3 / multiplier, DELTA)
    price = TIGHT.price(poisson(multiplier, 9, 1.0), DELTA, adjacency)
    assert price.accountant == "PLD"
    assert exact * (1 - 1e-6) <= price.epsilon <= exact * (1 + 1e-3)


@pytest.mark.parametrize("multiplier", [0.7, 4.0, 80.0])
def test_full_batch_without_replacement_is_gaussian(multiplier):
    exact = epsilon_of(2 * 3 / multiplier, DELTA)
    found = TIGHT.epsilon(without_replacement(multiplier, 9, batch=100, records=100), DELTA)
    assert exact * (1 - 1e-6) <= found <= exact * (1 + 1e-3)


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


@pytest.mark.parametrize(("rate", "mu"), [(0.01, 0.5), (0.2, 2.0), (0.005, 4.0)])
def test_one_step_without_replacement_is_the_mixture_against_one_component(rate, mu):
    # (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1): dp_accounting's REMOVE direction at noise multiplier 1/mu
    mixture = from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3, sampling_prob=rate)
    profile = profiles.without_replacement(rate, mu)
    for epsilon in (0.0, 0.05, 0.2):
        expected = mixture._pmf_remove.get_delta_for_epsilon(epsilon)
        assert float(profile(np.array(epsilon))) == pytest.approx(expected, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize(
    ("multiplier", "count", "batch"), [(188.0, 32561, 180), (20.0, 2000, 180), (4.0, 500, 600)]
)
def test_without_replacement_lies_between_a_worst_pair_and_rdp(multiplier, count, batch):
    # below: the fixed pair of data sets whose steps are that mixture; above: dp_accounting's RDP (Wang,
    # Balle, Kasiviswanathan 2019), whose multiplier is relative to the sensitivity 2
    event = without_replacement(multiplier, count, batch)
    found = TIGHT.epsilon(event, DELTA)
    step = profiles.largest_loss(profiles.without_replacement(batch / 32561, 2 / multiplier)) / 256
    pair = from_gaussian_mechanism(
        multiplier / 2, value_discretization_interval=step, sampling_prob=batch / 32561
    ).self_compose(count)
    accountant = RdpAccountant(
        orders=[2, 4, 8, 16, 32, 64, 96, 128], neighboring_relation=NeighboringRelation.REPLACE_ONE
    )
    sampled = SampledWithoutReplacementDpEvent(32561, batch, GaussianDpEvent(multiplier / 2))
    accountant.compose(sampled, count)
    assert pair.get_epsilon_for_delta(DELTA) * (1 - 3e-3) <= found <= accountant.get_epsilon(DELTA)


@pytest.mark.parametrize(
    ("multiplier", "count", "batch"),
    [(1.0, 3000, 325), (188.0, 32561, 180), (0.5, 500, 325), (3.18, 7800, 83)],
)
def test_grid_is_fine_enough(multiplier, count, batch):
    profile = profiles.without_replacement(batch / 32561, 2 / multiplier)
    scale = min(0.5, (batch / 32561) * math.sqrt(math.expm1((2 / multiplier) ** 2)))
    fine = profiles.discretised(profile)(scale / 30).self_compose(count).get_epsilon_for_delta(DELTA)
    found = TIGHT.epsilon(without_replacement(multiplier, count, batch), DELTA)
    assert fine * (1 - 1e-3) <= found <= fine * (1 + 2e-3)


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


def test_delta_too_small_for_the_convolution():
    assert TIGHT.epsilon(without_replacement(1.0, 1), 0.0) == math.inf
    with pytest.raises(ValueError, match="delta = 1e-14"):
        TIGHT.epsilon(without_replacement(1.0, 1), 1e-14)


# Posterior samples


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
    assert best == pytest.approx(float(profiles.bounded_range(eta)(np.array(epsilon))), abs=4e-3)


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
    single = profiles.compose([(profiles.discretised(profiles.bounded_range(1.0)), 1)], [1.0], DELTA)
    assert single == pytest.approx(TIGHT.epsilon(event, DELTA), rel=1e-3)


@pytest.mark.parametrize("nominal", [0.1, 1.0, 10.0])
def test_hybrid_is_between_its_parts_and_their_sum(nominal):
    sample = PosteriorSampleDpEvent(nominal / 40, 10.0)
    noise = calibrate(
        Wang2015(), lambda z: without_replacement(z, 32561), Budget(nominal / 2, DELTA), low=1e-2, high=1e6
    )
    gaussian = without_replacement(noise, 32561)
    found = TIGHT.price(ComposedDpEvent([sample, gaussian]), DELTA)
    assert found.accountant == "PLD"
    parts = TIGHT.epsilon(sample, DELTA / 2) + TIGHT.epsilon(gaussian, DELTA / 2)
    assert TIGHT.epsilon(sample, DELTA) * (1 - 1e-3) <= found.epsilon <= parts * (1 + 1e-3)
    assert found.epsilon <= nominal


# Objective perturbation


def exact_objective_perturbation(event, margins, epsilon):
    """delta(epsilon) of the 1-d problem with records y x = margins, by change of variables."""
    theta = np.linspace(-12 * event.noise_std / event.ridge, 12 * event.noise_std / event.ridge, 200_001)
    cell = theta[1] - theta[0]

    def density(points):
        slope = sum(-m * expit(-m * theta) for m in points) + event.ridge * theta
        curvature = sum(m * m * expit(m * theta) * expit(-m * theta) for m in points) + event.ridge
        return (
            np.exp(-((slope / event.noise_std) ** 2) / 2)
            / (event.noise_std * math.sqrt(2 * math.pi))
            * curvature
        )

    first, second = (density(points) for points in margins)
    assert first.sum() * cell == pytest.approx(1.0, abs=1e-6)
    return float(np.maximum(0.0, first - math.exp(epsilon) * second).sum() * cell)


@pytest.mark.parametrize(("noise_std", "ridge"), [(10.0, 5.0), (3.0, 1.0), (1.0, 0.5), (40.0, 2.0)])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_objective_perturbation_bounds_exact_one_dimensional_problems(noise_std, ridge, delta, adjacency):
    event = ObjectivePerturbationDpEvent(noise_std, 1.0, 0.25, ridge)
    epsilon = TIGHT.epsilon(event, delta, adjacency)
    for others in ([], [1.0, -0.5], [0.1, 0.9, 0.9, 0.9]):
        one = [*others, 1.0]
        for two in [others] if adjacency == "add_remove" else [[*others, -1.0], [*others, 0.3]]:
            for pair in ((one, two), (two, one)):
                assert exact_objective_perturbation(event, pair, epsilon) <= delta * (1 + 1e-6)
    assert epsilon <= Kifer2012().epsilon(event, delta, adjacency)


@pytest.mark.parametrize(
    ("adjacency", "expected"),
    [  # mpmath: log(1 + 0.25/5) + the Gaussian epsilon at mu = 0.2 and 0.1
        ("replace_one", 0.774311915027),
        ("add_remove", 0.389459528854),
    ],
)
def test_objective_perturbation_epsilon(adjacency, expected):
    event = ObjectivePerturbationDpEvent(10.0, 1.0, 0.25, 5.0)
    assert TIGHT.epsilon(event, DELTA, adjacency) == pytest.approx(expected, rel=1e-9)
    scaled = ObjectivePerturbationDpEvent(20.0, 2.0, 0.25, 5.0)
    assert TIGHT.epsilon(scaled, DELTA, adjacency) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mu", [0.03, 0.3, 1.0, 3.0])
def test_opposite_records_are_the_worst_replacement(mu):
    grid = np.linspace(-8.5, 8.5, 701)
    one, two = np.meshgrid(grid, grid, indexing="ij")
    weight = np.exp(-(one**2 + two**2) / 2) / (2 * math.pi) * (grid[1] - grid[0]) ** 2
    for angle in np.linspace(0, math.pi, 13):
        cos, sin = math.cos(angle), math.sin(angle)
        vertices = ((0.0, 0.0), (1.0, 0.0), (cos, sin), (1 + cos, sin))
        loss = np.max([mu * (v * one + w * two) + mu**2 * (v * v + w * w) / 2 for v, w in vertices], axis=0)
        for epsilon in mu * np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0]):
            delta = float((weight * np.maximum(0.0, -np.expm1(epsilon - loss))).sum())
            assert delta <= float(delta_of(2 * mu, epsilon)) * (1 + 1e-3)


def test_objective_perturbation_is_not_composed():
    event = ObjectivePerturbationDpEvent(10.0, 1.0, 0.25, 5.0)
    with pytest.raises(ValueError, match="not in a composition"):
        TIGHT.epsilon(SelfComposedDpEvent(event, 2), DELTA)


def test_pure_objective_perturbation():
    event = PureObjectivePerturbationDpEvent(0.4, 1.0, 0.25, 5.0)
    assert TIGHT.epsilon(event, 0.0) == pytest.approx(0.8 + math.log(1.05), rel=1e-12)
    assert TIGHT.epsilon(event, 0.0, "add_remove") == pytest.approx(0.4 + math.log(1.05), rel=1e-12)
    assert TIGHT.epsilon(event, 0.0) < Chaudhuri2011().epsilon(event, 0.0)


def test_pure_objective_perturbation_bounds_an_exact_one_dimensional_problem():
    event = PureObjectivePerturbationDpEvent(0.4, 1.0, 0.25, 1.0)
    theta = np.linspace(-30, 30, 20_001)

    def log_density(points):
        slope = sum(-m * expit(-m * theta) for m in points) + event.ridge * theta
        curvature = sum(m * m * expit(m * theta) * expit(-m * theta) for m in points) + event.ridge
        return -event.rate * np.abs(slope) + np.log(curvature)

    loss = np.abs(log_density([0.4, 1.0]) - log_density([0.4, -1.0])).max()
    assert loss <= TIGHT.epsilon(event, 0.0)
    assert loss > 0.2 * TIGHT.epsilon(event, 0.0)


# Laws


noise = st.floats(0.5, 100.0)
more = st.floats(1.05, 5.0)
deltas = st.floats(1e-8, 1e-3)
SLACK = 1 + 2e-3  # the grid of the numerical composition


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
    reached = float(profiles.bounded_range(eta)(np.array(epsilon)))
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
