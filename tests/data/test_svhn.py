"""SVHN: small MATLAB files in the official layout, and what the fetch stage does without them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from loading import arrays, load
from scipy.io import savemat


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


def test_extra_and_limit(copied: Callable[[str], Path]) -> None:
    folder = copied("svhn")
    whole, without = arrays("svhn", folder), arrays("svhn", folder, loader={"extra": False})
    assert len(whole.x_train) == 800
    assert np.array_equal(without.x_train, whole.x_train[:600])
    first = arrays("svhn", folder, limit=18)
    rows = [*range(18), *range(600, 618)]
    assert np.array_equal(first.x_train, whole.x_train[rows])
    assert np.array_equal(first.y_train, whole.y_train[rows])
    assert np.array_equal(first.x_test, whole.x_test[:18])
    (folder / "extra_32x32.mat").unlink()
    load("svhn", folder, loader={"extra": False})
