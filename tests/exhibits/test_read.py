"""Results from their files, with errors that name the file and the stage."""

from pathlib import Path

import pandas as pd
import pytest
from fake_results import (
    final,
    finals,
    write_runs,
    write_training,
)

from dplangevin import cache
from dplangevin.exhibits import read

TOP = Path(__file__).parents[2]


def test_runs_come_back_as_written(runs: pd.DataFrame, tmp_path: Path) -> None:
    write_runs(tmp_path, runs)
    found = read.read_runs(["wang2015/adult/nonprivate", "wang2015/adult/dp_sgld"], root=tmp_path)
    wanted = runs[runs.dataset.eq("adult") & runs.method.isin(["nonprivate", "dp_sgld"])]
    pd.testing.assert_frame_equal(found, wanted.reset_index(drop=True), check_dtype=False)
    assert found.violated.eq("").any()


def test_missing_run_names_the_file_and_its_stage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"adult/ops\.csv is missing.*dvc repro run@wang2015-adult"):
        read.read_runs(["wang2015/adult/ops"], root=tmp_path)


def test_wrong_columns_are_refused(runs: pd.DataFrame, tmp_path: Path) -> None:
    write_runs(tmp_path, runs[runs.dataset.eq("adult") & runs.method.eq("ops")])
    path = tmp_path / "wang2015/adult/ops.csv"
    pd.read_csv(path).drop(columns="violated").to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"expected .*violated"):
        read.read_runs(["wang2015/adult/ops"], root=tmp_path)


def test_write_replaces_a_folder_and_leaves_no_scraps(tmp_path: Path) -> None:
    (tmp_path / "old.png").write_bytes(b"old")
    cache.write(tmp_path, {"a.csv": b"1\n"}, only=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    with pytest.raises(TypeError):
        cache.write(tmp_path, {"a.csv": "text"})  # type: ignore[dict-item]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.csv": b"1\n"}


def test_read_training(tmp_path: Path) -> None:
    write_training(
        tmp_path, {**finals(), "tanh_whole": final("tanh_whole", [0.9], [8.0])}
    )  # "8" in its files
    frame = read.read_training("li2019_tab1", ["tanh_pate", "tanh_sgd"], root=tmp_path)
    assert frame.violated.eq("").all()
    assert frame.accountant[frame.run.eq("tanh_sgd")].eq("").all()
    assert frame.answered.notna().tolist() == frame.run.eq("tanh_pate").tolist()
    bins = read.read_training("li2019_tab1", ["tanh_sgd"], "reliability", tmp_path)
    assert bins.groupby("predictor").log_loss.unique().map(list).to_dict() == {
        "average": [0.1],
        "single": [0.2],
    }
    read.read_training("li2019_tab1", ["tanh_whole", "tanh_pate"], "reliability", tmp_path)
    path = tmp_path / "li2019_tab1/tanh_pate/curve.csv"
    pd.read_csv(path).head(0).to_csv(path, index=False)  # a method without a curve
    assert set(read.read_training("li2019_tab1", ["tanh_sgd", "tanh_pate"], "curve", tmp_path).run) == {
        "tanh_sgd"
    }
    pd.read_csv(path).drop(columns="epoch").to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"no column \['epoch'\].*dvc repro -f training@li2019_tab1"):
        read.read_training("li2019_tab1", ["tanh_pate"], "curve", tmp_path)


def test_text_stays_text_and_numbers_are_floats(results: Path) -> None:
    frame = read.read_heads(["ryffel2022_cifar10"], results / "heads")
    none = frame[frame.method.eq("none")].iloc[0]
    assert (none.calibration, none.violated) == ("", "")
    assert none.epsilon_tight == float("inf")
    assert frame.records.dtype == float
    assert frame.seed.dtype == int
    tuned = read.read_finetune(["block_none", "block_dp_sgd"], results / "finetune")
    assert list(tuned.run.unique()) == ["block_none", "block_dp_sgd"]
    assert tuned.adjacency_tight.eq("replace_one").all()


def test_missing_column_names_the_fix(results: Path, tmp_path: Path) -> None:
    frame = read.read_heads(["ryffel2022_cifar10"], results / "heads")
    frame.drop(columns="epsilon_last").to_csv(tmp_path / "old.csv", index=False)
    with pytest.raises(ValueError, match=r"no column \['epsilon_last'\].*`dvc repro -f heads@old`"):
        read.read_heads(["old"], tmp_path)
