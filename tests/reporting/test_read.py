"""Results from their files, with errors that name the file and the stage."""

from pathlib import Path

import pandas as pd
import pytest
from fake_results import INF, figure1, finals, write_runs

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


def test_networks(tmp_path: Path) -> None:
    write_runs(tmp_path, finals(), trained=True)
    names, runs = ["li2019_tab1/mnist"], ["tanh_pate", "tanh_sgd"]
    seeds = read.read_seeds(names, runs, tmp_path)
    assert seeds.run.unique().tolist() == runs
    assert len(seeds) == 3 * 5 + 3
    assert seeds.accountant_promised[seeds.run.eq("tanh_sgd")].eq("").all()
    assert seeds.epsilon[seeds.run.eq("tanh_sgd")].eq(INF).all()
    assert seeds.answered.notna().tolist() == seeds.run.eq("tanh_pate").tolist()
    bins = read.read_reliability(names, runs, tmp_path)
    assert set(bins.run) == set(runs)
    found = bins.groupby("predictor").log_loss.unique().map(list).to_dict()
    assert found == {"average": [0.1], "single": [0.2]}
    assert set(read.read_curve(names, runs, tmp_path).method) == {"pate", "sgd"}
    curve, of = read.read_curve(names, ["tanh_dp_sgd"], tmp_path), {"run": "tanh_dp_sgd", "label": "x"}
    with pytest.raises(ValueError, match=r"tanh_dp_sgd has budgets .*say in the exhibit"):
        learning_curve_summary(curve, curves=[of])
    path = tmp_path / "li2019_tab1/mnist/curve.csv"
    pd.read_csv(path).query("run != 'tanh_pate'").to_csv(path, index=False)  # a method without a curve
    assert set(read.read_curve(names, runs, tmp_path).run) == {"tanh_sgd"}
