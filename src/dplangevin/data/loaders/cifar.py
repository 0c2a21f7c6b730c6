"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): colour images of 32 x 32 pixels, 10 or 100 classes of objects.

The files are dictionaries that Python 2 pickled. A pickle can call any function of the machine that reads it. So this
module allows only the three names that an array needs, and an array can contain only bytes.
"""

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dplangevin.data import DataError, Dataset
from dplangevin.data.archives import raw_file

FILES = {  # name -> names of the classes, beginning of the keys of labels, batches to train and to test on
    "cifar10": ("batches.meta", "", [f"data_batch_{k}" for k in range(1, 6)], ["test_batch"]),
    "cifar100": ("meta", "fine_", ["train"], ["test"]),
}


def load(folder: str | Path, name: str, limit: int | None = None) -> Dataset:
    """Load 50,000 and 10,000 images x (1, n, 3, 32, 32), y in {0, ..., 9}, or the fine label of 100.

    meta has the names of the classes as `labels`.  `limit` keeps the first images of each part.
    """
    meta, fine, *parts = FILES[name]
    labels = [each.decode() for each in unpickled(Path(folder) / meta)[f"{fine}label_names".encode()]]
    train, test = (read([Path(folder) / each for each in files], f"{fine}labels", limit) for files in parts)
    return Dataset.from_arrays(*train, *test, {"name": name, "classes": len(labels), "labels": labels})


def read(paths: Sequence[Path], labels: str, limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Read batches one after the other: x (n, 3, 32, 32) uint8, y (n,) int64.

    In a file, `data` is (n, 3072) uint8: the red, green and blue planes, row by row. `labels` is the key of its labels.
    """
    batches = [unpickled(path) for path in paths]
    x = np.concatenate([batch[b"data"] for batch in batches])[:limit].reshape(-1, 3, 32, 32)
    return x, np.concatenate([batch[labels.encode()] for batch in batches]).astype(np.int64)[:limit]


def unpickled(path: Path) -> dict[bytes, Any]:
    """Return the dictionary in a file, with keys and texts as bytes; raise DataError if it names anything else."""
    with open(raw_file(path), "rb") as handle:
        try:
            return dict(_Unpickler(handle, encoding="bytes").load())
        except pickle.UnpicklingError as error:
            raise DataError(f"{path} is not a batch of CIFAR: {error}") from error


def _dtype(code: bytes | str, *_: object) -> np.dtype:
    """Return uint8, the only type of pixels; raise UnpicklingError for another type."""
    if code not in (b"u1", "u1"):
        raise pickle.UnpicklingError(f"an array of {code!r}, expected bytes (u1)")
    return np.dtype(np.uint8)


_RECONSTRUCT = np.empty(0).__reduce__()[0]
ALLOWED: Mapping[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
}


class _Unpickler(pickle.Unpickler):
    """An unpickler that accepts only the names that rebuild an array, as NumPy 1 and 2 spell them."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no batch needs: refused")
        return ALLOWED[module, name]
