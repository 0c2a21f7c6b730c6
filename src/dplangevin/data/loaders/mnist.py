"""MNIST (LeCun and Cortes 2010): handwritten digits, grey images of 28 x 28 pixels, 10 classes."""

import gzip
import struct
from pathlib import Path

import numpy as np

from dplangevin.data import Dataset
from dplangevin.data.archives import raw_file


def load(folder: str | Path, limit: int | None = None) -> Dataset:
    """Load the four idx files, 60,000 and 10,000 images x (1, n, 1, 28, 28), y = the digit."""

    def arrays(part: str) -> tuple[np.ndarray, np.ndarray]:
        x = read_idx(Path(folder) / f"{part}-images-idx3-ubyte.gz", axes=3)
        y = read_idx(Path(folder) / f"{part}-labels-idx1-ubyte.gz", axes=1)
        return x[:limit, None].copy(), y[:limit].astype(np.int64)

    return Dataset.from_arrays(*arrays("train"), *arrays("t10k"), {"name": "mnist", "classes": 10})


def read_idx(path: Path, axes: int) -> np.ndarray:
    """Read a compressed idx file of bytes: magic number 0x0800 + axes, length of each axis (4 bytes each), data."""
    content = gzip.decompress(raw_file(path).read_bytes())
    _, *shape = struct.unpack_from(f">{axes + 1}I", content)
    return np.frombuffer(content, np.uint8, offset=4 * (axes + 1)).reshape(shape)
