"""Training runs from their files to an exhibit and to the claims table, through the scripts of the stages."""

import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
import render
import report
from omegaconf import OmegaConf
from training_rows import INF, final, finals, write

from dplangevin.exhibits import files

CONF = Path(__file__).parents[2] / "conf"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the runs of li2019_tab1 and with parameters about them alone."""
    write(tmp_path / "results/training", finals())
    names = ("li2019_tab1", "li2019_curves", "li2019_reliability")
    exhibits = {name: OmegaConf.load(CONF / f"exhibit/{name}.yaml") for name in names}
    paper = OmegaConf.load(CONF / "claim/li2019.yaml")
    claims = {name: entry for name, entry in paper.claims.items() if "training" in entry}
    claim = {"li2019": {"paper": "li2019", "training": paper.training, "claims": claims}}
    runs = {
        "li2019_tab1": {"runs": dict.fromkeys(finals())},
        "li2019_tab1_svhn": {"runs": {"svhn_sgd": None}},
    }
    params = {"experiment": {}, "exhibit": exhibits, "claim": claim, "training": runs}
    OmegaConf.save(OmegaConf.create(params), tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, argument: str) -> int:
    monkeypatch.setattr(sys, "argv", ["script", argument])
    return int(script.main())


@pytest.mark.parametrize("name", ["li2019_tab1", "li2019_curves", "li2019_reliability"])
def test_render(name: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(render, monkeypatch, name) == 0
    made = tree / "results/exhibits" / name
    expected = {
        f"{name}.{kind}" for kind in ("png", "pdf", "csv", *(["md"] if name == "li2019_tab1" else []))
    }
    first = {path.name: path.read_bytes() for path in made.iterdir()}
    assert first.keys() == expected
    assert run(render, monkeypatch, name) == 0
    assert {path.name: path.read_bytes() for path in made.iterdir()} == first
    assert len(pd.read_csv(made / f"{name}.csv"))


def test_missing_run_names_its_stage(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "results/training/li2019_tab1/tanh_pate/final.csv").unlink()
    assert run(render, monkeypatch, "li2019_tab1") == 1
    assert run(report, monkeypatch, "claims") == 1
    message = "tanh_pate/final.csv is missing: make it with `dvc repro li2019_tab1@tanh_pate`"
    assert capsys.readouterr().err.count(message) == 2


def test_claims_without_an_experiment_that_may_be_missing(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(report, monkeypatch, "claims") == 0
    table = files.read_claims(tree / "results/claims.csv").set_index("id")
    assert table.reason["li2019_svhn_pate"].startswith("no run on SVHN")
    assert table.verdict["li2019_tab1_nonprivate"] == "reproduced"


def test_such_an_experiment_counts_when_all_of_it_is_there(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = {
        "experiment": "li2019_tab1_svhn",
        "dataset": "svhn",
        "network": "li2019_svhn",
        "block": "nonprivate",
    }
    half = {"svhn_sgd": final("svhn_sgd", [0.93], [INF], **kind)}
    write(tree / "results/training", half)
    cfg = OmegaConf.load("params.yaml")
    cfg.training.li2019_tab1_svhn.runs = {"svhn_sgd": None, "svhn_pate": None}
    OmegaConf.save(cfg, "params.yaml")
    verdicts = []
    for _ in range(2):
        assert run(report, monkeypatch, "claims") == 0
        verdicts.append(
            files.read_claims(tree / "results/claims.csv").set_index("id").verdict["li2019_svhn_nonprivate"]
        )
        if len(verdicts) == 1:
            write(tree / "results/training", {"svhn_pate": final("svhn_pate", [0.9], [4.96], **kind)})
    assert verdicts == ["not testable", "reproduced"]


def test_read_training(tmp_path: Path) -> None:
    write(tmp_path, {**finals(), "tanh_whole": final("tanh_whole", [0.9], [8.0])})  # "8" in its files
    frame = files.read_training("li2019_tab1", ["tanh_pate", "tanh_sgd"], root=tmp_path)
    assert frame.violated.eq("").all()
    assert frame.accountant[frame.run.eq("tanh_sgd")].eq("").all()
    assert frame.answered.notna().tolist() == frame.run.eq("tanh_pate").tolist()
    bins = files.read_training("li2019_tab1", ["tanh_sgd"], "reliability", tmp_path)
    assert bins.groupby("predictor").log_loss.unique().map(list).to_dict() == {
        "average": [0.1],
        "single": [0.2],
    }
    files.read_training("li2019_tab1", ["tanh_whole", "tanh_pate"], "reliability", tmp_path)
    path = tmp_path / "li2019_tab1/tanh_pate/curve.csv"
    pd.read_csv(path).head(0).to_csv(path, index=False)  # a method without a curve
    assert set(files.read_training("li2019_tab1", ["tanh_sgd", "tanh_pate"], "curve", tmp_path).run) == {
        "tanh_sgd"
    }
    pd.read_csv(path).drop(columns="epoch").to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"no column \['epoch'\].*dvc repro -f li2019_tab1@tanh_pate"):
        files.read_training("li2019_tab1", ["tanh_pate"], "curve", tmp_path)
