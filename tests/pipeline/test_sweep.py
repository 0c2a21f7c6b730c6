"""The one sweep: which rows there are and what they say, what is computed again, and what happens where work fails."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import swept
import torch
import toy
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from dplangevin import random
from dplangevin.attacks.softmax import OnRow
from dplangevin.data import Dataset
from dplangevin.data.fetch import DataUnavailable
from dplangevin.files import File
from dplangevin.methods import ChainMethod, Execution, Release, planned, pricing
from dplangevin.methods.objpert import ObjPert
from dplangevin.methods.outpert import Ridge
from dplangevin.pipeline import plan, reference
from dplangevin.pipeline import sweep as sweeps
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.code import PRICING
from dplangevin.pipeline.plan import KEYS, TABLES, budgets, runs, tasks_of
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of as gaussian_epsilon
from dplangevin.privacy.accountants.last_iterate import Bok2024, Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.gaussian_steps import steps_event
from dplangevin.samplers.posterior import Sampler

LOSSES = {"accuracy", "log_loss", "brier", "ece"}
SGLD = {"sampling": {"batch": 20, "epochs": 2}, "samples": 6}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return toy.write(tmp_path)


def sweep(cfg: DictConfig, data: Path, units: str = "units", **more: Any) -> dict[str, pd.DataFrame]:
    return swept.experiment(cfg, "toy", data.stem, data, data.parent / units, **more)


def unit(cfg: DictConfig) -> DictConfig:
    """With one scaling."""
    cfg.experiment.toy.scalings = ["unit"]
    return cfg


def wide(tables: dict[str, pd.DataFrame], run: str) -> pd.DataFrame:
    rows = tables["scores"][tables["scores"].run.eq(run)]
    return rows.pivot(index=["epsilon", "seed"], columns="metric", values="value").reset_index()


def row(tables: dict[str, pd.DataFrame], run: str) -> pd.Series:
    """The first of a run."""
    return tables["runs"][tables["runs"].run.eq(run)].iloc[0]


def only(cfg: DictConfig, *names: str) -> DictConfig:
    """With some of the runs."""
    found = cfg.copy()
    found.experiment.toy.runs = {name: cfg.experiment.toy.runs[name] for name in names}
    return found


# Rows


def test_every_row_is_there_once_and_priced_twice(data: Path) -> None:
    found = sweep(toy.config("objpert", "nonprivate"), data)
    assert {name: list(table.columns) for name, table in found.items()} == {
        name: TABLES[name] for name in ("runs", "scores")
    }
    private = found["runs"][found["runs"].run.eq("objpert")]
    assert private.groupby(["scaling", "variant"]).epsilon.apply(list).to_dict() == {
        (scaling, f"ridge={ridge}"): [0.5, 1.0, 4.0] for scaling in ("unit", "global") for ridge in (0.1, 5.0)
    }
    assert (private.epsilon_promised <= private.epsilon * (1 + 1e-6)).all()
    assert (private.epsilon_proven < private.epsilon).all()
    assert found["runs"].assumptions.str.endswith("made up").all()
    counts = found["scores"].groupby([*KEYS, "metric"]).seed.apply(list)
    assert set(map(tuple, counts)) == {(0, 1, 2)}
    assert {name[:-1] for name in counts.index} == set(found["runs"][KEYS].itertuples(index=False, name=None))
    free = found["scores"][found["scores"].run.eq("nonprivate")]
    assert set(free.metric) == {*LOSSES, "majority_accuracy"}
    assert set(free.epsilon) == {math.inf}
    (majority,) = set(free[free.metric.eq("majority_accuracy")].value)
    assert majority == pytest.approx(float(Dataset.load(data).constant()["majority_accuracy"][0]))


def test_a_runs_settings_are_its_methods_the_experiments_and_its_own() -> None:
    cfg = toy.config("ops")
    spec = cfg.experiment.toy
    spec.settings = {"ops": {"radius": 3.0}, "objpert": {"ridge": 9.0}}
    spec.runs = {
        "wide": {"method": "ops", "settings": {"radius": 30.0}, "epsilons": [2.0], "seeds": 7, "stream": "s"},
        "objpert": {"block": "b"},
    }
    ops, objpert, wide = (
        next(run for run in runs(cfg, "toy", "rows") if run.name == n) for n in ("ops", "objpert", "wide")
    )
    assert (ops.config["radius"], wide.config["radius"], objpert.config["ridge"]) == (3.0, 30.0, 9.0)
    assert ops.config["bound"] == wide.config["bound"] == cfg.method.ops.bound
    assert (ops.seeds, wide.seeds, ops.stream, wide.stream) == (3, 7, "rows/ops", "s")
    assert (ops.epsilons, wide.epsilons, objpert.block) == ([0.5, 1.0, 4.0], [2.0], "b")
    pieces = list(tasks_of(cfg, "toy", objpert, "rows"))
    assert [len(piece.epsilons) for piece in pieces] == [2, 1] * 4
    assert [piece.variant for piece in pieces[:4]] == ["ridge=0.1", "ridge=0.1", "ridge=5.0", "ridge=5.0"]
    assert pieces[2].config["ridge"] == 5.0  # `vary` has the last word


def test_budgets_by_run() -> None:
    spec = OmegaConf.create({"epsilons": {"rows": {"default": [1, 2.5], "ops": [10]}}})
    assert budgets(spec, "rows", "ops", {}) == [10.0]
    assert budgets(spec, "rows", "objpert", {}) == [1.0, 2.5]
    del spec.epsilons.rows["default"]
    for dataset in ("rows", "mine"):
        with pytest.raises(ValueError, match=f"epsilons has no budget for objpert on {dataset}"):
            budgets(spec, dataset, "objpert", {})


# Prices


def test_delta_and_audit_are_the_experiments(data: Path) -> None:
    cfg = unit(toy.config("objpert"))
    cfg.experiment.toy.settings = {"objpert": {"adjacency": "add_remove"}}
    own = sweep(cfg, data)["runs"]
    assert set(own.adjacency_proven) == set(own.adjacency) == {"add_remove"}
    cfg.experiment.toy.price_neighbours, cfg.experiment.toy.delta = "replace_one", 1e-3
    found = sweep(cfg, data)["runs"]
    assert set(found.adjacency) == {"add_remove"}
    assert set(found.adjacency_proven) == {"replace_one"}
    assert set(found.delta) == {1e-3}
    method = ObjPert(instantiate(cfg.accountant.kifer2012), 0.1, adjacency="add_remove")
    problem = instantiate(cfg.problem.logistic)(Dataset.load(data).scaled("unit"), 3)
    event = method.plan(problem.facts, Budget(0.5, 1e-3)).guarantee.event
    assert found.epsilon_proven[0] == pytest.approx(Tight().epsilon(event, 1e-3, "replace_one"))
    cfg.experiment.toy.prices = ["neighbour"]
    with pytest.raises(ValueError, match=r"unknown prices \['neighbour'\]"):
        sweep(cfg, data)


def test_prices_of_chains_on_features(tmp_path: Path) -> None:
    cfg, data = toy.on_features(), toy.write(tmp_path, "features")
    found = sweep(cfg, data)
    problem = instantiate(cfg.problem.features)(Dataset.load(data), 3)
    plans, methods = {}, {}
    for run in runs(cfg, "toy", "features"):
        methods[run.name] = instantiate(run.config)
        plans[run.name] = methods[run.name].plan(problem.facts, Budget(run.epsilons[0], 1e-3))
    table = found["runs"].set_index("run")
    for name in ("published", "zero", "theorem"):
        here, event = row(found, name), plans[name].paper
        assert here.epsilon_proven == pytest.approx(
            Tight().epsilon(event.all_iterates(), 1e-3, "replace_one")
        )
        assert here.epsilon_formula_steps == pytest.approx(Ryffel2022().epsilon(event, 1e-3))
        assert here.epsilon_formula_epochs < here.epsilon_formula_steps
        assert (here.smoothness, here.noise_std) == (event.smoothness, event.noise_std)
    last = plans["published"].guarantee.event
    assert row(found, "published").epsilon_last == min(
        Bok2024().epsilon(last, 1e-3), row(found, "published").epsilon_proven
    )
    assert table.epsilon_last.drop("published").isna().all()  # clipped, or no such chain
    event = plans["dp_sgd"].guarantee.event
    assert row(found, "dp_sgd").epsilon_add_remove == pytest.approx(
        Tight().epsilon(event, 1e-3, "add_remove")
    )
    assert row(found, "dp_sgd").epsilon_replace_one == row(found, "dp_sgd").epsilon_proven
    rng = random.generator(cfg.seed, "toy/dp_sgd//1.0")
    attacked = OnRow(400, 100)(methods["dp_sgd"], plans["dp_sgd"], problem, 1e-3, rng)
    assert {name: row(found, "dp_sgd")[name] for name in attacked} == pytest.approx(attacked)
    assert table.epsilon_attack.isna().to_dict() == {name: name == "sgd" for name in table.index}
    assert (table.epsilon_attack.drop("sgd") <= table.epsilon_proven.drop("sgd")).all()
    assert table.block.eq("").all()
    assert "norm_q99 = 4 of the features of 9 public images (others)" in table.assumptions["sgd"]


@pytest.mark.slow
def test_shuffled_epochs_and_the_best_of_them(tmp_path: Path) -> None:
    """A price for replaced records alone; the best epoch beside the last iterate."""
    cfg, data = only(toy.on_features(), "dp_sgd"), toy.write(tmp_path, "features")
    spec = cfg.experiment.toy
    spec.observers = {"best": {"_target_": "dplangevin.pipeline.observers.BestEpoch", "_partial_": True}}
    spec.runs.dp_sgd.settings = {"sampling": {"scheme": "shuffled", "epochs": 3}, "noise_multiplier": 2.0}
    found = sweep(cfg, data)
    table = row(found, "dp_sgd")
    assert (table.sampling, table.steps) == ("shuffled", 3 * (toy.N // 16))
    assert math.isnan(table.epsilon_add_remove)
    mu = 2 * math.sqrt(3) / 2.0  # a Gaussian mechanism an epoch
    assert table.epsilon_proven == pytest.approx(gaussian_epsilon(mu, 1e-3), rel=1e-3)
    assert "is for Poisson samples, not for shuffled epochs" in table.violated
    scores = wide(found, "dp_sgd")
    assert (scores.accuracy_best_epoch >= scores.accuracy).all()
    assert (scores.accuracy_best_epoch > scores.accuracy).any()


# Refusals and failures


def test_what_costs_more_than_its_budget_is_refused_before_it_is_computed(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = toy.config("dp_sgd")
    cfg.experiment.toy.settings = {"dp_sgd": {"sampling": SGLD["sampling"]}}
    monkeypatch.setattr("dplangevin.methods.dp_sgd.noise_for", lambda *_, **__: 0.5)
    monkeypatch.setattr("dplangevin.methods.dp_sgd.DpSgd.release", lambda *_, **__: pytest.fail("was run"))
    with pytest.raises(
        ValueError, match=r"^dp_sgd: dp_sgd refused: its event costs \(.*more than the budget"
    ):
        sweep(cfg, data)


@pytest.mark.parametrize("fault", ["plan", "release", "setting"])
def test_a_method_that_fails_leaves_the_others_finished(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    cfg = unit(toy.config("objpert", "nonprivate"))
    if fault == "setting":
        cfg.experiment.toy.vary.objpert.ridge[1] = -1.0
    else:
        monkeypatch.setattr(ObjPert, fault, lambda *_, **__: 1 / 0)
    with pytest.raises(ValueError, match="ridge" if fault == "setting" else "^objpert: division by zero$"):
        sweep(cfg, data)
    assert "Traceback" in capsys.readouterr().err  # of what says nothing to a user
    assert len(list(data.parent.glob("units/*.runs.csv"))) == (3 if fault == "setting" else 1)


def test_data_that_cannot_be_had_are_asked_for_once(data: Path) -> None:
    calls = []

    def get() -> Path:
        calls.append(1)
        raise DataUnavailable("no source has it")

    cfg = toy.config("objpert")
    work = sweeps.SweepTasks(cfg, "toy", "rows", sweeps.Inputs(File("d", get)), data.parent / "units")
    with pytest.raises(DataUnavailable):
        sweeps.sweep(work, swept.store(cfg, "toy", work.folder))
    assert len(calls) == 1


def test_violated_conditions_are_written_in_the_row(data: Path) -> None:
    cfg = unit(toy.config("dp_sgld"))
    cfg.experiment.toy.epsilons.rows = [0.5, 40.0]
    text = sweep(cfg, data)["runs"].set_index("epsilon").violated
    assert text[0.5] == ""
    assert text[40.0].startswith("T = ")
    assert "< eps^2 N/(32 tau ln(2/delta))" in text[40.0]


def test_chains_that_have_diverged_have_no_value_and_say_so(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = unit(toy.config("sgld", "dp_sgld"))
    cfg.experiment.toy.settings = {"sgld": SGLD, "dp_sgld": {"samples": 20}}
    whole, release = sweep(cfg, data)["scores"], ChainMethod.release

    def diverged(self: Any, problem: Any, plans: Any, *given: Any, **more: Any) -> Release:
        found = release(self, problem, plans, *given, **more)
        found.theta[1, 0, -1, 2] = math.nan
        return found

    monkeypatch.setattr(ChainMethod, "release", diverged)
    found = sweep(cfg, data, "other")
    table = found["scores"]
    first = table.epsilon.isin([0.5, math.inf])  # of the chains that are run together
    lost = table.seed.eq(1) | table.metric.isin(["r_hat", "ess"])
    lost &= first & table.metric.ne("majority_accuracy")
    assert table.value.isna().equals(lost)
    assert table.value[~lost].equals(whole.value[~lost])
    notes = found["runs"].set_index(["run", "epsilon"]).violated.to_dict()
    assert notes["sgld", math.inf] == notes["dp_sgld", 0.5] == "1 of 3 chains diverged"
    assert notes["dp_sgld", 1.0] == ""


# Scores


def test_draws_are_compared_with_the_posterior(data: Path) -> None:
    cfg = unit(toy.config("dp_sgld", "nonprivate"))
    cfg.experiment.toy.settings = {"nonprivate": {"ridge": 1.0}}
    problem = instantiate(cfg.problem.logistic)(Dataset.load(data).scaled("unit"), 3)
    sampler, path = Sampler(warmup=50, block=100, max_draws=300), data.parent / "posterior.npz"
    exact = reference.sample_reference(problem, 1.0, sampler, 100, 3, random.generator(0, "reference"))
    reference.save(path, {"unit": exact})
    found = sweep(cfg, data, posterior=path)
    chains, mode = wide(found, "dp_sgld"), wide(found, "nonprivate")
    assert {"r_hat", "ess", "mean_distance", "covariance_distance", "predictive_gap"} < set(chains)
    assert chains.predictive_gap.tolist() == pytest.approx((chains.log_loss - float(exact.log_loss)).tolist())
    assert mode.mean_distance.max() < 0.5 < chains.mean_distance.min()  # the mode of the same posterior
    assert not {"r_hat", "covariance_distance"} & set(mode)  # one draw


def test_what_a_method_reports_is_a_metric(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = Ridge.release

    def reporting(*args: Any, **more: Any) -> Release:
        found = fit(*args, **more)
        found.not_private.update(epsilon_released=torch.arange(3.0)[:, None], steps=torch.ones(3, 1))
        return found

    monkeypatch.setattr(Ridge, "release", reporting)
    found = wide(sweep(unit(toy.config("nonprivate")), data), "nonprivate")
    assert found.epsilon_released.tolist() == [0.0, 1.0, 2.0]
    assert "steps" not in found


# What is kept, and what is run together


def keys(cfg: DictConfig, sha256: str = "d") -> dict[str, list[str]]:
    """The keys of the tasks of each run."""
    work = sweeps.SweepTasks(cfg, "toy", "rows", sweeps.Inputs(File(sha256, Path)), Path())
    by_run: dict[str, list[str]] = {}
    for task, key in zip(work.tasks, work.keys, strict=True):
        by_run.setdefault(task.run.name, []).append(key)
    return by_run


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ("seed=1", {"objpert", "nonprivate"}),
        ("delta=1e-4", {"objpert", "nonprivate"}),
        ("problem.logistic.loss=huber", {"objpert", "nonprivate"}),
        ("repeats=4", {"objpert", "nonprivate"}),
        ("experiment.toy.price_neighbours=replace_one", {"objpert", "nonprivate"}),
        ("dataset.rows.assumptions=[other]", {"objpert", "nonprivate"}),
        ("dataset.rows.train_rows=50", {"objpert", "nonprivate"}),
        ("experiment.toy.vary={objpert: {ridge: [0.1, 5.0]}, problem: {linear: {}}}", set()),
        ("method.objpert.tolerance=1e-6", {"objpert"}),
        ("experiment.toy.settings={objpert: {tolerance: 1e-6}}", {"objpert"}),
        ("experiment.toy.runs={objpert: {assumptions: [a]}}", {"objpert"}),
        ("experiment.toy.runs={more: {method: ops}}", set()),
        ("experiment.toy.metrics=true", set()),
        ("method.ops.radius=3", set()),
    ],
)
def test_keys_are_of_all_that_decides_a_row_and_of_nothing_else(change: str, changed: set[str]) -> None:
    cfg = unit(toy.config("objpert", "nonprivate"))
    before, other = keys(cfg), cfg.copy()
    name, _, value = change.partition("=")
    OmegaConf.update(other, name, OmegaConf.create(f"it: {value}").it, force_add=True)
    after = keys(other)
    assert {run for run in before if before[run] != after[run]} == changed
    assert len({key for each in before.values() for key in each}) == 5
    assert not set(keys(cfg, "e")["objpert"]) & set(before["objpert"])


@pytest.mark.parametrize(("given", "changes"), [(None, True), ("1/n^2", True), (1e-3, False)])
def test_keys_hold_the_delta_that_a_row_has(given: Any, changes: bool) -> None:
    """That of conf/ where the experiment has none, and where it is the largest that a rule gives."""
    cfg = unit(toy.config("objpert"))
    cfg.experiment.toy.delta = given
    other = cfg.copy()
    other.delta = 1e-12
    assert (keys(cfg) != keys(other)) == changes
    assert plan.delta(other, {"delta": "1/n^2"}, 200) == 1e-12


@pytest.mark.parametrize("name", ["rows", "features", "images"])
def test_an_edit_of_prices_trains_nothing_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, curves and notes are those of a run under today's prices; votes are counted again for their price."""
    cfg = toy.of(name, "dp_sgd", "objpert", "sgld")
    if name == "rows":
        unit(cfg).experiment.toy.settings = {"sgld": {**SGLD, "step": 1e30, "unit": "absolute"}}
    inputs = sweeps.Inputs(File.at(toy.write(tmp_path, name)))
    results = [tmp_path / f"r/{table}.csv" for table in sweeps.tables(cfg.experiment.toy)]

    def written(folder: str, paths: list[Path]) -> list[bytes]:
        store = Store(paths, tmp_path / folder)
        store.write(sweeps.sweep(sweeps.SweepTasks(cfg, "toy", name, inputs, store.folder), store))
        return [path.read_bytes() for path in paths]

    before, compute = written("units", results), sweeps.SweepTasks.compute

    def watched(self: Any, job: Any) -> Any:
        assert self.tasks[job.group[0]].run.name == "pate", "trained again"
        return compute(self, job)

    cfg.experiment.toy.prices, cfg.experiment.toy.assumptions = ["neighbours"], ["read twice"]
    monkeypatch.setattr(pricing, "_epsilon", lambda *_: 7.0)
    with monkeypatch.context() as patch:
        patch.setattr(sweeps.SweepTasks, "compute", watched)
        after = written("units", results)
    assert after == written("other", [tmp_path / "fresh" / path.name for path in results])
    assert (after[0] != before[0], after[1] == before[1]) == (True, True)


@pytest.mark.timeout(60)  # it trains every method
def test_no_training_runs_code_that_prices(data: Path) -> None:
    """So a key of scores can leave that code out; the votes of teachers have no such key."""
    cfg, called = toy.project(), set[str]()
    problem = instantiate(cfg.problem.logistic)(Dataset.load(data).scaled("unit"), 1)
    for method in (instantiate(each) for name, each in cfg.method.items() if name != "pate"):
        plans = planned(method, problem.facts, [Budget(1.0 if method.budgeted else math.inf, 1e-5)])
        sys.setprofile(lambda frame, *_: called.add(str(frame.f_globals.get("__name__"))))
        try:
            method.release(problem, plans, Execution(1, random.generator(0, "training")))
        finally:
            sys.setprofile(None)
    assert "dplangevin.methods" in called
    assert not {each for each in called if each.startswith(PRICING)}


def test_chains_that_are_run_together_have_the_rows_that_they_have_alone(tmp_path: Path) -> None:
    """To rounding: of both kinds of samples, from a random start and from 0."""
    cfg, data = toy.on_features(), toy.write(tmp_path, "features")
    del cfg.experiment.toy.attack
    together, sizes = sweep(cfg, data)["scores"], []
    compute = sweeps.SweepTasks.compute

    def watched(self: Any, job: Any) -> Any:
        sizes.append(len(job.group))
        return compute(self, job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps.SweepTasks, "compute", watched)
        sweep(cfg, data, "again")
        patch.setattr(sweeps, "TOGETHER", 7)
        parts = sweep(cfg, data, "parts")["scores"]
    assert sizes == [6, 2, 2, 2]
    assert np.allclose(parts.value, together.value, rtol=1e-4, atol=1e-6)
    for name in cfg.experiment.toy.runs:
        alone = sweep(only(cfg, name), data, name)["scores"]
        of_name = together[together.run.eq(name)].reset_index(drop=True)
        assert np.allclose(alone.value, of_name.value, rtol=1e-4, atol=1e-6), name


@pytest.mark.slow
def test_budgets_of_chains_share_noise_and_of_fits_and_samples_do_not(data: Path) -> None:
    """Of three budgets that are nearly the same, two of them in one unit, and of two ridges."""
    cfg = unit(toy.config("objpert", "objpert_pure", "outpert", "ops", "dp_sgld"))
    spec = cfg.experiment.toy
    spec.epsilons.rows = [1.0, 1.00001, 1.00002]
    spec.vary.objpert.ridge = [5.0, 5.00001]
    spec.settings = {"ops": {"sampler": {"warmup": 20, "block": 20, "max_draws": 20}}}
    scores = sweep(cfg, data)["scores"]
    loss = scores[scores.metric.eq("log_loss")].pivot_table("value", ["run", "variant", "seed"], "epsilon")
    widest = (loss.diff(axis=1).iloc[:, 1:].abs().min(axis=1)).groupby("run").max()
    assert widest["dp_sgld"] < 1e-3
    assert (widest.drop("dp_sgld") > 1e-2).all(), widest
    one, other = (each.to_numpy() for _, each in loss.loc["objpert"].groupby("variant"))
    assert np.allclose(one, other, rtol=1e-4)


def test_runs_that_are_paired_see_the_same_rows_and_noise(tmp_path: Path) -> None:
    """Chains that the clip, the noise and the start leave alike end alike; another stream is another draw."""
    cfg, data = toy.on_features(), toy.write(tmp_path, "features")
    spec = cfg.experiment.toy
    del spec.attack
    spec.seeds = 2
    free: dict[str, Any] = {"method": "sgd", "epsilons": None, "settings": {"precision": 0.0, "l2": 1e-3}}
    quiet = {"method": "dp_sgld_ryffel2022", "epsilons": [1.0], "settings": {"noise_std": 1e-9, "step": 0.5}}
    spec.runs = {"sgd": free, "other": {**free, "stream": "other"}, "quiet": quiet}
    found = sweep(cfg, data)
    sgd, other, same = (wide(found, name).log_loss.to_numpy() for name in spec.runs)
    assert np.allclose(sgd, same, rtol=1e-4)
    assert not np.allclose(sgd, other, rtol=1e-4)


# Networks


@pytest.mark.slow
def test_networks_have_curves_and_bins_of_confidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Side by side on two cores, which decides nothing."""
    cfg, data = toy.of_networks(), toy.write(tmp_path, "images")
    monkeypatch.setenv("DPL_WORKERS", "2")
    found = sweep(cfg, data)
    monkeypatch.setenv("DPL_WORKERS", "1")
    for name, alone in sweep(only(cfg, "printed"), data, "alone").items():
        mine = found[name][found[name].run.eq("printed")].reset_index(drop=True)
        pd.testing.assert_frame_equal(alone, mine, check_dtype=False, check_exact=True)
    table, curve, bins = found["runs"], found["curve"], found["reliability"]
    assert list(found) == [name for name in TABLES if name != "samples"]
    each = [wide(found, run).assign(run=run) for run in set(table.run)]
    scored: Any = {(row.run, row.epsilon, row.seed): row for rows in each for row in rows.itertuples()}
    assert len(scored) == 10
    formula = instantiate(cfg.experiment.toy.formula)
    one = row(found, "dp_sgd")
    event = steps_event(one.noise_multiplier, rate=1 / 6, steps=12, schedule="fixed")
    assert one.epsilon_promised == pytest.approx(formula.epsilon(event, 1e-3, "add_remove"))
    last = curve[curve.epoch.eq(2.0)]
    assert set(last.epsilon_add_remove[last.run.eq("dp_sgd")]) >= {one.epsilon_add_remove}
    assert sorted(set(curve.run)) == ["dp_sgd", "printed", "sgd"]  # votes have none
    ends = [scored[r.run, r.epsilon, r.seed].accuracy_single for r in last.itertuples()]
    assert ends == pytest.approx(last.accuracy)
    predictors = bins.groupby("run").predictor.apply(set).to_dict()
    both = {"printed": {"single", "average"}}
    assert predictors == {name: both.get(name, {"single"}) for name in set(table.run)}
    bins["off"] = (bins.accuracy - bins.confidence).abs() * bins["count"]
    for (run, epsilon, seed, predictor), rows in bins.groupby(["run", "epsilon", "seed", "predictor"]):
        count = 30 if run == "pate" else 60  # every second row is asked about
        ece = getattr(scored[run, epsilon, seed], "ece_single" if predictor == "single" else "ece")
        assert (rows["count"].sum(), rows.off.sum() / count) == (count, pytest.approx(ece, abs=1e-6))
    assert scored["printed", 1.0, 0].log_loss != scored["printed", 1.0, 0].log_loss_single
