"""SVHN (Netzer et al. 2011): the house digit in the middle of a 32 x 32 colour image, 10 classes."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat, whosmat

from dplangevin.data import DataError, Dataset
from dplangevin.data.files import raw_file

MOST = 531_131  # at most this many images in a file: the number in extra_32x32.mat


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
        content = guarded(loadmat, path, variable_names=["X", "y"])
        pixels, labels = np.asarray(content.pop("X")), np.asarray(content.pop("y"))
        if pixels.dtype != np.uint8:
            raise DataError(f"{path}: X is {pixels if pixels.ndim == 0 else pixels.dtype}, expected uint8")
        if (wrong := labels[~np.isin(labels, np.arange(1, 11))]).size:
            raise DataError(f"{path}: y has label {wrong[0]}, expected 1 to 10")
        x[start : start + n] = pixels[..., :n].transpose(3, 2, 0, 1)
        y[start : start + n] = labels[:n, 0] % 10
        start += n
        del content, pixels  # before the next file is read
    return x, y


def images_in(path: Path) -> int:
    """Return the number of images by the file's headers; raise DataError unless X and y are as in `read`."""
    shapes = {name: tuple(shape) for name, shape, _ in guarded(whosmat, raw_file(path))}
    n = shapes.get("X", (0,))[-1]
    if (shapes.get("X"), shapes.get("y")) != ((32, 32, 3, n), (n, 1)) or n > MOST:
        raise DataError(f"{path} has {shapes}, expected X (32, 32, 3, n) and y (n, 1), n at most {MOST}")
    return int(n)


def guarded(function: Callable[..., Any], path: Path, **options: Any) -> Any:
    """Return function(path, **options) of scipy.io; its errors about damaged files become DataError."""
    try:
        with warnings.catch_warnings(action="ignore"):  # scipy warns if a variable is not an array
            return function(path, **options)
    except Exception as error:  # scipy raises many kinds of errors
        raise DataError(f"{path} is not a whole MATLAB 5 file: {error}") from error
