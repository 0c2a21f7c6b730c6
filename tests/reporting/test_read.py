"""Results from their files, with errors that name the file and the stage."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from composed import ROOT
from fake_results import figure1, write_runs

from dplangevin import files
from dplangevin.papers.exhibits.learning_curves import learning_curve_summary
from dplangevin.reporting import read


def test_what_is_missing_names_the_file_and_its_stage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"adult/runs\.csv is missing.*dvc repro run@wang2015-adult"):
        read.read_runs(["wang2015/adult"], root=tmp_path)
    runs = figure1()
    write_runs(tmp_path, runs)
    with pytest.raises(FileNotFoundError, match=r"runs\.csv has no run pate, dpvi: .*run@wang2015-adult"):
        read.read_runs(["wang2015/adult"], ["ops", "pate", "dpvi"], tmp_path)
    path = tmp_path / "wang2015/abalone/runs.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match="abalone has scores of runs that it lacks"):
        read.read_runs(["wang2015/abalone"], root=tmp_path)
    path = tmp_path / "wang2015/adult/scores.csv"
    pd.read_csv(path).drop(columns="seed").to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"scores.*expected .*seed.*dvc repro -f run@wang2015-adult"):
        read.read_runs(["wang2015/adult"], root=tmp_path)


def test_write_replaces_a_folder_and_leaves_no_scraps(tmp_path: Path) -> None:
    (tmp_path / "old.png").write_bytes(b"old")
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints/a.csv").touch()
    files.write(tmp_path, {"a.csv": b"1\n"}, only=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    with pytest.raises(TypeError):
        files.write(tmp_path, {"a.csv": "text"})  # type: ignore[dict-item]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.csv": b"1\n"}


def test_networks() -> None:
    """Committed ones: without privacy, of votes, which have no curve, and with both kinds of predictor."""
    runs, one = ["tanh_pate", "tanh_sgd"], ["tanh_dp_sgld"]
    given: Any = {"names": ["li2019_tab1/mnist"], "root": ROOT / "results/runs"}
    seeds = read.read_seeds(runs=runs, **given)
    assert seeds.run.unique().tolist() == runs
    assert not seeds[["run", "epsilon", "seed"]].duplicated().any()
    free = seeds[seeds.run.eq("tanh_sgd")]
    assert (set(free.variant), set(free.epsilon)) == ({""}, {math.inf})
    assert seeds.answered.notna().tolist() == seeds.run.eq("tanh_pate").tolist()
    assert set(read.read_curve(runs=runs, **given).method) == {"sgd"}
    bins, seeds = read.read_reliability(runs=one, **given), read.read_seeds(runs=one, **given)
    for predictor, losses in (("average", seeds.log_loss), ("single", seeds.log_loss_single)):
        assert set(bins.log_loss[bins.predictor.eq(predictor)]) == set(losses)
    with pytest.raises(ValueError, match=r"tanh_dp_sgld has budgets .*say in the exhibit"):
        learning_curve_summary(read.read_curve(runs=one, **given), curves=[{"run": one[0], "label": "x"}])
