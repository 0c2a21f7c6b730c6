"""Lower bounds from samples: near the truth, below it, and honest about what they need."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from dplangevin.attacks.audit import audit


def test_the_bound_is_clopper_and_pearsons() -> None:
    first, second = np.zeros(400), np.zeros(400)
    first[:300] = 1
    second[:100] = 1
    found = audit(first, second, 0.01, confidence=0.9)
    low = binomtest(150, 200).proportion_ci(0.9, "exact").low
    high = binomtest(50, 200).proportion_ci(0.9, "exact").high
    other = math.log((low - 0.01) / high)
    assert found.epsilon == pytest.approx(other, rel=1e-9)
    assert found.runs == 400


def test_equal_laws_and_ties_give_nothing() -> None:
    rng = np.random.default_rng(0)
    same = audit(rng.integers(0, 3, 50_000), rng.integers(0, 3, 50_000), 0.0)
    assert same.epsilon < 0.05
    constant = audit(np.ones(100), np.ones(100), 1e-5)
    assert constant.epsilon == 0


def test_order_and_sign_of_the_statistic_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(1, 1, 100_000), rng.normal(0, 1, 100_000)
    found = audit(first, second, 1e-2)
    for other in (audit(second, first, 1e-2), audit(-first, -second, 1e-2)):
        assert other.epsilon == pytest.approx(found.epsilon, rel=0.05)


def test_disjoint_and_infinite_statistics_are_bounded_by_the_number_of_runs() -> None:
    found = audit(np.full(100_000, np.inf), np.full(100_000, -np.inf), 0.0)
    assert found.epsilon == pytest.approx(math.log(50_000 / 3.69), abs=0.02)


def test_delta_is_subtracted_where_it_is_all_the_evidence() -> None:
    """A mechanism that names its data set with probability .01 and else says nothing is (0, .01)-DP."""
    rng = np.random.default_rng(1)
    first, second = (rng.random((2, 200_000)) < [[0.01], [0.0]]).astype(float)
    assert audit(first, second, 0.0).epsilon > 4
    assert audit(first, second, 0.01).epsilon == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 1.0}, r"delta = 1.0 must be in \[0, 1\)"),
        ({"delta": -0.1}, "delta = -0.1 must be"),
        ({"confidence": 1.0}, r"confidence = 1.0 must be in \(0, 1\)"),
        ({"confidence": 0.0}, "confidence = 0.0 must be"),
        (
            {"first": np.zeros(3)},
            r"first has shape \(3,\): give one statistic or more for each of at least 8",
        ),
        ({"second": np.zeros((10, 1, 1))}, r"second has shape \(10, 1, 1\)"),
        ({"second": np.zeros(11)}, "10 and 11 runs: audit needs as many"),
        ({"first": np.full(10, np.nan)}, "first holds nan"),
    ],
)
def test_wrong_arguments_are_named(changes: dict, message: str) -> None:
    given = {"first": np.zeros(10), "second": np.zeros(10), "delta": 1e-5, **changes}
    with pytest.raises(ValueError, match=message):
        audit(**given)
