"""One sampled step and one posterior sample: closed forms against 60 digits, and sampling against none."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from exact_steps import addition, removal, replacement
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from sampled_steps import poisson, without_replacement

from dplangevin.privacy import LangevinDpEvent, PosteriorSampleDpEvent
from dplangevin.privacy.accountants import composition, profiles
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.tight import DRAWS, ONE_STEP, Tight
from dplangevin.privacy.events import Adjacency

TIGHT = Tight()


def random_steps() -> list[tuple[float, float, float]]:
    rng, found = np.random.default_rng(7), []
    for i in range(120):
        mu = 10 ** (rng.uniform(-12, 3) if i % 2 else rng.uniform(-2, 1.3))
        rate = 10 ** rng.uniform(-8, 0) if i % 3 else 1 - 10 ** rng.uniform(-6, -0.1)
        delta = rate * min(1.0, mu * 0.8) * 10 ** rng.uniform(-250 if i % 5 == 0 else -14, 0)
        found.append((float(rate), float(mu), float(delta)))
    return found


@pytest.mark.parametrize(
    ("price", "exact"), [(profiles.sampled_epsilon, removal), (profiles.replaced_epsilon, replacement)]
)
def test_one_sampled_step_is_never_below_60_digits(
    price: Callable[[float, float, float], float], exact: Callable[[mpf, mpf, mpf], mpf]
) -> None:
    with mp.workdps(60):
        for rate, mu, delta in random_steps():
            epsilon, q, m = price(rate, mu, delta), mpf(rate), mpf(mu)
            spent = exact(q, m, mpf(epsilon))
            assert spent <= delta, (rate, mu, delta)
            if epsilon > 1e-2 * rate * mu:  # below, delta decides on few digits
                assert exact(q, m, mpf(epsilon) * (1 - mpf("2e-12"))) > delta, (rate, mu, delta)
            if exact is removal:
                assert addition(q, m, mpf(epsilon)) <= spent


@pytest.mark.parametrize(
    ("event", "adjacency", "mu", "exact"),
    [
        (poisson(0.596, 1, 3.7e-5), "add_remove", 1 / 0.596, removal),
        (poisson(0.596, 1, 3.7e-5), "replace_one", 1 / 0.596, replacement),
        (without_replacement(0.596, 1, 37, 10**6), "replace_one", 2 / 0.596, removal),
        (LangevinDpEvent(10**6, 37, 1, 2.0, 0.596 / 37, 1.0, 0.0, 0.5), "replace_one", 2 / 0.596, removal),
    ],
)
def test_rare_records_in_one_step_cost_their_exact_price(
    event: DpEvent, adjacency: Adjacency, mu: float, exact: Callable[[mpf, mpf, mpf], mpf]
) -> None:
    # composed on a grid it is 13 to 28 % dearer
    price = TIGHT.price(event, 5.7e-14, adjacency)
    assert price.accountant == ONE_STEP
    with mp.workdps(60):
        q, m = mpf(3.7e-5), mpf(mu)
        assert exact(q, m, mpf(price.epsilon)) <= 5.7e-14 * (1 + 1e-12)
        assert exact(q, m, mpf(price.epsilon) * (1 - mpf("1e-9"))) > 5.7e-14


def test_one_step_in_the_limits() -> None:
    assert TIGHT.epsilon(poisson(3.0, 1, 0.1), 0.0) == math.inf
    assert TIGHT.epsilon(poisson(0.0, 1, 0.1), 0.05) == math.inf
    assert TIGHT.epsilon(poisson(0.0, 1, 0.1), 0.11) == 0  # drawn with probability .1
    assert TIGHT.epsilon(poisson(3.0, 1, 0.0), 1e-5) == 0
    for adjacency, mu in (("add_remove", 1.0), ("replace_one", 2.0)):
        almost = TIGHT.epsilon(poisson(1.0, 1, 1 - 1e-12), 1e-5, adjacency)  # type: ignore[arg-type]
        assert almost == pytest.approx(epsilon_of(mu, 1e-5), rel=1e-9)


def test_a_posterior_sample_is_never_below_60_digits() -> None:
    rng = np.random.default_rng(2)
    with mp.workdps(60):
        for i in range(300):
            eta = float(10 ** rng.uniform(-15, 2.5))
            near = min(1 - 2.0**-53, eta / 4 * 10 ** rng.uniform(-16, 0.1))
            delta = float(near if i % 2 else 1 - 10 ** rng.uniform(-16, 0))
            epsilon = profiles.bounded_range_epsilon(eta, delta)
            exact = mpf(eta) + 2 * mp.log(1 - mp.sqrt(mpf(delta) * (1 - mp.exp(-mpf(eta)))))
            assert max(exact, mpf(0)) <= epsilon <= max(exact, mpf(0)) + 1e-14 * mpf(eta), (eta, delta)


# Sampling against none


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_steps_at_rate_one_have_the_closed_form(adjacency: Adjacency) -> None:
    share = 2.0 if adjacency == "replace_one" else 1.0
    price = TIGHT.price(poisson(0.0089, 2, 1.0), 1e-5, adjacency)  # .1 % dearer on a grid
    assert price.accountant == "analytic Gaussian"
    assert price.epsilon == pytest.approx(epsilon_of(share * math.sqrt(2) / 0.0089, 1e-5), rel=1e-13)
    mixed = ComposedDpEvent([poisson(0.5, 3, 1.0), GaussianDpEvent(2.0)])
    expected = epsilon_of(share * math.sqrt(3 / 0.25 + 1 / 4), 1e-5)
    assert TIGHT.epsilon(mixed, 1e-5, adjacency) == pytest.approx(expected, rel=1e-13)
    if adjacency == "replace_one":
        full = TIGHT.price(without_replacement(4.0, 9, 100, 100), 1e-5)
        assert full.accountant == "analytic Gaussian"


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.floats(-3.0, 2.0), st.integers(2, 10**4), st.integers(2, 10**4), st.floats(-13.0, -1.0), st.booleans()
)
def test_a_sample_never_costs_more_than_all_rows(
    power: float, count: int, records: int, delta_power: float, either: bool
) -> None:
    noise, delta = 10**power, 10**delta_power
    full = TIGHT.epsilon(without_replacement(noise, count, records, records), delta)
    assert TIGHT.epsilon(without_replacement(noise, count, records - 1, records), delta) <= full
    adjacency: Adjacency = "replace_one" if either else "add_remove"
    full = TIGHT.epsilon(SelfComposedDpEvent(GaussianDpEvent(noise), count), delta, adjacency)
    assert TIGHT.epsilon(poisson(noise, count, 1 - 1 / records), delta, adjacency) <= full


# Noise too little for a grid


@pytest.mark.parametrize("noise", [1e-7, 1e-9, 1e-100])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_hardly_any_noise_is_priced_by_how_often_a_record_is_drawn(
    noise: float, adjacency: Adjacency
) -> None:
    # at the quantile of delta, 7 of 100 steps at rate .01, mu^2/2 = 7/(2 noise^2) is a lower bound
    mu = (2 if adjacency == "replace_one" else 1) / noise
    steps = (
        without_replacement(noise, 100, 10, 1000) if adjacency == "replace_one" else poisson(noise, 100, 0.01)
    )
    price = TIGHT.price(steps, 1e-5, adjacency)
    assert price.accountant == DRAWS
    assert 6.9 * mu * mu / 2 < price.epsilon < 8.1 * mu * mu / 2
    both = TIGHT.epsilon(ComposedDpEvent([PosteriorSampleDpEvent(1.0, 2.0), steps]), 1e-5, adjacency)
    assert both >= price.epsilon


def test_hardly_any_noise_is_refused_by_the_grid() -> None:
    assert composition.on_a_grid(profiles.gaussian(1e5))
    for mu in (1e6, 1e100):
        with pytest.raises(ValueError, match="add noise"):
            composition.compose([(profiles.gaussian(mu), 3)], 1e-5)
    with pytest.raises(ValueError, match="add noise"):
        composition.compose([(profiles.BoundedRange(1e12), 3)], 1e-5)
    assert TIGHT.epsilon(poisson(1e-200, 3, 0.5), 1e-5) == math.inf
