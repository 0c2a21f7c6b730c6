"""MNIST: small files in the official format, and the real ones where DATA_MIRROR has them."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from loading import arrays, load, real

from dplangevin.files import sha256

# Processed bytes of the real files.
PROCESSED = "0de39fcbe616856fd0ad8da142cde07c7f31a890de2bb02f1347bf99e975ce15"


def idx(magic: int, lengths: list[int], values: list[int] | bytes) -> bytes:
    """The format as its authors describe it: big-endian magic number and lengths, one byte a value."""
    return struct.pack(f">{1 + len(lengths)}i", magic, *lengths) + bytes(values)


def test_images_and_labels_of_small_files(tmp_path: Path) -> None:
    pixels = np.arange(2 * 28 * 28).astype(np.uint8).tobytes()
    for part, labels in (("train", [7, 0]), ("t10k", [9, 1])):
        content = gzip.compress(idx(2051, [2, 28, 28], pixels))
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(content)
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(2049, [2], labels)))
    assert load("mnist", tmp_path).meta == {"name": "mnist", "classes": 10}
    data = arrays("mnist", tmp_path)
    assert data.y_train.tolist() == [7, 0]
    assert data.y_test.tolist() == [9, 1]
    row, column = 3, 5
    assert data.x_train[1, 0, row, column] == (28 * 28 + 28 * row + column) % 256
    assert np.array_equal(data.x_train, data.x_test)
    assert data.x_train.flags.writeable


@pytest.mark.slow
def test_full_mnist(tmp_path: Path) -> None:
    """The real files, if a folder of DATA_MIRROR has them: sizes, classes, processed bytes."""
    real("mnist", tmp_path / "mnist")
    dataset = load("mnist", tmp_path / "mnist")
    data = dataset.arrays()
    assert data.x_train.shape == (60000, 1, 28, 28)
    assert data.x_test.shape == (10000, 1, 28, 28)
    classes = [np.bincount(y).tolist() for y in (data.y_train, data.y_test)]
    assert classes[0] == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert classes[1] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    # The mean and standard deviation that torchvision's examples use.
    assert data.x_train.mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert data.x_train.std() / 255 == pytest.approx(0.3081, abs=5e-5)
    dataset.save(tmp_path / "mnist.npz")
    assert sha256(tmp_path / "mnist.npz") == PROCESSED
