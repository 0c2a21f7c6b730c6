"""The moments accountant of li2019, and its step sizes."""

import math

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent
from mpmath import mp, mpf
from sampled_steps import poisson

from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.moments_accountant import Moments, log_moment
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.gaussian_steps import CLOSEST, StepSchedule, steps_event
from dplangevin.privacy.li2019 import (
    conditions,
    lemma_2,
    multiplier_of,
    printed_constant,
    printed_reach,
)

DELTA = 1e-5
EXAMPLE = Budget(0.1, DELTA)  # li2019, section 3.1: N = 50000, T = 10000, L = 1


def binomial_moment(rate: float, noise_multiplier: float, order: int) -> float:
    """log E_mu0[(mu/mu0)^a], a = order + 1, as a binomial sum at 50 digits."""
    with mp.workdps(50):
        q, s, a = mpf(rate), mpf(noise_multiplier), order + 1
        terms = (
            mp.binomial(a, k) * (1 - q) ** (a - k) * q**k * mp.expm1(k * (k - 1) / (2 * s * s))
            for k in range(2, a + 1)
        )
        return float(mp.log1p(mp.fsum(terms)))


@pytest.mark.parametrize("rate", [1e-4, 2.56e-3, 0.03, 0.5, 1.0])
@pytest.mark.parametrize("multiplier", [0.3, 1.0, 3.18, 10.0, 100.0])
def test_log_moment_is_the_binomial_sum(rate: float, multiplier: float) -> None:
    orders = [1, 2, 7, 32, 256]
    expected = [binomial_moment(rate, multiplier, order) for order in orders]
    np.testing.assert_allclose(log_moment(rate, multiplier, orders), expected, rtol=1e-11)


def test_log_moment_far_outside() -> None:
    assert log_moment(0.0, 1.0, [1, 2]).tolist() == [0.0, 0.0]
    assert log_moment(1.0, 0.05, [256])[0] == pytest.approx(256 * 257 / (2 * 0.05**2), rel=1e-12)
    # to second order q^2 lambda (lambda + 1)/(2 s^2), where 1 + alpha has no digit of alpha left
    assert log_moment(1e-8, 1e4, [3])[0] == pytest.approx(1e-16 * 12 / 2e8, rel=1e-7)


@pytest.mark.parametrize(
    ("multiplier", "steps"), [(0.5, 10), (4.0, 1000), (30.0, 1000), (300.0, 100), (1e4, 1)]
)
def test_the_search_for_the_order_finds_the_least_of_all(multiplier: float, steps: int) -> None:
    orders = np.arange(1, 1025)
    priced = (steps * log_moment(0.01, multiplier, orders) + math.log(1 / DELTA)) / orders
    event = poisson(multiplier, steps, 0.01)
    assert Moments(1024).epsilon(event, DELTA, "add_remove") == pytest.approx(priced.min(), rel=1e-13)
    assert Moments(1024).best(event, DELTA)[1] == int(priced.argmin()) + 1


def test_printed_bound_and_its_conditions() -> None:
    printed = Moments(256, "printed")
    event = poisson(4.0, 10_000, 2.56e-3)
    moments = [2.56e-3**2 * order * (order + 1) / 16 * 10_000 for order in range(1, 257)]
    expected = min((m + math.log(1 / DELTA)) / k for k, m in enumerate(moments, 1))
    assert printed.epsilon(event, DELTA, "add_remove") == pytest.approx(expected, rel=1e-12)
    assert printed.violated(event, DELTA) == ()
    assert printed.violated(poisson(0.9, 10, 2.56e-3), DELTA)[0] == "sigma = 0.9 < 1"
    assert "q = 0.01 >= 1/(16 sigma) = 0.00625" in printed.violated(poisson(10.0, 10_000, 0.01), DELTA)
    assert Moments(256).violated(poisson(0.9, 10, 2.56e-3), DELTA) == ()


def test_lemma_2_bounds_lambda() -> None:
    assert lemma_2(0.001, [1.0, 2.0], 6) == ()
    assert lemma_2(0.001, [1.0, 2.0], 7) == ("lambda = 7 > sigma^2 ln(1/(q sigma)) = 6.908",)


# Step sizes


def test_decreasing_schedule_rounds_noise_down() -> None:
    event = steps_event(2.0, rate=0.01, steps=500, schedule="decreasing")
    levels = [leaf.event.noise_multiplier for leaf, count in leaves(event) for _ in range(count)]
    exact = 2.0 * np.arange(1, 501) ** (1 / 6)
    assert len(levels) == 500
    assert np.all(levels <= exact * (1 + 1e-12))
    assert np.all(levels > exact / CLOSEST * (1 - 1e-12))


def test_mnist_setting() -> None:
    sigma = multiplier_of(0.3, records=60_000, batch=128, lipschitz=0.3)
    event = steps_event(sigma, rate=128 / 60_000, steps=9375, schedule="fixed")
    assert sigma == pytest.approx(3.180, abs=5e-4)
    assert Tight().epsilon(event, DELTA, "add_remove") == pytest.approx(0.2201, rel=1e-3)
    assert Moments().epsilon(event, DELTA, "add_remove") == pytest.approx(0.4335, rel=1e-3)


@pytest.mark.parametrize("schedule", ["fixed", "decreasing"])
def test_printed_constant_solves_conditions_2(schedule: StepSchedule) -> None:
    rate, steps, log = 1e-3, 2000, math.log(1 / DELTA)
    c = printed_constant(EXAMPLE, steps=steps, schedule=schedule)
    scale = steps ** (2 / 3) if schedule == "decreasing" else steps
    sigma = c * rate * math.sqrt(scale * log) / EXAMPLE.epsilon
    order = 2 * log / EXAMPLE.epsilon
    growth = np.arange(1, steps + 1) ** (1 / 3 if schedule == "decreasing" else 0)
    moment = (rate**2 * order * (order + 1) / (sigma**2 * growth)).sum()
    assert moment == pytest.approx(order * EXAMPLE.epsilon / 2, rel=1e-10)


def test_printed_reach_is_where_lemma_2_holds() -> None:
    rate, steps = 128 / 50_000, 10_000
    reach = printed_reach(DELTA, rate=rate, steps=steps, schedule="fixed")
    assert reach.c_1 == pytest.approx(reach.largest / (rate**2 * steps))

    def failed(epsilon: float) -> tuple[str, ...]:
        c = printed_constant(Budget(epsilon, DELTA), steps=steps, schedule="fixed")
        sigma = c * rate * math.sqrt(steps * math.log(1 / DELTA)) / epsilon
        return lemma_2(rate, [sigma], 2 * math.log(1 / DELTA) / epsilon)

    assert failed(reach.largest * (1 - 1e-6)) == failed(reach.smallest * (1 + 1e-6)) == ()
    assert "lambda" in failed(reach.largest * (1 + 1e-6))[0]
    assert "q =" in failed(reach.smallest * (1 - 1e-6))[0]


def test_printed_proof_reaches_no_epsilon_in_the_worked_example() -> None:
    # sigma_T = sigma_1 T^(1/6) must stay below 1/(16 q) while lambda = 2 ln(1/delta)/eps needs sigma_1 large
    for batch in (32, 64, 128, 256, 500):
        assert printed_reach(DELTA, rate=batch / 50_000, steps=10_000, schedule="decreasing").c_1 == 0


def test_conditions_1_and_2_drop_the_sampling_rate() -> None:
    records, batch = 50_000, 128
    found = conditions(records=records, batch=batch, lipschitz=1.0)
    rate = batch / records
    printed = multiplier_of(found.printed_high, records=records, batch=batch, lipschitz=1.0)
    assert printed == pytest.approx(rate, rel=1e-12)
    assert Moments().epsilon(poisson(printed, 1, rate), DELTA, "add_remove") > 1e4
    # what is needed, checked on the multiplier itself
    for bound, sigma in ((found.needed_high, 1.0), (found.needed_low, 1 / (16 * rate))):
        at = multiplier_of(bound, records=records, batch=batch, lipschitz=1.0)
        assert at == pytest.approx(sigma, rel=1e-12)
    assert found.needed_high == pytest.approx(batch**2 / records)
    assert found.printed_high / found.needed_high == pytest.approx(rate**-2)


def test_moments_of_different_steps_add_up() -> None:
    both = ComposedDpEvent([poisson(2.0, 10, 0.01), GaussianDpEvent(30.0)])
    total = [10 * binomial_moment(0.01, 2.0, k) + k * (k + 1) / (2 * 900) for k in range(1, 33)]
    expected = min((m + math.log(1 / DELTA)) / k for k, m in enumerate(total, 1))
    assert Moments().epsilon(both, DELTA, "add_remove") == pytest.approx(expected, rel=1e-12)
