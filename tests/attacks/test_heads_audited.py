"""Objective perturbation and the posterior sample of `heads`, attacked through the code that fits and samples.

The noisy chains of `heads` are attacked in `test_planted_faults`.  Pair: one record x = b, label 0, against x = -b,
label 0, among three of x = 0; ten classes, so that the gradients differ by 2 b sqrt(1 - 1/K) = 1.9 b at theta = 0,
where the price allows 2 L = 2.8 b.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dplangevin import noise
from dplangevin.audit import audit
from dplangevin.heads import Audits, Setting
from dplangevin.heads.objpert import ObjPert
from dplangevin.heads.ops import Ops
from dplangevin.heads.softmax import problem_of
from dplangevin.problem import Problem

CLASSES, BOUND, EPSILON, DELTA = 10, 1.0, 2.0, 0.01
SETTING = Setting(4, 1, CLASSES, BOUND, 0.5, DELTA, Audits(16, 16))
CASES: dict[str, tuple[Any, int]] = {
    "ops": (Ops(precision=5.0, warmup=20, draws=20, leapfrogs=4), 20_000),
    "objpert": (ObjPert(precision=50.0), 20_000),
}


def neighbours(runs: int) -> list[Problem]:
    found = []
    for x in (BOUND, -BOUND):
        rows = np.array([[x], [0.0], [0.0], [0.0]], dtype=np.float32)
        found.append(problem_of(rows, np.zeros(4, dtype=np.int64), CLASSES, runs, BOUND))
    return found


def shown(method: Any, runs: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> tuple[float, float]:
    """The audit's lower bound on epsilon, and the price of the row."""
    price = method.price(SETTING, EPSILON, noise.generator(0, "price"))
    values = []
    for side, problem in enumerate(neighbours(runs)):
        rng = noise.generator(side, "heads audited")
        theta = method.trained(problem, SETTING, [(method, change(price))], rng).theta[:, 0].double()
        # labels 0 pull theta_0 x up: the two data sets differ along e_0 - 1/K
        values.append((theta[:, 0] - theta.mean(1)).numpy())
    return audit(values[0], values[1], DELTA).epsilon, price["epsilon_tight"]


@pytest.mark.parametrize("name", CASES)
def test_the_sound_method_stays_below_its_price(name: str) -> None:
    method, runs = CASES[name]
    found, price = shown(method, runs, lambda price: price)
    assert price <= EPSILON * (1 + 1e-6)
    assert 0.1 * price < found < price


def test_half_the_noise_of_a_posterior_sample_is_caught() -> None:
    # its noise is the posterior's own: twice the exponent halves it against the record's pull
    method, runs = CASES["ops"]
    found, price = shown(method, runs, lambda price: price | {"noise": 2 * price["noise"]})
    assert found > price


def test_noise_that_is_not_scaled_is_caught() -> None:
    method, runs = CASES["objpert"]
    found, price = shown(method, runs, lambda price: price | {"noise": 1.0})
    assert found > price


def test_half_the_noise_of_objective_perturbation_shows_in_its_spread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # the price for many classes has room for half the noise on any pair: so the law itself, -b/Lambda at x = 0
    method, runs = CASES["objpert"]
    price = method.price(SETTING, EPSILON, noise.generator(0, "price"))
    problem = problem_of(np.zeros((4, 1), np.float32), np.zeros(4, np.int64), CLASSES, runs, BOUND)

    def spread() -> float:
        theta = method.trained(problem, SETTING, [(method, price)], noise.generator(1, "spread")).theta
        return float(theta.std()) * price["ridge"] / price["noise_std"]

    assert spread() == pytest.approx(1.0, abs=0.02)
    gaussian = noise.gaussian
    monkeypatch.setattr(noise, "gaussian", lambda *args: gaussian(*args) / 2)
    assert spread() == pytest.approx(0.5, abs=0.02)
    assert torch.isfinite(torch.tensor(spread()))
