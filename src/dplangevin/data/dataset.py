"""Prepared data: one frozen `Dataset` per data set, with the public bounds of its rows.

Rows are scaled or clipped after loading, so that one file serves every scaling. A file has the same bytes on
any machine, except of features, because a network computes them.

>>> x = np.array([[[3.0, 4.0], [0.0, 0.5]]])
>>> data = Dataset(x, np.array([[1.0, -1.0]]), x, np.array([[1.0, -1.0]]), {"row_norm_bound": 2.0})
>>> data.repeats, data.n, data.shape, data.classes
(1, 2, (2,), 2)
>>> np.linalg.norm(data.scaled("unit").x_train, axis=-1).round(3).tolist()
[[1.0, 1.0]]
>>> np.linalg.norm(data.scaled("global").x_train, axis=-1).round(3).tolist()
[[1.0, 0.25]]
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dplangevin.checks import require
from dplangevin.data.archives import DataError, opened, save_arrays, stage
from dplangevin.data.rows import clip_rows, scale_rows

Array = np.ndarray
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
FLOATS = (np.float32, np.float64)


class Arrays(NamedTuple):
    """One data set without the axis of repeats: x (n, *shape) and (m, *shape), y (n,) and (m,)."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Dataset:
    """Training and test examples of every repeat; a leading axis of length 1 means that all repeats share the array.

    - `x_train`, `x_test`: (R, n, *shape) and (R, m, *shape). Images: uint8, shape (C, H, W). Tables and features: d
      numbers, float32 (float64 after `scaled`).
    - `y_train`, `y_test`: (R, n) and (R, m). Labels -1 and +1 as floats; classes 0, ..., K - 1 in int64; for
      regression, numbers in [-1, 1].
    - `meta`: `name`; `classes`: K, for labels 0, ..., K - 1; `labels`: names of the classes; `target`: for regression,
      the public {low, high} that -1 and 1 stand for; `features`: the d names; `row_norm_bound`: the public constant
      that `scaled` uses; `public`: norms of the features of public images, which `clipped` uses; `row_bound`: the norm
      to which the rows were scaled or clipped.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrays = {name: getattr(self, name) for name in ARRAYS}
        found = ", ".join(f"{name} {each.dtype} {each.shape}" for name, each in arrays.items())

        def need(met: Any, what: str) -> None:
            if not met:
                raise DataError(f"{found}: need {what}")

        train, test = self.x_train, self.x_test
        for x, y in ((train, self.y_train), (test, self.y_test)):
            need(x.ndim >= 3 and x.shape[:2] == y.shape and x.size, "(R, n, ...) and (R, n), none of them 0")
            need(x.dtype in (np.uint8, *FLOATS), "rows of uint8 or floats")
            need(x.dtype == np.uint8 or np.isfinite(x).all(), "finite numbers")
            need(self._fits(y), "labels -1 and +1, or 0 to classes - 1 in int64, or with a target in [-1, 1]")
        need(test.shape[2:] == train.shape[2:] and test.dtype == train.dtype, "rows of one shape and type")
        need(len({len(train), len(test), 1}) <= 2, "as many repeats in both parts, or 1")

    def _fits(self, y: np.ndarray) -> bool:
        """Return whether labels are those of the classes, or of the target."""
        if y.dtype == np.int64 and self.target is None:
            return bool(0 <= y.min() <= y.max() < self.meta.get("classes", 0))
        inside = np.abs(y) <= 1 if self.target else np.isin(y, (-1.0, 1.0))
        return y.dtype in FLOATS and bool(inside.all())

    @property
    def repeats(self) -> int:
        """R, the number of repeats that have rows of their own; 1 if all share the rows."""
        return max(len(self.x_train), len(self.x_test))

    def first(self, repeats: int) -> "Dataset":
        """Return the data set with at most its first `repeats` repeats."""
        return replace(self, **{name: getattr(self, name)[:repeats] for name in ARRAYS})

    @property
    def n(self) -> int:
        return int(self.x_train.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row: (d,) for tables and features, (channels, height, width) for images."""
        return self.x_train.shape[2:]

    @property
    def classes(self) -> int:
        return int(self.meta.get("classes", 2))

    @property
    def target(self) -> tuple[float, float] | None:
        limits = self.meta.get("target")
        return None if limits is None else (limits["low"], limits["high"])

    def constant(self) -> dict[str, np.ndarray]:
        """Return the test score (R,) of the best constant prediction, by its name.

        That is the error of the median training target in the target's units, or the largest training class, at ties +1
        or the first.
        """
        if self.target is not None:
            low, high = self.target
            error = np.abs(self.y_test - np.median(self.y_train, axis=1)[:, None]).mean(axis=1, dtype=float)
            return {"constant_absolute_error": error * (high - low) / 2}
        if self.y_train.dtype == np.int64:
            answer = np.array([np.bincount(y).argmax() for y in self.y_train])
        else:
            answer = np.where((self.y_train > 0).mean(axis=1) >= 0.5, 1.0, -1.0)
        return {"majority_accuracy": (self.y_test == answer[:, None]).mean(axis=1)}

    @classmethod
    def from_arrays(
        cls, x_train: Array, y_train: Array, x_test: Array, y_test: Array, meta: dict[str, Any]
    ) -> "Dataset":
        """Return a data set that all repeats share."""
        return cls(x_train[None], y_train[None], x_test[None], y_test[None], meta)

    def arrays(self) -> Arrays:
        """Return views of the arrays without the leading axis; DataError if repeats have rows of their own."""
        if self.repeats > 1:
            raise DataError(f"{self.meta.get('name')} has {self.repeats} repeats: need rows that all share")
        return Arrays(self.x_train[0], self.y_train[0], self.x_test[0], self.y_test[0])

    def scaled(self, how: str) -> "Dataset":
        """Return a copy in float64 whose rows have a norm of at most 1, or for "raw" B = meta["row_norm_bound"].

        "unit": x / ||x||; zero rows stay as they are. "global": x / max(B, ||x||), which is x / B clipped to norm 1.
        "raw": x / max(1, ||x|| / B), which is x clipped to norm B, and meta["row_bound"] = B.

        Rows are shortened by a further factor 1 + 2^-22, for "raw" only those that are clipped. Rounding in float64 or
        float32 then never takes a row over the bound, which an assertion checks.
        """
        require(how in ("unit", "global", "raw"), f'scaling must be "unit", "global" or "raw", not {how!r}')
        public = 1.0 if how == "unit" else float(self.meta["row_norm_bound"])
        meta = self.meta
        if how == "raw" or "row_bound" in meta:
            meta = {**meta, "row_bound": public if how == "raw" else 1.0}
        return self._each(lambda x: scale_rows(x, how, public), meta)

    def clipped(self, norm: float | str | None, bound: float | None) -> "Dataset":
        """Return a copy in float32 with rows clipped to `norm` (or its name in meta["public"]), then times bound/norm.

        `clip_rows` gives the formula. meta["row_bound"] becomes the bound (None: `norm`), or inf if no norm is given.
        """
        longest = math.inf if norm is None else float(self.meta.get("public", {}).get(norm, norm))
        bound = longest if bound is None else float(bound)
        return self._each(lambda x: clip_rows(x, longest, bound), {**self.meta, "row_bound": bound})

    def with_bias(self) -> "Dataset":
        """Return a copy whose rows have one more feature, which is always 1."""
        return self._each(lambda x: np.concatenate([x, np.ones((*x.shape[:-1], 1), x.dtype)], -1), self.meta)

    def _each(self, change: Callable[[np.ndarray], np.ndarray], meta: dict[str, Any]) -> "Dataset":
        if len(self.shape) != 1 or self.x_train.dtype == np.uint8:
            rows = f"{self.x_train.dtype} {self.shape}"
            raise DataError(f"{meta.get('name')} has rows {rows}: need vectors (d,) of numbers")
        return replace(self, x_train=change(self.x_train), x_test=change(self.x_test), meta=meta)

    def limited(self, limit: int | None) -> "Dataset":
        """Return the data set with at most the first `limit` rows of each part."""
        require(limit is None or limit > 0, f"limit = {limit} must be positive")
        return replace(self, **{name: getattr(self, name)[:, :limit] for name in ARRAYS})

    def save(self, path: str | Path) -> None:
        """Write an uncompressed .npz whose bytes depend on the values only, whole or not at all.

        Arrays that all repeats share are stored without the leading axis, if labels are classes.
        """
        header = json.dumps(self.meta, sort_keys=True).encode()
        members: dict[str, np.ndarray] = {}
        for names in (ARRAYS[:2], ARRAYS[2:]):
            y = getattr(self, names[1])
            flat = y.dtype == np.int64 and len(y) == 1
            members |= {name: getattr(self, name)[0 if flat else ...] for name in names}
        save_arrays(path, members | {"meta": np.frombuffer(header, np.uint8)})

    @classmethod
    def load(cls, path: str | Path) -> "Dataset":
        """Read a file that `save` wrote; each array is in memory only once."""
        kind = "features" if Path(path).parent.name == "features" else "dataset"
        again = f"Make it again: dvc repro -f {stage(kind, Path(path).stem)}"
        with opened(path, "prepared data", again) as archive:
            meta = json.loads(archive["meta"].tobytes())
            arrays = {name: archive[name] for name in ARRAYS}
            for names in (ARRAYS[:2], ARRAYS[2:]):
                if arrays[names[1]].ndim == 1:
                    arrays |= {name: arrays[name][None] for name in names}
            return cls(**arrays, meta=meta)
