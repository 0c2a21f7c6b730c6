"""Every method's own code, run many times on a worst-case pair: no promise may be refuted, mistakes must be."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from torch import Tensor

from dplangevin import noise
from dplangevin.attacks import pairs
from dplangevin.audit import Audit, audit
from dplangevin.config import load
from dplangevin.losses import LOGISTIC, Loss
from dplangevin.posterior import Sampler
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight

PARAMS = load()
PRIVATE = {name for name in PARAMS.method if instantiate(PARAMS.method[name]).budgeted}
# those of test_sampler_audits and test_dpvi_pate_audits
ELSEWHERE = {"dp_sgld_li2019", "dp_sgd", "dp_sghmc", "dp_sgfs", "hybrid_sgld", "ops_gdp", "dpvi", "pate"}
DELTA = 0.01
HMC = {"warmup": 20, "block": 6, "max_draws": 6, "leapfrogs": 2}
FRICTION = 0.5
STEPS = {"batch": 1, "passes": 2}  # of two records: four steps


class Case(NamedTuple):
    """A method's settings, budget, runs, and the statistic of (theta, what the method was given)."""

    settings: dict[str, Any]
    epsilon: float
    runs: int
    records: int
    loss: Loss
    statistic: Callable[[Tensor, Any, Any], np.ndarray]


def last(theta: Tensor, method: Any, problem: Any) -> np.ndarray:
    return pairs.last(theta)


def from_zero(theta: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(theta[:, :1]), theta], 1)


def sgld(theta: Tensor, method: Any, problem: Any) -> np.ndarray:
    eta = 1 / method.minibatches.gradient_variance(problem, Budget(CASES["dp_sgld"].epsilon, DELTA))
    return pairs.sgld_ratio(from_zero(theta), pairs.Chain(2, 1, eta, eta**0.5))


def sgnht(theta: Tensor, method: Any, problem: Any) -> np.ndarray:
    variance = method.minibatches.gradient_variance(problem, Budget(CASES["dp_sgnht"].epsilon, DELTA))
    chain = pairs.Chain(2, 1, 2 * FRICTION / variance, 2 * FRICTION / variance**0.5)
    return pairs.sgnht_ratio(from_zero(theta), chain, FRICTION)


def hybrid(theta: Tensor, method: Any, problem: Any) -> np.ndarray:
    budget = Budget(CASES["hybrid"].epsilon / 2, DELTA)
    variance = method.second.minibatches.gradient_variance(problem, budget)
    chain = pairs.Chain(2, 1, 2 * FRICTION / variance, 2 * FRICTION / variance**0.5)
    return theta[:, 0, 0].double().numpy() + pairs.sgnht_ratio(theta, chain, FRICTION, LOGISTIC)


EVERY = {"burn_in": 0.0, "samples": 4, "step": 1e3, "minibatches": STEPS}
BALL = {"bound": "range", "radius": 1.0, "sampler": HMC}
CASES = {
    "outpert": Case({"ridge": 1.0}, 2.0, 100_000, 1, pairs.LINEAR, last),
    "objpert": Case({"ridge": 50.0}, 4.0, 100_000, 1, pairs.LINEAR, last),
    "objpert_pure": Case({"ridge": 50.0}, 2.0, 100_000, 1, pairs.LINEAR, last),
    "ops": Case(BALL, 2.0, 100_000, 3, LOGISTIC, last),
    "dp_sgld": Case({**EVERY, "schedule": "constant"}, 30.0, 100_000, 2, pairs.LINEAR, sgld),
    "dp_sgnht": Case({**EVERY, "friction": FRICTION}, 30.0, 100_000, 2, pairs.LINEAR, sgnht),
    "hybrid": Case(
        {"first": BALL, "second": {**EVERY, "friction": FRICTION}}, 4.0, 50_000, 2, LOGISTIC, hybrid
    ),
}


class Found(NamedTuple):
    audit: Audit
    claimed: float
    tight: float


def attack(name: str, length: float = 1.0, **settings: Any) -> Found:
    case = CASES[name]
    method = instantiate(PARAMS.method[name], **{**case.settings, **settings})
    problems = pairs.opposite(case.runs, case.records, case.loss, length)
    statistics, rng = [], noise.generator(0, name)
    for problem in problems:
        release = method(problem, [Budget(case.epsilon, DELTA)], rng)
        statistics.append(case.statistic(release.theta[:, 0], method, problem))
    (promise,) = release.guarantee
    tight = Tight().epsilon(promise.event, promise.delta, promise.adjacency)
    first, second = statistics
    return Found(audit(first, second, promise.delta), promise.epsilon, tight)


@lru_cache
def sound(name: str) -> Found:
    return attack(name)


@pytest.fixture
def halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the noise that the events claim; for posterior samples twice the scale rho."""
    gaussian, gamma, stream, sample = noise.gaussian, noise.gamma_ball, noise.minibatch_stream, Sampler.sample
    monkeypatch.setattr(noise, "gaussian", lambda *args: gaussian(*args) / 2)
    monkeypatch.setattr(noise, "gamma_ball", lambda *args: gamma(*args) / 2)
    monkeypatch.setattr(noise, "minibatch_stream", lambda *args: ((rows, z / 2) for rows, z in stream(*args)))
    monkeypatch.setattr(
        Sampler, "sample", lambda self, problem, rho, *args: sample(self, problem, 2 * rho, *args)
    )


def test_every_private_method_is_attacked() -> None:
    assert set(CASES) | ELSEWHERE == PRIVATE


@pytest.mark.parametrize("name", CASES)
def test_no_promise_is_refuted(name: str) -> None:
    found = sound(name)
    assert found.audit.epsilon <= found.tight
    assert found.audit.epsilon <= found.claimed


@pytest.mark.parametrize(
    ("name", "strength"),
    [("outpert", 0.85), ("objpert", 0.8), ("objpert_pure", 0.9), ("dp_sgld", 0.8), ("ops", 0.5)],
)
def test_the_attack_comes_near_the_tight_price(name: str, strength: float) -> None:
    found = sound(name)
    assert found.audit.epsilon > strength * found.tight


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("halved")
def test_half_of_the_noise_is_caught(name: str) -> None:
    found = attack(name)
    assert found.audit.epsilon > found.tight


@pytest.mark.parametrize("name", ["outpert", "objpert", "objpert_pure", "dp_sgld", "dp_sgnht"])
def test_a_row_of_norm_two_is_caught(name: str) -> None:
    found = attack(name, length=2.0)
    assert found.audit.epsilon > found.tight


def test_output_perturbation_is_as_gaussian_as_it_says() -> None:
    """Its audited mu against that of its event, 2/z."""
    method = instantiate(PARAMS.method.outpert, **CASES["outpert"].settings)
    problem, _ = pairs.opposite(4)
    event = method(problem, [Budget(2.0, DELTA)], noise.generator(0, "outpert")).guarantee[0].event
    assert sound("outpert").audit.mu == pytest.approx(2 / event.noise_multiplier, rel=0.05)
    assert sound("outpert").audit.mu < 2 / event.noise_multiplier


def test_theorem_4_promises_far_more_than_its_noise_needs() -> None:
    """wang2015's epsilon is many times what the same chain costs, and what an attack finds."""
    found = sound("dp_sgld")
    assert found.claimed > 10 * found.tight
