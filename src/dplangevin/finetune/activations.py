"""What images become on their way through the layers of a public network that stay as they are."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from dplangevin.backbones.resnet20 import ResNet20
from dplangevin.cache import atomic_path
from dplangevin.data import DataError, Dataset

BATCH = 250


def activations(backbone: ResNet20, images: Dataset, device: torch.device, folder: Path, key: str) -> Tensor:
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
def _computed(backbone: ResNet20, images: Dataset, device: torch.device) -> np.ndarray:
    backbone = backbone.to(device)
    arrays = images.arrays()
    pixels = [torch.as_tensor(x) for x in (arrays.x_train, arrays.x_test)]
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
