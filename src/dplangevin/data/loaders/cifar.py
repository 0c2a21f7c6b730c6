"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): colour images of 32 x 32 pixels, 10 or 100 classes of objects.

The files are those of the "python version": dictionaries that Python 2 pickled in 2009. A pickle can call any
function of the machine that reads it. So this module allows only the three names that an array needs, and an
array can contain only bytes. A few bytes of a pickle can also ask for any amount of memory. So the steps of a
pickle are checked first.
"""

import pickle
import pickletools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dplangevin.data import DataError, Dataset
from dplangevin.data.files import raw_file


def cifar10(folder: str | Path, limit: int | None = None) -> Dataset:
    """Load five training batches and one test batch, 50,000 and 10,000 images x (1, n, 3, 32, 32), y in {0, ..., 9}.

    meta has the names of the classes as `labels`.  `limit` keeps the first images of each part.
    """
    folder = Path(folder)
    labels = names(folder / "batches.meta", "label_names", 10)
    train = read([folder / f"data_batch_{k}" for k in range(1, 6)], "labels", 10, limit)
    test = read([folder / "test_batch"], "labels", 10, limit)
    return Dataset.from_arrays(*train, *test, {"name": "cifar10", "classes": 10, "labels": labels})


def cifar100(folder: str | Path, limit: int | None = None) -> Dataset:
    """Load the files train and test, 50,000 and 10,000 images x (1, n, 3, 32, 32), y = the fine label of 100."""
    folder = Path(folder)
    labels = names(folder / "meta", "fine_label_names", 100)
    train = read([folder / "train"], "fine_labels", 100, limit)
    test = read([folder / "test"], "fine_labels", 100, limit)
    return Dataset.from_arrays(*train, *test, {"name": "cifar100", "classes": 100, "labels": labels})


def read(
    paths: Sequence[Path], labels: str, classes: int, limit: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Read batches one after the other: x (n, 3, 32, 32) uint8, y (n,) int64 in {0, ..., classes - 1}.

    In a file, `data` is (n, 3072) uint8: the red, green and blue planes, row by row. `labels` is the key of its
    labels. Later files are not read once there are `limit` images.
    """
    images, targets = [np.empty((0, 3072), np.uint8)], [np.empty(0, np.int64)]
    for path in paths:
        if limit is not None and sum(map(len, targets)) >= limit:
            break
        content = unpickled(path)
        pixels, own_labels = content.get(b"data"), content.get(labels.encode())
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != 3072:
            raise DataError(f"{path}: data is {_shape(pixels)}, expected bytes of shape (n, 3072)")
        if not isinstance(own_labels, list) or len(own_labels) != len(pixels):
            raise DataError(
                f"{path}: {labels} is {_shape(own_labels)}, expected a list of {len(pixels)} labels"
            )
        for row, label in enumerate(own_labels):
            if type(label) is not int or not 0 <= label < classes:
                raise DataError(f"{path}: label {row} (from 0) is {label!r}, expected 0 to {classes - 1}")
        images.append(pixels)
        targets.append(np.array(own_labels, np.int64))
    x, y = np.concatenate(images)[:limit], np.concatenate(targets)[:limit]
    return x.reshape(-1, 3, 32, 32), y


def names(path: Path, key: str, classes: int) -> list[str]:
    """Return the names of the classes, in the order of the labels, from the file that describes the others."""
    names = unpickled(path).get(key.encode())
    if (
        not isinstance(names, list)
        or len(names) != classes
        or not all(isinstance(name, bytes) for name in names)
    ):
        raise DataError(f"{path}: {key} is {_shape(names)}, expected a list of {classes} names")
    return [name.decode("ascii", "replace") for name in names]


def unpickled(path: Path) -> dict[bytes, Any]:
    """Return the dictionary in a file, with keys and texts as bytes; raise DataError for other content."""
    file = raw_file(path)
    try:
        with open(file, "rb") as handle:
            for count, (step, value, _) in enumerate(pickletools.genops(handle)):
                if step.name in NEW_ARRAYS or (step.name in TO_MEMO and int(value or 0) > count):
                    raise pickle.UnpicklingError(f"step {count}, {step.name}, asks for memory: refused")
            handle.seek(0)
            content = _Unpickler(handle, encoding="bytes").load()
    except Exception as error:  # pickle raises many kinds of errors
        raise DataError(f"{path} is not a batch of CIFAR: {type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds a {type(content).__name__}, expected a dictionary")
    return content


def _dtype(code: bytes | str, *_: object) -> np.dtype:
    """Return uint8, the only type of pixels; raise UnpicklingError for another type."""
    if code not in (b"u1", "u1"):
        raise pickle.UnpicklingError(f"an array of {code!r}, expected bytes (u1)")
    return np.dtype(np.uint8)


# These steps allocate as much memory as they name. NEW_ARRAYS allocate a new array, which no batch needs.
# TO_MEMO allocate all places of the memo up to a number. Every step fills at most one place.
NEW_ARRAYS, TO_MEMO = ("BYTEARRAY8", "NEXT_BUFFER"), ("PUT", "BINPUT", "LONG_BINPUT")
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


def _shape(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"a list of {len(value)}" if isinstance(value, list) else type(value).__name__
