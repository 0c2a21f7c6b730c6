"""What images become on their way through the layers of a public network that stay as they are."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from dplangevin.backbones.resnet20 import ResNet20
from dplangevin.data import DataError, atomic_path
from dplangevin.images import ImageSet

BATCH = 250


class Inputs(NamedTuple):
    """Training and test examples of what is trained.  x: (n, C, H, W) float32.  y: (n,) labels 0, ..., K - 1."""

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor


def limited(images: ImageSet, limit: int | None) -> ImageSet:
    """The first `limit` images of each part; None: all."""
    if limit is None:
        return images
    if limit < 1:
        raise ValueError(f"limit = {limit} must be at least 1, or null for all images")
    part = slice(limit)
    train, test = (images.x_train[part], images.y_train[part]), (images.x_test[part], images.y_test[part])
    return ImageSet(*train, *test, images.meta)


def activations(backbone: ResNet20, images: ImageSet, device: torch.device, folder: Path, key: str) -> Tensor:
    """`trunk` of the training images, then of the test images, (n + m, 64, 8, 8) float32 on the CPU.

    They are kept in `folder`, 16 kB an image, for the other runs and for one that is interrupted; key: a hash of all
    that decides them.  Those of another key are deleted.
    """
    path = folder / f"trunk-{key}.npy"
    if path.exists():
        try:
            return torch.from_numpy(np.load(path))
        except (OSError, ValueError, EOFError) as error:
            raise DataError(
                f"cannot read the activations {path}: {error}. Delete the file and run again"
            ) from error
    found = _computed(backbone, images, device)
    with atomic_path(path) as part, open(part, "wb") as file:
        np.save(file, found)
    for old in folder.glob("trunk-*.npy"):
        if old != path:
            old.unlink(missing_ok=True)
    return torch.from_numpy(found)


@torch.no_grad()
def _computed(backbone: ResNet20, images: ImageSet, device: torch.device) -> np.ndarray:
    backbone = backbone.to(device)
    pixels = [torch.as_tensor(x) for x in (images.x_train, images.x_test)]
    found: np.ndarray | None = None
    done, total = 0, sum(map(len, pixels))
    with tqdm(total=total, unit="image", desc="trunk", mininterval=1, disable=None) as bar:
        for rows in (rows for part in pixels for rows in part.split(BATCH)):
            out = backbone.trunk(backbone.inputs(rows.to(device))).cpu().numpy()
            if found is None:
                found = np.empty((total, *out.shape[1:]), np.float32)
            found[done : done + len(out)] = out
            done += len(out)
            bar.update(len(out))
    backbone.to("cpu")
    assert found is not None
    return found
