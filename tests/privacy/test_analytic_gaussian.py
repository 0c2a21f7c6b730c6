"""The Gaussian closed form against 60 digits: never below, and no more than 1e-12 above."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from exact_steps import gaussian
from mpmath import mp, mpf

from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian, delta_of, epsilon_of


def above(mu: float, delta: float, epsilon: float) -> float:
    """By how much epsilon is above the exact one, to first order, in units of the larger of epsilon and mu/1000."""
    m, e = mpf(mu), mpf(epsilon)
    slope = mp.exp(e) * mp.erfc((e / m + m / 2) / mp.sqrt(2)) / 2
    return float((mpf(delta) - gaussian(mpf(mu), mpf(epsilon))) / slope / max(e, m / 1000))


def random_points(kind: str) -> list[tuple[float, float]]:
    rng = np.random.default_rng(["tiny", "tails", "ordinary"].index(kind))
    mu = 10 ** (rng.uniform(-2, 1.3, 100) if kind == "ordinary" else rng.uniform(-12, 3, 100))
    if kind == "tiny":  # delta near that of epsilon = 0
        delta = np.minimum(0.5, mu * 0.4 * 10 ** rng.uniform(-12, 0, 100))
    else:
        delta = 10 ** rng.uniform(-300 if kind == "tails" else -12, math.log10(0.5), 100)
    return [(float(m), float(d)) for m, d in zip(mu, delta, strict=True)]


@pytest.mark.parametrize("kind", ["tiny", "tails", "ordinary"])
def test_epsilon_is_never_below_60_digits_and_hardly_above(kind: str) -> None:
    with mp.workdps(60):
        for mu, delta in [*random_points(kind), (8.6e-5, 1e-5), (1e-12, 1e-300), (1e3, 0.5), (1e3, 1e-300)]:
            epsilon = epsilon_of(mu, delta)
            assert gaussian(mpf(mu), mpf(epsilon)) <= delta, (mu, delta)
            if epsilon > 0:
                assert above(mu, delta, epsilon) < 1e-12, (mu, delta)


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 1e-3, 0.5, 2.0, 30.0])
def test_delta_is_accurate_at_any_mu(mu: float) -> None:
    epsilons = mu * np.array([0.0, 1e-3, 0.5, 1.0, 3.0, 10.0, 30.0])
    with mp.workdps(60):
        expected = [float(gaussian(mpf(mu), mpf(epsilon))) for epsilon in epsilons]
    found = delta_of(mu, epsilons)
    np.testing.assert_allclose(found, expected, rtol=2e-13)
    assert [float(delta_of(mu, float(epsilon))) for epsilon in epsilons] == pytest.approx(found, rel=1e-14)


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-5, 0.999, 1 - 2.0**-53])
@pytest.mark.parametrize("mu", [1e-300, 1e-100, 1e6, 1e17, 1e150])
def test_absurd_mu_and_delta(mu: float, delta: float) -> None:
    epsilon = epsilon_of(mu, delta)
    assert math.isfinite(epsilon)
    if mu < 1 and delta > mu:
        assert epsilon == 0
    elif mu < 1:
        assert 5 * mu < epsilon < 40 * mu
    else:
        assert epsilon == pytest.approx(mu * mu / 2, rel=1e-4)
    assert epsilon_of(1.01e150, delta) == math.inf


@pytest.mark.parametrize("noise", [1e-100, 1e-9, 3.0, 1e9, 1e200])
def test_the_accountant_rounds_mu_up(noise: float) -> None:
    with mp.workdps(60):
        for count in (1, 3, 929):
            event = SelfComposedDpEvent(GaussianDpEvent(noise), count)
            epsilon, mu = AnalyticGaussian().epsilon(event, 1e-250, "add_remove"), mp.sqrt(count) / mpf(noise)
            assert epsilon == pytest.approx(epsilon_of(float(mu), 1e-250), rel=1e-13)
            if noise < 1e50:
                assert gaussian(mpf(mu), mpf(epsilon)) <= mpf(1e-250)
