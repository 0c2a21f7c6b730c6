"""AlexNet (Krizhevsky et al. 2012) for images of 32x32, as ryffel2022 uses it.

Differs: torchvision's channels.
Differs: 2x2 pooling.
Differs: the first convolution is padded by 5.
Differs: one linear layer, not three.
Differs: no local response normalisation and no dropout.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from dplangevin.backbones import Backbone, empty
from dplangevin.backbones.inputs import Inputs

# Each convolution: channels in multiples of width, kernel, stride, and whether max pooling follows the ReLU.
CONVOLUTIONS = (
    (1, 11, 4, True), (3, 5, 1, True), (6, 3, 1, False), (4, 3, 1, False), (4, 3, 1, True),
)  # fmt: skip
REDUCED = 32  # pixels of the image's side for each pixel of the features' side


class AlexNet(Backbone):
    """The network with `width` first channels, 64 in ryffel2022; features (B, 4 width (H/32)^2), H a multiple of 32."""

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
    """Return the network with parameters of 0; `size` is a multiple of 32."""
    return empty(lambda: AlexNet(classes, width, Inputs(size, list(mean), list(std))))
