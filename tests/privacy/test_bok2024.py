"""Last-iterate bounds against quadratic losses, where the law of the last iterate is known exactly."""

import itertools
import math
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import SelfComposedDpEvent
from scipy.optimize import minimize
from scipy.stats import binom, norm

from dplangevin.privacy import LangevinDpEvent
from dplangevin.privacy.accountants import last_iterate
from dplangevin.privacy.accountants.analytic_gaussian import delta_of, epsilon_of
from dplangevin.privacy.accountants.last_iterate import Bok2024, full_batch
from dplangevin.privacy.accountants.tight import Tight

BOK, TIGHT = Bok2024(), Tight()
DELTA = 1e-5


def full(steps: int, decay: float, **changed: Any) -> LangevinDpEvent:
    event = LangevinDpEvent(100, 100, steps, 0.3, 0.05, 2.0, 0.7, 0.7, decay)
    return attr.evolve(event, **changed)


def test_an_expanding_step_costs_all_iterates() -> None:
    event = full(20, 0.0, smoothness=10.0)
    assert BOK.epsilon(event, DELTA) == pytest.approx(TIGHT.epsilon(event.all_iterates(), DELTA), rel=1e-9)
    sampled = LangevinDpEvent(100, 10, 20, 0.3, 0.5, 2.0, 0.7, 10.0)
    assert BOK.price(sampled, DELTA)[1] == "all iterates"


def mixture_delta(event: LangevinDpEvent, epsilon: float, kept: int) -> float:
    """Largest hockey-stick divergence of theta_K between g = -L and g = +L, all other records at +L.

    Batch 1 of n. Given which of the last `kept` steps meet the record, theta_K is Gaussian with one variance.
    """
    eta = event.step_sizes()
    weight = np.array([np.prod(1 - eta[k + 1 :] * event.strong_convexity) for k in range(event.steps)])
    std = math.sqrt((weight**2 * 2 * eta).sum()) * event.noise_std
    hits = np.array(list(itertools.product([0, 1], repeat=kept)))
    rate = 1 / event.records
    probability = rate ** hits.sum(1) * (1 - rate) ** (kept - hits.sum(1))
    mean = hits @ (weight * eta * 2 * event.lipschitz)[-kept:] / std
    x = np.linspace(-10, mean.max() + 10, 8001)
    first, second = (probability[:, None] * norm.pdf(x - mean[:, None])).sum(0), norm.pdf(x)
    over = np.maximum([first - math.exp(epsilon) * second, second - math.exp(epsilon) * first], 0.0)
    return float(np.trapezoid(over, x).max())


@pytest.mark.parametrize(
    ("records", "noise_std", "curvature", "delta"),
    [(5, 1.0, 0.5, 1e-3), (5, 3.0, 1.5, 1e-5), (20, 0.5, 1.9, 1e-3), (50, 2.0, 1.5, 1e-4)],
)
@pytest.mark.parametrize("steps", [1, 3, 8])
def test_sampled_batches_cover_the_exact_mixture(
    records: int, noise_std: float, curvature: float, delta: float, steps: int
) -> None:
    event = LangevinDpEvent(records, 1, steps, 0.5, noise_std, 1.0, curvature, curvature)
    epsilon = BOK.epsilon(event, delta)
    assert mixture_delta(event, epsilon, steps) <= delta * (1 + 1e-5)  # of the trapezoid rule
    assert mixture_delta(event, 0.5 * epsilon, steps) > delta


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_long_chains_are_covered_cheaper_than_by_all_iterates(decay: float) -> None:
    event = LangevinDpEvent(20, 1, 400, 0.5, 1.0, 1.0, 1.8, 1.8, decay)
    epsilon, source = BOK.price(event, DELTA)
    assert source == "last iterate"
    assert epsilon < 0.5 * TIGHT.epsilon(event.all_iterates(), DELTA)
    if decay == 0:  # a factor of .1 per step: ten steps are all that is left
        assert mixture_delta(event, epsilon, 10) <= DELTA


def sampled(steps: int, **changed: Any) -> LangevinDpEvent:
    return attr.evolve(LangevinDpEvent(1000, 10, steps, 0.05, 0.2, 1.0, 1.0, 10.0), **changed)


def test_sampled_price_saturates() -> None:
    some, many = BOK.epsilon(sampled(2000), DELTA), BOK.epsilon(sampled(20_000), DELTA)
    assert many == pytest.approx(some, rel=1e-6)
    assert many < 0.1 * TIGHT.epsilon(sampled(20_000).all_iterates(), DELTA)


def test_steps_with_hardly_any_noise() -> None:
    # mu = 1000 per step, one step in 1000 seen in two: below delta/2 it is not seen
    event = LangevinDpEvent(1000, 1, 2, 0.5, 1e-3, 1.0, 0.0, 1.0)
    assert BOK.epsilon(event, 1e-3) == pytest.approx(epsilon_of(1000.0, 5e-4), rel=1e-9)
    assert BOK.epsilon(event, 1e-2) == 0.0


def test_distance_covers_a_binomial() -> None:
    # no contraction: the distance is the number of hits times the largest step, 2 eta L/batch = .01
    event = sampled(5001, strong_convexity=0.0)
    for failure in (1e-2, 1e-6):
        (bound,) = last_iterate._distances(event, np.array([5000]), failure)
        assert binom.sf(math.floor(bound / 0.01), 5000, 0.01) <= failure
        assert bound < 0.01 * 1.25 * binom.isf(failure, 5000, 0.01)
    assert last_iterate._distances(event, np.array([5000]), 1e-300)[0] <= 0.01 * 5000 * (1 + 1e-12)
    small = attr.evolve(event, radius=0.05)  # two points of the ball are at most .1 apart
    assert last_iterate._distances(small, np.array([5000]), 1e-6) == [pytest.approx(0.1)]


def test_tight_takes_the_smaller_and_names_it() -> None:
    assert TIGHT.price(full(3000, 0.0), DELTA).accountant == "Bok et al. 2024, last iterate"
    assert TIGHT.price(sampled(2000), DELTA).epsilon == BOK.epsilon(sampled(2000), DELTA)
    weak = sampled(300, strong_convexity=0.0, noise_std=1.0)
    assert TIGHT.price(weak, DELTA).accountant == "PLD, larger of both directions"
    assert TIGHT.epsilon(weak, DELTA) == pytest.approx(TIGHT.epsilon(weak.all_iterates(), DELTA), rel=1e-9)
    twice = TIGHT.price(SelfComposedDpEvent(full(30, 0.0), 2), DELTA)  # composed: all iterates
    assert twice.epsilon == pytest.approx(
        epsilon_of(math.sqrt(60) * full_batch(full(1, 0.0))[0], DELTA), rel=1e-9
    )


# a ball, and losses that are not convex


def in_ball(steps: int, **changed: Any) -> LangevinDpEvent:
    event = LangevinDpEvent(10, 10, steps, 0.2, 0.8, 2.0, 0.1, 1.1, radius=1.0, convex=False)
    return attr.evolve(event, **changed)


DRIFTS = {  # g(theta), without the ridge and the record; 1-Lipschitz
    "concave": lambda x: -x,
    "sine": lambda x: -np.sin(3 * x) / 3,
    "steep": lambda x: -np.clip(x, -0.2, 0.2),
    "convex": lambda x: x,
}


def last_laws(event: LangevinDpEvent, drift: str, bend: float = 0.0) -> list[np.ndarray]:
    """Masses of theta_K on [-R, R] and its ends, for a record's gradient of +-L: Gauss-Legendre, step by step.

    bend > 0: under D' the sign of the record's gradient follows theta.
    """
    x, weight = np.polynomial.legendre.leggauss(160)
    points, r = np.concatenate([[-1.0], x, [1.0]]) * event.radius, event.radius
    eta, std = event.step_size, math.sqrt(2 * event.step_size) * event.noise_std
    still, found = points - eta * (event.strong_convexity * points + DRIFTS[drift](points)), []

    def kernel(mean: np.ndarray) -> np.ndarray:
        inside = norm.pdf(points[1:-1], mean[:, None], std) * weight * r
        return np.column_stack([norm.cdf(-r, mean, std), inside, norm.sf(r, mean, std)])

    rate = event.batch / event.records
    for sign in (-np.ones_like(points), np.tanh(bend * points) if bend else np.ones_like(points)):
        step = rate * kernel(still + eta * event.lipschitz / event.batch * sign)
        step += (1 - rate) * kernel(still)
        mass = np.zeros_like(points)
        mass[len(points) // 2 - 1 : len(points) // 2 + 1] = 0.5  # a start at the centre
        for _ in range(event.steps):
            mass = mass @ step
        assert mass.sum() == pytest.approx(1, abs=1e-9)
        found.append(mass)
    return found


def excess(pair: list[np.ndarray], mu: float) -> float:
    """Largest hockey-stick divergence of either direction over that of mu-GDP, over epsilons."""
    found = []
    for epsilon in np.linspace(0.0, 2.5 * mu, 26):
        apart = max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in (pair, pair[::-1]))
        found.append((apart - 1e-9) / float(delta_of(mu, epsilon)))
    return max(found)


@pytest.mark.parametrize("step_size", [0.2, 0.9, 3.0])
def test_contractions_are_those_of_the_steepest_steps(step_size: float) -> None:
    x = np.linspace(-1, 1, 101)
    for convex, drifts in ((True, ["convex"]), (False, ["convex", "concave"])):
        event = in_ball(1, step_size=step_size, convex=convex, strong_convexity=0.7, smoothness=1.7)
        slopes = [np.diff(x - step_size * (0.7 * x + DRIFTS[drift](x))) / np.diff(x) for drift in drifts]
        steepest = max(float(np.abs(slope).max()) for slope in [*slopes, np.array([1 - step_size * 0.7])])
        assert last_iterate.contractions(event)[0] == pytest.approx(steepest)


@pytest.mark.parametrize("steps", [1, 3, 30, 300])
@pytest.mark.parametrize(
    ("drift", "bend", "changed"),
    [
        ("concave", 0.0, {}),
        ("concave", 0.0, {"radius": 0.3, "step_size": 0.05}),
        ("concave", 5.0, {}),
        ("sine", 0.0, {"radius": 2.0}),
        ("steep", 0.0, {"noise_std": 0.4}),
        ("convex", 0.0, {"convex": True}),
        ("convex", 0.0, {"convex": True, "strong_convexity": 1.0, "smoothness": 2.0, "radius": 0.2}),
    ],
)
def test_exact_last_iterates_in_a_ball_are_never_above_the_price(
    steps: int, drift: str, bend: float, changed: dict[str, Any]
) -> None:
    event = in_ball(steps, **changed)
    mu, _ = full_batch(event)
    pair = last_laws(event, drift, bend)
    assert excess(pair, mu) <= 1
    if steps <= 3 and drift == "concave" and not bend:
        assert excess(pair, 0.9 * mu) > 1  # the law of few steps is nearly the bound's


@pytest.mark.parametrize("drift", ["sine", "convex"])
@pytest.mark.parametrize("steps", [2, 100])
def test_sampled_batches_in_a_ball_cover_exact_laws(drift: str, steps: int) -> None:
    event = in_ball(
        steps,
        batch=2,
        strong_convexity=1.2,
        smoothness=2.2,
        convex=drift == "convex",
        noise_std=2.0,
        radius=0.2,
    )
    epsilon = BOK.epsilon(event, 1e-4)
    pair = last_laws(event, drift)
    assert max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in (pair, pair[::-1])) <= 1e-4
    assert epsilon <= BOK.epsilon(attr.evolve(event, radius=math.inf), 1e-4)


def planned_by_slsqp(event: LangevinDpEvent) -> float:
    """The mu of `Bok2024`'s optimum, by a general solver over a_k for every t0."""
    c, eta = last_iterate.contractions(event), event.step_sizes()
    s, v = eta * 2 * event.lipschitz / event.records, 2 * eta * event.noise_std**2
    best = math.inf
    for first in range(event.steps if event.radius < math.inf else 1):

        def gaps(a: np.ndarray, first: int = first) -> np.ndarray:
            z, out = 2 * event.radius if first else 0.0, []
            for k in range(first, event.steps):
                z = c[k] * z + s[k] - a[k - first]
                out.append(z)
            return np.array(out)

        found = minimize(
            lambda a, first=first: (a**2 / v[first:]).sum(),
            s[first:],
            constraints=[
                {"type": "ineq", "fun": lambda a, gaps=gaps: gaps(a)[:-1]},
                {"type": "eq", "fun": lambda a, gaps=gaps: gaps(a)[-1:]},
            ],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        best = min(best, float(found.fun))
    return math.sqrt(best)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"convex": True, "radius": 0.1},
        {"convex": True, "smoothness": 12.0, "decay": 3.0},  # c_k above 1, then below
        {"smoothness": 3.0, "decay": 2.0, "radius": 0.2},
        {"radius": 0.02},
        {"radius": math.inf, "smoothness": 0.1},
    ],
)
def test_the_shifts_are_the_cheapest(changed: dict[str, Any]) -> None:
    event = in_ball(6, **changed)
    assert full_batch(event)[0] == pytest.approx(planned_by_slsqp(event), rel=1e-6)


def test_the_price_in_a_ball_does_not_grow_with_steps() -> None:
    price = TIGHT.price(in_ball(100_000), DELTA)
    assert price.accountant == "Bok et al. 2024, last iterate in a ball"
    assert price.epsilon == pytest.approx(BOK.epsilon(in_ball(3000), DELTA))
    assert price.epsilon < 0.5 * TIGHT.epsilon(in_ball(3000).all_iterates(), DELTA)


def test_without_a_ball_nothing_is_gained_from_losses_that_are_not_convex() -> None:
    event = in_ball(50, radius=math.inf)
    assert BOK.epsilon(event, DELTA) == pytest.approx(TIGHT.epsilon(event.all_iterates(), DELTA), rel=1e-9)
    few = in_ball(3, radius=10.0)  # too few steps for the ball to matter
    assert BOK.price(few, DELTA) == (pytest.approx(TIGHT.epsilon(few.all_iterates(), DELTA)), "last iterate")
