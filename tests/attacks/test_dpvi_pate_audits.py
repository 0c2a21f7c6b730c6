"""DPVI and PATE run many times on a worst-case pair: no promise may be refuted, half of the noise must be caught."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from dplangevin import noise
from dplangevin.attacks import pairs
from dplangevin.audit import Audit, audit
from dplangevin.losses import LOGISTIC
from dplangevin.methods.dpvi import Dpvi
from dplangevin.methods.pate import Pate
from dplangevin.poisson import Poisson
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.papernot2018 import Papernot2018
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problem import Problem

DELTA = 0.01
ANSWERS, QUERIES = 30, 75
STRENGTH = {"dpvi": 0.6, "pate": 0.45}  # a label is the sign of a Gaussian, which keeps sqrt(2/pi) of its mu


class Case(NamedTuple):
    """A method, its pair of problems, the budget, and the statistic of theta ``(runs, samples, 1)``."""

    method: Any
    problems: tuple[Problem, Problem]
    epsilon: float
    statistic: Callable[[Tensor], np.ndarray]


def dpvi(adjacency: Adjacency) -> Case:
    """Two steps that each see the one record with probability 1/2; the mean of the draws is m, up to a little noise."""
    method = Dpvi(
        clip=1.0,
        step=0.5,
        precision=2.0,
        spread=0.01,
        samples=100,
        accountant=Li2019(256) if adjacency == "add_remove" else Tight(),
        minibatches=Poisson(1, 1),
        adjacency=adjacency,
    )
    return Case(method, pairs.alone(40_000, 2, adjacency), 3.0, lambda theta: theta.mean((1, 2)).numpy())


def pate(adjacency: Adjacency) -> Case:
    """One teacher, whose vote the one record decides; the public rows are all x = 1, so theta counts the votes."""
    method = Pate(
        teachers=1,
        queries=QUERIES,
        answers=ANSWERS,
        threshold=0.5,
        ratio=20.0,
        ridge=1.0,
        student_ridge=1.0,
        accountant=Papernot2018(),
        adjacency=adjacency,
        tolerance=1e-4,
    )
    first, second = pairs.opposite(10_000, 1, LOGISTIC)
    public = torch.ones(1, QUERIES, 1)
    both = replace(first, public=public), replace(second, public=public)
    return Case(method, both, 3.0, lambda theta: theta[:, 0, 0].numpy())


CASES = {
    (name, adjacency): make
    for name, make in {"dpvi": dpvi, "pate": pate}.items()
    for adjacency in ("add_remove", "replace_one")
}


class Found(NamedTuple):
    audit: Audit
    claimed: float
    tight: float


def attack(key: tuple[str, Adjacency]) -> Found:
    case = CASES[key](key[1])
    statistics, rng = [], noise.generator(0, key[0])
    for problem in case.problems:
        release = case.method(problem, [Budget(case.epsilon, DELTA)], rng)
        statistics.append(case.statistic(release.theta[:, 0].double()))
    (promise,) = release.guarantee
    tight = Tight().epsilon(promise.event, promise.delta, promise.adjacency)
    first, second = statistics
    return Found(audit(first, second, promise.delta), promise.epsilon, tight)


@lru_cache
def sound(key: tuple[str, Adjacency]) -> Found:
    return attack(key)


@pytest.fixture
def halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the noise that the events claim."""
    gaussian, stream = noise.gaussian, noise.poisson_stream
    monkeypatch.setattr(noise, "gaussian", lambda *args: gaussian(*args) / 2)
    monkeypatch.setattr(
        noise, "poisson_stream", lambda *args: ((rows, mask, z / 2) for rows, mask, z in stream(*args))
    )


@pytest.mark.parametrize("key", CASES)
def test_no_promise_is_refuted_and_the_attack_comes_near(key: tuple[str, Adjacency]) -> None:
    found = sound(key)
    assert STRENGTH[key[0]] * found.tight < found.audit.epsilon <= found.tight
    assert found.tight <= found.claimed * (1 + 1e-3)


@pytest.mark.parametrize("key", CASES)
@pytest.mark.usefixtures("halved")
def test_half_of_the_noise_is_caught(key: tuple[str, Adjacency]) -> None:
    found = attack(key)
    assert found.audit.epsilon > found.tight
