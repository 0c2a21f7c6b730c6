"""Prepared image data: one frozen value per data set, with pixels as the bytes of the raw files.

Nothing is read off the data: networks see pixels through the public map `scaled`, from a batch at a time.

>>> scaled(torch.tensor([0, 51, 255], dtype=torch.uint8))
tensor([-1.0000, -0.6000,  1.0000])
"""

import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dplangevin.data import ARRAYS, DataError, save_arrays


@dataclass(frozen=True)
class ImageSet:
    """Training and test images of C channels with labels of K classes.

    x_train: (n, C, H, W) uint8, y_train: (n,) int64 in {0, ..., K - 1}; x_test, y_test: likewise, (m, C, H, W).
    meta: `name`, `classes` (K). Raises DataError for other types, for shapes that do not fit, for a part without
    images and for labels that are not classes.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.meta.get("classes"), int) or self.classes < 2:
            raise DataError(f"meta has classes {self.meta.get('classes')!r}: need a number of at least 2")
        for x_name, y_name in (ARRAYS[:2], ARRAYS[2:]):
            x, y = getattr(self, x_name), getattr(self, y_name)
            if x.ndim != 4 or y.shape != x.shape[:1] or not x.size:
                raise DataError(
                    f"{x_name} has shape {x.shape}, {y_name} {y.shape}: need (n, C, H, W) and (n,)"
                )
            if x.dtype != np.uint8 or y.dtype != np.int64:
                raise DataError(f"{x_name} is {x.dtype}, {y_name} {y.dtype}: need uint8 and int64")
            if y.min() < 0 or y.max() >= self.classes:
                wrong = y.min() if y.min() < 0 else y.max()
                raise DataError(f"{y_name} has label {wrong}: need 0 to {self.classes - 1}")
        if self.x_test.shape[1:] != self.x_train.shape[1:]:
            shapes = f"x_train {self.x_train.shape[1:]}, x_test {self.x_test.shape[1:]}"
            raise DataError(f"images differ in shape: {shapes}; both parts need the same")

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return int(self.meta["classes"])

    @property
    def shape(self) -> tuple[int, int, int]:
        """One image: channels, height, width."""
        channels, height, width = self.x_train.shape[1:]
        return channels, height, width

    def save(self, path: str | Path) -> None:
        """Write an uncompressed .npz whose bytes depend on the values only, whole or not at all."""
        header = json.dumps(self.meta, sort_keys=True).encode()
        members = {name: getattr(self, name) for name in ARRAYS} | {"meta": np.frombuffer(header, np.uint8)}
        save_arrays(path, members)

    @classmethod
    def load(cls, path: str | Path) -> "ImageSet":
        """Read a file written by `save`, holding each array once. Raises DataError when it is missing or damaged."""
        try:
            with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
                meta = json.loads(archive["meta"].tobytes())
                return cls(**{name: archive[name] for name in ARRAYS}, meta=meta)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, DataError) as error:
            raise DataError(
                f"cannot read prepared images {path}: {error}. "
                f"Make them again: dvc repro -f prepare@{Path(path).stem}"
            ) from error


def scaled(x: Tensor) -> Tensor:
    """x / 127.5 - 1 in float32, elementwise: the public map of pixels 0, ..., 255 to [-1, 1].

    x: any shape, uint8, on any device; the result is new. Raises ValueError for another type.
    """
    if x.dtype != torch.uint8:
        raise ValueError(f"pixels are {x.dtype}: give them as uint8, unscaled")
    return x.to(torch.float32).div_(127.5).sub_(1.0)
