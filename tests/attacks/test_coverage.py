"""How often a lower bound exceeds the true epsilon, in 1,000 simulated audits of mechanisms with a known epsilon.

At 95 % confidence that is at most 5 % of them.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from dplangevin.attacks import audit
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of

pytestmark = pytest.mark.slow

AUDITS = 1_000
ERROR = 0.05
RUNS = 2_000
DELTA = 0.01


class Known(NamedTuple):
    """A mechanism.  draw: log-likelihood ratios under P and under Q of so many runs; epsilon at `DELTA`."""

    draw: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
    epsilon: float


def gaussian(mu: float) -> Known:
    def draw(rng: np.random.Generator, runs: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(mu**2 / 2, mu, runs), rng.normal(-(mu**2) / 2, mu, runs)

    return Known(draw, epsilon_of(mu, DELTA))


def response(epsilon: float) -> Known:
    """Randomised response, whose profile is delta(e) = p - e^e (1 - p)."""
    p = 1 / (1 + math.exp(-epsilon))

    def draw(rng: np.random.Generator, runs: int) -> tuple[np.ndarray, np.ndarray]:
        true = rng.random((2, runs)) < np.array([[p], [1 - p]])
        found = np.where(true, epsilon, -epsilon)
        return found[0], found[1]

    return Known(draw, math.log((p - DELTA) / (1 - p)))


MECHANISMS = {"gaussian": gaussian(2.0), "response": response(1.0)}


def least(count: int) -> float:
    """The least share of failures that `count` of 1,000 leaves plausible, at 99.9 %."""
    return float(binomtest(count, AUDITS).proportion_ci(0.998, "exact").low)


@pytest.mark.parametrize("by", [audit.audit, audit.known_ratio])
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_bound_exceeds_the_truth_in_at_most_five_per_cent_of_audits(name: str, by: Any) -> None:
    known, rng, generator = MECHANISMS[name], np.random.default_rng(7), torch.Generator().manual_seed(7)
    above = 0
    for _ in range(AUDITS):
        runs = known.draw(rng, RUNS)
        found = by(*runs, DELTA).epsilon if by is audit.audit else by(*runs, DELTA, generator)
        above += found > known.epsilon * (1 + 1e-9)
    assert least(above) <= ERROR


# the ratio


def test_a_known_ratio_comes_near_at_a_small_delta_and_a_wrong_one_is_no_bound() -> None:
    """200,000 runs at delta 1e-5; a ratio of half the noise is exaggerated, which only `audit` notices."""
    rng, generator = np.random.default_rng(1), torch.Generator().manual_seed(1)
    known = gaussian(1.0)
    first, second = known.draw(rng, 200_000)
    truth = epsilon_of(1.0, 1e-5)
    found = audit.known_ratio(first, second, 1e-5, generator)
    assert 0.85 * truth < found <= truth
    assert audit.audit(first, second, 1e-5).epsilon < 0.85 * found
    assert audit.known_ratio(2 * first, 2 * second, 1e-5, generator) > truth
    assert audit.audit(2 * first, 2 * second, 1e-5).epsilon <= truth


def test_equal_laws_and_too_few_runs_give_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    assert audit.known_ratio(np.zeros(100), np.zeros(100), 0.0, generator) == 0
    far = np.full(100, 50.0)
    assert audit.known_ratio(far, -far, 0.99, generator) == 0


@pytest.mark.parametrize("wrong", [np.zeros((10, 1)), np.zeros((10, 2)), np.zeros(7), np.float64(0)])
def test_a_ratio_is_one_number_for_each_run(wrong: np.ndarray) -> None:
    """Of two columns, the first would otherwise be taken for the ratio."""
    for first, second, name in ((wrong, np.zeros(10), "first"), (np.zeros(10), wrong, "second")):
        with pytest.raises(ValueError, match=rf"{name} has shape .*: give one number for each of at least 8"):
            audit.known_ratio(first, second, 1e-5, torch.Generator())
