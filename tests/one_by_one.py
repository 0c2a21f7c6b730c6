"""What gradients must equal: plain autograd, one row, network and example at a time."""

import copy
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dplangevin.problems.architectures import Network
from dplangevin.problems.glm import Glm


class Expected(NamedTuple):
    gradient: Tensor
    loss: Tensor
    norm: Tensor


def row_loss(problem: Glm, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The loss of one row of a linear model, by torch's own functions."""
    if problem.loss.name == "softmax":
        return F.cross_entropy((theta.view(problem.classes, -1) @ x)[None], y.long()[None])
    if problem.loss.name == "huber":
        return F.huber_loss(x @ theta, y, delta=0.5)
    return F.binary_cross_entropy_with_logits(x @ theta, (y + 1) / 2)


def expected(network: Network, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor, clip: float) -> Expected:
    seeds, batch = mask.shape
    x, y = x.expand(seeds, *x.shape[1:]), y.expand(seeds, batch)
    gradient, (loss, norm) = torch.zeros_like(theta), theta.new_zeros(2, seeds, batch)
    for s in range(seeds):
        module = with_parameters(network.module, theta[s])
        for i in mask[s].nonzero()[:, 0].tolist():
            module.zero_grad()
            value = F.cross_entropy(module(x[s, i : i + 1]), y[s, i : i + 1])
            value.backward()
            g = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
            loss[s, i], norm[s, i] = value.detach(), g.norm()
            gradient[s] += g * min(1.0, clip / float(norm[s, i])) if norm[s, i] > 0 else g
    return Expected(gradient, loss, norm if clip < math.inf else torch.full_like(norm, math.nan))


def with_parameters(template: nn.Module, theta: Tensor) -> nn.Module:
    module = copy.deepcopy(template).to(theta.dtype)
    nn.utils.vector_to_parameters(theta, module.parameters())
    return module


def network_of(*layers: nn.Module, shape: tuple[int, int, int], classes: int = 3) -> Network:
    """With a last linear layer to the logits."""
    body = nn.Sequential(*layers)
    with torch.no_grad():
        flat = body(torch.zeros(1, *shape)).flatten(1).shape[1]
    return Network(nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, classes)), shape, classes)


def problem(
    network: Network, seeds: int = 1, batch: int = 4, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Parameters, images, labels and a mask without gaps."""
    rng = torch.Generator().manual_seed(seed)
    theta = torch.randn(seeds, network.d, generator=rng, dtype=dtype) / 4
    x = torch.randn(seeds, batch, *network.shape, generator=rng, dtype=dtype)
    y = torch.randint(0, network.classes, (seeds, batch), generator=rng)
    return theta, x, y, torch.ones(seeds, batch, dtype=torch.bool)


def gap(found: Tensor, wanted: Tensor) -> float:
    """Largest error of a network's gradient, relative to its norm."""
    return float(((found - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max())
