"""Raw files and prepared files: where a missing one comes from, and arrays whose bytes depend on values only."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dplangevin.files import atomic_path


class DataError(RuntimeError):
    """Data that is missing, damaged or not in the expected format."""


def raw_file(path: str | Path) -> Path:
    """Return `path`, which is a file in data/raw/<key>/."""
    path = Path(path)
    if not path.is_file():
        raise DataError(
            f"raw file {path} is missing. Fetch it again: dvc repro -f prepare@{path.parent.name}"
        )
    return path


def stage(kind: str, name: str) -> str:
    """Return the DVC stage that makes a prepared file, for a key of `pipeline.manifest.PLACES` and its name."""
    if kind == "features":  # data set and network, as DVC names a matrix
        name = "-".join(name.rsplit("_", 1))
    return f"{'prepare' if kind == 'dataset' else kind}@{name}"


def save_arrays(path: str | Path, members: Mapping[str, np.ndarray]) -> None:
    """Write an uncompressed .npz whose bytes depend on the values only, whole or not at all."""
    with atomic_path(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            with archive.open(info, "w", force_zip64=True) as handle:
                np.lib.format.write_array(handle, np.asarray(array, order="C"), allow_pickle=False)


@contextmanager
def opened(path: str | Path, what: str, fix: str) -> Iterator[Any]:
    """Open an .npz; whatever fails while it is read is a DataError of one line."""
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
            yield archive
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, DataError) as error:
        raise DataError(f"cannot read {what} {path}: {error}. {fix}") from error
