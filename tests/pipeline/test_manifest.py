"""Prepared data on demand, checked against manifests: missing, altered, and unavailable."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from composed import parameters
from loading import ROOT, entries, pictures
from omegaconf import DictConfig, OmegaConf
from web import closed_port

from dplangevin.backbones.resnet20 import ResNet20, drawn
from dplangevin.data import DataError, Dataset, save_arrays
from dplangevin.files import sha256
from dplangevin.pipeline import manifest

ABALONE = Path("data/processed/abalone.npz")


@pytest.fixture
def cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DictConfig:
    """All data sets and weights, in a folder with the bundle and without a network."""
    groups = entries("dataset", "weights", "backbone", "pretrain", "problem")
    made = OmegaConf.create({"seed": 1, "repeats": 2, "splits": 2, **groups})
    OmegaConf.resolve(made)
    made.dataset.synthetic.loader.update({"n_train": 30, "n_test": 40})
    for dataset in made.dataset.values():
        for file in dataset.files:
            file.urls = [f"http://127.0.0.1:{closed_port()}/{file.name}"]
        if "archive" in dataset:
            dataset.archive.urls = [f"http://127.0.0.1:{closed_port()}/{dataset.archive.name}"]
    shutil.copytree(ROOT / "data/bundled", tmp_path / "data/bundled")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATA_MIRROR", raising=False)
    assert isinstance(made, DictConfig)
    return made


def test_a_manifest_says_what_the_file_is(cfg: DictConfig) -> None:
    assert manifest.state(cfg, "dataset", "abalone")
    stated = manifest.read("dataset", "abalone")
    data = Dataset.load(ABALONE)
    assert stated["file"] == {"path": str(ABALONE), **manifest.describe(ABALONE)}
    assert stated["rows"] == {"train": data.x_train.shape[1], "test": data.x_test.shape[1]}
    assert (stated["features"], stated["classes"], stated["draws"]) == (9, 2, data.x_train.shape[0])
    assert stated["bounds"] == {"row_norm_bound": data.meta["row_norm_bound"]}
    before = Path("data/manifest/dataset/abalone.json").read_bytes()
    ABALONE.unlink()
    assert not manifest.state(cfg, "dataset", "abalone")  # of the same inputs: nothing to fetch
    assert not ABALONE.exists()
    cfg.dataset.abalone.loader.limit = 100
    assert manifest.state(cfg, "dataset", "abalone")
    assert Path("data/manifest/dataset/abalone.json").read_bytes() != before


@pytest.mark.slow
def test_data_are_made_where_they_are_missing_or_altered(cfg: DictConfig) -> None:
    with pytest.raises(
        DataError, match=r"abalone.json is missing .* python pipelines/data.py dataset abalone"
    ):
        manifest.ensure(cfg, "dataset", "abalone")
    manifest.state(cfg, "dataset", "abalone")
    whole = ABALONE.read_bytes()
    for damaged in (None, whole[:-1], whole.replace(b"abalone", b"abalonf", 1)):
        for again in (manifest.ensure, manifest.state) if damaged else (manifest.ensure,):
            ABALONE.unlink() if damaged is None else ABALONE.write_bytes(damaged)
            again(cfg, "dataset", "abalone")
            assert ABALONE.read_bytes() == whole
    shutil.rmtree("data/raw")
    shutil.rmtree("data/bundled")
    assert manifest.ensure(cfg, "dataset", "abalone") == ABALONE  # it is there: no source is asked


@pytest.mark.slow
def test_a_file_that_cannot_be_made_as_stated_is_an_error(cfg: DictConfig) -> None:
    manifest.state(cfg, "dataset", "abalone")
    path = Path("data/manifest/dataset/abalone.json")
    stated = manifest.read("dataset", "abalone")
    right, wrong = stated["file"]["sha256"], "0" * 64
    stated["file"]["sha256"] = wrong
    path.write_text(json.dumps(manifest.with_sha256(stated)))
    with pytest.raises(DataError, match=rf"{ABALONE}.*{wrong}.*data.py dataset abalone"):
        manifest.ensure(cfg, "dataset", "abalone")
    assert manifest.state(cfg, "dataset", "abalone")  # what the message asks for puts it right
    assert manifest.read("dataset", "abalone")["file"]["sha256"] == right
    assert manifest.ensure(cfg, "dataset", "abalone") == ABALONE


def tiny(cfg: DictConfig, name: str) -> None:
    """A set of 11 images of ten classes in place of a data set."""
    cfg.dataset[name] = {"files": [], "loader": {"_target_": "none.load"}, "assumptions": []}
    pictures(classes=10).save(manifest.path_of("dataset", name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "make", lambda *_: None)
        manifest.state(cfg, "dataset", name)


@pytest.mark.slow
def test_features_are_made_with_all_that_they_are_made_of(
    cfg: DictConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features of a tiny CIFAR-10 by a network with random weights."""
    for name in ("cifar10", "cifar100"):
        tiny(cfg, name)
    entry: dict[str, Any] = {"dataset": "cifar10", "backbone": "resnet20_cifar100", "public": "cifar100"}
    entry |= {"public_images": 5, "resize": "none", "batch": 4, "padding": 0, "flip": False}
    cfg.features = {"cifar10_resnet20": entry}
    file = Path("mirror/weights/resnet20_cifar100.npz")
    save_arrays(file, drawn(Path()))
    cfg.weights.resnet20_cifar100.files[0].update(manifest.describe(file))
    monkeypatch.setenv("DPL_DEVICE", "cpu")
    with pytest.raises(DataError, match="weights resnet20_cifar100"):
        manifest.state(cfg, "features", "cifar10_resnet20")
    monkeypatch.setenv("DATA_MIRROR", "mirror")
    assert manifest.state(cfg, "weights", "resnet20_cifar100")
    assert manifest.state(cfg, "features", "cifar10_resnet20")
    path = manifest.path_of("features", "cifar10_resnet20")
    found = Dataset.load(path)
    assert found.x_train.shape == (1, 11, 256)
    assert found.meta["weights_sha256"] == sha256("data/weights/resnet20_cifar100.npz")
    stated = manifest.read("features", "cifar10_resnet20")
    assert (stated["features"], stated["classes"], stated["rows"]) == (256, 10, {"train": 11, "test": 4})
    assert stated["bounds"]["public"]["images"] == 5
    # another processor: the last digits differ, of the same inputs
    path.write_bytes(path.read_bytes()[:-1])
    Path("data/weights/resnet20_cifar100.npz").unlink()
    real = ResNet20.features
    monkeypatch.setattr(ResNet20, "features", lambda self, x: real(self, x) * (1 + 1e-6))
    assert manifest.ensure(cfg, "features", "cifar10_resnet20") == path
    monkeypatch.setattr(manifest, "make", lambda *_: pytest.fail("made again"))
    assert manifest.ensure(cfg, "features", "cifar10_resnet20") == path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(pytest.fail.Exception):
        manifest.ensure(cfg, "features", "cifar10_resnet20")


def test_weights_in_git_are_used_and_not_trained_again(
    cfg: DictConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "alexnet_cifar100"
    tiny(cfg, "cifar100")
    cfg.backbone[name].update({"classes": 10, "width": 2})
    cfg.pretrain[name].training.update({"epochs": 1, "batch": 5})
    monkeypatch.setenv("DPL_DEVICE", "cpu")
    assert manifest.state(cfg, "weights", name)
    own, kept = manifest.path_of("weights", name), Path("data/bundled") / f"{name}.npz"
    stated = manifest.read("weights", name)
    assert (stated["training"]["epochs"], stated["training"]["images"]) == (1, 11)
    assert len(stated["training"]["curve"]["loss"]) == 1
    shutil.move(own, kept)
    monkeypatch.setattr("dplangevin.backbones.pretrain.pretrain", lambda *_: pytest.fail("trained again"))
    assert not manifest.state(cfg, "weights", name)  # a fresh clone
    assert manifest.ensure(cfg, "weights", name) == own
    whole = kept.read_bytes()
    assert own.read_bytes() == whole
    for damaged in (whole[:200] + bytes([whole[200] ^ 1]) + whole[201:], whole[:-5]):
        own.unlink()
        kept.write_bytes(damaged)
        with pytest.raises(DataError, match=rf"{kept}.*git restore"):
            manifest.ensure(cfg, "weights", name)
        kept.write_bytes(whole)
        manifest.ensure(cfg, "weights", name)
    Path(f"data/manifest/weights/{name}.json").unlink()  # or written by a run with other settings
    assert manifest.state(cfg, "weights", name)
    assert manifest.read("weights", name) == stated
    assert own.read_bytes() == whole
    cfg.pretrain[name].training.epochs = 2
    with pytest.raises(pytest.fail.Exception, match="trained again"):
        manifest.state(cfg, "weights", name)


def test_code_that_moves_makes_nothing_again(cfg: DictConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest with a new key states the same file."""
    manifest.state(cfg, "dataset", "abalone")
    before = manifest.read("dataset", "abalone")
    monkeypatch.setattr(manifest, "code_hash", lambda *_: "of a module that has moved")
    monkeypatch.setattr(manifest, "make", lambda *_: pytest.fail("made again"))
    assert manifest.renew(cfg, "dataset", "abalone")
    after = manifest.read("dataset", "abalone")
    assert after.pop("inputs") == manifest.inputs(cfg, "dataset", "abalone") != before.pop("inputs")
    assert after == before
    assert not manifest.state(cfg, "dataset", "abalone")
    assert not manifest.renew(cfg, "dataset", "abalone")


def test_committed_manifests_are_in_step_with_the_code_and_the_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    cfg = parameters()
    for path in sorted((ROOT / "data/manifest").glob("*/*.json")):
        stated = manifest.read(path.parent.name, path.stem)
        assert stated["inputs"] == manifest.inputs(cfg, path.parent.name, path.stem), path
