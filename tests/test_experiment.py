import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import swept
import torch
import toy
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from dplangevin import experiment, noise
from dplangevin.data import Dataset
from dplangevin.experiment import COLUMNS, measured
from dplangevin.methods import Release
from dplangevin.methods.nonprivate import NonPrivate
from dplangevin.methods.objpert import ObjPert
from dplangevin.plan import asked, merged, plan
from dplangevin.posterior import Sampler
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.reference import load, sample_reference, save


@pytest.fixture
def cfg() -> DictConfig:
    return toy.config()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return toy.write(tmp_path / "toy.npz")


def test_sweeps_give_every_row_once_priced_twice(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    frame = swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "units")
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
        first, second = (
            swept.experiment(cfg, "toy", "toy", method, data, tmp_path / name).to_csv() for name in "ab"
        )
        assert first == second


def test_methods_without_a_budget_have_one_row_per_repeat(
    cfg: DictConfig, data: Path, tmp_path: Path
) -> None:
    frame = swept.experiment(cfg, "toy", "toy", "nonprivate", data, tmp_path / "units")
    assert set(frame.epsilon) == {math.inf}
    assert set(frame.metric) == {"accuracy", "log_loss", "brier", "ece", "majority_accuracy"}
    assert len(frame) == 2 * 5 * 3


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
        swept.experiment(cfg, "toy", "toy", "objpert", data, units)
    assert len(list(units.glob("*.csv"))) == 3
    calls.clear()

    def counting(*args: Any) -> pd.DataFrame:
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(experiment, "run_unit", counting)
    resumed = swept.experiment(cfg, "toy", "toy", "objpert", data, units)
    assert len(calls) == 8 - 3
    assert (
        resumed.to_csv() == swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "fresh").to_csv()
    )
    calls.clear()
    cfg.seed = 1  # another computation: nothing is reused
    swept.experiment(cfg, "toy", "toy", "objpert", data, units)
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
    resumed = swept.experiment(toy.many_units(), "toy", "toy", "objpert", data, units)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # read, not made again
    assert len(list(units.glob("[!.]*.csv"))) == 200
    assert (
        resumed.to_csv()
        == swept.experiment(toy.many_units(), "toy", "toy", "objpert", data, tmp_path / "fresh").to_csv()
    )


def test_a_row_whose_event_costs_more_than_its_budget_is_refused(
    cfg: DictConfig, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dplangevin.methods import objpert

    class Halved(objpert.ObjectivePerturbationDpEvent):  # a method that adds half the noise it should
        def __new__(cls, std: float, *rest: Any) -> Any:
            return experiment_event(std / 2, *rest)

    experiment_event = objpert.ObjectivePerturbationDpEvent
    monkeypatch.setattr(objpert, "ObjectivePerturbationDpEvent", Halved)
    with pytest.raises(
        ValueError, match=r"objpert on toy refused: by .* its event costs \(.*more than the budget"
    ):
        swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "units")


def test_violated_conditions_are_written_in_the_row(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    cfg.experiment.toy.epsilons.toy = [0.5, 40.0]
    frame = swept.experiment(cfg, "toy", "toy", "dp_sgld", data, tmp_path / "units")
    text = frame.groupby("epsilon").violated.first()
    assert text[0.5] == ""
    assert text[40.0].startswith("T = ")
    assert "< eps^2 N/(32 tau ln(2/delta))" in text[40.0]


def test_plans_are_the_product_of_scalings_variants_and_budget_blocks(cfg: DictConfig) -> None:
    units = list(plan(cfg.experiment.toy, "toy", "objpert", has_budget=True))
    assert [len(unit.epsilons) for unit in units] == [2, 1] * 4
    assert [unit.variant for unit in units[:4]] == ["ridge=0.1", "ridge=0.1", "ridge=5.0", "ridge=5.0"]


def test_an_experiments_delta_has_the_last_word(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    assert set(swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "units").delta) == {1e-5}
    cfg.experiment.toy.delta = 1e-3
    frame = swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "units")
    assert set(frame.delta) == {1e-3}
    event = ObjPert(0.1, instantiate(cfg.accountant.kifer2012))  # of the same budget, by hand
    problem = instantiate(cfg.model.logistic)(Dataset.load(data).scaled("unit"), 3)
    release = event(problem, [experiment.Budget(1.0, 1e-3)], noise.generator(0, ""))
    wanted = Tight().epsilon(release.guarantee[0].event, 1e-3, "replace_one")
    found = frame[frame.epsilon.eq(1.0) & frame.variant.eq("ridge=0.1")].epsilon_tight
    assert found.tolist() == pytest.approx([wanted] * len(found))


def test_settings_change_the_method_and_not_the_variant(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    cfg.experiment.toy.scalings = ["unit"]
    first = swept.experiment(cfg, "toy", "toy", "nonprivate", data, tmp_path / "units")
    cfg.experiment.toy.settings = {"nonprivate": {"ridge": 30.0}}
    second = swept.experiment(cfg, "toy", "toy", "nonprivate", data, tmp_path / "units")
    assert set(second.variant) == {""}
    assert not (first.value == second.value).all()
    cfg.method.nonprivate.ridge = 30.0
    cfg.experiment.toy.settings = {}
    third = swept.experiment(cfg, "toy", "toy", "nonprivate", data, tmp_path / "other")
    assert second.to_csv() == third.to_csv()
    cfg.experiment.toy.settings = {"objpert": {"ridge": 9.0, "adjacency": "add_remove"}}  # vary comes after
    frame = swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "units")
    assert set(frame.variant) == {"ridge=0.1", "ridge=5.0"}
    assert set(frame.adjacency) == {"add_remove"}


def test_settings_replace_objects_as_a_whole() -> None:
    base = {
        "a": 1,
        "accountant": {"_target_": "li2019", "max_order": 32},
        "first": {"radius": 2.0, "bound": "paper"},
    }
    changes = {"accountant": {"_target_": "tight"}, "first": {"radius": 3.0}, "b": [1]}
    found = merged(base, changes)
    assert found == {
        "a": 1,
        "b": [1],
        "accountant": {"_target_": "tight"},
        "first": {"radius": 3.0, "bound": "paper"},
    }
    assert base["first"] == {"radius": 2.0, "bound": "paper"}  # untouched


def test_the_audit_adjacency_prices_every_method(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    cfg.experiment.toy.settings = {"objpert": {"adjacency": "add_remove"}}
    own = swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "units")
    assert set(own.adjacency_tight) == set(own.adjacency) == {"add_remove"}
    cfg.experiment.toy.audit = "replace_one"
    frame = swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "units")
    assert set(frame.adjacency) == {"add_remove"}
    assert set(frame.adjacency_tight) == {"replace_one"}
    assert (frame.epsilon_tight > own.epsilon_tight).all()
    assert frame.epsilon_paper.equals(own.epsilon_paper)
    assert frame.value.equals(own.value)  # a price is no input of the method
    cfg.experiment.toy.audit = "replace_two"
    with pytest.raises(ValueError, match="replace_two"):
        swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "units")


def test_budgets_by_method() -> None:
    lists = {"toy": {"default": [1, 2.5], "ops": [10]}, "other": [3.0]}
    spec = OmegaConf.create({"epsilons": lists})
    assert asked(spec, "toy", "ops") == [10.0]
    assert asked(spec, "toy", "objpert") == [1.0, 2.5]
    assert asked(spec, "other", "ops") == [3.0]
    del spec.epsilons.toy["default"]
    with pytest.raises(ValueError, match=r"epsilons.toy has no list for 'objpert': add one"):
        asked(spec, "toy", "objpert")


def test_chains_are_diagnosed_and_compared_with_the_posterior(
    cfg: DictConfig, data: Path, tmp_path: Path
) -> None:
    cfg.experiment.toy.scalings = ["unit"]
    cfg.experiment.toy.compared = True
    with pytest.raises(
        ValueError, match="experiment 'toy' is compared with the exact posterior: name its file"
    ):
        swept.experiment(cfg, "toy", "toy", "nonprivate", data, tmp_path / "units")
    scaled, path = Dataset.load(data).scaled("unit"), tmp_path / "posterior.npz"
    problem = instantiate(cfg.model.logistic)(scaled, 3)
    sampler = Sampler(warmup=50, block=100, max_draws=300)
    save(
        path, {"unit": sample_reference(problem, scaled, 1.0, sampler, 100, noise.generator(0, "reference"))}
    )
    frame = swept.experiment(cfg, "toy", "toy", "dp_sgld", data, tmp_path / "units", path)
    assert {"r_hat", "ess", "mean_distance", "covariance_distance", "predictive_gap"} < set(frame.metric)
    wide = frame.pivot(index=["epsilon", "repeat"], columns="metric", values="value")
    wanted = wide.log_loss - float(load(path, "unit").log_loss)
    assert wide.predictive_gap.tolist() == pytest.approx(wanted.tolist())
    cfg.experiment.toy.settings = {"nonprivate": {"ridge": 1.0}}
    mode = swept.experiment(cfg, "toy", "toy", "nonprivate", data, tmp_path / "units", path)
    near = mode[mode.metric.eq("mean_distance")].value
    assert near.max() < 0.5  # the mode of the same posterior
    assert near.max() < wide.mean_distance.min()
    assert not mode.metric.isin(["r_hat", "covariance_distance"]).any()  # one draw


def test_what_a_method_reports_is_a_metric(
    cfg: DictConfig, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = NonPrivate.__call__

    def reporting(*args: Any) -> Release:
        found = fit(*args)
        found.info.update(epsilon_released=torch.arange(3.0)[:, None], steps=torch.ones(3, 1))
        return found

    monkeypatch.setattr(NonPrivate, "__call__", reporting)
    frame = swept.experiment(cfg, "toy", "toy", "nonprivate", data, tmp_path / "units")
    assert frame[frame.metric.eq("epsilon_released")].value.tolist() == [0.0, 1.0, 2.0] * 2
    assert not frame.metric.eq("steps").any()


def test_chains_that_have_diverged_have_no_value_and_say_so(
    cfg: DictConfig, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = ObjPert.__call__

    def diverged(*args: Any) -> Release:
        found = fit(*args)
        found.theta[1, 0, 0, 2] = math.nan
        return found

    cfg.experiment.toy.scalings = ["unit"]
    whole = swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "units")
    monkeypatch.setattr(ObjPert, "__call__", diverged)
    frame = swept.experiment(cfg, "toy", "toy", "objpert", data, tmp_path / "other")
    lost = frame.repeat.eq(1) & frame.epsilon.isin([0.5, 4.0])  # the first budget of each unit
    assert frame.value.isna().equals(lost)
    assert frame.value[~lost].equals(whole.value[~lost])
    assert set(frame.violated[frame.epsilon.eq(0.5)]) == {"1 of 3 chains diverged"}
    assert set(frame.violated[frame.epsilon.eq(1.0)]) == {""}


def test_a_chain_that_has_diverged_leaves_the_mixing_of_its_budget_open() -> None:
    theta = torch.randn(3, 2, 20, 4, generator=torch.Generator().manual_seed(0))
    theta[2, 1, 5:] = math.inf
    x, y = torch.ones(1, 6, 4).numpy(), torch.ones(1, 6).numpy()
    _, found = measured(Release(theta, [], {"violated": ["", "loud"]}), True, Dataset(x, y, x, y), None)
    assert found["r_hat"].isnan().tolist() == [[False, True]] * 3
    release, found = measured(
        Release(theta, [], {"violated": ["", "loud"]}), False, Dataset(x, y, x, y), None
    )
    assert found["ess"].isnan().tolist() == [[False, False], [False, False], [False, True]]
    assert found["accuracy"].isnan().equal(found["ess"].isnan())
    assert release.info["violated"] == ["", "loud; 1 of 3 chains diverged"]
