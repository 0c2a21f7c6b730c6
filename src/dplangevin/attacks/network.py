"""Worst-case pairs of a small network's examples, for the code that trains: two layers with a tanh, two classes.

The adversary knows all examples but one and chooses where training starts.  Whatever the parameters, an image's
gradients with labels 0 and 1 have opposite directions; they are far longer than the clips meant here, 2 or so.

- "add_remove": the last bias makes class 0 certain, so that a white image with label 0 has gradient 0: with it, D' is
  as if the record, label 1, had been taken away while n stays.
- "replace_one": both classes are about as likely, and the record's gradient is turned round.

Both layers' gradients are longer than the clip: a sum clipped layer by layer moves by up to sqrt(2) clips, not by one.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dplangevin.networks import Network, build
from dplangevin.privacy import Adjacency
from dplangevin.problems.network import NetworkProblem

HIDDEN = 32
SHAPE = (1, 2, 2)  # of an image
PIXELS = math.prod(SHAPE)
CERTAIN = 200.0  # logits: e^-200 is 0 in float32
LIKELY = 0.4  # logits, of class 0 under "replace_one"
DARK, GREY, WHITE = 112, 159, 255  # pixels of -.12, .25 and 1


@dataclass(frozen=True)
class Chosen(Network):
    """A network whose every run starts from parameters (d,) of the adversary's choice."""

    theta: Tensor

    def init(self, rng: torch.Generator, seeds: int) -> Tensor:
        return self.theta.expand(seeds, -1).clone()


def chosen(adjacency: Adjacency) -> Chosen:
    """Every unit sees 1 in a white image; half of the units speak for class 0, half for class 1."""
    network = build(
        [{"linear": HIDDEN, "bias": False}, {"activation": "tanh"}, {"linear": 2}], SHAPE, classes=2
    )
    first = torch.full((HIDDEN, PIXELS), 1 / PIXELS)
    sides = torch.ones(HIDDEN)
    sides[HIDDEN // 2 :] = -1
    bias = torch.tensor([CERTAIN if adjacency == "add_remove" else LIKELY, 0.0])
    theta = torch.cat([first.flatten(), sides, -sides, bias])
    return Chosen(network.module, network.shape, network.classes, theta)


def neighbours(
    records: int, adjacency: Adjacency, *, opposed: bool, pretrained: bool = False
) -> tuple[NetworkProblem, NetworkProblem]:
    """D and D', of which record 0 differs.

    opposed: the others' gradients oppose the record's, and are shorter; else they are as the record's is under D'.
    pretrained: inputs are numbers and training starts from the template's parameters, as that of a last block does;
    else pixels, and `Chosen` says where it starts.
    """
    network, problems = chosen(adjacency), []
    for label in (1, 0):
        x = torch.full((records, *SHAPE), WHITE, dtype=torch.uint8)
        y = torch.zeros(records, dtype=torch.long)
        y[0] = label
        if opposed:
            x[1:], y[1:] = (DARK, 1) if adjacency == "add_remove" else (GREY, 0)
        made = NetworkProblem(network, x, y, x[:1], y[None, :1])
        problems.append(_pretrained(made, network.theta) if pretrained else made)
    return problems[0], problems[1]


def _pretrained(problem: NetworkProblem, theta: Tensor) -> NetworkProblem:
    of = problem.network
    nn.utils.vector_to_parameters(theta, of.module.parameters())
    x, x_test = (rows / 127.5 - 1 for rows in (problem.x, problem.x_test))
    return NetworkProblem(
        Network(of.module, of.shape, of.classes), x, problem.y, x_test, problem.y_test, True
    )
