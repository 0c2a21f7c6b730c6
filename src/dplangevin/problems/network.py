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
from dplangevin.problems.networks import Network

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
    def loss(self) -> passes.Loss:
        return passes.cross_entropy

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
        x, y = as_inputs(self.x[rows]), self.y[rows]
        if mask is None:
            mask = torch.ones(len(theta), 1, rows.shape[1], dtype=torch.bool, device=theta.device)
            mask = mask.expand(-1, theta.shape[1], -1)
        clips = [math.inf] * theta.shape[1] if clip is None else clip.tolist()
        each = [
            clipped_sum(self.network, theta[:, e], x, y, mask[:, e], clips[e]) for e in range(theta.shape[1])
        ]
        return Sums(
            torch.stack([sums.gradient for sums in each], 1), torch.stack([s.loss.sum(-1) for s in each], 1)
        )

    def predict(self, theta: Tensor) -> Tensor:
        found = []
        for each in theta.unbind(1):
            parts = (as_inputs(rows.to(theta.device))[None] for rows in self.x_test.split(AT_ONCE))
            found.append(torch.cat([self.network.logits(each, x).softmax(-1).cpu() for x in parts], 1))
        return torch.stack(found, 1)


def as_inputs(x: Tensor) -> Tensor:
    """Return uint8 pixels as numbers in [-1, 1], and other examples unchanged."""
    return scaled(x) if x.dtype == torch.uint8 else x
