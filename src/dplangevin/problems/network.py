"""Networks as a problem: they minimise the cross entropy of images, or of the inputs of the part that is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dplangevin.data import Dataset
from dplangevin.data.pixels import scaled
from dplangevin.engine import passes
from dplangevin.engine.clipped import clipped_sum
from dplangevin.problems import DefaultSteps, Facts, Sums
from dplangevin.problems.architectures import Network

AT_ONCE = 1000  # test rows whose logits are computed together


@dataclass(frozen=True)
class NetworkProblem(DefaultSteps):
    """The parameters of the template `network`, learned from labelled examples.

    - `x`: (n, C, H, W), float32, or uint8 that `data.pixels.scaled` takes to [-1, 1]; on the device of theta.
    - `y`: (n,). Labels 0, ..., K - 1, on the device of theta.
    - `x_test`, `y_test`: (m, C, H, W) and (1, m), on the CPU.
    - `pretrained`: Chains start from the template's parameters instead of random ones.
    """

    network: Network
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    pretrained: bool = False

    @classmethod
    def of_images(cls, images: Dataset, seeds: int, network: Network) -> NetworkProblem:
        """Return the problem of training a network from scratch, on the CPU; all seeds share the images."""
        arrays = images.arrays()
        x, y = torch.as_tensor(arrays.x_train), torch.as_tensor(arrays.y_train)
        return cls(network, x, y, torch.as_tensor(arrays.x_test), torch.as_tensor(arrays.y_test)[None])

    @property
    def facts(self) -> Facts:
        return Facts(len(self.x), self.network.d, self.network.classes, public=len(self.x_test))

    @property
    def device(self) -> torch.device:
        return self.x.device

    def to(self, device: torch.device) -> NetworkProblem:
        return replace(self, network=self.network.to(device), x=self.x.to(device), y=self.y.to(device))

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        """Draw the start by `Network.init`; if `pretrained`, draw nothing and return the template's parameters."""
        if not self.pretrained:
            return self.network.init(rng, seeds)
        theta = torch.nn.utils.parameters_to_vector(self.network.module.parameters()).detach()
        return theta.cpu().expand(seeds, -1).clone()

    def clipped_sum(self, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor | None) -> Sums:
        """Return the sum; an example whose loss or gradient is not finite contributes nothing."""
        return sums_of_chains(self.network, theta, as_inputs(self.x[rows]), self.y[rows], mask, clip)

    def predict(self, theta: Tensor) -> Tensor:
        return predictions(self.network, theta, self.x_test)


def sums_of_chains(
    network: Network,
    theta: Tensor,
    x: Tensor,
    y: Tensor,
    mask: Tensor | None,
    clip: Tensor | None,
    loss: passes.Loss = passes.cross_entropy,
) -> Sums:
    """Return `Problem.clipped_sum` of the examples x ``(S, B, C, H, W)`` with targets y ``(S, B)``, chain by chain."""
    seeds, chains = theta.shape[:2]
    if mask is None:
        mask = torch.ones(seeds, 1, x.shape[1], dtype=torch.bool, device=theta.device).expand(-1, chains, -1)
    clips = [math.inf] * chains if clip is None else clip.tolist()
    each = [
        clipped_sum(network, theta[:, e], x, y, mask[:, e], clips[e], loss_of=loss) for e in range(chains)
    ]
    gradients, losses = [sums.gradient for sums in each], [sums.loss.sum(-1) for sums in each]
    return Sums(torch.stack(gradients, 1), torch.stack(losses, 1))


def predictions(network: Network, theta: Tensor, x_test: Tensor, classes: int | None = None) -> Tensor:
    """Return the probabilities of the first `classes` classes, or all, for test rows, ``(S, E, m, K)`` on the CPU."""
    found = []
    for each in theta.unbind(1):
        parts = (as_inputs(rows.to(theta.device))[None] for rows in x_test.split(AT_ONCE))
        logits = (network.logits(each, x)[..., :classes] for x in parts)
        found.append(torch.cat([part.softmax(-1).cpu() for part in logits], 1))
    return torch.stack(found, 1)


def as_inputs(x: Tensor) -> Tensor:
    """Return uint8 pixels as numbers in [-1, 1], and other examples unchanged."""
    return scaled(x) if x.dtype == torch.uint8 else x
