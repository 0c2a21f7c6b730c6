"""From the config of an entry to its rows."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import swept
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from dplangevin.attacks.softmax import pairs
from dplangevin.data import Dataset
from dplangevin.heads import COLUMNS, Audits, Setting, sweep
from dplangevin.heads.sweep import runs_of
from dplangevin.plan import plain

CONF = Path("conf")
N, P, K = 120, 5, 3


def configured() -> DictConfig:
    """conf/head and conf/heads as they are composed."""
    cfg = OmegaConf.create({"seed": 5, "delta": 1e-3, "audit_runs": {"row_single": 400, "row_chain": 100}})
    for group in ("head", "heads"):
        cfg[group] = {path.stem: OmegaConf.load(path) for path in (CONF / group).glob("*.yaml")}
    return cfg


@pytest.fixture
def cfg() -> DictConfig:
    cfg = configured()
    runs = cfg.heads.ryffel2022_cifar10.runs
    names = [f"{name}_constant_{how}" for name in ("dp_langevin", "dp_sgd") for how in ("published", "tight")]
    chosen = {name: runs[name] for name in ("none_constant", *names, "dp_langevin_decreasing_formula")}
    curve = cfg.heads.ryffel2022_curve.runs
    chosen |= {name: {**curve[name], "epsilons": [1.0, 8.0]} for name in ("objpert", "ops")}
    spec = {
        **cfg.heads.ryffel2022_cifar10,
        "seeds": 3,
        "runs": chosen,
        "settings": {},
        "row_norm": "norm_q99",
    }
    for name, entry in chosen.items():
        if name not in ("objpert", "ops"):
            settings = {**entry["settings"], "batch": 16, "epochs": 2}
            chosen[name] = {**entry, "settings": settings}
    chosen["ops"]["settings"] = {"precision": 20.0, "warmup": 20, "draws": 20}
    cfg.heads.tried = OmegaConf.create(spec)
    return cfg


@pytest.fixture
def data(rng: np.random.Generator, tmp_path: Path) -> Path:
    y = rng.integers(0, K, N + 60)
    x = (rng.normal(size=(N + 60, P)) + 3 * np.eye(K, P)[y]).astype(np.float32)
    public = {"set": "others", "images": 9, "norm_mean": 3.0, "norm_q99": 4.0, "norm_max": 5.0}
    meta = {"name": "small", "classes": K, "public": public}
    Dataset.from_arrays(x[:N], y[:N], x[N:], y[N:], meta).save(tmp_path / "small.npz")
    return tmp_path / "small.npz"


def test_rows_of_every_run(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    found = swept.heads(cfg, "tried", data, tmp_path / "units")
    assert list(found.columns) == COLUMNS
    runs = cfg.heads.tried.runs
    counts = {name: len(run.epsilons or [None]) * run.get("seeds", 3) for name, run in runs.items()}
    assert found.groupby("run", sort=False).size().to_dict() == counts
    assert set(found.method) == {"none", "dp_langevin", "dp_sgd", "objpert", "ops"}
    assert found.accuracy.between(0, 1).all()
    assert (found[found.run == "none_constant"].accuracy > 0.8).all()
    assert found.epsilon_paper.notna().equals(found.block.eq("published") & found.method.ne("none"))
    assert found.epsilon.isna().equals(found.block.eq("published"))
    asked = found[found.epsilon.notna() & found.calibration.ne("formula")]
    np.testing.assert_allclose(asked.epsilon_tight, asked.epsilon, rtol=1e-3)
    assert (found.epsilon_audit.dropna() <= found.epsilon_tight[found.epsilon_audit.notna()]).all()
    attacked = found.method.isin(["dp_langevin", "dp_sgd"])
    assert found.audit_pair[attacked].isin([pair.name for pair in pairs(15 / math.sqrt(2))]).all()
    assert found.epsilon_audit.notna().equals(attacked)
    only = found[found.run == "dp_langevin_constant_published"].iloc[0]
    assert (only["clip"], only["noise_std"], only["steps"]) == (pytest.approx(15), 0.0022, 15)
    assert only.epsilon_last <= only.epsilon_tight
    assert "norm_q99 = 4 of the features of 9 public images (others)" in only.assumptions
    assert found[found.run == "dp_sgd_constant_tight"].log_loss.nunique() == 3


def test_finished_units_are_kept(
    cfg: DictConfig, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = cfg.heads.tried.runs
    cfg.heads.tried.runs = {name: runs[name] for name in ("none_constant", "dp_sgd_constant_tight")}
    units = tmp_path / "units"
    first = swept.heads(cfg, "tried", data, units)
    assert len(list(units.glob("*.csv"))) == 5  # a price of each, one stream, two units

    def not_again(*args: Any) -> pd.DataFrame:
        raise AssertionError("a finished piece was computed again")

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "price", not_again)
        patch.setattr(sweep, "train", not_again)
        pd.testing.assert_frame_equal(swept.heads(cfg, "tried", data, units), first)
        cfg.heads.tried.seeds = 2
        with pytest.raises(AssertionError, match="computed again"):
            swept.heads(cfg, "tried", data, units)


def test_more_runs_change_nothing_of_the_others(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    runs = cfg.heads.tried.runs
    names = ["none_constant", "dp_langevin_constant_published", "dp_langevin_constant_tight"]
    both = []
    for chosen in (names[:2], names):
        cfg.heads.tried.runs = {name: runs[name] for name in chosen}
        found = swept.heads(cfg, "tried", data, tmp_path / str(len(chosen)))
        both.append(found[found.run.isin(names[:2])].reset_index(drop=True))
    pd.testing.assert_frame_equal(both[0], both[1])


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "heads").glob("*.yaml")))
def test_committed_entries(name: str) -> None:
    """Every run is one of a method, and is what its name says."""
    cfg = configured()
    spec = plain(cfg.heads, name)
    setting = Setting(50_000, 256, 10, 10.0, 36.0, 1e-5, Audits(10, 10))
    for run in runs_of(cfg, spec):
        head = run.head
        words = (
            [head.name, head.schedule, head.calibration] if run.entry["block"] != "figure" else [head.name]
        )
        assert run.name == "_".join(word for word in words if word)
        assert head.stream(setting)
        asked = run.entry["block"] != "published" and head.name != "none"
        assert asked == (run.epsilon > 0)
        assert run.entry["head"] == head.name
    assert instantiate(spec["audits"] | {"_target_": "dplangevin.heads.Audits"}).single == 400
