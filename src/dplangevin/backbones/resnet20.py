"""The ResNet-20 for CIFAR-100 of the repository karanchahal/distiller, whose published weights we use.

Differs from He et al. (2016), section 4.2, as the weights do: the first convolution has 64 channels, not 16; a 1x1
convolution with batch normalisation is the shortcut where the shape changes, not padding by zeros; within a stage no
ReLU follows the sum, one follows the stage; pooling is over 4x4, so that there are 256 features, not 64.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from dplangevin.backbones import Backbone, empty
from dplangevin.backbones.inputs import Inputs
from dplangevin.backbones.residual import Residual, stage

BLOCKS = 3  # of each stage
FEATURES = 256


class Block(Residual):
    """No ReLU follows the sum."""

    def forward(self, x: Tensor) -> Tensor:
        return self.added(x)


class ResNet20(Backbone):
    """``features(x) = tail(last_block(trunk(x)))``, x: (B, 3, 32, 32) as `inputs` gives it.

    trunk: to what enters the last of the nine blocks, (B, 64, 8, 8).  last_block: to (B, 64, 8, 8), no ReLU yet.  tail:
    ReLU, means over 4x4 and flattening, to (B, 256), without parameters.
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
    """The network with parameters of 0; size, mean and std as for `Inputs`, ValueError where size is not 32."""
    if size != 32:
        raise ValueError(f"size = {size}: this network takes images of 32x32, for its 256 features")
    return empty(lambda: ResNet20(classes, Inputs(size, list(mean), list(std))))
