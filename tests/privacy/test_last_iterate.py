"""Last-iterate bounds against quadratic losses, where the law of the last iterate is known exactly."""

import itertools
import math
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
from scipy.optimize import minimize
from scipy.stats import binom, norm

from dplangevin import facts
from dplangevin.methods.dp_sgld_ryffel2022 import DpSgldRyffel2022
from dplangevin.privacy import Budget, LangevinDpEvent
from dplangevin.privacy.accountants import last_iterate
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.last_iterate import Bok2024, Ryffel2022, full_batch
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.survey import survey
from dplangevin.problems.sampling import Sampling

BOK, TIGHT = Bok2024(), Tight()
REAL, INTEGER = Ryffel2022("real"), Ryffel2022("integer")
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
        epsilon_of(math.sqrt(60) * full_batch(full(1, 0.0)), DELTA), rel=1e-9
    )


def planned_by_slsqp(event: LangevinDpEvent) -> float:
    """The mu of `Bok2024`'s optimum, by a general solver over a_k."""
    c, eta = last_iterate.contractions(event), event.step_sizes()
    s, v = eta * 2 * event.lipschitz / event.records, 2 * eta * event.noise_std**2

    def gaps(a: np.ndarray) -> np.ndarray:
        z, out = 0.0, []
        for k in range(event.steps):
            z = c[k] * z + s[k] - a[k]
            out.append(z)
        return np.array(out)

    limits = [{"type": "ineq", "fun": lambda a: gaps(a)[:-1]}, {"type": "eq", "fun": lambda a: gaps(a)[-1:]}]
    options = {"ftol": 1e-14, "maxiter": 500}
    found = minimize(lambda a: (a**2 / v).sum(), s, constraints=limits, method="SLSQP", options=options)
    return math.sqrt(found.fun)


@pytest.mark.parametrize(
    "changed",
    [{}, {"smoothness": 12.0, "decay": 3.0}, {"smoothness": 9.0, "decay": 2.0}],  # c_k above 1, then below
)
def test_the_shifts_are_the_cheapest(changed: dict[str, Any]) -> None:
    event = attr.evolve(LangevinDpEvent(10, 10, 6, 0.2, 0.8, 2.0, 0.1, 1.1), **changed)
    assert full_batch(event) == pytest.approx(planned_by_slsqp(event), rel=1e-6)


# Theorem 3.1 of ryffel2022, against its printed formula and the authors' settings


def resnet(steps: int, **changed: Any) -> LangevinDpEvent:
    known = LangevinDpEvent(50_000, 128, steps, 0.018, 0.0022, 15.0, 0.001, 20.0)
    return attr.evolve(known, **changed)


@pytest.mark.parametrize(
    ("accountant", "steps", "expected"),
    [  # mpmath: a alpha + ln(1/delta)/(alpha - 1), over alpha = 2, 3, ..., or in closed form
        (INTEGER, 30, 0.9817035705836439),
        (INTEGER, 11719, 26.40374982424177),
        (REAL, 30, 0.9817010237563568),
        (REAL, 11719, 25.962266715990285),
    ],
)
def test_resnet18_with_epochs_and_with_steps(accountant: Ryffel2022, steps: int, expected: float) -> None:
    assert accountant.epsilon(resnet(steps), 1e-5) == pytest.approx(expected, rel=1e-9)


def test_corollary_33_lies_between_the_sum_from_0_and_the_sum_from_1() -> None:
    # beta = lambda = 1, K = 10: sums 2.69360 and 2.33646, printed 2 ln(1 + 10/4) = 2.50553
    decreasing = resnet(10, step_size=0.5, strong_convexity=1.0, smoothness=1.0, decay=0.5)
    assert decreasing.step_sizes() == pytest.approx([1 / (2 + k / 2) for k in range(10)], rel=1e-12)
    scale = 4 * 2 * 15**2 / (50_000 * 0.0022) ** 2
    from_one = 1 - math.exp(-sum(1 / (2 + k / 2) for k in range(1, 11)) / 2)
    printed = 10 / (4 + 10)
    assert scale * from_one < scale * printed < REAL.renyi(decreasing, 2.0)
    assert REAL.renyi(decreasing, 2.0) == pytest.approx(scale * 0.7399289514910774, rel=1e-9)


def test_runs_in_sequence_add_up() -> None:
    both = ComposedDpEvent([resnet(30), resnet(30, noise_std=0.0044)])
    slope = REAL.renyi(resnet(30), 2.0) / 2 * 1.25
    assert REAL.epsilon(both, 1e-5) == pytest.approx(slope + 2 * math.sqrt(slope * math.log(1e5)), rel=1e-12)


def test_condition_on_the_step_size() -> None:
    assert REAL.violated(resnet(30), 1e-5) == ()
    assert REAL.violated(resnet(30, smoothness=100.0), 1e-5) == ("eta = 0.018 >= 1/beta = 0.01",)


def test_a_clip_makes_the_theorem_a_claim() -> None:
    """Theorem 3.1 promises less than all iterates cost, where gradients are clipped."""
    sampling = Sampling("subset", 200, 300.0)
    for clip, status in ((0.1, "claim"), (None, "proven")):
        plan = DpSgldRyffel2022(sampling=sampling, l2=0.1, noise_std=0.5, clip=clip).plan(
            facts(200, 5), Budget(1.0, 1e-5)
        )
        assert isinstance(plan.paper, LangevinDpEvent)
        found = survey(plan.guarantee.event, 1e-5, plan.paper, plan.violated)
        assert [row.status for row in found if row.key == "ryffel2022"] == [status]
