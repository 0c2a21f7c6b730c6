"""AlexNet (Krizhevsky et al. 2012), five convolutions and three linear layers, for images of 32x32.

Differs: 3x3 convolutions with stride 1, and 2x2 max pooling, fit images of this size; batch normalisation after each
convolution takes the place of local response normalisation and of dropout.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from dplangevin.backbones import Backbone, empty
from dplangevin.backbones.inputs import Inputs

CHANNELS = (1, 3, 6, 4, 4)  # of the convolutions, times width
POOLED = (True, True, False, False, True)  # 2x2 max pooling after them


class AlexNet(Backbone):
    """Features (B, hidden) are those of the second linear layer after its ReLU.

    width: channels of the first convolution, 64 usually.  hidden: outputs of the first two linear layers, 4096 in the
    paper.
    """

    layer = "ReLU of the second linear layer, before the third"

    def __init__(self, classes: int, width: int, hidden: int, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        layers: list[nn.Module] = []
        before = 3
        for times, pooled in zip(CHANNELS, POOLED, strict=True):
            channels = times * width
            layers += [nn.Conv2d(before, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)]
            layers += [nn.ReLU(), nn.MaxPool2d(2)] if pooled else [nn.ReLU()]
            before = channels
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        flat = before * (inputs.size // 8) ** 2
        self.hidden = nn.Sequential(nn.Linear(flat, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.linear = nn.Linear(hidden, classes)

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.hidden(self.convolutions(x))
        return found


def build(
    classes: int, width: int, hidden: int, size: int, mean: Sequence[float], std: Sequence[float]
) -> AlexNet:
    """The network with parameters of 0; size, mean and std as for `Inputs`."""
    return empty(lambda: AlexNet(classes, width, hidden, Inputs(size, list(mean), list(std))))
