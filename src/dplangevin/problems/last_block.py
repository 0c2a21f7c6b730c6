"""The last block of a public network, or a new head for it, as a problem (ryffel2022, Table 3).

The inputs of the last block are computed once and stored.  The block is a chain of layers, in which a
`Branch` remembers the tensor that a `Shortcut` or a `Projection` adds later.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from dplangevin import random
from dplangevin.backbones import load
from dplangevin.backbones.augmentation import shifted
from dplangevin.backbones.resnet18 import ResNet18
from dplangevin.backbones.resnet20 import ResNet20
from dplangevin.checks import require
from dplangevin.data import Dataset, save_arrays
from dplangevin.device import pick
from dplangevin.engine.layers import LAYERS, Differentiated, Linear, Parameters, PerExampleGradients
from dplangevin.files import File, key, made_file
from dplangevin.problems.architectures import Network
from dplangevin.problems.network import NetworkProblem

ResNet = ResNet18 | ResNet20
AT_ONCE = 500  # images whose features are computed together
BATCH = 250  # images that go through the trunk together


def of_images(
    images: Dataset,
    seeds: int,
    *,
    part: Literal["block", "head"],
    backbone: Mapping[str, Any],
    limit: int | None,
    inputs: Mapping[str, File],
    folder: Path,
    padding: int = 0,
    flip: bool = False,
    code: str = "",
) -> NetworkProblem:
    """Return the problem of training a part of a public network; all seeds share the images and the start.

    `inputs` are the files "weights" and "data" (the images).  `shifted` is applied once to each training image.
    """
    require(part in PARTS, f"part must be one of {', '.join(PARTS)}, not {part!r}")
    network, _ = load(dict(backbone), inputs["weights"].get())
    if not isinstance(network, ResNet):
        raise ValueError(
            f"{type(network).__name__} is no ResNet18 or ResNet20, whose last block can be trained: name one"
        )
    images, device = images.limited(limit), pick()
    hashes = inputs["data"].sha256, inputs["weights"].sha256
    decides = [*hashes, dict(backbone), limit, padding, flip, code]
    entering = activations(network, images, device, folder, key(decides), padding, flip)
    entering = features(network, entering) if part == "head" else entering
    n, arrays = images.n, images.arrays()
    template = PARTS[part](network, images.classes)
    y, y_test = torch.as_tensor(arrays.y_train), torch.as_tensor(arrays.y_test)[None]
    return NetworkProblem(template, entering[:n], y, entering[n:], y_test, pretrained=True)


def last_block(backbone: ResNet, classes: int) -> Network:
    """Return the network of all convolutions of the last block, and the head.

    For a ResNet-18 this is the fourth stage, with five convolutions (ryffel2022). For a ResNet-20 it has two::

        head(tail(x + affine_2(conv_2(relu(affine_1(conv_1(x)))))))

    The affine maps are the public batch normalisations, as constants. The convolutions start from the public weights,
    the head from 0. So seeds differ only in their minibatches and noise.

    Differs: ryffel2022 does not say how it treats batch normalisation.
    Differs: the fourth stage leaves out kernel entries that meet only the padding; these change no output.
    """
    if isinstance(backbone, ResNet18):
        return fourth_stage(backbone, classes)
    block: Any = backbone.last_block
    branch, channels = Branch(), block.conv1.in_channels

    def copied(conv: nn.Conv2d) -> nn.Conv2d:
        return _made(nn.Conv2d, channels, channels, 3, padding=1, bias=False, weight=conv.weight)

    module = nn.Sequential(
        branch,
        copied(block.conv1),
        frozen(block.bn1),
        nn.ReLU(),
        copied(block.conv2),
        frozen(block.bn2),
        Shortcut(branch),
        nn.ReLU(),
        nn.AvgPool2d(4),
        nn.Flatten(),
        _made(nn.Linear, backbone.linear.in_features, classes),
    )
    return Network(module, (channels, 8, 8), classes)


def fourth_stage(backbone: ResNet18, classes: int) -> Network:
    """Return the fourth stage of a ResNet-18 for images of 32x32, with matrices instead of convolutions.

    2x2 pixels enter the stage and one pixel leaves it, so each convolution is a matrix.
    """
    blocks: Any = backbone.layer4
    first, second = blocks
    start, middle = Branch(), Branch()

    def part(block: Any, shortcut: nn.Module) -> list[nn.Module]:
        layers: list[nn.Module] = []
        for conv, norm in ((block.conv1, block.bn1), (block.conv2, block.bn2)):
            width = conv.stride[0]  # side of the input image; the output is one pixel
            matrix = conv.weight[:, :, 1 : 1 + width, 1 : 1 + width].flatten(1)
            layers += [_linear(matrix), frozen(norm, flat=True), nn.ReLU()]
        return [*layers[:-1], shortcut, nn.ReLU()]

    conv, norm = first.shortcut
    projection = Projection(start, _linear(conv.weight[:, :, 0, 0]), frozen(norm, flat=True))
    layers = [start, nn.Flatten(), *part(first, projection), middle, *part(second, Shortcut(middle))]
    module = nn.Sequential(*layers, _made(nn.Linear, backbone.linear.in_features, classes))
    return Network(module, (first.conv1.in_channels, 2, 2), classes)


def head(backbone: ResNet, classes: int) -> Network:
    """Return the linear map ``W f + b`` of the public network's features f; it starts from W = 0, b = 0."""
    features = backbone.linear.in_features
    return Network(
        nn.Sequential(nn.Flatten(), _made(nn.Linear, features, classes)), (features, 1, 1), classes
    )


@torch.no_grad()
def features(backbone: ResNet, activations: Tensor) -> Tensor:
    """Return the inputs of the head, ``(n, features, 1, 1)``, for the inputs of the last block."""
    parts = [backbone.tail(backbone.last_block(rows)) for rows in activations.split(AT_ONCE)]
    return torch.cat(parts)[:, :, None, None]


PARTS = {"block": last_block, "head": head}


def _made(layer: type, *sizes: int, weight: Tensor | None = None, **settings: Any) -> Any:
    """Return a layer with a copy of this weight, or with zeros; PyTorch's global generator draws nothing."""
    with torch.device("meta"):
        made = layer(*sizes, **settings)
    made = made.to_empty(device="cpu")
    for parameter in made.parameters():
        parameter.data.copy_(torch.zeros(()) if weight is None else weight.detach())
    return made


def _linear(matrix: Tensor) -> nn.Linear:
    return _made(nn.Linear, matrix.shape[1], matrix.shape[0], bias=False, weight=matrix)


def activations(
    backbone: ResNet,
    images: Dataset,
    device: torch.device,
    folder: Path,
    key: str,
    padding: int = 0,
    flip: bool = False,
) -> Tensor:
    """Return the outputs of `trunk` for n training, then m test images, (n + m, C, H, W) float32, stored in `folder`.

    They take 4 kB per image for a ResNet-18 and 16 kB for a ResNet-20.  Stored results with another key, the hash of
    everything that determines them, are deleted.
    """

    def make(path: Path) -> None:
        save_arrays(path, {"trunk": _computed(backbone, images, device, padding, flip)})

    path = made_file(folder / f"trunk-{key}.npz", make)
    for old in folder.glob("trunk-*"):
        if old.stem != path.stem:
            old.unlink(missing_ok=True)
    with np.load(path, allow_pickle=False) as archive:
        return torch.from_numpy(archive["trunk"])


@torch.no_grad()
def _computed(
    backbone: ResNet, images: Dataset, device: torch.device, padding: int, flip: bool
) -> np.ndarray:
    backbone = backbone.to(device)
    arrays = images.arrays()
    pixels = [torch.as_tensor(x) for x in (arrays.x_train, arrays.x_test)]
    if padding or flip:
        pixels[0] = shifted(pixels[0], padding, flip, random.generator(0, "crops and mirror images"))
    outputs: np.ndarray | None = None
    done, total = 0, sum(map(len, pixels))
    with tqdm(total=total, unit="image", desc="trunk", mininterval=1, disable=None) as bar:
        for rows in (rows for part in pixels for rows in part.split(BATCH)):
            out = backbone.trunk(backbone.inputs(rows.to(device))).cpu().numpy()
            if outputs is None:
                outputs = np.empty((total, *out.shape[1:]), np.float32)
            outputs[done : done + len(out)] = out
            done += len(out)
            bar.update(len(out))
    backbone.to("cpu")
    assert outputs is not None
    return outputs


class Affine(nn.Module):
    """The map ``y_c = scale_c x_c + shift_c``, not trained; x is ``(B, C, H, W)`` or, if `flat`, ``(B, C)``."""

    scale: Tensor
    shift: Tensor

    def __init__(self, scale: Tensor, shift: Tensor, flat: bool = False) -> None:
        super().__init__()
        shape = (-1,) if flat else (-1, 1, 1)
        self.register_buffer("scale", scale.detach().clone().view(shape))
        self.register_buffer("shift", shift.detach().clone().view(shape))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.shift, self.scale, x)


def frozen(norm: nn.BatchNorm2d, flat: bool = False) -> Affine:
    """Return a batch normalisation in evaluation mode, ``weight (x - mean)/sqrt(var + eps) + bias``."""
    mean, var, weight, bias = norm.running_mean, norm.running_var, norm.weight, norm.bias
    if mean is None or var is None or weight is None or bias is None:
        raise ValueError(f"{norm} cannot be frozen: it needs running statistics, weight and bias")
    scale = weight.double() / (var.double() + norm.eps).sqrt()
    return Affine(scale.to(weight.dtype), (bias - mean.double() * scale).to(weight.dtype), flat)


class Branch(nn.Module):
    """The identity, which remembers x until its `Shortcut` has used it, and then the shortcut's gradient, `passed`."""

    x: Tensor | None = None
    passed: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        return x


class Shortcut(nn.Module):
    """The sum ``y = x + x_0``, where x_0 is the tensor that `branch` remembers and then forgets."""

    def __init__(self, branch: Branch) -> None:
        super().__init__()
        self.branch = branch

    def start(self) -> Tensor:
        """Return x_0, and let the branch forget it."""
        start, self.branch.x = self.branch.x, None
        assert start is not None
        return start

    def forward(self, x: Tensor) -> Tensor:
        return x + self.start()


class Projection(Shortcut):
    """The sum ``y = x + affine(W x_0)``, where x_0 is the first pixel of the tensor that `branch` remembers.

    It stands for a 1x1 convolution W of which one output pixel is left.  The remembered tensor
    ``(B, C, H, W)`` comes before all trained layers, so no gradient goes through it.
    """

    def __init__(self, branch: Branch, linear: nn.Linear, affine: Affine) -> None:
        super().__init__(branch)
        self.weight, self.affine = linear.weight, affine

    def start(self) -> Tensor:
        """Return the first pixel of the tensor that the branch remembers, ``(B, C)``."""
        return super().start()[:, :, 0, 0]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.affine(nn.functional.linear(self.start(), self.weight))
        return y


class Fixed(Differentiated):
    """The engine's layer for a module without parameters, whose gradient needs nothing of the forward pass."""

    layer: Any

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, None]:
        y: Tensor = self.layer(x)
        return y, None


class FrozenAffine(Fixed):
    """The engine's layer for `Affine`."""

    def backward(self, parameters: Parameters, saved: Any, g: Tensor) -> Tensor:
        return g * self.layer.scale


class Start(Fixed):
    """The engine's layer for `Branch`, in which the gradients of both paths are added."""

    def backward(self, parameters: Parameters, saved: Any, g: Tensor) -> Tensor:
        passed, self.layer.passed = self.layer.passed, None
        if passed is None:
            raise ValueError("a Branch with a Projection must come before every layer that is trained")
        return g + passed


class Added(Fixed):
    """The engine's layer for `Shortcut`."""

    def backward(self, parameters: Parameters, saved: Any, g: Tensor) -> Tensor:
        self.layer.branch.passed = g
        return g


class Projected(Linear):
    """The engine's layer for `Projection`."""

    def __init__(self, layer: Projection) -> None:
        self.layer, self.sizes = layer, [tuple(layer.weight.shape)]

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        y, pixel = super().forward(parameters, self.layer.start())
        return x + self.layer.affine(y), pixel

    def backward(self, parameters: Parameters, x: Tensor, g: Tensor) -> Tensor:
        return g

    def per_example_gradients(
        self, parameters: Parameters, x: Tensor, g: Tensor, norms: bool
    ) -> PerExampleGradients:
        return super().per_example_gradients(parameters, x, g * self.layer.affine.scale, norms)


LAYERS.update({Affine: FrozenAffine, Branch: Start, Shortcut: Added, Projection: Projected})
