"""Objective perturbation: the price against exact problems in one and two dimensions."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import chi, chi2, norm

from dplangevin.privacy import ObjectivePerturbationDpEvent, PureObjectivePerturbationDpEvent
from dplangevin.privacy.accountants import analytic_gaussian, objective
from dplangevin.privacy.accountants.objective import Chaudhuri2011, Kifer2012
from dplangevin.privacy.accountants.tight import Tight

DELTA = 1e-5
TIGHT = Tight()


@pytest.mark.parametrize("mu", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("freedom", [1, 2, 5])
def test_profile_is_the_expectation_over_a_chi_variable(mu: float, freedom: int) -> None:
    t = np.linspace(0, 30, 2_000_001)[1:]
    density = chi.pdf(t, freedom) * (t[1] - t[0])
    for epsilon in mu * np.array([0.0, 0.7, 2.0, 5.0]):
        expected = density @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - mu * t - mu**2 / 2, 0)))
        assert objective.delta_of(freedom, mu, epsilon) == pytest.approx(expected, rel=1e-4, abs=1e-13)
        if freedom == 1 and epsilon > mu**2 / 2:  # both halves of a Gaussian mechanism's loss
            twice = 2 * float(analytic_gaussian.delta_of(mu, epsilon))
            assert objective.delta_of(1, mu, epsilon) == pytest.approx(twice, rel=1e-9)


Curve = tuple[np.ndarray, np.ndarray]  # a loss's first and second derivative in theta


def logistic(theta: np.ndarray, margin: float) -> Curve:
    return -margin * expit(-margin * theta), margin**2 * expit(margin * theta) * expit(-margin * theta)


def clipped(theta: np.ndarray, x: float, y: float) -> Curve:
    """Huber loss with threshold .7."""
    residual = x * theta - y
    return x * np.clip(residual, -0.7, 0.7), x * x * (np.abs(residual) <= 0.7)


def objective_of(ridge: float, theta: np.ndarray, loss: Callable[..., Curve], records: Sequence) -> Curve:
    slopes, curvatures = zip(
        (ridge * theta, ridge), *(loss(theta, *record) for record in records), strict=True
    )
    return sum(slopes), sum(curvatures)


class Problem(NamedTuple):
    """A loss in one dimension, a record, what it may be replaced by, and other records beside it."""

    loss: Callable[..., Curve]
    lipschitz: float
    smoothness: float
    one_sided: bool
    record: tuple[float, ...]
    replacements: list[tuple[float, ...]]
    others: list[list[tuple[float, ...]]]


MARGINS: list[list[tuple[float, ...]]] = [[], [(1.0,), (-0.5,)], [(0.1,), (0.9,), (0.9,), (0.9,)]]
ROWS: list[list[tuple[float, ...]]] = [[], [(1.0, 0.4), (-0.5, 1.0)]]
PROBLEMS = {
    "logistic": Problem(logistic, 1.0, 0.25, True, (1.0,), [(-1.0,), (0.3,)], MARGINS),
    "clipped": Problem(clipped, 0.7, 1.0, False, (1.0, 1.0), [(1.0, -1.0), (0.3, 1.0)], ROWS),
}


@pytest.mark.parametrize(("noise_std", "ridge"), [(10.0, 5.0), (3.0, 1.0), (1.0, 0.5), (40.0, 2.0)])
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_price_bounds_exact_problems_in_one_dimension(problem, noise_std, ridge, adjacency, delta):
    given_ = noise_std, problem.lipschitz, problem.smoothness, ridge
    event = ObjectivePerturbationDpEvent(*given_, one_sided=problem.one_sided)
    price = TIGHT.price(event, delta, adjacency)
    reach = (14 * noise_std + 6 * problem.lipschitz) / ridge
    theta = np.linspace(-reach, reach, 200_001)

    def masses(records: Sequence) -> np.ndarray:  # of theta, by change of variables
        slope, curvature = objective_of(ridge, theta, problem.loss, records)
        return norm.pdf(slope / noise_std) * curvature / noise_std * (theta[1] - theta[0])

    for others in problem.others:
        first = masses([*others, problem.record])
        neighbours = [[*others, other] for other in problem.replacements]
        for two in [others] if adjacency == "add_remove" else neighbours:
            second = masses(two)
            for one, other in ((first, second), (second, first)):
                assert one.sum() == pytest.approx(1.0, abs=2e-3)
                spent = np.maximum(0.0, one - math.exp(price.epsilon) * other).sum()
                assert spent <= delta * (1 + 1e-6)
    assert price.epsilon <= Kifer2012().epsilon(event, delta, adjacency)
    if not problem.one_sided:
        assert price.accountant == "objective perturbation, any convex loss"
        sided = ObjectivePerturbationDpEvent(*given_)
        assert TIGHT.epsilon(sided, delta, adjacency) < price.epsilon


def test_pure_price_bounds_an_exact_problem_in_one_dimension() -> None:
    event = PureObjectivePerturbationDpEvent(0.4, 1.0, 0.25, 1.0)
    theta = np.linspace(-30, 30, 20_001)
    curves = [objective_of(1.0, theta, logistic, [(0.4,), (last,)]) for last in (1.0, -1.0)]
    one, two = (-event.rate * np.abs(slope) + np.log(curvature) for slope, curvature in curves)
    assert 0.2 * TIGHT.epsilon(event, 0.0) < np.abs(one - two).max() <= TIGHT.epsilon(event, 0.0)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_one_record_adds_no_more_to_the_log_determinant(classes, rng):
    event = ObjectivePerturbationDpEvent(1.0, 1.0, 1 / classes, 0.3, rank=classes - 1, one_sided=False)
    largest = 0.0
    for scale in (0.0, 0.1, 1.0, 5.0):
        margins = scale * rng.normal(size=classes)
        p = np.exp(margins - logsumexp(margins))
        x = np.array([0.6, 0.8])
        one = np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x))
        shared = 0.3 * np.eye(2 * classes)
        if scale:
            rows = rng.normal(size=(4, 2 * classes))
            shared += rows.T @ rows
        added = np.linalg.slogdet(shared + one)[1] - np.linalg.slogdet(shared)[1]
        assert added <= event.log_determinant * (1 + 1e-12)
        largest = max(largest, added)
    assert largest == pytest.approx(event.log_determinant)  # equal probabilities, ridge alone


def test_tail_is_the_papers_up_to_rank_two_and_the_chi_variables_beyond():
    for delta in (1e-3, 1e-8):
        assert objective.log_tail(delta, 1) == objective.log_tail(delta, 2) == math.log(2 / delta)
        for rank in (1, 2, 3, 9):
            exceeded = chi2.sf(2 * objective.log_tail(delta, rank), rank)
            assert exceeded <= delta / 2 * (1 + 1e-9)
            if rank > 1:
                assert exceeded == pytest.approx(delta / 2)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_prices_grow_with_the_rank(adjacency):
    events = [
        ObjectivePerturbationDpEvent(20.0, 1.0, 0.1, 1.0, rank=rank, one_sided=False) for rank in (1, 2, 5)
    ]
    for accountant in (TIGHT, Kifer2012()):
        prices = [accountant.epsilon(event, 1e-5, adjacency) for event in events]
        assert prices == sorted(prices)
        assert prices[0] < prices[2]
        assert accountant.epsilon(events[0], 0.0, adjacency) == math.inf
    for event in events if adjacency == "add_remove" else []:
        rest = TIGHT.epsilon(event, 1e-5, adjacency) - event.log_determinant
        assert objective.delta_of(event.rank, 1.0 / 20.0, rest) == pytest.approx(1e-5, rel=1e-6)
    one, four = (PureObjectivePerturbationDpEvent(0.4, 1.0, 0.1, 1.0, rank) for rank in (1, 4))
    more = Chaudhuri2011().epsilon(four, 0.0) - Chaudhuri2011().epsilon(one, 0.0)
    assert more == pytest.approx(6 * math.log(1.1))
    assert TIGHT.epsilon(four, 0.0) - TIGHT.epsilon(one, 0.0) == pytest.approx(3 * math.log(1.1))
    with pytest.raises(ValueError, match="rank = 0 must be a whole number of at least 1"):
        PureObjectivePerturbationDpEvent(0.4, 1.0, 0.1, 1.0, 0)
