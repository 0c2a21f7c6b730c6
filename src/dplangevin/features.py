"""Features of images: what a network that was trained on public images makes of them, with its provenance.

Nothing is read off the images that become features: the network, the normalisation of pixels and the norms of features
that bounds may be taken from (`public`) all come from the public set.

>>> features = FeatureSet(np.ones((2, 3), np.float32), np.array([0, 1]), np.ones((1, 3), np.float32), np.array([1]),
...                       {"name": "two", "classes": 2})
>>> features.classes, features.dim
(2, 3)
"""

import json
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from dplangevin.backbones import Backbone
from dplangevin.backbones.fuse import fused
from dplangevin.data import ARRAYS, DataError, row_norms, save_arrays
from dplangevin.images import ImageSet

QUANTILE = 0.99


@dataclass(frozen=True)
class FeatureSet:
    """Training and test examples of p features with labels of K classes.

    x_train: (n, p) float32, y_train: (n,) int64 in {0, ..., K - 1}; x_test, y_test: likewise, (m, p) and (m,).
    meta: `name`, `classes` (K), `dataset`, `backbone`, `weights_sha256`, `layer`, `preprocessing` and `public`: of the
    features of images of a public set their number, and mean, 99 % quantile and maximum of their Euclidean norms.
    Raises DataError for other types, for shapes that do not fit, for an empty part, for values that are not finite and
    for labels that are not classes.
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
            if x.ndim != 2 or y.shape != x.shape[:1] or not x.size:
                raise DataError(f"{x_name} has shape {x.shape}, {y_name} {y.shape}: need (n, p) and (n,)")
            if x.dtype != np.float32 or y.dtype != np.int64:
                raise DataError(f"{x_name} is {x.dtype}, {y_name} {y.dtype}: need float32 and int64")
            if not np.isfinite(x).all():
                raise DataError(f"{x_name} has values that are not finite")
            if y.min() < 0 or y.max() >= self.classes:
                wrong = y.min() if y.min() < 0 else y.max()
                raise DataError(f"{y_name} has label {wrong}: need 0 to {self.classes - 1}")
        if self.x_test.shape[1] != self.x_train.shape[1]:
            raise DataError(
                f"x_train has {self.x_train.shape[1]} features, x_test {self.x_test.shape[1]}: both need as many"
            )

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return int(self.meta["classes"])

    @property
    def dim(self) -> int:
        """p, the number of features."""
        return int(self.x_train.shape[1])

    def save(self, path: str | Path) -> None:
        """Write an uncompressed .npz whose bytes depend on the values only, whole or not at all."""
        header = json.dumps(self.meta, sort_keys=True).encode()
        members = {name: getattr(self, name) for name in ARRAYS} | {"meta": np.frombuffer(header, np.uint8)}
        save_arrays(path, members)

    @classmethod
    def load(cls, path: str | Path) -> "FeatureSet":
        """Read a file written by `save`.  Raises DataError when it is missing or damaged."""
        try:
            with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
                meta = json.loads(archive["meta"].tobytes())
                return cls(**{name: archive[name] for name in ARRAYS}, meta=meta)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, DataError) as error:
            stage = "-".join(Path(path).stem.rsplit("_", 1))  # data set and network, as DVC names a matrix
            raise DataError(
                f"cannot read features {path}: {error}. Make them again: dvc repro -f features@{stage}"
            ) from error


@dataclass(frozen=True)
class Extraction:
    """How images become features: an entry of conf/features/, but for the names in it.

    resize: of images of another size than the backbone's, see `backbones.inputs`.  batch: images at once, which changes
    nothing but speed and rounding.  public_images: of the public training set, from its start, whose features' norms
    are kept (all, if it has fewer).
    """

    resize: str
    batch: int
    public_images: int

    def __post_init__(self) -> None:
        if self.batch < 1 or self.public_images < 1:
            raise ValueError(
                f"batch = {self.batch} and public_images = {self.public_images}: both must be at least 1"
            )

    def features(
        self, backbone: Backbone, images: np.ndarray, device: torch.device, label: str = ""
    ) -> np.ndarray:
        """Features ``(n, p)`` float32 of images ``(n, C, H, W)`` uint8, in order.

        By convolutions without batch normalisation (`fused`), channels last and in full float32.  On a CPU as many
        batches are under way as torch has threads, one thread each: that waits less than threads that share a batch,
        and the bytes do not depend on their number.  ValueError for images that do not fit the backbone.
        """
        network = fused(backbone).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        found = np.empty((len(images), backbone.head.in_features), np.float32)

        @torch.inference_mode()  # of the thread that runs it
        def fill(start: int) -> int:
            pixels = torch.from_numpy(images[start : start + self.batch]).to(device)
            x = backbone.inputs(pixels, self.resize).contiguous(memory_format=torch.channels_last)
            found[start : start + len(pixels)] = network.features(x).cpu().numpy()
            return len(pixels)

        threads = torch.get_num_threads()
        workers = threads if device.type == "cpu" else 1
        exact = torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        )
        bar = tqdm(total=len(images), desc=label, unit="image", disable=None)
        try:
            torch.set_num_threads(1)
            with exact, bar, ThreadPoolExecutor(workers) as pool:
                for count in pool.map(fill, range(0, len(images), self.batch)):
                    bar.update(count)
        finally:
            torch.set_num_threads(threads)
        return found

    def build(
        self,
        backbone: Backbone,
        images: ImageSet,
        public: ImageSet,
        meta: Mapping[str, Any],
        device: torch.device,
    ) -> FeatureSet:
        """The features of both parts of `images`, with meta extended by what was done to them."""
        parts = [
            self.features(backbone, x, device, label)
            for label, x in (("training", images.x_train), ("test", images.x_test))
        ]
        inputs = backbone.inputs
        done = {
            "classes": images.classes,
            "layer": backbone.layer,
            "preprocessing": {
                "from": list(images.shape),
                "to": [3, inputs.size, inputs.size],
                "resize": self.resize,
                "mean": list(inputs.mean),
                "std": list(inputs.std),
            },
            "public": self.norms(backbone, public, device),
        }
        return FeatureSet(parts[0], images.y_train, parts[1], images.y_test, {**meta, **done})

    def norms(self, backbone: Backbone, public: ImageSet, device: torch.device) -> dict[str, Any]:
        """Mean, 99 % quantile and maximum of ``||f(x)||`` over the first training images of the public set."""
        first = public.x_train[: self.public_images]
        norms = row_norms(self.features(backbone, first, device, "public"))
        return {
            "set": public.meta.get("name"),
            "images": len(first),
            "norm_mean": float(norms.mean()),
            "norm_q99": float(np.quantile(norms, QUANTILE)),
            "norm_max": float(norms.max()),
        }
