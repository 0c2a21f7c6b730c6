"""Prices to seven digits, each computed without the code under test.

`python -m pytest tests/privacy/test_pins.py` also recomputes those that mpmath gives quickly, at 50 digits.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from mpmath import mp, mpf
from sampled_steps import poisson, without_replacement

from dplangevin.privacy import (
    Budget,
    ObjectivePerturbationDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
)
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian, mu_for
from dplangevin.privacy.accountants.chaudhuri2011 import Chaudhuri2011
from dplangevin.privacy.accountants.kifer2012 import Kifer2012
from dplangevin.privacy.accountants.li2019 import Li2019, log_moment
from dplangevin.privacy.accountants.rdp import Rdp
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.stepsize import multiplier_of, wang_step
from dplangevin.privacy.theorem3 import printed_constant

DELTA = 1e-5
OBJECTIVE = ObjectivePerturbationDpEvent(10.0, 1.0, 0.25, 5.0)
SAMPLE = PosteriorSampleDpEvent(0.02, 10.0)
MOMENTS = Budget(0.1, DELTA)


# The independent side, in mpmath


def gaussian_delta(mu: mpf, epsilon: mpf) -> mpf:
    """Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu) (Balle, Wang 2018, Theorem 8)."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def gaussian_epsilon(mu: float, delta: str) -> mpf:
    """The epsilon at which `gaussian_delta` is delta."""
    start = mu * mp.sqrt(2 * mp.log(1 / mpf(delta)))
    return mp.findroot(lambda e: mp.log(gaussian_delta(mpf(mu), e) / mpf(delta)), start)


def log_moment_sum(rate: str, noise_multiplier: str, order: int) -> mpf:
    """log E[(mu/mu0)^(order + 1)] by the binomial theorem."""
    q, s, a = mpf(rate), mpf(noise_multiplier), order + 1
    return mp.log(
        mp.fsum(
            mp.binomial(a, k) * (1 - q) ** (a - k) * q**k * mp.exp(k * (k - 1) / (2 * s * s))
            for k in range(a + 1)
        )
    )


def moments_epsilon(rate: str, noise_multiplier: str, steps: int, orders: int) -> mpf:
    """min over lambda of (steps alpha(lambda) + ln(1/delta))/lambda."""
    log = mp.log(1 / mpf("1e-5"))
    return min(
        (steps * log_moment_sum(rate, noise_multiplier, order) + log) / order
        for order in range(1, orders + 1)
    )


def kifer_epsilon() -> mpf:
    """The root of noise^2 eps^2 = 8 ln(2/delta) + 4 eps; the ridge asks for less."""
    return mp.findroot(lambda e: 100 * e * e - 8 * mp.log(2 / mpf("1e-5")) - 4 * e, 1)


def theorem_4(records: int, batch: int, steps: int, multiplier: int) -> mpf:
    """(tau/N) sqrt(128 k ln(2.5 k/delta) ln(2/delta))/z."""
    delta = mpf("1e-5")
    logs = mp.log(mpf("2.5") * steps / delta) * mp.log(2 / delta)
    return mpf(batch) / records * mp.sqrt(128 * steps * logs) / multiplier


def wang_bound() -> mpf:
    """eps^2 N/(128 T ln(2.5 T/delta) ln(2/delta)) at eps = 0.1, N = 5e4, T = 1e4."""
    delta = mpf("1e-5")
    return mpf("0.01") * 50_000 / (128 * 10_000 * mp.log(mpf("25000") / delta) * mp.log(2 / delta))


def zeta_constant() -> mpf:
    """sqrt(2 T^(-2/3) (2 + eps/ln(1/delta)) sum t^(-1/3)), the sum as zeta(1/3) - zeta(1/3, T + 1)."""
    total = mp.zeta(mpf(1) / 3) - mp.zeta(mpf(1) / 3, 10_001)
    return mp.sqrt(2 * total / mpf(10_000) ** (mpf(2) / 3) * (2 + mpf("0.1") / mp.log(mpf(10) ** 5)))


class Pin(NamedTuple):
    """what: the quantity. found: it, by this code. value: to at least seven digits. source: where from.

    again: recomputes value, where mpmath is fast.
    """

    what: str
    found: Callable[[], float]
    value: float
    source: str
    again: Callable[[], mpf] | None = None


PINS = [
    Pin(
        "Gaussian noise at (1, 1e-5)",
        lambda: 1 / mu_for(1.0, DELTA),
        3.730631635,
        "Balle, Wang (2018), Algorithm 1; mpmath",
        lambda: 1 / mp.findroot(lambda mu: mp.log(gaussian_delta(mu, mpf(1)) / mpf("1e-5")), 0.3),
    ),
    Pin(
        "Gaussian, replace_one, z = 2",
        lambda: AnalyticGaussian().epsilon(GaussianDpEvent(2.0), DELTA),
        4.377178096,
        "mpmath root of Balle, Wang (2018), Theorem 8",
        lambda: gaussian_epsilon(1.0, "1e-5"),
    ),
    Pin(
        "0.5-GDP of four composed releases, add_remove",
        lambda: AnalyticGaussian().epsilon(SelfComposedDpEvent(GaussianDpEvent(4.0), 4), 1e-12, "add_remove"),
        3.449052150,
        "mpmath root at mu = 0.5 (Dong, Roth, Su 2022, Corollary 1)",
        lambda: gaussian_epsilon(0.5, "1e-12"),
    ),
    Pin(
        "OPS, 4 rho B",
        lambda: Wang2015("paper").epsilon(SAMPLE, 0.0),
        0.8000036319,
        "closed form, wang2015 Theorem 1 and Algorithm 1",
        lambda: 4 * mpf("0.02") * mp.log(1 + mp.exp(10)),
    ),
    Pin("OPS, range", lambda: Wang2015("range").epsilon(SAMPLE, 0.0), 0.4, "closed form, 2 rho D"),
    Pin(
        "OPS, exact at delta = 1e-3",
        lambda: Tight().epsilon(PosteriorSampleDpEvent(1.25, 4.0), 1e-3),
        9.935734335,
        "Dong, Durfee, Rogers (2020), Lemma 3.4: eta + 2 ln(1 - sqrt(delta (1 - exp(-eta))))",
        lambda: 10 + 2 * mp.log(1 - mp.sqrt(mpf("1e-3") * (1 - mp.exp(-10)))),
    ),
    Pin(
        "wang2015 Theorem 4",
        lambda: Wang2015().epsilon(without_replacement(100.0, 32561), DELTA),
        1.883541716,
        "closed form, N = 32561, tau = 180",
        lambda: theorem_4(32561, 180, 32561, 100),
    ),
    Pin(
        "Kifer, add_remove",
        lambda: Kifer2012().epsilon(OBJECTIVE, DELTA, "add_remove"),
        1.008375339,
        "mpmath root of Theorem 2's noise condition",
        kifer_epsilon,
    ),
    Pin(
        "Kifer, replace_one",
        lambda: Kifer2012().epsilon(OBJECTIVE, DELTA),
        1.512563009,
        "1.5 times the add_remove root",
        lambda: mpf("1.5") * kifer_epsilon(),
    ),
    Pin(
        "Chaudhuri",
        lambda: Chaudhuri2011().epsilon(PureObjectivePerturbationDpEvent(0.4, 1.0, 0.25, 5.0), 0.0),
        0.8975803283,
        "closed form, Theorem 9's eps' + ln(1 + 2c/(n Lambda) + c^2/(n Lambda)^2)",
        lambda: mpf("0.8") + mp.log(1 + mpf("0.1") + mpf("0.0025")),
    ),
    Pin(
        "log moment, q = 0.01, s = 1, lambda = 4",
        lambda: log_moment(0.01, 1.0, [4])[0],
        0.001874668969,
        "binomial sum",
        lambda: log_moment_sum("0.01", "1", 4),
    ),
    Pin(
        "log moment, q = 1e-4, s = 100, lambda = 1",
        lambda: log_moment(1e-4, 100.0, [1])[0],
        1.000050002e-12,
        "binomial sum",
        lambda: log_moment_sum("0.0001", "100", 1),
    ),
    Pin(
        "log moment, q = 0.5, s = 0.3, lambda = 256",
        lambda: log_moment(0.5, 0.3, [256])[0],
        365332.9723,
        "binomial sum",
        lambda: log_moment_sum("0.5", "0.3", 256),
    ),
    Pin(
        "moments accountant, 32 orders",
        lambda: Li2019().epsilon(poisson(1.5, 10_000, 0.00256), DELTA, "add_remove"),
        0.9572361476,
        "binomial sums",
        lambda: moments_epsilon("0.00256", "1.5", 10_000, 32),
    ),
    Pin(
        "Renyi, Poisson, z = 1.5, q = 0.01, 1000 steps, add_remove",
        lambda: Rdp().epsilon(poisson(1.5, 1000, 0.01), DELTA, "add_remove"),
        1.012952767,
        "dp_accounting 0.6.0, RdpAccountant, default orders",
    ),
    Pin(
        "Renyi, without replacement, z = 20, tau = 180, N = 32561, 2000 steps",
        lambda: Rdp().epsilon(without_replacement(20.0, 2000), DELTA),
        0.1817418479,
        "dp_accounting 0.6.0, RdpAccountant(REPLACE_ONE) at multiplier 10",
    ),
    Pin(
        "wang2015's step bound",
        lambda: wang_step(MOMENTS, records=50_000, steps=10_000, lipschitz=1.0),
        1.478889506e-06,
        "closed form, li2019 section 3.1",
        wang_bound,
    ),
    Pin(
        "noise multiplier of li2019's MNIST setting",
        lambda: multiplier_of(0.3, records=60_000, batch=128, lipschitz=0.3),
        3.180185568,
        "128/(0.3 sqrt(0.3 60000))",
        lambda: 128 / (mpf("0.3") * mp.sqrt(mpf("0.3") * 60_000)),
    ),
    Pin(
        "c_2 of li2019 Theorem 3 by conditions (2)",
        lambda: printed_constant(MOMENTS, steps=10_000, schedule="decreasing"),
        2.45312738,
        "sum t^(-1/3) by the Hurwitz zeta function",
        zeta_constant,
    ),
]


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.what)
def test_pin(pin: Pin) -> None:
    assert pin.found() == pytest.approx(pin.value, rel=5e-8)


@pytest.mark.parametrize("pin", [pin for pin in PINS if pin.again], ids=lambda pin: pin.what)
def test_pin_by_mpmath(pin: Pin) -> None:
    assert pin.again is not None
    with mp.workdps(50):
        assert float(pin.again()) == pytest.approx(pin.value, rel=2e-9)
