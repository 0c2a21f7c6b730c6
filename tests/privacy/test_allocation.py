"""Random allocation: its pairs against closed forms, quadrature at 50 digits, simulation and pld-accounting."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from quick import sample
from sampled_steps import poisson

from dplangevin.privacy import RandomAllocationDpEvent
from dplangevin.privacy.accountants import allocation
from dplangevin.privacy.accountants.analytic_gaussian import delta_of, epsilon_of
from dplangevin.privacy.accountants.profiles import Atoms
from dplangevin.privacy.accountants.tight import Tight

TIGHT = Tight()
PAIRS = {
    "removal": lambda noise, steps: allocation.removal(noise, steps, 1e-20),
    "addition": lambda noise, steps: allocation.addition(noise, steps, 1e-20),
    "replacement": lambda noise, steps: allocation.replacement(noise, steps, 1e-10),
}


def allocated(noise: float, steps: int, epochs: int) -> DpEvent:
    return SelfComposedDpEvent(RandomAllocationDpEvent(steps, GaussianDpEvent(noise)), epochs)


def profile(pair: Atoms, epsilon: float) -> float:
    """delta(epsilon) of a pair."""
    gain = -np.expm1(np.minimum(epsilon - pair.loss, 0.0))
    return float(pair.mass @ gain) + pair.infinity


def two_steps(kind: str, noise: float, epsilon: float) -> mpmath.mpf:
    """delta(epsilon) of an epoch of two steps at 50 digits: the second step in closed form, the first by quadrature."""
    with mpmath.workdps(50):
        mu, ratio = 1 / mpmath.mpf(noise), mpmath.exp(epsilon)

        def call(rest: mpmath.mpf) -> mpmath.mpf:
            """E max(0, W + rest)."""
            if rest >= 0:
                return 1 + rest
            g = (mpmath.log(-rest) + mu**2 / 2) / mu
            return mpmath.ncdf(mu - g) + rest * mpmath.ncdf(-g)

        def both(rest: mpmath.mpf) -> mpmath.mpf:
            """E max(0, W - ratio V + rest)."""
            root = -rest * mpmath.exp(mu**2 / 2) / (2 * mpmath.sqrt(ratio))
            g = (mpmath.asinh(root) + mpmath.log(ratio) / 2) / mu
            return mpmath.ncdf(mu - g) - ratio * mpmath.ncdf(-mu - g) + rest * mpmath.ncdf(-g)

        def value(g: mpmath.mpf) -> mpmath.mpf:
            w, v = mpmath.exp(mu * g - mu**2 / 2), mpmath.exp(-mu * g - mu**2 / 2)
            if kind == "removal":
                found = call(w - 2 * ratio) / 2
            elif kind == "addition":  # max(0, 2 - ratio s) is ratio (max(0, s - 2/ratio) + 2/ratio - s)
                found = ratio * (call(w - 2 / ratio) + 2 / ratio - w - 1) / 2
            else:
                found = both(w - ratio * v) / 2
            return found * mpmath.npdf(g)

        # the first step alone decides beyond this point
        level = 2 / ratio if kind == "addition" else 2 * ratio
        kink = float((mpmath.log(level) + mu**2 / 2) / mu)
        ends = sorted({-14.0, -5.0, 0.0, 4.0, 9.0, 18.0, *(kink - away for away in (0, 0.3, 1) if kink < 18)})
        return mpmath.quad(value, ends, maxdegree=3, method="gauss-legendre")


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("noise", [0.5, 1.1, 5.0])
def test_one_step_is_no_sampling(kind: str, noise: float) -> None:
    mu = (2 if kind == "replacement" else 1) / noise
    pair = PAIRS[kind](noise, 1)
    for epsilon in (0.0, mu / 2, mu, 3 * mu):
        exact = float(delta_of(mu, epsilon))
        assert exact <= profile(pair, epsilon) <= exact * 1.02


def test_a_pair_that_replaces_has_a_mass_of_one_and_a_price_where_its_masses_round() -> None:
    """The mass was 1.35 here, and one of -2e-19 made the price nan."""
    pair = allocation.replacement(0.6, 10, 1e-14)
    assert float(pair.mass.sum()) + pair.infinity == pytest.approx(1, abs=1e-8)
    assert TIGHT.epsilon(allocated(0.6, 10, 1), 1e-10) == pytest.approx(13.022, abs=1e-3)


@settings(max_examples=12, deadline=None)
@given(kind=st.sampled_from(list(PAIRS)), noise=st.floats(0.4, 20.0), scaled=st.floats(0.0, 4.0))
def test_two_steps_are_never_below_quadrature(kind: str, noise: float, scaled: float) -> None:
    epsilon = scaled / noise
    exact = float(two_steps(kind, noise, epsilon))
    found = profile(PAIRS[kind](noise, 2), epsilon)
    assert exact <= found
    if kind != "replacement" or noise > 1:  # the linear grid of a replacement is coarse for little noise
        assert found <= exact * 1.05 + 1e-8


@pytest.mark.parametrize("noise", sample([0.5, 0.3, 0.1], lambda noise: noise == 0.3))
def test_replacing_costs_no_more_than_a_removal_and_then_an_addition(noise: float) -> None:
    """For little noise, too: at t = 2 above quadrature, and 50 steps x 5 epochs below group privacy of all epochs."""
    pair = PAIRS["replacement"](noise, 2)
    for scaled in (0.5, 2.0, 4.0):
        exact = float(two_steps("replacement", noise, scaled / noise))
        assert exact <= profile(pair, scaled / noise) * (1 + 1e-6)  # accuracy of quadrature
    event, delta = allocated(noise, 50, 5), 1e-5
    once = TIGHT.epsilon(event, delta / 2, "add_remove")
    again = TIGHT.epsilon(event, delta / 2 * math.exp(-once), "add_remove")
    assert TIGHT.epsilon(event, delta, "add_remove") < TIGHT.epsilon(event, delta) <= once + again


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "delta", "above", "below"),
    [  # the bracket of pld-accounting 2.0, add_remove
        (1.1, 50, 5, 1e-5, 1.5119867, 1.4408050),
        (1.1, 2, 1, 1e-5, 3.2858565, 3.2040757),
        (0.7, 20, 3, 1e-6, 6.3355292, 6.2765659),
        (2.0, 100, 10, 1e-7, 0.7963631, 0.7630988),
    ],
)
def test_it_is_in_the_bracket_of_pld_accounting(
    noise: float, steps: int, epochs: int, delta: float, above: float, below: float
) -> None:
    assert below <= TIGHT.epsilon(allocated(noise, steps, epochs), delta, "add_remove") <= above


def simulated(steps: int, epochs: int, noise: float, runs: int) -> np.ndarray:
    """The privacy loss of a replaced record: the noise of every step, with the record in one of each epoch."""
    rng, total = np.random.default_rng(0), np.zeros(runs)
    for _ in range(epochs):
        x = rng.standard_normal((runs, steps)) * noise
        x[:, 0] += 1  # which step makes no difference
        total += np.log(np.exp(x / noise**2).mean(1) / np.exp(-x / noise**2).mean(1))
    return total


@pytest.mark.parametrize(
    ("noise", "steps", "epochs"), sample([(1.1, 50, 5), (0.8, 10, 2)], lambda *of: of[1] == 10)
)
def test_prices_of_replaced_records_are_those_of_simulated_losses(
    noise: float, steps: int, epochs: int
) -> None:
    runs, delta = 200_000, 1e-2
    price = TIGHT.epsilon(allocated(noise, steps, epochs), delta)
    gain = np.maximum(-np.expm1(price - simulated(steps, epochs, noise, runs)), 0.0)
    error = 4 * float(gain.std()) / math.sqrt(runs)
    assert gain.mean() - error <= delta <= gain.mean() * 1.02 + error


@pytest.mark.slow
def test_extreme_noise_has_a_price() -> None:
    assert TIGHT.epsilon(allocated(1e12, 50, 5), 1e-5, "add_remove") == 0
    assert TIGHT.epsilon(allocated(1e12, 50, 5), 1e-5) == 0
    assert TIGHT.epsilon(allocated(1.0, 50, 5), 0.0) == math.inf
    assert TIGHT.epsilon(allocated(0.0, 50, 5), 1e-5) == math.inf
    assert math.isfinite(TIGHT.epsilon(allocated(0.4, 100, 1), 1e-2))
    exact = epsilon_of(math.sqrt(5) / 0.01, 1e-5)
    assert exact / 2 < TIGHT.epsilon(allocated(0.01, 50, 5), 1e-5, "add_remove") <= exact * (1 + 1e-9)
    with pytest.raises(ValueError, match="Gaussian steps only"):
        TIGHT.epsilon(RandomAllocationDpEvent(5, allocated(1.0, 5, 1)), 1e-5)


def test_it_composes_with_other_steps() -> None:
    both = ComposedDpEvent([allocated(1.1, 50, 5), poisson(1.1, 100, 0.02)])
    for adjacency in ("add_remove", "replace_one"):
        found = TIGHT.epsilon(both, 1e-5, adjacency)
        alone = [TIGHT.epsilon(each, 1e-5, adjacency) for each in both.events]
        assert max(alone) < found < sum(alone)


def test_the_least_noise_of_an_epoch_counts_and_an_incomplete_epoch_is_whole() -> None:
    noise = np.array([3.0, 2.0, 2.5, 2.0, 4.0, 5.0, 2.0])
    event = RandomAllocationDpEvent.of(3, noise)
    wanted = TIGHT.epsilon(allocated(2.0, 3, 3), 1e-5)
    assert TIGHT.epsilon(event, 1e-5) == pytest.approx(wanted)
