"""AlexNet (Krizhevsky et al. 2012) cut to images of 32x32, as ryffel2022 uses it: five convolutions, one linear layer.

Differs from theirs: torchvision's channels, 2x2 pooling, the first convolution padded by 5, one linear layer instead of
three, no local response normalisation, no dropout.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from dplangevin.backbones import Backbone, empty
from dplangevin.backbones.inputs import Inputs

# Of the convolutions: channels in units of width, kernel, stride; whether max pooling follows the ReLU.
CONVOLUTIONS = (
    (1, 11, 4, True), (3, 5, 1, True), (6, 3, 1, False), (4, 3, 1, False), (4, 3, 1, True),
)  # fmt: skip
REDUCED = 32  # pixels a side of the image for one of the features


class AlexNet(Backbone):
    """Features (B, 4 width (H/32)^2) are the last pooling's.

    width: channels of the first convolution, 64 in the paper.  ValueError for images whose side is no multiple of 32.
    """

    layer = "max pooling after the fifth convolution, before the linear layer"

    def __init__(self, classes: int, width: int, inputs: Inputs) -> None:
        super().__init__()
        if inputs.size % REDUCED:
            raise ValueError(f"size = {inputs.size}: this network takes images of multiples of {REDUCED}")
        self.inputs = inputs
        layers: list[nn.Module] = []
        before = 3
        for times, kernel, stride, pooled in CONVOLUTIONS:
            layers += [nn.Conv2d(before, times * width, kernel, stride, padding=kernel // 2), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if pooled else []
            before = times * width
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        self.linear = nn.Linear(before * (inputs.size // REDUCED) ** 2, classes)

    def features(self, x: Tensor) -> Tensor:
        found: Tensor = self.convolutions(x)
        return found


def build(classes: int, width: int, size: int, mean: Sequence[float], std: Sequence[float]) -> AlexNet:
    """The network with parameters of 0; size, mean and std as for `Inputs`."""
    return empty(lambda: AlexNet(classes, width, Inputs(size, list(mean), list(std))))
