"""The stage, and the committed runs."""

import sys
from pathlib import Path

import finetune
import pandas as pd
import pytest
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from dplangevin import manifest
from dplangevin.cache import File

CONF = Path(__file__).resolve().parents[2] / "conf"
RUNS = ("block_none", "block_dp_sgd", "head_none", "head_dp_sgd")


def stage(monkeypatch: pytest.MonkeyPatch, run: str) -> int:
    monkeypatch.setattr(sys, "argv", ["finetune.py", run])
    return finetune.main()


def test_stage(
    cfg: DictConfig, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(data.parent)
    OmegaConf.save(cfg, "params.yaml")
    paths = {"dataset": data, "weights": Path("weights.npz")}
    monkeypatch.setattr(manifest, "file", lambda _, kind, __: File(kind, lambda: paths[kind]))
    assert stage(monkeypatch, "head_dp_sgd") == 0
    found = pd.read_csv("results/finetune/head_dp_sgd.csv")
    assert list(found.seed) == [0, 1]
    assert not list(Path("data/units/finetune/head_dp_sgd").iterdir())
    assert len(list(Path("data/units/finetune").glob("trunk-*.npy"))) == 1
    with pytest.raises(SystemExit, match="2"):
        stage(monkeypatch, "head")
    assert "no run 'head': conf/finetune has block_none, block_dp_sgd" in capsys.readouterr().err
    Path("weights.npz").unlink()
    assert stage(monkeypatch, "head_none") == 1
    assert "Make them again: dvc repro -f weights@small" in capsys.readouterr().err


@pytest.fixture(scope="module")
def committed() -> DictConfig:
    runs = {name: OmegaConf.load(CONF / f"finetune/{name}.yaml") for name in RUNS}
    rdp = OmegaConf.load(CONF / "accountant/rdp.yaml")
    cfg = OmegaConf.create({"delta": 1e-5, "accountant": {"rdp": rdp}, "finetune": runs})
    OmegaConf.resolve(cfg)
    return cfg.finetune


def test_committed_runs_differ_in_what_they_say(committed: DictConfig) -> None:
    """Part and learner; all else is the same, so that the comparison means something."""
    learners = {name: instantiate(committed[name].learner) for name in RUNS}
    assert sorted(path.stem for path in (CONF / "finetune").glob("*.yaml")) == sorted(RUNS)
    for name, learner in learners.items():
        entry, part = committed[name], instantiate(committed[name].trained)
        assert name == f"{part.name}_{entry.method}"
        assert learner.minibatches == learners["block_none"].minibatches
        assert learner.step == learners["block_none"].step
        assert entry.epsilon == (1.0 if entry.method == "dp_sgd" else None)
        assert entry.delta == 1e-5
        assert any("frozen" in line for line in entry.assumptions)
    assert learners["head_dp_sgd"] == learners["block_dp_sgd"]
