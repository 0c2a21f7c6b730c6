"""SVHN (Netzer et al. 2011): the house digit in the middle of a 32 x 32 colour image, 10 classes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.io import loadmat, whosmat

from dplangevin.data import Dataset
from dplangevin.data.files import raw_file


def load(folder: str | Path, extra: bool = True, limit: int | None = None) -> Dataset:
    """Load the MATLAB files of cropped digits: x (1, n, 3, 32, 32), y = the digit.

    With `extra`, as li2019 does, train on 604,388 images of two files, else on the 73,257 of one; 26,032 images to
    test on. At most the result and the largest file are in memory.
    """
    train = ("train_32x32.mat", "extra_32x32.mat") if extra else ("train_32x32.mat",)
    x_train, y_train = read([Path(folder) / name for name in train], limit)
    x_test, y_test = read([Path(folder) / "test_32x32.mat"], limit)
    return Dataset.from_arrays(x_train, y_train, x_test, y_test, {"name": "svhn", "classes": 10})


def read(paths: Sequence[Path], limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Read files one after the other into one array: x (n, 3, 32, 32) uint8, y (n,) int64 in {0, ..., 9}.

    In a file, X is (32, 32, 3, n), and y is (n, 1) in {1, ..., 10}, where 10 is the digit 0.
    """
    counts = [min(n, n if limit is None else limit) for n in map(images_in, paths)]
    x, y = np.empty((sum(counts), 3, 32, 32), np.uint8), np.empty(sum(counts), np.int64)
    start = 0
    for path, n in zip(paths, counts, strict=True):
        content = loadmat(path, variable_names=["X", "y"])
        x[start : start + n] = content["X"][..., :n].transpose(3, 2, 0, 1)
        y[start : start + n] = content["y"][:n, 0] % 10
        start += n
        del content  # before the next file is read
    return x, y


def images_in(path: Path) -> int:
    """Return the number of images by the file's headers."""
    shapes = {name: shape for name, shape, _ in whosmat(raw_file(path))}
    return int(shapes["X"][-1])
