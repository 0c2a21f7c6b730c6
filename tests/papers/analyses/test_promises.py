"""The table of privacy promises: mechanisms against closed forms, and one row of each kind."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import DpEvent, GaussianDpEvent

from dplangevin.papers.analyses import mechanisms, promises
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.events import PosteriorSampleDpEvent


def shifted(event: DpEvent, runs: int, rng: torch.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian mechanism on its worst replace-one pair."""
    assert isinstance(event, GaussianDpEvent)
    draws = torch.randn(2, runs, generator=rng, dtype=torch.float64).numpy()
    return draws[0] + 2 / event.noise_multiplier, draws[1]


SAID: dict[str, Any] = {"paper": "p", "where": "w", "statement": "s", "published": "x", "label": "l"}
GAUSSIAN = promises.Promise(
    **SAID,
    epsilon=1.0,
    delta=1e-5,
    event=GaussianDpEvent(2.0),
    formulas=[
        promises.Formula("doubled", AnalyticGaussian(), GaussianDpEvent(4.0)),
        promises.Formula("other", AnalyticGaussian(), adjacency="add_remove"),
    ],
    attack=promises.Attack(shifted, 20_000),
)


def test_mnist_setting_has_the_noise_of_the_formula() -> None:
    event = mechanisms.sgld(records=60_000, batch=128, epochs=20, step_size=0.3, lipschitz=0.3)
    ((leaf, count),) = leaves(event)
    assert count == 9375
    assert leaf.event.noise_multiplier == pytest.approx(128 / (0.3 * math.sqrt(0.3 * 60_000)))
    assert round(leaf.event.noise_multiplier, 3) == 3.180


def test_wang2015_mechanisms_cost_by_its_theorems_what_they_were_made_for() -> None:
    size: dict[str, Any] = {"records": 32561, "batch": 180, "epochs": 180, "epsilon": 0.7, "delta": 1e-6}
    accountant = Wang2015()
    assert accountant.epsilon(mechanisms.noisy_gradients(**size), 1e-6) == pytest.approx(0.7)
    assert accountant.epsilon(mechanisms.fisher_scoring(**size), 2e-6) == pytest.approx(1.4)
    sample = mechanisms.posterior(epsilon=0.3, radius=10.0)
    assert accountant.epsilon(sample, 0.0) == pytest.approx(0.3)
    assert mechanisms.posterior(epsilon=math.inf, radius=2.0) == PosteriorSampleDpEvent(1.0, 2.0)


def test_row_prices_both_neighbours_and_stays_below_them_when_attacked() -> None:
    row = GAUSSIAN.row(1)
    exact = AnalyticGaussian()
    for adjacency in ("add_remove", "replace_one"):
        assert row[f"epsilon_{adjacency}"] == pytest.approx(
            exact.epsilon(GaussianDpEvent(2.0), 1e-5, adjacency)
        )
    assert row["epsilon_formula"] == pytest.approx(exact.epsilon(GaussianDpEvent(4.0), 1e-5))
    assert row["formula"].startswith("doubled; other: ")
    assert row["epsilon_add_remove"] * 0.5 < row["epsilon_attack"] < row["epsilon_replace_one"]
    assert row["attack_runs"] == 20_000
    assert row["formula_adjacency"] == "replace_one"
    assert math.isnan(row["epsilon_attack_add_remove"])
    assert GAUSSIAN.row(1) == row


def test_a_pair_with_more_noise_costs_less_for_both_neighbours() -> None:
    """As much noise as Algorithm 1 has, and at most 2 % more; the price of the pair is not rounded up."""
    size: dict[str, Any] = {"records": 500, "batch": 50, "steps": 200, "step_size": 0.01, "lipschitz": 1.0}
    event = mechanisms.decreasing_sgld_with_more_noise(**size, ratio=1.02)
    exact = [50 / math.sqrt(0.01 * 500) * t ** (1 / 6) for t in range(1, 201)]
    noise = [leaf.event.noise_multiplier for leaf, count in leaves(event) for _ in range(count)]
    assert all(one <= more <= 1.02 * one for one, more in zip(exact, noise, strict=True))
    assert {leaf.sampling_probability for leaf, _ in leaves(event)} == {0.1}
    proven = mechanisms.sgld(**size, schedule="decreasing")
    row = replace(GAUSSIAN, event=proven, formulas=(), attack=promises.ExactPair(event=event)).row(1)
    for attack, price in (
        ("epsilon_attack", "epsilon_replace_one"),
        ("epsilon_attack_add_remove", "epsilon_add_remove"),
    ):
        assert 0.96 * row[price] < row[attack] < row[price]
    assert (row["tight"], row["attack_runs"]) == (0, 0)
    fine = mechanisms.decreasing_sgld_with_more_noise(**size, ratio=1.001)
    with pytest.raises(ValueError, match="noise levels"):
        replace(GAUSSIAN, attack=promises.ExactPair(event=fine)).row(1)


def test_promise_without_settings_has_no_numbers() -> None:
    row = promises.Promise(**SAID, epsilon=1.0, delta=1e-5, note="nothing is stated").row(1)
    assert row["mechanism"] == ""
    assert all(math.isnan(row[key]) for key in row if key.startswith(("epsilon_f", "epsilon_r", "audit_e")))


@pytest.mark.parametrize("wanted", [1, 2, 37, 1000])
def test_smallest_batch_is_found(wanted: int) -> None:
    exact = AnalyticGaussian().epsilon(GaussianDpEvent(2.0), 1e-5)
    solve = promises.SmallestBatch(lambda batch: GaussianDpEvent(2.0 * batch / wanted), 1, 1000, True)
    assert solve(exact * (1 + 1e-9), 1e-5, "replace_one") == wanted
    assert solve(exact / 1e4, 1e-5, "replace_one") is None
