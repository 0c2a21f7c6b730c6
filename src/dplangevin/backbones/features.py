"""Features of images: the outputs of a network that was trained on public images, with their provenance.

Nothing is read off the images that become features. The network, the normalisation of pixels and the norms of
features from which bounds may be taken (`public`) all come from the public set.
"""

import copy
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from joblib import cpu_count
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from tqdm import tqdm

from dplangevin.backbones import Backbone
from dplangevin.backbones.augmentation import shifted
from dplangevin.checks import count, require
from dplangevin.data import Dataset, row_norms

SHIFTED = 1000  # images that are cropped together; the random draws depend on this number


@dataclass(frozen=True)
class Extraction:
    """The settings by which images become features: an entry of conf/features/ except the names in it.

    `padding` and `flip` are arguments of `shifted`, applied once to each training image before it is resized.
    """

    resize: str
    batch: int
    public_images: int
    padding: int
    flip: bool

    def __post_init__(self) -> None:
        count(1, batch=self.batch, public_images=self.public_images)
        count(0, padding=self.padding)

    def features(
        self, backbone: Backbone, images: np.ndarray, device: torch.device, label: str = ""
    ) -> np.ndarray:
        """Return the features ``(n, p)`` float32 of images ``(n, C, H, W)`` uint8, in order.

        Batch normalisations are merged into the convolutions (`fused`). On a CPU there are as many batches at the
        same time as cores, one thread each. So the bytes do not depend on the number of cores.
        """
        network = fused(backbone).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        found = np.empty((len(images), backbone.linear.in_features), np.float32)

        @torch.inference_mode()  # inside, because each thread has its own mode
        def fill(start: int) -> None:
            pixels = torch.from_numpy(images[start : start + self.batch]).to(device)
            x = backbone.inputs(pixels, self.resize).contiguous(memory_format=torch.channels_last)
            found[start : start + len(pixels)] = network.features(x).cpu().numpy()

        threads, starts = torch.get_num_threads(), range(0, len(images), self.batch)
        workers = cpu_count() if device.type == "cpu" else 1
        exact = torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        )
        try:
            torch.set_num_threads(1)
            with exact, ThreadPoolExecutor(workers) as pool:
                [*tqdm(pool.map(fill, starts), total=len(starts), desc=label, unit="batch", disable=None)]
        finally:
            torch.set_num_threads(threads)
        return found

    def build(
        self,
        backbone: Backbone,
        images: Dataset,
        public: Dataset,
        meta: Mapping[str, Any],
        device: torch.device,
        rng: torch.Generator,
    ) -> Dataset:
        """Return the features of both parts of `images`, x (1, n, p) float32; `meta` gets what was done to them."""
        own, inputs = images.arrays(), backbone.inputs
        augmentation = {"padding": self.padding, "flip": self.flip} if self.padding or self.flip else {}
        x_train = own.x_train
        if augmentation:
            parts = torch.from_numpy(x_train).split(SHIFTED)
            x_train = torch.cat([shifted(part, self.padding, self.flip, rng) for part in parts]).numpy()
        train = self.features(backbone, x_train, device, "training")
        test = self.features(backbone, own.x_test, device, "test")
        done: dict[str, Any] = {"classes": images.classes, "layer": backbone.layer}
        done["preprocessing"] = {
            "from": list(images.shape),
            "to": [3, inputs.size, inputs.size],
            "resize": self.resize,
            "mean": list(inputs.mean),
            "std": list(inputs.std),
        }
        done |= {"augmentation": augmentation} if augmentation else {}
        done["public"] = self.norms(backbone, public, device)
        return Dataset.from_arrays(train, own.y_train, test, own.y_test, {**meta, **done})

    def norms(self, backbone: Backbone, public: Dataset, device: torch.device) -> dict[str, Any]:
        """Return mean, 99 % quantile and maximum of ``||f(x)||`` over the first public training images."""
        first = public.arrays().x_train[: self.public_images]
        norms = row_norms(self.features(backbone, first, device, "public"))
        return {
            "set": public.meta.get("name"),
            "images": len(first),
            "norm_mean": float(norms.mean()),
            "norm_q99": float(np.quantile(norms, 0.99)),
            "norm_max": float(norms.max()),
        }


def fused(backbone: Backbone) -> Backbone:
    """Return a copy in evaluation mode whose batch normalisations are part of the convolutions before them.

    ``gamma (W x - mu) / s + beta = (gamma W / s) x + (beta - gamma mu / s)``, s = sqrt(var + eps). The
    function is the same except for rounding.
    """
    require(not backbone.training, "the backbone is in training mode, where statistics change: call .eval()")
    made = copy.deepcopy(backbone)
    for path, parent in list(made.named_modules()):
        named = list(parent.named_children())
        for (first, conv), (second, norm) in zip([("", parent), *named], named, strict=False):
            if not isinstance(norm, nn.BatchNorm2d):
                continue
            require(isinstance(conv, nn.Conv2d), f"{path}.{second}: register it right after its convolution")
            setattr(parent, first, fuse_conv_bn_eval(conv, norm))
            setattr(parent, second, nn.Identity())
    return made
