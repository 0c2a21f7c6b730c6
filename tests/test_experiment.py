import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import toy
from omegaconf import DictConfig

from dplangevin import experiment
from dplangevin.data import Dataset
from dplangevin.experiment import COLUMNS, evaluate, plan, sweep


@pytest.fixture
def cfg() -> DictConfig:
    return toy.config()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return toy.write(tmp_path / "toy.npz")


def test_sweeps_give_every_row_once_priced_twice(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    frame = sweep(cfg, "toy", "toy", "objpert", data, tmp_path / "units")
    assert list(frame.columns) == COLUMNS
    accuracy = frame[frame.metric == "accuracy"]
    assert len(accuracy) == 2 * 2 * 3 * 3  # scalings, ridges, budgets, repeats
    assert not accuracy.duplicated(["scaling", "variant", "epsilon", "repeat"]).any()
    assert set(frame.variant) == {"ridge=0.1", "ridge=5.0"}
    assert (frame.epsilon_paper <= frame.epsilon * (1 + 1e-6)).all()
    assert (frame.epsilon_tight < frame.epsilon).all()
    assert frame.assumptions.str.contains("made up").all()
    assert accuracy.value.between(0, 1).all()


def test_the_same_seed_gives_the_same_bytes(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    for method in ("objpert", "dp_sgld"):
        first, second = (sweep(cfg, "toy", "toy", method, data, tmp_path / name).to_csv() for name in "ab")
        assert first == second


def test_methods_without_a_budget_have_one_row_per_repeat(
    cfg: DictConfig, data: Path, tmp_path: Path
) -> None:
    frame = sweep(cfg, "toy", "toy", "nonprivate", data, tmp_path / "units")
    assert set(frame.epsilon) == {math.inf}
    assert set(frame.metric) == {"accuracy", "log_loss", "majority_accuracy"}
    assert len(frame) == 2 * 3 * 3


def test_an_interrupted_sweep_goes_on_where_it_stopped(
    cfg: DictConfig, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units, real = tmp_path / "units", experiment.run_unit
    calls: list[Any] = []

    def dying(*args: Any) -> pd.DataFrame:
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(experiment, "run_unit", dying)
    with pytest.raises(KeyboardInterrupt):
        sweep(cfg, "toy", "toy", "objpert", data, units)
    assert len(list(units.glob("*.csv"))) == 3
    calls.clear()

    def counting(*args: Any) -> pd.DataFrame:
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(experiment, "run_unit", counting)
    resumed = sweep(cfg, "toy", "toy", "objpert", data, units)
    assert len(calls) == 8 - 3
    assert resumed.to_csv() == sweep(cfg, "toy", "toy", "objpert", data, tmp_path / "fresh").to_csv()
    calls.clear()
    cfg.seed = 1  # another computation: nothing is reused
    sweep(cfg, "toy", "toy", "objpert", data, units)
    assert len(calls) == 8


def test_a_sweep_killed_outright_loses_at_most_the_unit_in_hand(data: Path, tmp_path: Path) -> None:
    units = tmp_path / "units"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", "tests"])}
    process = subprocess.Popen([sys.executable, toy.__file__, data, units], env=env)
    while len(list(units.glob("*.csv"))) < 3 and process.poll() is None:
        time.sleep(0.01)
    process.kill()  # SIGKILL
    assert process.wait() == -signal.SIGKILL
    kept = {path: path.stat().st_mtime_ns for path in units.glob("[!.]*.csv")}
    assert 3 <= len(kept) < 200
    resumed = sweep(toy.many_units(), "toy", "toy", "objpert", data, units)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # read, not made again
    assert len(list(units.glob("[!.]*.csv"))) == 200
    assert (
        resumed.to_csv()
        == sweep(toy.many_units(), "toy", "toy", "objpert", data, tmp_path / "fresh").to_csv()
    )


def test_a_row_whose_event_costs_more_than_its_budget_is_refused(
    cfg: DictConfig, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dplangevin.methods import objpert

    class Halved(objpert.ObjectivePerturbationDpEvent):  # a method that adds half the noise it should
        def __new__(cls, std: float, *rest: float) -> Any:
            return experiment_event(std / 2, *rest)

    experiment_event = objpert.ObjectivePerturbationDpEvent
    monkeypatch.setattr(objpert, "ObjectivePerturbationDpEvent", Halved)
    with pytest.raises(
        ValueError, match=r"objpert on toy refused: by .* its event costs \(.*more than the budget"
    ):
        sweep(cfg, "toy", "toy", "objpert", data, tmp_path / "units")


def test_violated_conditions_are_written_in_the_row(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    cfg.experiment.toy.epsilons.toy = [0.5, 40.0]
    frame = sweep(cfg, "toy", "toy", "dp_sgld", data, tmp_path / "units")
    text = frame.groupby("epsilon").violated.first()
    assert text[0.5] == ""
    assert text[40.0].startswith("T = ")
    assert "< eps^2 N/(32 tau ln(2/delta))" in text[40.0]


def test_plans_are_the_product_of_scalings_variants_and_budget_blocks(cfg: DictConfig) -> None:
    units = list(plan(cfg.experiment.toy, "toy", "objpert", has_budget=True))
    assert [len(unit.epsilons) for unit in units] == [2, 1] * 4
    assert [unit.variant for unit in units[:4]] == ["ridge=0.1", "ridge=0.1", "ridge=5.0", "ridge=5.0"]


def test_predictions_average_probabilities_over_samples() -> None:
    x = np.array([[[1.0, 0.0]]])
    data = Dataset(x, np.ones((1, 1)), x, np.ones((1, 1)))
    theta = torch.tensor([[[[-1.0, 0.0], [9.0, 0.0]]]])  # p(+1) = .269 and .9999
    found = evaluate(theta, data)
    assert float(found["accuracy"]) == 1.0
    p = (1 / (1 + math.e) + 1 / (1 + math.exp(-9))) / 2
    assert float(found["log_loss"]) == pytest.approx(-math.log(p), rel=1e-6)
