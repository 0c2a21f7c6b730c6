"""ResNet-18 (He et al. 2016, table 1): torchvision's `resnet18`, and its published weights.

Images of 32x32 enter it without resizing, as in ryffel2022. The stem is a 7x7 convolution with stride 2 and
3x3 max pooling with stride 2. It leaves 8x8 pixels, and the four stages work on 8x8, 4x4, 2x2 and 1x1.
"""

import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dplangevin.backbones import Backbone, empty
from dplangevin.backbones.inputs import Inputs
from dplangevin.backbones.residual import Residual, stage
from dplangevin.data import DataError

BLOCKS = 2  # blocks in each of the four stages
RENAMED = {"downsample": "shortcut", "fc": "linear"}  # torchvision's names -> ours


class Convolution(nn.Conv2d):
    """A 3x3 convolution with padding 1. For one output pixel it uses only the kernel entries that meet input pixels."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        if height == width <= self.stride[0]:
            matrix = self.weight[:, :, 1 : 1 + height, 1 : 1 + width].flatten(1)
            return F.linear(x.flatten(1), matrix, self.bias)[:, :, None, None]
        return super().forward(x)


class Block(Residual):
    """A residual block with a ReLU after the sum."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__(before, channels, stride)
        self.conv1 = Convolution(before, channels, 3, stride, padding=1, bias=False)
        self.conv2 = Convolution(channels, channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.added(x).relu()


class ResNet18(Backbone):
    """A network ``features(x) = tail(last_block(trunk(x)))`` for x (B, 3, H, W) with H and W multiples of 32.

    - last_block: the fourth stage, five convolutions, which ryffel2022 fine-tunes. It maps (B, 4 width, H/16,
      W/16) to (B, 8 width, H/32, W/32).
    - tail: means over all pixels, (B, 8 width), without parameters.
    - `width`: Channels of the first of the four stages, 64 in the paper, which double from stage to stage.
    """

    layer = "means over the pixels of the fourth stage, before the linear layer"

    def __init__(self, classes: int, width: int, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = stage(Block, BLOCKS, width, width, 1)
        self.layer2 = stage(Block, BLOCKS, width, 2 * width, 2)
        self.layer3 = stage(Block, BLOCKS, 2 * width, 4 * width, 2)
        self.layer4 = stage(Block, BLOCKS, 4 * width, 8 * width, 2)
        self.tail = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.linear = nn.Linear(8 * width, classes)

    @property
    def last_block(self) -> nn.Module:
        return self.layer4

    def trunk(self, x: Tensor) -> Tensor:
        x = self.pool(self.bn1(self.conv1(x)).relu())
        found: Tensor = self.layer3(self.layer2(self.layer1(x)))
        return found

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.tail(self.last_block(self.trunk(x)))
        return found


def build(classes: int, width: int, size: int, mean: Sequence[float], std: Sequence[float]) -> ResNet18:
    """Return the network with parameters of 0."""
    return empty(lambda: ResNet18(classes, width, Inputs(size, list(mean), list(std))))


def from_torchvision(folder: Path, file: str) -> dict[str, np.ndarray]:
    """Return parameters and statistics under our names, from torchvision's state_dict in `folder`.

    Only tensors are unpickled. Counts of batches, which early versions do not have, are 0; no output depends on them.
    """
    path = folder / file
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        tensors = {name: value.detach().numpy() for name, value in state.items()}
    except (OSError, EOFError, RuntimeError, AttributeError, pickle.UnpicklingError) as error:
        raise DataError(f"{path} is no state_dict of tensors: {error}") from error
    arrays = {".".join(RENAMED.get(part, part) for part in name.split(".")): v for name, v in tensors.items()}
    for name in [name for name in arrays if name.endswith(".running_mean")]:
        arrays.setdefault(name.replace("running_mean", "num_batches_tracked"), np.zeros((), np.int64))
    return arrays
