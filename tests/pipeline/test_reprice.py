"""Stored prices of networks are those of the accountants as they are."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import reprice
import toy

from dplangevin.files import File
from dplangevin.pipeline import config, manifest, sweep
from dplangevin.pipeline.units import Store

ROOT = Path(__file__).resolve().parents[2]


def same(found: Path, wanted: Path) -> bool:
    """Prices to rounding, all else to the letter."""
    one, other = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (found, wanted))
    prices = [str(name) for name in one if str(name).startswith("epsilon_")]
    first, second = (frame[prices].replace("", "nan").to_numpy(float) for frame in (one, other))
    assert np.allclose(first, second, rtol=1e-7, atol=0, equal_nan=True)
    return one.drop(columns=prices).equals(other.drop(columns=prices))


def test_committed_prices_are_in_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    place = "ryffel2022_tab3/cifar10"
    shutil.copytree(reprice.RUNS / place, tmp_path / place)
    assert reprice.reprice(config.load(), "ryffel2022_tab3", "cifar10", tmp_path) < 1e-7
    assert all(same(tmp_path / place / path.name, path) for path in (reprice.RUNS / place).glob("*.csv"))


def test_stale_prices_are_put_right_and_other_runs_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPL_WORKERS", "1")
    cfg, data = toy.of_networks(), toy.write(tmp_path, "images")
    inputs = sweep.Inputs(File.at(data))
    monkeypatch.setattr(reprice, "inputs", lambda *_: inputs)
    sizes = {"rows": {"train": toy.N, "test": 60}, "classes": toy.K}
    monkeypatch.setattr(manifest, "read", lambda *_: sizes)
    paths = [tmp_path / f"toy/images/{table}.csv" for table in sweep.tables(cfg.experiment.toy)]
    store = Store(paths, tmp_path / "units")
    keys = sweep.sweep(cfg, "toy", "images", inputs, store)
    store.write(keys)
    whole = shutil.copytree(tmp_path / "toy", tmp_path / "whole") / "images"
    runs = pd.read_csv(paths[0], dtype=str, keep_default_na=False)
    private = runs.run.eq("dp_sgd")
    stale = runs.assign(epsilon_tight=runs.epsilon_tight.where(~private, "1.9"), steps="")
    stale.to_csv(paths[0], index=False)
    assert reprice.reprice(cfg, "toy", "images", tmp_path) > 0.05
    assert all(same(path, whole / path.name) for path in paths)
    again = Store(paths, tmp_path / "units")
    assert all(again.find(key) for key in keys)
    noise = runs.noise_multiplier.where(~private, "0.5")
    runs.assign(noise_multiplier=noise).to_csv(paths[0], index=False)
    with pytest.raises(ValueError, match="dp_sgd refused: its event costs"):
        reprice.reprice(cfg, "toy", "images", tmp_path)
    runs.assign(batch="30").to_csv(paths[0], index=False)
    with pytest.raises(ValueError, match=r"sgd has batch = 30, its plan 20.*another run"):
        reprice.reprice(cfg, "toy", "images", tmp_path)
