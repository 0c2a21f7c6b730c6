"""Prices of recorded steps, against closed forms and dp-accounting."""

import math

import numpy as np
import pytest
from minibatches import DELTA, gaussian

from dplangevin.receipt.minibatches import Sampler
from dplangevin.receipt.prices import NoisySteps, group, price


def steps(
    scheme: str, per_epoch: int = 0, number: int = 20, noise: float = 3.0, **more: object
) -> NoisySteps:
    return NoisySteps(Sampler(scheme, per_epoch), 1000, np.full(number, noise), 0.05, 50, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("of", "adjacency", "rows", "mu"),
    [
        (steps("full"), "add_remove", 1, math.sqrt(20) / 3),
        (steps("full"), "replace_one", 1, 2 * math.sqrt(20) / 3),
        (steps("full"), "add_remove", 3, 3 * math.sqrt(20) / 3),
        (steps("shuffled", 5), "replace_one", 1, 2 * math.sqrt(4) / 3),
        (steps("shuffled", 8), "replace_one", 2, 4 * math.sqrt(3) / 3),  # 20 steps are in three epochs of 8
    ],
)
def test_closed_forms(of: NoisySteps, adjacency: str, rows: int, mu: float) -> None:
    assert price(of, DELTA, adjacency, rows).epsilon == pytest.approx(gaussian(mu), rel=1e-6)  # type: ignore[arg-type]


def test_a_person_in_poisson_samples_costs_between_one_row_and_the_group_lemma() -> None:
    of = steps("poisson", noise=2.0)
    one, three = (price(of, DELTA, "add_remove", rows).epsilon for rows in (1, 3))
    lemma = group(lambda delta: price(of, delta, "add_remove").epsilon, DELTA, 3).epsilon
    assert one * 1.5 < three < lemma
    always = of._replace(rate=1.0)  # three rows in every minibatch: one Gaussian sum of sensitivity 3
    assert price(always, DELTA, "add_remove", 3).epsilon == pytest.approx(
        gaussian(3 * math.sqrt(20) / 2), rel=1e-2
    )
    assert price(of, DELTA, "replace_one", 3).accountant == "group lemma, loose"


def test_the_group_lemma_holds_for_a_gaussian() -> None:
    mu = 0.4
    found = group(lambda delta: gaussian(mu, delta), DELTA, 4)
    assert gaussian(4 * mu) <= found.epsilon <= 2 * gaussian(4 * mu)


@pytest.mark.parametrize(
    ("of", "adjacency", "why"),
    [
        (steps("shuffled", 5), "add_remove", "moves other rows"),
        (steps("subset"), "add_remove", "moves other rows"),
        (steps("in_order", 8), "replace_one", "order may depend"),
        (steps("with_replacement"), "replace_one", "with replacement"),
        (steps("weighted"), "replace_one", "weights"),
        (steps(""), "replace_one", "no sampler"),
        (steps("poisson", size_dependent=True), "add_remove", "realised size"),
        (steps("poisson", grouped=True), "add_remove", "groups"),
        (steps("subset", samples=2), "replace_one", "independent draws"),
        (steps("full", samples=2), "add_remove", "independent draws"),
        (steps("shuffled", 5, samples=2), "replace_one", "independent draws"),
        (steps("poisson", grouped=True), "replace_one", "groups"),
        (steps("random_allocation", 5, size_dependent=True), "replace_one", "realised size"),
    ],
)
def test_no_price(of: NoisySteps, adjacency: str, why: str) -> None:
    found = price(of, DELTA, adjacency)  # type: ignore[arg-type]
    assert math.isnan(found.epsilon)
    assert why in found.accountant


def test_steps_without_noise_have_no_privacy() -> None:
    of = steps("full")._replace(multipliers=np.array([1.0, 0.0]))
    assert price(of, DELTA, "add_remove").epsilon == math.inf
