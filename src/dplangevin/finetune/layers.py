"""Layers of a residual block with frozen batch normalisation, which the gradient engine learns here.

The block's input needs no gradient, so that the shortcut adds a constant: the block is a chain of layers, and its
examples' gradients come from the engine's own forward and backward passes instead of torch.func, at a fraction of the
time.
"""

from typing import Any

import torch
from torch import Tensor, nn

from dplangevin.engine.layers import BY_HAND, ParameterFree, Parameters


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
