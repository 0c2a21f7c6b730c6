"""Numerical composition against what is known exactly: never below it, and just above."""

import math

import numpy as np
import pytest
from mpmath import mp
from quick import sample
from sampled_steps import without_replacement
from scipy.stats import binom

from dplangevin.privacy.accountants import composition, profiles
from dplangevin.privacy.accountants.analytic_gaussian import delta_of, epsilon_of
from dplangevin.privacy.accountants.composition import LossSum, Pmf, compose
from dplangevin.privacy.accountants.tight import Tight

DELTAS = (0.1, 1e-5, 1e-14)
GRID = [  # every pair of two of the three
    (mu, steps, DELTAS[(i + j) % 3])
    for i, mu in enumerate((0.1, 2.0, 10.0))
    for j, steps in enumerate((1, 30, 10**5))
]
LONG = [(2.0, 10**8, 1e-14), (0.1, 10**8, 0.1), (0.1, 3 * 10**6, 1e-10), (0.1, 3 * 10**5, 1e-10)]
LONG += [(1.0, 10**5, 1e-12)]  # the last three were once 1.2, .15 and 1.1 % too small


@pytest.mark.parametrize(
    ("mu", "steps", "delta"), sample(GRID + LONG, lambda mu, steps, delta: steps < 10**8)
)
def test_gaussian_steps_cost_what_one_gaussian_does(mu: float, steps: int, delta: float) -> None:
    found = compose([(profiles.gaussian(mu / math.sqrt(steps)), steps)], delta)
    exact = epsilon_of(mu, delta)
    assert exact <= found.epsilon <= exact * (1 + 1e-3)
    assert found.epsilon - exact <= 2 * found.estimate + 1e-12


@pytest.mark.parametrize("steps", [1, 40, 10**8])
@pytest.mark.parametrize("delta", [0.1, 1e-14])
def test_rounding_of_a_binomial_sum(steps: int, delta: float) -> None:
    # randomised response lies on the grid, so that all that is left is rounding: S = h (2 B - steps) is exact
    step = 0.5 / math.sqrt(steps)
    up = 1 / (1 + math.exp(-step))
    pmf = Pmf(np.array([-1, 1]), np.array([1 - up, up]), 0.0, np.zeros(2))
    found = LossSum([(pmf, steps)], step, delta).composed()
    mean, spread = steps * up, math.sqrt(steps * up * (1 - up))
    hits = np.arange(max(0, int(mean - 12 * spread)), min(steps, int(mean + 12 * spread) + 1) + 1)
    loss = step * (2.0 * hits - steps)
    mass = np.exp(binom.logpmf(hits, steps, up))

    def spent(epsilon: float) -> float:
        return float(mass @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0))))

    known = 1e-6  # of scipy's binomial probabilities
    assert spent(found.epsilon) <= delta * (1 + known)
    least = found.epsilon * (1 - 1e-6) - 2 * found.estimate
    assert found.epsilon == 0 or spent(least) > delta * (1 - known)
    assert steps == 1 or found.estimate <= 1e-3 * found.epsilon


@pytest.mark.parametrize(
    ("eta", "mu", "delta"), [(5e-4, 2e-4, 1e-5), (5e-3, 2e-3, 1e-4), (0.5, 0.2, 1e-6), (3.0, 0.01, 1e-3)]
)
def test_a_posterior_sample_and_gaussian_steps(eta: float, mu: float, delta: float) -> None:
    # exact: the profile of the steps, which are one Gaussian, over the losses of the sample; losses far below 1 too
    steps, law = 10_000, profiles.BoundedRange(eta)
    found = compose([(law, 1), (profiles.gaussian(mu / math.sqrt(steps)), steps)], delta)
    x = np.linspace(-eta, eta, 200_001)
    mass = law.density(x)

    def spent(epsilon: float) -> float:
        rest = epsilon - x
        known = delta_of(mu, np.abs(rest))  # delta(-e) = 1 - exp(-e) + exp(-e) delta(e)
        below = -np.expm1(np.minimum(rest, 0.0)) + np.exp(np.minimum(rest, 0.0)) * known
        return float(np.trapezoid(mass * np.where(rest < 0, below, known), x))

    assert spent(found.epsilon) <= delta * (1 + 1e-6)
    assert spent(found.epsilon * (1 - 2e-3)) > delta


@pytest.mark.parametrize(
    ("low", "high"), [(-3.5, 2.0), (-40.0, 9e5), (-1e9, -2e7), (100.0, 101.0), (0.0, 0.0)]
)
def test_multiples_grow_with_the_loss_and_a_finer_grid_has_all_of_a_coarser_one(
    low: float, high: float
) -> None:
    flat = 64
    found = composition.multiples(low, high, flat)
    assert found[0] <= low
    assert found[-1] >= high
    gap = np.diff(found)
    nearest = np.minimum(np.abs(found[:-1]), np.abs(found[1:]))
    assert gap.min() >= 1
    assert np.all(gap <= np.maximum(1, 2 * nearest / flat))
    for finer in (flat, 2 * flat):  # of half the step, as wide and half as wide far from 0
        assert set(2 * found[1:-1]) <= set(composition.multiples(2 * low, 2 * high, finer))


@pytest.mark.parametrize(("count", "size", "wanted"), [(7, 2**16, 40), (1500, 1_713_616, 900)])
def test_coefficients_summed_up_directly_keep_their_bound(count: int, size: int, wanted: int) -> None:
    rng = np.random.default_rng(5)
    index, weight = rng.integers(0, size, count), rng.random(count) ** 8
    weight /= weight.sum()
    found, off = composition._transformed(index, weight, np.arange(wanted), size)
    phase = (
        (np.outer(np.arange(wanted), index) % size).astype(np.longdouble) / size * (2 * np.longdouble(mp.pi))
    )
    error = np.hypot(found.real - np.cos(phase) @ weight, found.imag + np.sin(phase) @ weight)
    assert math.sqrt(2 * float(error @ error) / size) <= off
    assert off < 1e-14  # the bound is of use


def test_rounding_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    # at 1e13 steps rounding decides: were it not charged, the price would be too small or a Renyi bound stays
    mu, steps, delta = 1.0, 10**13, 1e-10
    part = [(profiles.gaussian(mu / math.sqrt(steps)), steps)]
    exact = epsilon_of(mu, delta)
    charged = compose(part, delta)
    assert charged.epsilon >= exact
    monkeypatch.setattr(composition, "UNIT", 0.0)
    monkeypatch.setattr(composition, "FOURIER", 0.0)
    assert compose(part, delta).epsilon < charged.epsilon


def test_each_error_is_charged_where_no_other_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinite losses, the rounding of a sum on its own grid, and that of the losses of one step."""
    step, up = 0.01, 1 / (1 + math.exp(-0.01))

    def price(infinity: float = 0.0) -> float:
        pmf = Pmf(np.array([-1, 1]), (1 - infinity) * np.array([1 - up, up]), infinity, np.zeros(2))
        return LossSum([(pmf, 4000)], step, 1e-5).composed().epsilon

    plain, pair, loss = price(), profiles.gaussian(0.5), np.linspace(-1, 1, 9)
    upward = composition._split(pair, loss, pair.place(loss))[1]
    assert plain < price(1e-9) < math.inf == price(1e-8)
    monkeypatch.setattr(composition, "UNIT", 1e-6)
    assert price() > plain + 10 * step
    assert (composition._split(pair, loss, pair.place(loss))[1] > upward).all()


def test_without_replacement_is_above_each_direction_and_below_both_added() -> None:
    rate, noise, steps, delta = 0.02, 2.0, 400, 1e-6
    price = Tight().price(without_replacement(noise, steps, batch=20, records=1000), delta)
    assert price.accountant == "PLD, larger of both directions"
    mu = 2 / noise
    pairs = [profiles.GaussianMixtures(rate, *shifts) for shifts in ((mu, 0.0), (0.0, -mu))]
    each = [compose([(pair, steps)], delta).epsilon for pair in pairs]
    assert max(each) < price.epsilon < 1.3 * max(each)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-9])
def test_other_deltas_are_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="must be in"):
        compose([(profiles.gaussian(1.0), 1)], delta)
