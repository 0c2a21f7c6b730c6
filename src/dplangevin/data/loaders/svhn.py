"""SVHN (Netzer et al. 2011): the house digit in the middle of a 32 x 32 colour image, 10 classes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from dplangevin.data import Dataset
from dplangevin.data.archives import raw_file


def load(folder: str | Path, extra: bool = True, limit: int | None = None) -> Dataset:
    """Load the MATLAB files of cropped digits: x (1, n, 3, 32, 32), y = the digit.

    With `extra`, as li2019 does, train on 604,388 images of two files, else on the 73,257 of one; 26,032 to test on.
    """
    parts = ["train", "extra"] if extra else ["train"]
    train, test = ([Path(folder) / f"{part}_32x32.mat" for part in each] for each in (parts, ["test"]))
    return Dataset.from_arrays(*read(train, limit), *read(test, limit), {"name": "svhn", "classes": 10})


def read(paths: Sequence[Path], limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Read files one after the other into one array: x (n, 3, 32, 32) uint8, y (n,) int64 in {0, ..., 9}.

    In a file, X is (32, 32, 3, n), and y is (n, 1) in {1, ..., 10}, where 10 is the digit 0.
    """
    files = [loadmat(raw_file(path), variable_names=["X", "y"]) for path in paths]
    pixels = [content["X"][..., :limit].transpose(3, 2, 0, 1) for content in files]
    x = np.empty((sum(map(len, pixels)), 3, 32, 32), np.uint8)  # C-contiguous, unlike the parts
    y = np.concatenate([content["y"][:limit, 0] % 10 for content in files])
    return np.concatenate(pixels, out=x), y.astype(np.int64)
