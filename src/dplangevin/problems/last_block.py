"""The last block of a public network, or a new head for it, as a problem (ryffel2022, Table 3).

What enters the last block is computed once and kept.  The block's input needs no gradient, so that its shortcut adds a
constant: the block is a chain of layers, and its examples' gradients come from the engine's own forward and backward
passes instead of torch.func, at a fraction of the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from dplangevin.backbones import load
from dplangevin.backbones.resnet20 import Block, ResNet20
from dplangevin.cache import File, code_hash, kept_file, key, targets
from dplangevin.data import Dataset, save_arrays
from dplangevin.device import pick
from dplangevin.engine.layers import BY_HAND, ParameterFree, Parameters
from dplangevin.networks import Network
from dplangevin.problems.network import NetworkProblem

AT_ONCE = 500  # images whose features are taken together
BATCH = 250  # images that go through the trunk together


def of_images(
    images: Dataset,
    seeds: int,
    *,
    part: "Part",
    backbone: Mapping[str, Any],
    limit: int | None,
    inputs: Mapping[str, File],
    folder: Path,
) -> NetworkProblem:
    """The problem of a part of a public network on an image set.

    backbone: its entry of conf/backbone.  inputs: the files "weights" and "data", of the images, whose hashes name what
    is kept in `folder`.  limit: images of each part to keep, None for all.
    """
    network, _ = load(dict(backbone), inputs["weights"].get())
    if not isinstance(network, ResNet20):
        raise ValueError(
            f"{type(network).__name__} is no ResNet20, whose last block can be trained: name one"
        )
    images, device = images.limited(limit), pick()
    decides = [
        *(inputs[of].sha256 for of in ("data", "weights")),
        dict(backbone),
        limit,
        code_hash(__name__, *targets(dict(backbone))),
    ]
    entering = part.inputs(network, activations(network, images, device, folder, key(decides)))
    n, arrays = images.n, images.arrays()
    template = part.network(network, images.classes)
    template.module.to(device)  # its constants
    x, y = entering[:n].to(device), torch.as_tensor(arrays.y_train, device=device)
    y_test = torch.as_tensor(arrays.y_test)[None]
    return NetworkProblem(template, x, y, entering[n:], y_test, pretrained=True)


class Part(Protocol):
    """A part of a network.  name: "block" or "head"."""

    name: ClassVar[str]

    def inputs(self, backbone: ResNet20, activations: Tensor) -> Tensor:
        """What enters the part, (n, C, H, W), from what enters the last block, (n, 64, 8, 8)."""
        ...

    def network(self, backbone: ResNet20, classes: int) -> Network:
        """The part; its template holds the parameters that training starts from."""
        ...


@dataclass(frozen=True)
class LastBlock:
    """``head(tail(x + affine_2(conv_2(relu(affine_1(conv_1(x)))))))``: the two convolutions and the head are trained.

    The affine maps are the block's batch normalisations with the statistics, weights and biases of the public set,
    constants.  The convolutions start from the public weights, the head from 0: seeds differ in minibatches and noise.
    Differs: ryffel2022 trains the last block of a ResNet-18, five convolutions, and does not say what becomes of its
    batch normalisation.
    """

    name: ClassVar[str] = "block"

    def inputs(self, backbone: ResNet20, activations: Tensor) -> Tensor:
        return activations

    def network(self, backbone: ResNet20, classes: int) -> Network:
        block = backbone.last_block
        if not isinstance(block, Block) or len(block.shortcut):
            raise ValueError(
                f"the last block {type(block).__name__} is no `Block` whose shortcut is the identity: "
                "give the backbone of a ResNet20"
            )
        branch = Branch()
        convolutions = [_copied(conv) for conv in (block.conv1, block.conv2)]
        module = nn.Sequential(
            branch,
            convolutions[0],
            frozen(block.bn1),
            nn.ReLU(),
            convolutions[1],
            frozen(block.bn2),
            Shortcut(branch),
            nn.ReLU(),
            nn.AvgPool2d(4),
            nn.Flatten(),
            _zeros(backbone.linear.in_features, classes),
        )
        return Network(module, (block.conv1.in_channels, 8, 8), classes)


@dataclass(frozen=True)
class Head:
    """``W f + b`` of the public network's features f, from W = 0, b = 0."""

    name: ClassVar[str] = "head"

    @torch.no_grad()
    def inputs(self, backbone: ResNet20, activations: Tensor) -> Tensor:
        parts = [backbone.tail(backbone.last_block(rows)) for rows in activations.split(AT_ONCE)]
        return torch.cat(parts)[:, :, None, None]

    def network(self, backbone: ResNet20, classes: int) -> Network:
        features = backbone.linear.in_features
        return Network(nn.Sequential(nn.Flatten(), _zeros(features, classes)), (features, 1, 1), classes)


def _copied(conv: nn.Conv2d) -> nn.Conv2d:
    with torch.device("meta"):  # or PyTorch would draw values from its global generator
        made = nn.Conv2d(conv.in_channels, conv.out_channels, 3, padding=1, bias=False)
    made = made.to_empty(device="cpu")
    made.weight.data.copy_(conv.weight.data)
    return made


def _zeros(inputs: int, outputs: int) -> nn.Linear:
    with torch.device("meta"):
        layer = nn.Linear(inputs, outputs)
    layer = layer.to_empty(device="cpu")
    for parameter in layer.parameters():
        parameter.data.zero_()
    return layer


def activations(backbone: ResNet20, images: Dataset, device: torch.device, folder: Path, key: str) -> Tensor:
    """`trunk` of the training images, then of the test images, (n + m, 64, 8, 8) float32 on the CPU.

    They are kept in `folder`, 16 kB an image, for the other runs and for one that is interrupted; key: a hash of all
    that decides them.  Those of another key are deleted.
    """
    path = folder / f"trunk-{key}.npz"
    kept_file(path, lambda path: save_arrays(path, {"trunk": _computed(backbone, images, device)}))
    for old in folder.glob("trunk-*"):
        if old.stem != path.stem:
            old.unlink(missing_ok=True)
    with np.load(path, allow_pickle=False) as archive:
        return torch.from_numpy(archive["trunk"])


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


class Affine(nn.Module):
    """``y_c = scale_c x_c + shift_c`` in channel c, with constants: buffers, which no learner trains."""

    scale: Tensor
    shift: Tensor

    def __init__(self, scale: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", scale.detach().clone().view(-1, 1, 1))
        self.register_buffer("shift", shift.detach().clone().view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.shift, self.scale, x)


def frozen(norm: nn.BatchNorm2d) -> Affine:
    """What a batch normalisation computes in evaluation mode: ``weight (x - mean)/sqrt(var + eps) + bias``.

    ValueError for one without running statistics, or without weight and bias.
    """
    mean, var, weight, bias = norm.running_mean, norm.running_var, norm.weight, norm.bias
    if mean is None or var is None or weight is None or bias is None:
        raise ValueError(f"{norm} cannot be frozen: it needs running statistics, weight and bias")
    scale = weight.double() / (var.double() + norm.eps).sqrt()
    return Affine(scale.to(weight.dtype), (bias - mean.double() * scale).to(weight.dtype))


class Branch(nn.Module):
    """``y = x``, remembered for the `Shortcut` that it belongs to."""

    kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x
        return x


class Shortcut(nn.Module):
    """``y = x + x_0``, x_0: what went through `branch` since; forgotten then."""

    def __init__(self, branch: Branch) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        start, self.branch.kept = self.branch.kept, None
        if start is None:
            raise ValueError("nothing went through the branch of this shortcut: put the branch before it")
        return x + start


class FrozenAffine(ParameterFree):
    """`Affine` in the engine."""

    layer: Affine

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, None]:
        y: Tensor = self.layer(x)
        return y, None

    def backward(self, parameters: Parameters, kept: Any, g: Tensor) -> Tensor:
        return g * self.layer.scale


class Start(ParameterFree):
    """`Branch` in the engine, which ends the backward pass at the first layer with parameters."""

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, None]:
        y: Tensor = self.layer(x)
        return y, None

    def backward(self, parameters: Parameters, kept: Any, g: Tensor) -> Tensor:
        raise ValueError(
            "a Branch must come before every layer that is trained: its shortcut counts as constant"
        )


class Added(Start):
    """`Shortcut` in the engine."""

    def backward(self, parameters: Parameters, kept: Any, g: Tensor) -> Tensor:
        return g


BY_HAND.update({Affine: FrozenAffine, Branch: Start, Shortcut: Added})
