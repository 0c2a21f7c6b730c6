"""The script of the exhibits, on fake results and on the committed ones."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import render
from drawing import CONF, exhibit, outside
from fake_results import figure1, write_runs
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from dplangevin.pipeline.config import load

TOP = CONF.parent


def test_a_script_names_the_stage_that_is_missing_and_writes_the_files_of_an_exhibit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = figure1()
    experiments = {name: {"datasets": sorted({*rows.dataset})} for name, rows in runs.groupby("experiment")}
    pipeline = {"exhibits": {"wang2015_fig1c": "results/runs/wang2015/adult"}}
    OmegaConf.save(OmegaConf.create({"experiment": experiments, "pipeline": pipeline}), "params.yaml")
    Path("conf/exhibit").mkdir(parents=True)
    for name in ("wang2015_fig1a", "wang2015_fig1c"):  # the latter has the marks of the former
        OmegaConf.save(exhibit(name), f"conf/exhibit/{name}.yaml")
    command = [sys.executable, str(TOP / "pipelines/render.py"), "wang2015_fig1c"]
    env = {"PYTHONPATH": str(TOP / "src"), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    missing = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "dvc repro run@wang2015-adult" in missing.stderr
    assert "Traceback" not in missing.stderr
    write_runs(Path("results/runs"), runs)
    monkeypatch.setattr(sys, "argv", ["script", "wang2015_fig1c"])
    assert render.main() == 0
    stems = ["wang2015_fig1c.csv"]
    stems += [f"wang2015_fig1c{twin}.{kind}" for twin in ("", "_proven") for kind in ("png", "pdf")]
    assert sorted(path.name for path in Path("results/exhibits/wang2015_fig1c").iterdir()) == sorted(stems)


def test_an_analysis_that_was_not_made_is_named_with_its_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
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
