"""Worst-case pairs of examples for a small network, run through the code that trains.

The network has two layers, a tanh and two classes. The adversary knows all examples except one and chooses where
training starts. The gradients of an image with labels 0 and 1 have opposite directions, and are far longer than
clips of about 2.

- "add_remove": the last bias makes class 0 certain, so a white image with label 0 has gradient 0. D' contains it in
  place of the record, which has label 1. So D' is as if the record had been removed while n stays.
- "replace_one": both classes are about equally likely, and the record's gradient changes its sign.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dplangevin.privacy import Adjacency
from dplangevin.problems.architectures import Network, build
from dplangevin.problems.network import NetworkProblem

HIDDEN = 32
SHAPE = (1, 2, 2)  # of an image
PIXELS = math.prod(SHAPE)
CERTAIN = 200.0  # logit: e^-200 is 0 in float32
LIKELY = 0.4  # logit of class 0 under "replace_one"
DARK, GREY, WHITE = 112, 159, 255  # pixels that become -0.12, 0.25 and 1


@dataclass(frozen=True)
class Chosen(Network):
    """A network whose runs all start from parameters ``(d,)`` that the adversary chooses."""

    theta: Tensor

    def init(self, rng: torch.Generator, seeds: int) -> Tensor:
        """Return the chosen parameters for every seed, ``(S, d)``."""
        return self.theta.expand(seeds, -1).clone()


def chosen(adjacency: Adjacency) -> Chosen:
    """Return the network with the adversary's start: half of the units speak for class 0, half for class 1."""
    network = build(
        [{"linear": HIDDEN, "bias": False}, {"activation": "tanh"}, {"linear": 2}], SHAPE, classes=2
    )
    first = torch.full((HIDDEN, PIXELS), 1 / PIXELS)
    sides = torch.ones(HIDDEN)
    sides[HIDDEN // 2 :] = -1
    bias = torch.tensor([CERTAIN if adjacency != "replace_one" else LIKELY, 0.0])
    theta = torch.cat([first.flatten(), sides, -sides, bias])
    return Chosen(network.module, network.shape, network.classes, theta)


def neighbours(records: int, adjacency: Adjacency) -> tuple[NetworkProblem, NetworkProblem]:
    """Return D and D', which differ in record 0; the gradients of the others oppose the record's and are shorter."""
    network, problems = chosen(adjacency), []
    for label in (1, 0):
        x = torch.full((records, *SHAPE), WHITE, dtype=torch.uint8)
        y = torch.zeros(records, dtype=torch.long)
        y[0] = label
        x[1:], y[1:] = (DARK, 1) if adjacency != "replace_one" else (GREY, 0)
        problems.append(NetworkProblem(network, x, y, x[:1], y[None, :1]))
    return problems[0], problems[1]
