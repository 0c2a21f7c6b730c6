"""MNIST (LeCun and Cortes 2010): handwritten digits, grey images of 28 x 28 pixels, 10 classes."""

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np

from dplangevin.data import DataError, Dataset
from dplangevin.data.files import raw_file

MOST = 60_000 * 28 * 28  # at most this many bytes of data in a file


def load(folder: str | Path, limit: int | None = None) -> Dataset:
    """Load the four idx files, 60,000 and 10,000 images x (1, n, 1, 28, 28), y = the digit."""

    def arrays(part: str) -> tuple[np.ndarray, np.ndarray]:
        x_path = Path(folder) / f"{part}-images-idx3-ubyte.gz"
        y_path = Path(folder) / f"{part}-labels-idx1-ubyte.gz"
        x, y = read_idx(x_path, axes=3), read_idx(y_path, axes=1)
        if x.shape[1:] != (28, 28):
            raise DataError(f"{x_path}: images of {x.shape[1]} x {x.shape[2]} pixels, expected 28 x 28")
        if len(x) != len(y):
            raise DataError(f"{y_path}: {len(y)} labels for the {len(x)} images of {x_path.name}")
        if y.max(initial=0) > 9:
            row = int(np.argmax(y > 9))
            raise DataError(f"{y_path}: label {row} (from 0) is {y[row]}, expected 0 to 9")
        return x[:limit, None].copy(), y[:limit].astype(np.int64)

    return Dataset.from_arrays(*arrays("train"), *arrays("t10k"), {"name": "mnist", "classes": 10})


def read_idx(path: Path, axes: int) -> np.ndarray:
    """Read a compressed idx file of bytes: magic number 0x0800 + axes, length of each axis (4 bytes each), data."""
    start = 4 * (axes + 1)
    try:
        with gzip.open(raw_file(path)) as file:
            header = file.read(start)
            if len(header) < start:
                raise DataError(f"{path}: {len(header)} bytes, expected a header of {start}")
            magic, *shape = struct.unpack(f">{axes + 1}I", header)
            if magic != 0x0800 + axes:
                raise DataError(f"{path}: magic number {magic:#06x}, expected {0x0800 + axes:#06x}")
            if prod(shape) > MOST:
                raise DataError(
                    f"{path}: the header says {prod(shape)} bytes {shape}, expected at most {MOST}"
                )
            content = file.read(prod(shape) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from error
    if len(content) != prod(shape):
        raise DataError(f"{path}: {len(content)} bytes of data, the header says {prod(shape)} {shape}")
    return np.frombuffer(content, np.uint8).reshape(shape)
