"""CIFAR-10 and CIFAR-100: small files in the official format, hostile and damaged ones, and the real ones.

The real files are read where DATA_MIRROR has them.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loading import arrays, load, real

from dplangevin.data import DataError
from dplangevin.data.loaders import cifar
from dplangevin.files import sha256

EVIL = "evil.txt"
# Processed bytes of the real files.
PROCESSED = {
    "cifar10": "b142e2e0b2b8f773086914fc41d6b3b88266cf2b2da9ddc0042dcdabeb4631a1",
    "cifar100": "2cbd327f99bfa02873ba2c1170f77247c634702ba9fd94a7539ddda3df8ed447",
}


@pytest.fixture
def ten(copied: Callable[[str], Path]) -> Path:
    """The small CIFAR-10, to damage."""
    return copied("cifar10")


def content(path: Path) -> dict[str, Any]:
    """What Python's own reader finds in a small file."""
    return {key.decode(): value for key, value in pickle.loads(path.read_bytes()).items()}


def test_images_and_labels_in_the_order_of_the_files(mirror: Path) -> None:
    data = arrays("cifar10", mirror / "cifar10")
    files = [content(mirror / "cifar10" / f"data_batch_{k}") for k in range(1, 6)]
    pixels = np.concatenate([file["data"] for file in files])
    assert data.x_train.shape == (300, 3, 32, 32)
    assert data.x_test.shape == (100, 3, 32, 32)
    assert data.y_train.tolist() == [label for file in files for label in file["labels"]]
    for row, plane, i, j in ((0, 0, 3, 5), (61, 1, 0, 31), (299, 2, 31, 0)):
        assert data.x_train[row, plane, i, j] == pixels[row, 1024 * plane + 32 * i + j]
    meta = load("cifar10", mirror / "cifar10").meta
    assert meta["name"] == "cifar10"
    assert meta["classes"] == len(meta["labels"]) == 10
    assert meta["labels"][3] == "digit 3"


@pytest.mark.parametrize("limit", [1, 60, 61, 150, 1000])
def test_limit_keeps_the_first_images(mirror: Path, limit: int) -> None:
    for key in ("cifar10", "cifar100", "mnist"):
        whole, first = arrays(key, mirror / key), arrays(key, mirror / key, limit=limit)
        assert np.array_equal(first.x_train, whole.x_train[:limit])
        assert np.array_equal(first.y_test, whole.y_test[:limit])


def test_files_beyond_the_limit_are_not_read(ten: Path) -> None:
    (ten / "data_batch_3").write_bytes(b"damaged")
    assert load("cifar10", ten, limit=120).n == 120
    with pytest.raises(DataError, match="data_batch_3"):
        load("cifar10", ten, limit=121)


def reduced(module: str, name: str) -> bytes:
    """A pickle that calls module.name("evil.txt", "w") while it is read."""
    return f"\x80\x02c{module}\n{name}\n".encode("latin1") + b"U\x08evil.txtU\x01w\x86R."


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "open"),
        ("os", "system"),
        ("numpy", "ndarray.tofile"),
        ("numpy.core.multiarray", "fromfile"),
        ("dplangevin.data.loaders.cifar", "pickle.os.system"),
    ],
)
def test_a_pickle_that_names_anything_else_is_refused_before_it_runs(
    ten: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (ten / "data_batch_1").write_bytes(reduced(module, name))
    with pytest.raises(DataError, match=rf"data_batch_1 is not a batch .* {module}\.{name}.*refused"):
        load("cifar10", ten)
    assert not (tmp_path / EVIL).exists()


@pytest.mark.parametrize("code", ["O8", "f8", "V1"])
def test_arrays_of_objects_and_of_other_numbers_are_refused(ten: Path, code: str) -> None:
    path = ten / "data_batch_1"
    path.write_bytes(path.read_bytes().replace(b"u1", code.encode()))
    with pytest.raises(DataError, match=f"an array of {code!r}, expected bytes"):
        load("cifar10", ten)


def test_what_python_2_pickled_is_read(tmp_path: Path) -> None:
    """As the official files are: texts without an encoding, arrays of NumPy 1."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02M\x00\x0c\x86"
    )
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    pixels = np.arange(6144).astype(np.uint8)
    (tmp_path / "batch").write_bytes(
        b"\x80\x02}(U\x06labels](K\x07K\x00eU\x04data%s%s\x89T\x00\x18\x00\x00%stbu."
        % (array, kind, pixels.tobytes())
    )
    x, y = cifar.read([tmp_path / "batch"], "labels", None)
    assert np.array_equal(x.reshape(-1), pixels)
    assert y.tolist() == [7, 0]


@pytest.mark.parametrize(
    ("key", "mean", "std"),
    [  # of the training pixels, as published with many models
        ("cifar10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
        ("cifar100", (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    ],
)
def test_the_real_files(tmp_path: Path, key: str, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """If a folder of DATA_MIRROR has them: classes, moments, processed bytes."""
    real(key, tmp_path / key)
    dataset = load(key, tmp_path / key)
    data = dataset.arrays()
    assert data.x_train.shape == (50000, 3, 32, 32)
    assert data.x_test.shape == (10000, 3, 32, 32)
    for y, n in ((data.y_train, 50000), (data.y_test, 10000)):
        assert np.bincount(y).tolist() == [n // dataset.classes] * dataset.classes
    assert (
        dataset.meta["labels"][:2]
        == {"cifar10": ["airplane", "automobile"], "cifar100": ["apple", "aquarium_fish"]}[key]
    )
    for c in range(3):
        assert data.x_train[:, c].mean() / 255 == pytest.approx(mean[c], abs=1e-4)
        assert data.x_train[:, c].std() / 255 == pytest.approx(std[c], abs=1e-4)
    dataset.save(tmp_path / f"{key}.npz")
    assert sha256(tmp_path / f"{key}.npz") == PROCESSED[key]
