"""The stages fetch@, weights@ and prepare@ as scripts, and what they leave for the summary."""

import hashlib
import importlib.util
import lzma
import os
import shutil
from pathlib import Path
from types import ModuleType

import miniature
import numpy as np
import pytest
import summary
from formats import npz
from omegaconf import OmegaConf
from web import closed_port

from dplangevin.data import Dataset

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "pipelines" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a params.yaml of all data sets and weights, where the stages run."""
    groups = {
        group: {path.stem: OmegaConf.load(path) for path in sorted((ROOT / "conf" / group).glob("*.yaml"))}
        for group in ("dataset", "weights")
    }
    cfg = OmegaConf.create({"seed": 1, "repeats": 2, **groups})
    OmegaConf.resolve(cfg)
    cfg.dataset.synthetic.loader.update({"n_train": 30, "n_test": 40})
    for dataset in cfg.dataset.values():
        for file in dataset.files:
            file.urls = [f"http://127.0.0.1:{closed_port()}/{file.name}"]
            if "archive" in file:
                file.archive.urls = [f"http://127.0.0.1:{closed_port()}/{file.archive.name}"]
    OmegaConf.save(cfg, tmp_path / "params.yaml")
    shutil.copytree(ROOT / "data" / "bundled", tmp_path / "data" / "bundled")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATA_MIRROR", raising=False)
    return tmp_path


def test_stages_fetch_and_prepare_from_the_bundle(project: Path) -> None:
    for key, features in (("abalone", 9), ("synthetic", 10)):
        assert script("fetch").main([key]) == 0
        assert script("prepare").main([key]) == 0
        assert Dataset.load(project / "data" / "processed" / f"{key}.npz").x_train.shape[2] == features
    assert os.listdir(project / "data" / "raw" / "synthetic") == []
    assert not (project / "data" / "raw" / ".unavailable").exists()


def test_fetch_stage_says_what_is_unavailable_and_forgets_it_on_success(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "data" / "bundled" / "abalone.data.xz").rename(project / "aside.xz")
    marker = project / "data" / "raw" / ".unavailable" / "abalone.txt"
    assert script("fetch").main(["abalone"]) == 69
    message = capsys.readouterr().err
    assert "DATA_MIRROR" in message
    assert marker.read_text().strip() in message
    (project / "mirror" / "abalone").mkdir(parents=True)
    content = lzma.decompress((project / "aside.xz").read_bytes())
    (project / "mirror" / "abalone" / "abalone.data").write_bytes(content)
    monkeypatch.setenv("DATA_MIRROR", f"http://127.0.0.1:{closed_port()} {project / 'mirror'}")
    assert script("fetch").main(["abalone"]) == 0
    assert not marker.exists()


@pytest.mark.parametrize("damage", ["removed", "truncated", "changed"])
def test_prepare_stage_refuses_damaged_raw_files_and_keeps_the_earlier_result(
    project: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    assert script("fetch").main(["abalone"]) == 0
    assert script("prepare").main(["abalone"]) == 0
    processed = project / "data" / "processed" / "abalone.npz"
    before = processed.read_bytes()
    path = project / "data" / "raw" / "abalone" / "abalone.data"
    content = path.read_bytes()
    path.unlink()
    if damage != "removed":
        path.write_bytes(content[:1000] if damage == "truncated" else content.replace(b"M", b"F", 1))
    assert script("prepare").main(["abalone"]) == 1
    message = capsys.readouterr().err
    assert "data/raw/abalone/abalone.data" in message
    assert hashlib.sha256(content).hexdigest() in message
    assert "dvc repro -f fetch@abalone" in message
    assert processed.read_bytes() == before
    assert os.listdir(processed.parent) == ["abalone.npz"]
    assert script("fetch").main(["abalone"]) == 0
    assert path.read_bytes() == content


def test_a_file_removed_after_the_check_is_a_clear_error(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = script("prepare")
    assert script("fetch").main(["abalone"]) == 0
    monkeypatch.setattr(stage, "verify", lambda raw, files, key: (raw / "abalone.data").unlink())
    assert stage.main(["abalone"]) == 1
    assert "abalone.data is missing" in capsys.readouterr().err


def test_an_unknown_data_set_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("fetch", "prepare"):
        with pytest.raises(SystemExit) as caught:
            script(name).main(["adlut"])
        assert caught.value.code == 2
        assert "adlut" in capsys.readouterr().err


def test_weights_are_fetched_from_the_folder_weights_of_a_mirror(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = project / "data" / "raw" / ".unavailable" / "weights_resnet20_cifar100.txt"
    argv = ["--weights", "resnet20_cifar100"]
    assert script("fetch").main(argv) == 69
    message = capsys.readouterr().err
    for part in (
        "weights/resnet20_cifar100.npz (several",
        "dvc repro weights@resnet20_cifar100",
        "no source",
    ):
        assert part in message
    assert marker.read_text().strip() in message
    (project / "mirror" / "weights").mkdir(parents=True)
    arrays = npz(miniature.resnet20())
    (project / "mirror" / "weights" / "resnet20_cifar100.npz").write_bytes(arrays)
    monkeypatch.setenv("DATA_MIRROR", f"nowhere {project / 'mirror'}")
    assert script("fetch").main(argv) == 69  # these are not the published ones
    cfg = OmegaConf.load("params.yaml")
    cfg.weights.resnet20_cifar100.files[0].sha256 = hashlib.sha256(arrays).hexdigest()
    OmegaConf.save(cfg, "params.yaml")
    assert script("fetch").main(argv) == 0
    assert not marker.exists()
    assert os.listdir("data/weights") == ["resnet20_cifar100.npz"]
    assert np.load("data/weights/resnet20_cifar100.npz")["linear.weight"].shape == (100, 256)


def test_the_stage_wants_a_data_set_or_weights_and_not_both(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in ([], ["adult", "--weights", "resnet20_cifar100"], ["--weights", "resnet21"]):
        with pytest.raises(SystemExit) as caught:
            script("fetch").main(argv)
        assert caught.value.code == 2
    assert "resnet20_cifar100" in capsys.readouterr().err


def test_the_summary_of_a_run_reads_what_both_stages_leave(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in (["cifar10"], ["--weights", "resnet20_cifar100"]):
        assert script("fetch").main(argv) == 69
    capsys.readouterr()
    assert "cifar-10-python.tar.gz, which holds" in summary.unavailable("fetch@cifar10")
    assert "resnet20_cifar100.npz is not available" in summary.unavailable("weights@resnet20_cifar100")
    assert summary.unavailable("fetch@cifar100") == summary.unavailable("weights@cifar10") == ""
    assert summary.marker("prepare@cifar10") is None
