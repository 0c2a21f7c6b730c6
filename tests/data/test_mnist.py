"""MNIST: small files in the official format, and the real ones where DATA_MIRROR has them."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from loading import arrays, load, real

from dplangevin.data import DataError, miniature
from dplangevin.files import sha256

TRAIN = "train-images-idx3-ubyte.gz"
LABELS = "train-labels-idx1-ubyte.gz"
TEST_LABELS = "t10k-labels-idx1-ubyte.gz"
# Processed bytes of the real files.
PROCESSED = "0de39fcbe616856fd0ad8da142cde07c7f31a890de2bb02f1347bf99e975ce15"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of 30 images to train on and 20 to test on."""
    for name, content in miniature.mnist({"train": slice(0, 30), "test": slice(30, 50)}).items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


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


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (TRAIN, lambda b: b"\0\0\x08\x01" + b[4:], r"magic number 0x0801, expected 0x0803"),
        (LABELS, lambda b: b"\0\0\x0d\x01" + b[4:], r"magic number 0x0d01, expected 0x0801"),
        (TRAIN, lambda b: b[:-1], r"23519 bytes of data, the header says 23520 \[30, 28, 28\]"),
        (TRAIN, lambda b: b + b"\0", r"23521 bytes of data, the header says 23520"),
        (TRAIN, lambda b: idx(2051, [40, 21, 28], b[16:]), r"images of 21 x 28 pixels, expected 28 x 28"),
        (TRAIN, lambda b: b[:15], r"15 bytes, expected a header of 16"),
        (LABELS, lambda b: b"", r"0 bytes, expected a header of 8"),
        (LABELS, lambda b: idx(2049, [29], b[8:-1]), r"29 labels for the 30 images of train-images"),
        (TEST_LABELS, lambda b: b[:11] + b"\x0a" + b[12:], r"label 3 \(from 0\) is 10, expected 0 to 9"),
    ],
)
def test_a_file_of_another_format_is_named(
    folder: Path, name: str, change: Callable[[bytes], bytes], message: str
) -> None:
    path = folder / name
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))
    with pytest.raises(DataError, match=rf"{name}: {message}"):
        load("mnist", folder)


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
