"""Prepared data: one frozen value per data set, with rows that can be scaled to norm at most 1.

Processed files hold the features as they are after one-hot coding, z-scores and bias, in float32; the row
scaling is applied on loading, so that one file serves every scaling. Files have the same bytes on any
machine: stored numbers come from elementwise IEEE operations only and the archive carries no dates.

>>> x = np.array([[[3.0, 4.0], [0.0, 0.5]]])
>>> data = Dataset(x, np.array([[1.0, -1.0]]), x, np.array([[1.0, -1.0]]), {"row_norm_bound": 2.0})
>>> row_norms(data.scaled("unit").x_train).round(3).tolist()
[[1.0, 1.0]]
>>> row_norms(data.scaled("global").x_train).round(3).tolist()
[[1.0, 0.25]]
"""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
# Shrinks scaled rows by 2.4e-7, so that their norm stays <= 1 in float64 and after rounding to float32.
MARGIN = 1.0 + 2.0**-22


class DataError(RuntimeError):
    """Data that is missing, damaged or not in the expected format."""


@dataclass(frozen=True)
class Dataset:
    """Training and test examples of every repeat.

    x_train: (R, n, d) or (1, n, d), y_train: (R, n) or (1, n) in {-1, +1}; x_test, y_test likewise with their
    own leading axis. A leading axis of length 1 means that all repeats share the array (it broadcasts).
    meta: `name`, `features` (d names), `row_norm_bound` (the public constant of the "global" scaling).
    Raises DataError for shapes that do not fit, values that are not finite and labels other than -1 and +1.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for x_name, y_name in (ARRAYS[:2], ARRAYS[2:]):
            x, y = getattr(self, x_name), getattr(self, y_name)
            if x.ndim != 3 or x.shape[:2] != y.shape:
                raise DataError(
                    f"{x_name} has shape {x.shape}, {y_name} {y.shape}: need (R, n, d) and (R, n)"
                )
            if not np.isfinite(x).all():
                raise DataError(f"{x_name} has values that are not finite")
            if not np.isin(y, (-1.0, 1.0)).all():
                raise DataError(f"{y_name} has labels {np.unique(y)[:5]}: need -1 and +1")

    @property
    def majority_accuracy(self) -> np.ndarray:
        """Test accuracy of always answering the larger class of the training set (ties: +1), shape (R,)."""
        answer = np.where((self.y_train > 0).mean(axis=1) >= 0.5, 1.0, -1.0)
        return (self.y_test == answer[:, None]).mean(axis=1)

    def scaled(self, how: str) -> "Dataset":
        """Copy in float64 with every row of norm at most 1, or B for "raw" (which is asserted).

        how = "unit": x / ||x||, zero rows unchanged; "global": x / B clipped to norm 1, x / max(B, ||x||),
        with the public constant B = meta["row_norm_bound"]; "raw": x clipped to norm B, x / max(1, ||x|| / B),
        and meta["row_bound"] = B, from which a `Problem` learns the bound. Rows come out shorter by a factor
        1 + 2^-22 ("raw": those that are clipped), so that neither float64 nor float32 rounding takes them
        over the bound. Raises ValueError for any other `how`.
        """
        if how not in ("unit", "global", "raw"):
            raise ValueError(f'scaling must be "unit", "global" or "raw", not {how!r}')
        bound = float(self.meta["row_norm_bound"]) if how == "raw" else 1.0

        def rescale(x: np.ndarray) -> np.ndarray:
            norms = row_norms(x)
            if how == "unit":
                divisor = np.where(norms > 0, norms, 1.0)
            elif how == "global":
                divisor = np.maximum(norms, float(self.meta["row_norm_bound"]))
            else:
                divisor = np.maximum(norms / bound, 1 / MARGIN)
            out = x.astype(np.float64) / (divisor * MARGIN)[..., None]
            longest = float(row_norms(out).max(initial=0.0))
            assert longest <= bound, f"a row has norm {longest!r} after scaling {how!r}"
            return out

        meta = self.meta
        if how == "raw" or "row_bound" in meta:
            meta = {**meta, "row_bound": bound}
        return replace(self, x_train=rescale(self.x_train), x_test=rescale(self.x_test), meta=meta)

    def save(self, path: str | Path) -> None:
        """Write an uncompressed .npz whose bytes depend on the values only, whole or not at all."""
        header = json.dumps(self.meta, sort_keys=True).encode()
        members = {name: getattr(self, name) for name in ARRAYS} | {"meta": np.frombuffer(header, np.uint8)}
        save_arrays(path, members)

    @classmethod
    def load(cls, path: str | Path) -> "Dataset":
        """Read a file written by `save`. Raises DataError when it is missing or damaged."""
        key = Path(path).stem
        try:
            with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
                meta = json.loads(archive["meta"].tobytes())
                return cls(**{name: archive[name] for name in ARRAYS}, meta=meta)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(
                f"cannot read prepared data {path}: {error}. Make it again: dvc repro -f prepare@{key}"
            ) from error


def save_arrays(path: str | Path, members: Mapping[str, np.ndarray]) -> None:
    """Write an uncompressed .npz whose bytes depend on the values only, whole or not at all."""
    with atomic_path(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            with archive.open(info, "w", force_zip64=True) as handle:
                np.lib.format.write_array(handle, np.ascontiguousarray(array), allow_pickle=False)


def row_norms(x: np.ndarray) -> np.ndarray:
    """||x||_2 over the last axis in float64, (..., d) -> (...).

    Columns are added one after the other: the order, hence every bit, is the same on any machine.
    """
    total = np.zeros(x.shape[:-1])
    for j in range(x.shape[-1]):
        total += np.square(x[..., j].astype(np.float64))
    return np.sqrt(total)


def generator(seed: int, name: str) -> np.random.Generator:
    """PCG64 seeded with SeedSequence([seed, crc32(name)]): one independent stream per name."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())])))


def split(
    n: int, repeats: int, train_share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random splits into n_train = floor(train_share * n) and n - n_train rows.

    Returns row indices (repeats, n_train) and (repeats, n - n_train). Each split sorts n uniform draws, so
    the first splits do not depend on how many follow. Raises ValueError when either part would be empty.
    """
    n_train = int(train_share * n)
    if not 0 < n_train < n:
        raise ValueError(f"train_share {train_share} of {n} rows leaves an empty part")
    order = np.argsort(rng.random((repeats, n)), axis=1, kind="stable")
    return order[:, :n_train], order[:, n_train:]


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it replaces `path` on success and is removed on any error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def sha256(path: str | Path) -> str:
    """Hex SHA-256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def verify(folder: str | Path, files: Sequence[Mapping[str, Any]], key: str) -> None:
    """Check that `folder` holds every file of the data set's config with its size and sha256.

    Raises DataError naming the file, expected and found hash and size, and the command that fetches it again.
    """
    for entry in files:
        path = Path(folder) / entry["name"]
        if not path.is_file():
            found = "the file is missing"
        elif (digest := sha256(path)) != entry["sha256"]:
            found = f"found sha256 {digest} ({path.stat().st_size} bytes)"
        else:
            continue
        raise DataError(
            f"raw file {path}: expected sha256 {entry['sha256']} ({entry['size']} bytes), {found}. "
            f"Fetch it again: dvc repro -f fetch@{key}"
        )
