"""Runs on features and of fine-tuning, from their files through the scripts of the stages."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import head_rows
import pandas as pd
import pytest
import render
import report
from omegaconf import OmegaConf

from dplangevin.config import load
from dplangevin.exhibits import files, head_files

CONF = Path(__file__).parents[2] / "conf"
IDS = ("ryffel2022_tab1", "ryffel2022_tab2", "ryffel2022_tab3", "ryffel2022_tab4", "ryffel2022_curve")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """results/heads and results/finetune with made-up rows."""
    folder = tmp_path_factory.mktemp("tree") / "results"
    both = pd.concat([head_rows.heads(), head_rows.pneumonia()])
    public = both[both.calibration.isin(["", "tight"])].assign(
        experiment=lambda rows: rows.experiment + "_public", block="public"
    )
    frame = pd.concat([both, public, head_rows.curve()], ignore_index=True)
    head_rows.write(folder / "heads", frame, list(frame.experiment.unique()))
    tuned = head_rows.finetune()
    head_rows.write(folder / "finetune", tuned, list(tuned.run.unique()))
    return folder


@pytest.fixture
def tree(results: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with these results and with parameters about them alone."""
    exhibits = {name: OmegaConf.load(CONF / f"exhibit/{name}.yaml") for name in IDS}
    paper: Any = OmegaConf.to_container(OmegaConf.load(CONF / "claim/ryffel2022.yaml"))
    kept = {name: entry for name, entry in paper["claims"].items() if "analysis" not in entry}
    claim = {**{key: paper[key] for key in ("paper", "heads", "finetune")}, "claims": kept}
    dataset = {"pneumonia": {"source": "all X-rays, 112 x 112"}}
    params = {"experiment": {}, "exhibit": exhibits, "claim": {"ryffel2022": claim}, "dataset": dataset}
    OmegaConf.save(OmegaConf.create(params), results.parent / "params.yaml")
    monkeypatch.chdir(results.parent)
    return results


def run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, argument: str) -> int:
    monkeypatch.setattr(sys, "argv", ["script", argument])
    return int(script.main())


@pytest.mark.parametrize("name", ["ryffel2022_tab1", "ryffel2022_tab3"])
def test_render(name: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(render, monkeypatch, name) == 0
    made = tree / "exhibits" / name
    assert {path.name for path in made.iterdir()} == {
        f"{name}.{kind}" for kind in ("png", "pdf", "csv", "md")
    }
    assert len(pd.read_csv(made / f"{name}.csv"))
    assert ("all X-rays, 112 x 112" in (made / f"{name}.md").read_text()) == (name == "ryffel2022_tab1")


@pytest.mark.parametrize("name", IDS)
def test_every_exhibit_reads_its_rows(name: str, tree: Path) -> None:
    cfg = load()
    frame, numbers = render.read(cfg.exhibit[name], cfg)
    assert len(frame)
    assert len(numbers)


def test_claims(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(report, monkeypatch, "claims") == 0
    table = files.read_claims(tree / "claims.csv").set_index("id")
    assert table.verdict["ryffel2022_budget_dp_langevin_cifar10_constant"] == "contradicted"
    assert not table.reason.str.contains("was read").any()


@pytest.mark.parametrize(
    ("file", "exhibit", "stage"),
    [
        ("heads/ryffel2022_pneumonia.csv", "ryffel2022_tab1", "heads@ryffel2022_pneumonia"),
        ("finetune/block_none.csv", "ryffel2022_tab3", "finetune@block_none"),
    ],
)
def test_missing_file_names_its_stage(
    file: str,
    exhibit: str,
    stage: str,
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    content = (tree / file).read_bytes()
    (tree / file).unlink()
    try:
        assert run(render, monkeypatch, exhibit) == 1
        assert run(report, monkeypatch, "claims") == 1
    finally:
        (tree / file).write_bytes(content)
    assert capsys.readouterr().err.count(f"{file} is missing: make it with `dvc repro {stage}`") == 2


def test_text_stays_text_and_numbers_are_floats(results: Path) -> None:
    frame = head_files.read_heads(["ryffel2022_cifar10"], results / "heads")
    none = frame[frame.method.eq("none")].iloc[0]
    assert (none.calibration, none.violated) == ("", "")
    assert none.epsilon_tight == float("inf")
    assert frame.records.dtype == float
    assert frame.seed.dtype == int
    tuned = head_files.read_finetune(["block_none", "block_dp_sgd"], results / "finetune")
    assert list(tuned.run.unique()) == ["block_none", "block_dp_sgd"]
    assert tuned.adjacency_tight.eq("replace_one").all()


def test_missing_column_names_the_fix(results: Path, tmp_path: Path) -> None:
    frame = head_files.read_heads(["ryffel2022_cifar10"], results / "heads")
    frame.drop(columns="epsilon_last").to_csv(tmp_path / "old.csv", index=False)
    with pytest.raises(ValueError, match=r"no column \['epsilon_last'\].*`dvc repro -f heads@old`"):
        head_files.read_heads(["old"], tmp_path)
