"""ResNet-18 (He et al. 2016, table 1) for images of 32x32.

Differs: as is usual for images of this size, the first convolution is 3x3 with stride 1 and no max pooling follows it.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from dplangevin.backbones import Backbone, empty
from dplangevin.backbones.inputs import Inputs
from dplangevin.backbones.residual import Residual, stage

BLOCKS = 2  # of each of the four stages


class Block(Residual):
    """A ReLU follows the sum."""

    def forward(self, x: Tensor) -> Tensor:
        return self.added(x).relu()


class ResNet18(Backbone):
    """``features(x) = tail(last_block(trunk(x)))``, x: (B, 3, H, W) as `inputs` gives it, H and W multiples of 8.

    width: channels of the first of the four stages, whose channels double from one to the next; 64 in the paper.
    last_block: the fourth stage (what ryffel2022 fine-tunes: five convolutions), from (B, 4 width, H/4, W/4) to (B, 8
    width, H/8, W/8).  tail: means over all pixels, (B, 8 width), without parameters.
    """

    layer = "means over the pixels of the fourth stage, before the linear layer"

    def __init__(self, classes: int, width: int, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
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
        x = self.bn1(self.conv1(x)).relu()
        found: Tensor = self.layer3(self.layer2(self.layer1(x)))
        return found

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.tail(self.last_block(self.trunk(x)))
        return found


def build(classes: int, width: int, size: int, mean: Sequence[float], std: Sequence[float]) -> ResNet18:
    """The network with parameters of 0; size, mean and std as for `Inputs`."""
    return empty(lambda: ResNet18(classes, width, Inputs(size, list(mean), list(std))))
