"""The ResNet-20 for CIFAR-100 of the repository karanchahal/distiller, whose published weights we use.

The weights, and so the network, differ from He et al. (2016), section 4.2:

Differs: the first convolution has 64 channels, not 16.
Differs: a shortcut that changes the shape is a 1x1 convolution with batch normalisation, not zero padding.
Differs: within a stage no ReLU follows the sum; one ReLU follows the stage.
Differs: pooling is over 4x4, so that there are 256 features, not 64.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from dplangevin.backbones import Backbone, empty
from dplangevin.backbones.inputs import Inputs
from dplangevin.backbones.residual import Residual, stage
from dplangevin.data import generator

BLOCKS = 3  # blocks in each stage
FEATURES = 256


class Block(Residual):
    """A residual block without a ReLU after the sum."""

    def forward(self, x: Tensor) -> Tensor:
        return self.added(x)


class ResNet20(Backbone):
    """A network ``features(x) = tail(last_block(trunk(x)))`` for x (B, 3, 32, 32).

    - trunk: everything before the last of the nine blocks, to (B, 64, 8, 8).
    - last_block: to (B, 64, 8, 8), without the final ReLU.
    - tail: ReLU, means over 4x4 and flattening, to (B, 256), without parameters.
    """

    layer = "ReLU and means over 4x4 of the last block, before the linear layer"

    def __init__(self, classes: int, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = stage(Block, BLOCKS, 64, 16, 1)
        self.layer2 = stage(Block, BLOCKS, 16, 32, 2)
        self.layer3 = stage(Block, BLOCKS, 32, 64, 2)
        self.tail = nn.Sequential(nn.ReLU(), nn.AvgPool2d(4), nn.Flatten())
        self.linear = nn.Linear(FEATURES, classes)

    @property
    def last_block(self) -> nn.Module:
        return self.layer3[-1]

    def trunk(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()
        x = self.layer2(self.layer1(x).relu()).relu()
        for block in list(self.layer3)[:-1]:
            x = block(x)
        return x

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.tail(self.last_block(self.trunk(x)))
        return found


def build(classes: int, size: int, mean: Sequence[float], std: Sequence[float]) -> ResNet20:
    """Return the network with parameters of 0; only size 32 is accepted."""
    if size != 32:
        raise ValueError(f"size = {size}: this network takes images of 32x32, for its 256 features")
    return empty(lambda: ResNet20(classes, Inputs(size, list(mean), list(std))))


def drawn(folder: Path) -> dict[str, np.ndarray]:
    """Return random weights, for scale=smoke: uniform with the variance 1/fan-in, batch normalisations the identity."""
    rng, arrays = generator(0, "resnet20"), dict[str, np.ndarray]()
    for name, value in build(100, 32, [0.5] * 3, [0.5] * 3).state_dict().items():
        shape = tuple(value.shape)
        if len(shape) > 1:
            bound = np.sqrt(3.0 / np.prod(shape[1:]))
            arrays[name] = ((2 * rng.random(shape) - 1) * bound).astype(np.float32)
        elif not shape:
            arrays[name] = np.array(0, np.int64)
        else:
            arrays[name] = np.full(shape, name.endswith(("weight", "running_var")), np.float32)
    return arrays
