"""The scripts of the stages, from results of every kind to exhibits, claims and metrics."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import render
import report
from drawing import CONF, exhibit, outside
from fake_results import write_runs
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from dplangevin.pipeline import manifest
from dplangevin.pipeline.config import load
from dplangevin.reporting import read

TOP = CONF.parent
Run = Callable[[ModuleType, str], tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit status and errors of a script with one argument."""

    def called(script: ModuleType, argument: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["script", argument])
        return int(script.main()), capsys.readouterr().err

    return called


def write_content(folder: Path, **groups: Any) -> None:
    """conf/<group>/<name>.yaml, which stages read from files."""
    for group, entries in groups.items():
        (folder / "conf" / group).mkdir(parents=True, exist_ok=True)
        for name, entry in entries.items():
            OmegaConf.save(OmegaConf.create(entry), folder / "conf" / group / f"{name}.yaml")


def claims_in(folder: Path) -> pd.DataFrame:
    return read.read_claims(folder / "claims.csv").set_index("id")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.timeout(30)  # all scripts in a row
def test_from_runs_to_exhibit_claims_and_metrics(runs: pd.DataFrame, tree: Path, run: Run) -> None:
    claim = OmegaConf.load(CONF / "claim/wang2015.yaml")
    claim.analyses = []
    claim.runs = {"wang2015": None}
    claim.claims = {
        key: claim.claims[key] for key in ("features_abalone", "features_adult", "hybrid_beats_dp_sgnht")
    }
    experiments = {
        str(name): {"datasets": sorted(set(rows.dataset))} for name, rows in runs.groupby("experiment")
    }
    pipeline = {"papers": ["wang2015"], "exhibits": {"wang2015_fig1c": "results/runs/wang2015/adult"}}
    shared = {"seed": 1, "repeats": 2, "scale": "laptop", "delta": 1e-5, "dataset": {}}
    cfg = {**shared, "experiment": experiments, "pipeline": pipeline}
    OmegaConf.save(OmegaConf.create(cfg), "params.yaml")
    texts = {path.stem: OmegaConf.load(path) for path in (CONF / "report").glob("*.yaml")}
    shown = {"wang2015_fig1c": exhibit("wang2015_fig1c")}
    write_content(tree, exhibit=shown, claim={"wang2015": claim}, report=texts)
    command = [sys.executable, str(TOP / "pipelines/render.py"), "wang2015_fig1c"]
    env = {"PYTHONPATH": str(TOP / "src"), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    missing = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "dvc repro run@wang2015-adult" in missing.stderr
    assert "Traceback" not in missing.stderr
    write_runs(tree / "results/runs", runs)

    assert run(render, "wang2015_fig1c") == (0, "")
    stems = ["wang2015_fig1c.csv"]
    stems += [f"wang2015_fig1c{twin}.{kind}" for twin in ("", "_proven") for kind in ("png", "pdf")]
    assert sorted(path.name for path in (tree / "results/exhibits/wang2015_fig1c").iterdir()) == sorted(stems)

    status, error = run(report, "claims")
    assert status == 1
    assert "dvc repro prepare@abalone" in error
    stated = {"file": {"sha256": "", "size": 1}, "inputs": "", "features": 2}
    stated |= {"rows": {"train": 20, "test": 20}}
    (tree / "data/manifest/dataset").mkdir(parents=True)
    for name in ("abalone", "adult"):
        (tree / f"data/manifest/dataset/{name}.json").write_text(json.dumps(manifest.with_sha256(stated)))
    (tree / "data/manifest/code.json").write_text("{}")
    for what in ("claims", "page"):
        assert run(report, what) == (0, "")
    counted = claims_in(tree / "results").loc["wang2015_features_adult"]
    assert (counted.verdict, counted.ours) == ("open", 2)
    assert "### wang2015_features_adult\n" in (tree / "results/report/wang2015.md").read_text()
    assert (
        "](../exhibits/wang2015_fig1c/wang2015_fig1c.png)"
        in (tree / "results/report/exhibits.md").read_text()
    )


def test_an_analysis_that_was_not_made_is_named_with_its_stage(tree: Path) -> None:
    with pytest.raises(FileNotFoundError, match="dvc repro analysis@temperature"):
        render.read({"source": "results/analyses/temperature.csv"}, OmegaConf.create())


MADE = sorted(path.name for path in (TOP / "results/exhibits").iterdir())
SLOW = [
    name for name in MADE if "part" not in exhibit(name) and exhibit(name).source.startswith("results/runs")
]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MADE]
)
def test_an_exhibit_is_what_the_committed_results_give(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers and page by bytes. No title, caption or legend of a figure is cut off."""
    figures: list[Figure] = []

    def image_bytes(figure: Figure, _: str) -> bytes:
        figures.append(figure)
        return b""

    monkeypatch.chdir(TOP)
    monkeypatch.setattr(render, "EXHIBITS", tmp_path)
    monkeypatch.setattr(render, "image_bytes", image_bytes)
    inspect.unwrap(render.main)(load(), name)
    committed = [
        path for path in (TOP / "results/exhibits" / name).iterdir() if path.suffix in (".csv", ".md")
    ]
    for path in committed:
        assert (tmp_path / name / path.name).read_bytes() == path.read_bytes()
    for figure in figures[::2]:
        figure.draw_without_rendering()
        assert outside(figure) == []
