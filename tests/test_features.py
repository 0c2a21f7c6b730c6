"""FeatureSet: what it refuses, files; extraction of a tiny image set, and the stage that does it."""

import doctest
from dataclasses import replace
from pathlib import Path
from typing import Any

import features as stage
import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from dplangevin import features, noise
from dplangevin.backbones import Backbone, network
from dplangevin.backbones.pretrain import initialise
from dplangevin.data import ARRAYS, DataError, save_arrays, sha256
from dplangevin.features import Extraction, FeatureSet
from dplangevin.images import ImageSet

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")


def small() -> FeatureSet:
    rng = np.random.default_rng(1)
    x = [rng.normal(size=(rows, 7)).astype(np.float32) for rows in (12, 5)]
    y = [rng.integers(0, 4, rows) for rows in (12, 5)]
    return FeatureSet(x[0], y[0], x[1], y[1], {"name": "small", "classes": 4})


def images(shape: tuple[int, int, int] = (3, 32, 32), n: int = 11, m: int = 4) -> ImageSet:
    rng = np.random.default_rng(2)
    x = [rng.integers(0, 256, (rows, *shape), dtype=np.uint8) for rows in (n, m)]
    y = [rng.integers(0, 3, rows) for rows in (n, m)]
    return ImageSet(x[0], y[0], x[1], y[1], {"name": "tiny", "classes": 3})


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    module = network(entry("backbone", "resnet20_cifar100"))
    initialise(module, noise.generator(1, "test"))
    return module.eval()


def entry(group: str, name: str) -> Any:
    return OmegaConf.load(ROOT / "conf" / group / f"{name}.yaml")


def test_doctests() -> None:
    assert doctest.testmod(features).failed == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((12, 7, 1), np.float32)}, r"x_train has shape \(12, 7, 1\)"),
        ({"y_test": np.zeros(4, np.int64)}, r"y_test \(4,\): need \(n, p\) and \(n,\)"),
        ({"x_test": np.zeros((0, 7), np.float32), "y_test": np.zeros(0, np.int64)}, r"x_test .*\(0, 7\)"),
        ({"x_train": np.zeros((12, 7))}, "x_train is float64, y_train int64: need float32"),
        ({"y_train": np.zeros(12, np.int32)}, "y_train int32"),
        ({"x_test": np.full((5, 7), np.inf, np.float32)}, "x_test has values that are not finite"),
        ({"y_train": np.full(12, 4)}, "y_train has label 4: need 0 to 3"),
        ({"y_test": np.array([0, -1, 0, 0, 0])}, "y_test has label -1"),
        ({"x_test": np.zeros((5, 8), np.float32)}, "x_train has 7 features, x_test 8"),
        ({"meta": {}}, "classes None: need a number of at least 2"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(small(), **change)


def test_a_saved_file_gives_the_same_values(tmp_path: Path) -> None:
    data = small()
    data.save(tmp_path / "small.npz")
    loaded = FeatureSet.load(tmp_path / "small.npz")
    assert (loaded.classes, loaded.dim, loaded.meta) == (4, 7, data.meta)
    for name in ARRAYS:
        assert np.array_equal(getattr(loaded, name), getattr(data, name))
        assert getattr(loaded, name).flags.writeable
    replace(data, meta=dict(reversed(data.meta.items()))).save(tmp_path / "again.npz")
    assert sha256(tmp_path / "small.npz") == sha256(tmp_path / "again.npz")


def test_a_missing_or_damaged_file_is_named_with_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "cifar10_resnet20.npz"
    with pytest.raises(DataError, match="dvc repro -f features@cifar10-resnet20"):
        FeatureSet.load(path)
    small().save(path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r"cifar10_resnet20\.npz: .*features@cifar10-resnet20"):
        FeatureSet.load(path)


def test_extraction_is_the_plain_network_on_every_image(backbone: Backbone) -> None:
    data, public = images(), images(n=5)
    made = Extraction("none", 4, 3).build(backbone, data, public, {"name": "tiny"}, CPU)
    with torch.no_grad():
        for name in ("train", "test"):
            x, found = getattr(data, f"x_{name}"), getattr(made, f"x_{name}")
            expected = backbone.features(backbone.inputs(torch.from_numpy(x))).numpy()
            assert np.allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.max())
            assert np.array_equal(getattr(made, f"y_{name}"), getattr(data, f"y_{name}"))
        first = backbone.features(backbone.inputs(torch.from_numpy(public.x_train[:3]))).norm(dim=1)
    assert made.dim == 256
    assert made.meta["classes"] == 3
    assert made.meta["public"]["set"] == "tiny"
    assert made.meta["public"]["images"] == 3
    assert made.meta["public"]["norm_max"] == pytest.approx(float(first.max()), rel=1e-4)
    assert made.meta["public"]["norm_mean"] == pytest.approx(float(first.mean()), rel=1e-4)
    assert made.meta["preprocessing"] == {
        "from": [3, 32, 32],
        "to": [3, 32, 32],
        "resize": "none",
        "mean": [0.507, 0.487, 0.441],
        "std": [0.267, 0.256, 0.276],
    }


def test_the_same_bytes_on_any_number_of_threads_and_public_norms_from_the_public_set_only(
    backbone: Backbone,
) -> None:
    extraction, data = Extraction("none", 4, 100), images()
    made = [extraction.build(backbone, data, images(n=5), {}, CPU) for _ in range(2)]
    assert made[0].x_train.tobytes() == made[1].x_train.tobytes()
    try:
        torch.set_num_threads(2)
        assert made[0].x_train.tobytes() == extraction.features(backbone, data.x_train, CPU).tobytes()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    other = replace(data, x_train=255 - data.x_train, x_test=255 - data.x_test)
    changed = extraction.build(backbone, other, images(n=5), {}, CPU)
    assert changed.meta["public"] == made[0].meta["public"]
    assert changed.meta["public"]["images"] == 5
    assert not np.array_equal(changed.x_train, made[0].x_train)


def test_grey_images_of_another_size(backbone: Backbone) -> None:
    grey = images((1, 112, 112))
    with pytest.raises(ValueError, match="images are 112x112"):
        Extraction("none", 4, 3).features(backbone, grey.x_test, CPU)
    found = Extraction("antialias", 4, 3).features(backbone, grey.x_test, CPU)
    assert found.shape == (4, 256)
    coloured = np.repeat(grey.x_test, 3, axis=1)
    assert np.allclose(found, Extraction("antialias", 4, 3).features(backbone, coloured, CPU), atol=1e-5)
    with pytest.raises(ValueError, match="2 channels"):
        Extraction("none", 4, 3).features(backbone, coloured[:, :2], CPU)
    with pytest.raises(ValueError, match="batch = 0"):
        Extraction("none", 0, 3)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the configuration of one feature set and its images, in which the stage runs."""
    parts = {
        g: {n: entry(g, n)} for g, n in (("backbone", "resnet20_cifar100"), ("features", "cifar10_resnet20"))
    }
    OmegaConf.save(OmegaConf.create(parts), tmp_path / "params.yaml")
    for name in ("cifar10", "cifar100"):
        images().save(tmp_path / f"data/processed/{name}.npz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPL_DEVICE", "cpu")
    return tmp_path


def test_the_stage(workplace: Path, backbone: Backbone, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.main(["cifar10_resnet20"]) == 1
    assert "dvc repro -f weights@resnet20_cifar100" in capsys.readouterr().err
    weights = workplace / "data/weights/resnet20_cifar100.npz"
    save_arrays(weights, {name: value.numpy() for name, value in backbone.state_dict().items()})
    assert stage.main(["cifar10_resnet20"]) == 0
    made = FeatureSet.load(workplace / "data/features/cifar10_resnet20.npz")
    assert made.x_train.shape == (11, 256)
    assert made.meta["weights_sha256"] == sha256(weights)
    assert (made.meta["name"], made.meta["dataset"]) == ("cifar10_resnet20", "cifar10")
    assert made.meta["backbone"] == "resnet20_cifar100"
    (workplace / "data/processed/cifar10.npz").unlink()
    assert stage.main(["cifar10_resnet20"]) == 1
    assert "dvc repro -f prepare@cifar10" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((ROOT / "conf/features").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_entry_names_a_backbone_and_settings_that_are_there(path: Path) -> None:
    cfg = OmegaConf.load(path)
    found = OmegaConf.create(
        {"features": {path.stem: cfg}, "backbone": {cfg.backbone: entry("backbone", cfg.backbone)}}
    )
    chosen = found.features[path.stem]
    assert chosen.weights == found.backbone[chosen.backbone].weights
    Extraction(chosen.resize, chosen.batch, chosen.public_images)
    made_by = found.backbone[chosen.backbone].made_by
    if made_by.startswith("pretrain@"):
        assert (ROOT / f"conf/pretrain/{made_by.removeprefix('pretrain@')}.yaml").exists()
