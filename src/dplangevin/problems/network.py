"""Networks as a problem: cross entropy of images, or of what enters the trained part of a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dplangevin.data import Dataset
from dplangevin.data.pixels import scaled
from dplangevin.device import pick
from dplangevin.engine.clipped import clipped_sum
from dplangevin.networks import Network
from dplangevin.problems import Descent, Facts, Sums

if TYPE_CHECKING:
    from dplangevin.chains.chain import Chain, Kernel

AT_ONCE = 1000  # test rows whose logits are taken together


@dataclass(frozen=True)
class NetworkProblem:
    """The parameters of `network`, learned from examples.

    x: ``(n, C, H, W)``, uint8 pixels, which the public map `data.pixels.scaled` takes to [-1, 1], or float32 as they
    are; y: ``(n,)`` labels 0, ..., K - 1, both on the device that theta lives on; x_test and y_test
    ``(1, m)`` likewise, on the CPU.
    pretrained: chains start from the template's parameters, not from random ones.
    """

    network: Network
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    pretrained: bool = False

    @classmethod
    def of_images(cls, images: Dataset, seeds: int, network: Network) -> NetworkProblem:
        """A network that is trained from scratch, on the device that DPL_DEVICE says."""
        arrays, device = images.arrays(), pick()
        x, y = (torch.as_tensor(part, device=device) for part in (arrays.x_train, arrays.y_train))
        return cls(network, x, y, torch.as_tensor(arrays.x_test), torch.as_tensor(arrays.y_test)[None])

    @property
    def facts(self) -> Facts:
        return Facts(len(self.x), self.network.d, self.network.classes, public=len(self.x_test))

    @property
    def device(self) -> torch.device:
        return self.x.device

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        """See `Network.init`; pretrained: without a draw, so that seeds differ in minibatches and noise alone."""
        if not self.pretrained:
            return self.network.init(rng, seeds)
        theta = torch.nn.utils.parameters_to_vector(self.network.module.parameters()).detach()
        return theta.cpu().expand(seeds, -1).clone()

    def clipped_sum(self, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor | None) -> Sums:
        """See `Problem`; by `engine.clipped.clipped_sum`; names an example whose loss or gradient is not finite."""
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
        """Softmax of the logits of the test rows, ``(S, E, m, K)`` on the CPU."""
        found = []
        for each in theta.unbind(1):
            parts = (as_inputs(rows.to(theta.device))[None] for rows in self.x_test.split(AT_ONCE))
            found.append(torch.cat([self.network.logits(each, x).softmax(-1).cpu() for x in parts], 1))
        return torch.stack(found, 1)

    def descent(self, chains: Sequence[Chain]) -> Descent | None:
        return None

    def around(self, kernel: Kernel, chains: Sequence[Chain]) -> Kernel:
        return kernel


def as_inputs(x: Tensor) -> Tensor:
    """Pixels as numbers in [-1, 1]; other examples as they are."""
    return scaled(x) if x.dtype == torch.uint8 else x
