"""The ImageSet value: what it refuses, the public map of pixels, files with the same bytes everywhere."""

import doctest
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dplangevin import images
from dplangevin.data import ARRAYS, DataError, sha256
from dplangevin.images import ImageSet, scaled

ROOT = Path(__file__).parents[1]


def small(n: int = 12, m: int = 5, shape: tuple[int, int, int] = (3, 6, 4)) -> ImageSet:
    rng = np.random.default_rng(1)
    x = [rng.integers(0, 256, (rows, *shape), dtype=np.uint8) for rows in (n, m)]
    y = [rng.integers(0, 10, rows) for rows in (n, m)]
    return ImageSet(x[0], y[0], x[1], y[1], {"name": "small", "classes": 10})


def test_doctests() -> None:
    assert doctest.testmod(images).failed == 0


def test_shape_and_classes() -> None:
    data = small()
    assert data.shape == (3, 6, 4)
    assert data.classes == 10


def test_scaled_is_the_public_map_of_every_pixel() -> None:
    pixels = torch.arange(256, dtype=torch.uint8).reshape(4, 1, 8, 8)
    kept = pixels.clone()
    found = scaled(pixels)
    assert found.dtype == torch.float32
    assert found.shape == pixels.shape
    expected = np.arange(256, dtype=np.float32) / np.float32(127.5) - np.float32(1)
    assert np.array_equal(found.flatten().numpy(), expected)
    assert float(found.min()) == -1.0
    assert float(found.max()) == 1.0
    assert torch.equal(pixels, kept)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_scaled_takes_bytes_only(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=f"{dtype}: give them as uint8"):
        scaled(torch.zeros(2, dtype=dtype))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((12, 24), np.uint8)}, r"x_train has shape \(12, 24\)"),
        ({"y_test": np.zeros(4, np.int64)}, r"x_test has shape \(5, 3, 6, 4\), y_test \(4,\)"),
        ({"y_test": np.zeros((5, 1), np.int64)}, r"y_test \(5, 1\): need \(n, C, H, W\) and \(n,\)"),
        ({"x_test": np.zeros((0, 3, 6, 4), np.uint8), "y_test": np.zeros(0, np.int64)}, r"\(0, 3, 6, 4\)"),
        ({"x_train": np.zeros((12, 3, 6, 4), np.float32)}, "x_train is float32, y_train int64"),
        ({"y_train": np.zeros(12, np.int32)}, "y_train int32: need uint8 and int64"),
        ({"y_train": np.full(12, 10)}, "y_train has label 10: need 0 to 9"),
        ({"y_test": np.array([0, 9, -1, 0, 0])}, "y_test has label -1: need 0 to 9"),
        ({"x_test": np.zeros((5, 3, 6, 5), np.uint8)}, r"x_train \(3, 6, 4\), x_test \(3, 6, 5\)"),
        ({"meta": {"name": "small"}}, "classes None: need a number of at least 2"),
        ({"meta": {"name": "small", "classes": 1}}, "classes 1"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(small(), **change)


def test_a_saved_file_gives_the_same_values(tmp_path: Path) -> None:
    data = small()
    data.save(tmp_path / "small.npz")
    loaded = ImageSet.load(tmp_path / "small.npz")
    for name in ARRAYS:
        assert np.array_equal(getattr(loaded, name), getattr(data, name))
        assert getattr(loaded, name).dtype == getattr(data, name).dtype
        assert getattr(loaded, name).flags.writeable  # torch.from_numpy warns of others
    assert loaded.meta == data.meta
    assert os.listdir(tmp_path) == ["small.npz"]


def test_bytes_depend_on_the_values_only(tmp_path: Path) -> None:
    data = small()
    data.save(tmp_path / "here.npz")
    turned = data.x_train.transpose(1, 2, 3, 0).copy().transpose(3, 0, 1, 2)
    assert not turned.flags.c_contiguous
    replace(data, x_train=turned, meta=dict(reversed(data.meta.items()))).save(tmp_path / "turned.npz")
    script = "import sys; from test_images import small; small().save(sys.argv[1])"
    env = {**os.environ, "TZ": "Pacific/Chatham", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    subprocess.run([sys.executable, "-c", script, tmp_path / "there.npz"], check=True, env=env)
    assert len({sha256(path) for path in tmp_path.iterdir()}) == 1


def test_loading_holds_the_images_once(tmp_path: Path) -> None:
    data = small(n=20000, m=100, shape=(1, 28, 28))
    data.save(tmp_path / "large.npz")
    tracemalloc.start()
    loaded = ImageSet.load(tmp_path / "large.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = sum(getattr(loaded, name).nbytes for name in ARRAYS)
    assert size < peak < 1.1 * size


@pytest.mark.parametrize("kept", [0, 30, 0.5, 0.999])
def test_a_damaged_file_is_named_with_the_fix(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "mnist.npz"
    small().save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if kept < 1 else int(kept)])
    with pytest.raises(DataError, match=r"(?s)mnist\.npz: .*dvc repro -f prepare@mnist"):
        ImageSet.load(path)


def test_a_missing_file_or_one_of_another_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"svhn\.npz.*prepare@svhn"):
        ImageSet.load(tmp_path / "svhn.npz")
    np.savez(tmp_path / "svhn.npz", x_train=np.zeros(3))
    with pytest.raises(DataError, match=r"svhn\.npz: .*meta.*prepare@svhn"):
        ImageSet.load(tmp_path / "svhn.npz")
