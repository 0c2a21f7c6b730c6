"""SVHN: small MATLAB files in the official layout, and what the fetch stage does without them."""

from pathlib import Path

import numpy as np
import pytest
from loading import arrays, load
from scipy.io import savemat

from dplangevin.data import miniature


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of 30, 15 (extra) and 20 (test) images."""
    (tmp_path / "svhn").mkdir()
    parts = {"train": slice(0, 30), "test": slice(30, 50), "extra": slice(50, 65)}
    for name, content in miniature.svhn(parts).items():
        (tmp_path / "svhn" / name).write_bytes(content)
    return tmp_path / "svhn"


def random_file(path: Path, n: int, compressed: bool) -> tuple[np.ndarray, np.ndarray]:
    """X (32, 32, 3, n) and y (n, 1) as they are in the file, after writing it."""
    rng = np.random.default_rng(n)
    x = rng.integers(0, 256, (32, 32, 3, n), dtype=np.uint8)
    y = rng.integers(1, 11, (n, 1), dtype=np.uint8)
    savemat(path, {"X": x, "y": y}, do_compression=compressed)
    return x, y


@pytest.mark.parametrize("compressed", [False, True])
def test_images_and_labels_of_small_files(tmp_path: Path, compressed: bool) -> None:
    (a, p), (b, q), (c, r) = (
        random_file(tmp_path / name, n, compressed)
        for name, n in (("train_32x32.mat", 7), ("extra_32x32.mat", 11), ("test_32x32.mat", 5))
    )
    assert load("svhn", tmp_path).meta == {"name": "svhn", "classes": 10}
    data = arrays("svhn", tmp_path)
    assert data.x_train.shape == (18, 3, 32, 32)
    for row, column, colour in ((0, 0, 0), (3, 8, 2), (31, 30, 1)):
        assert np.array_equal(data.x_train[:7, colour, row, column], a[row, column, colour])
        assert np.array_equal(data.x_train[7:, colour, row, column], b[row, column, colour])
        assert np.array_equal(data.x_test[:, colour, row, column], c[row, column, colour])
    labels = [0 if label == 10 else label for label in np.concatenate([p, q])[:, 0].tolist()]
    assert data.y_train.tolist() == labels
    assert 0 in labels
    assert data.y_test.tolist() == [label % 10 for label in r[:, 0].tolist()]
    assert data.x_train.flags.c_contiguous


def test_extra_and_limit(folder: Path) -> None:
    whole, without = arrays("svhn", folder), arrays("svhn", folder, loader={"extra": False})
    assert whole.x_train.shape[0] == 45
    assert np.array_equal(without.x_train, whole.x_train[:30])
    assert np.array_equal(without.y_train, whole.y_train[:30])
    first = arrays("svhn", folder, limit=18)
    assert np.array_equal(first.x_train, whole.x_train[[*range(18), *range(30, 45)]])
    assert np.array_equal(first.y_train, whole.y_train[[*range(18), *range(30, 45)]])
    assert np.array_equal(first.x_test, whole.x_test[:18])
    (folder / "extra_32x32.mat").unlink()
    load("svhn", folder, loader={"extra": False})
