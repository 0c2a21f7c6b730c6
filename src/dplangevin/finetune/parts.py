"""What of a public network is trained: its last block and a new head, or the new head alone."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from dplangevin.backbones.resnet20 import Block, ResNet20
from dplangevin.finetune.layers import Branch, Shortcut, frozen
from dplangevin.networks import Network

AT_ONCE = 500  # images whose features are taken together


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
