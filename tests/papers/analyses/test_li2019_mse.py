"""The error of a posterior average, against enumeration, a continuous limit and simulation."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from loading import analysis

from dplangevin.papers.analyses.li2019_mse import SCHEDULES, PosteriorAverages, Target

TARGET = Target(records=10, batch=1, prior=2.0, start=1.5)


def short() -> PosteriorAverages:
    return analysis("li2019_mse", chains=40, steps=[20, 60], budgets=[1.0, 2.0], budget_steps=50)


@pytest.mark.parametrize("batch", [1, 4])
def test_closed_form_against_every_path(batch: int) -> None:
    """Without Gaussian noise a path is a sequence of minibatches: all of them, by their chances."""
    target = Target(records=6, batch=batch, prior=1.0, start=0.7)
    records = [1.0] * 3 + [-1.0] * 3
    batches = [np.mean(chosen) for chosen in itertools.combinations(records, batch)]
    eta, v = [0.3, 0.5, 0.2], 1 / 7
    errors = []
    for path in itertools.product(batches, repeat=3):
        theta, sums = 0.7 * math.sqrt(v), np.zeros(2)
        for step, mean in zip(eta, path, strict=True):
            theta -= step * (theta / 6 + theta - float(mean))
            sums += step * np.array([theta, theta**2])
        average = sums / sum(eta)
        errors.append([average[0] ** 2 / v, (average[1] - v) ** 2 / (2 * v**2)])
    found = target.closed_form(np.array(eta)[:, None], np.zeros(1))
    np.testing.assert_allclose(found[:, 0], np.mean(errors, 0), rtol=1e-10)


def test_simulation_agrees_with_the_closed_form() -> None:
    eta = np.stack([np.full(60, 0.2), 0.5 * np.arange(1, 61) ** (-1 / 3)], 1)
    kappa = np.array([1.0, 2.0])
    squares = TARGET.simulate(eta, kappa, 20000, torch.Generator().manual_seed(1))
    error = squares.std(1) / math.sqrt(squares.shape[1])
    assert (np.abs(squares.mean(1) - TARGET.closed_form(eta, kappa)) < 4 * error).all()


def test_schedules_spend_what_the_theorems_say() -> None:
    found = short()
    spent, n = found.budget_step(1.0), found.target.records
    assert spent == pytest.approx(1 / (2 * math.log(1e5)))
    assert found.schedule("private_fixed", 1.0, 500).sum() == pytest.approx(spent * n)
    decreasing = found.schedule("private_decreasing", 1.0, 500)
    assert decreasing[0] == pytest.approx(spent * n * 500 ** (-2 / 3))
    assert decreasing[7] / decreasing[0] == pytest.approx(1 / 2)
    assert found.schedule("wang2015", 1.0, 500)[0] < 0.05 * found.schedule("private_fixed", 1.0, 500)[0]


def test_rows() -> None:
    found = short()
    frame = pd.DataFrame([row for unit in found.units() for row in found.rows(unit, 1)])
    steps = frame[frame.panel.eq("steps")]
    assert set(steps.schedule) == set(SCHEDULES)
    assert (steps.groupby(["steps", "schedule", "temperature", "function"]).kind.nunique() == 2).all()


def test_odd_records_are_refused() -> None:
    with pytest.raises(ValueError, match="records = 9 must be even"):
        Target(records=9, batch=1, prior=1.0, start=0.0)
