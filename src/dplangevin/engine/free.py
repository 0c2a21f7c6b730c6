"""Layers without parameters: see layers.py.  Those used most run by hand, the others under autograd."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dplangevin.engine.layers import Layer, Parameters

aten = torch.ops.aten


class Free:
    """A layer without parameters."""

    sizes: Sequence[tuple[int, ...]] = ()

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer


class Relu(Free):
    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clamp_min(0)
        return y, y

    def backward(self, parameters: Parameters, kept: Tensor, g: Tensor) -> Tensor:
        return aten.threshold_backward(g, kept, 0)


class Tanh(Free):
    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.tanh()
        return y, y

    def backward(self, parameters: Parameters, kept: Tensor, g: Tensor) -> Tensor:
        return aten.tanh_backward(g, kept)


class Flatten(Free):
    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, torch.Size]:
        return x.flatten(1), x.shape

    def backward(self, parameters: Parameters, kept: torch.Size, g: Tensor) -> Tensor:
        return g.view(kept)


class MaxPool2d(Free):
    def __init__(self, layer: nn.MaxPool2d) -> None:
        sizes = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        self.geometry = ([_pair(size) for size in sizes], layer.ceil_mode)

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        sizes, ceil = self.geometry
        y, where = aten.max_pool2d_with_indices(x, *sizes, ceil)
        return y, (x, where)

    def backward(self, parameters: Parameters, kept: tuple[Tensor, Tensor], g: Tensor) -> Tensor:
        (x, where), (sizes, ceil) = kept, self.geometry
        return aten.max_pool2d_with_indices_backward(g, x, *sizes, ceil, where)


class Differentiated(Free):
    """Any layer of PyTorch that works on each example by itself, by autograd."""

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = self.layer(x)
        return y.detach(), (x, y)

    def backward(self, parameters: Parameters, kept: tuple[Tensor, Tensor], g: Tensor) -> Tensor:
        return torch.autograd.grad(kept[1], kept[0], g)[0]


BY_HAND: dict[type[nn.Module], Callable[[Any], Layer]] = {
    nn.ReLU: Relu, nn.Tanh: Tanh, nn.Flatten: Flatten, nn.MaxPool2d: MaxPool2d
}  # fmt: skip
BY_AUTOGRAD = {
    nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.AvgPool2d, nn.CELU, nn.ELU, nn.GELU, nn.Hardtanh, nn.Identity,
    nn.LPPool2d, nn.LeakyReLU, nn.Mish, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Softsign, nn.ZeroPad2d,
}  # fmt: skip


def _pair(size: int | tuple[int, ...]) -> list[int]:
    return [size, size] if isinstance(size, int) else list(size)
