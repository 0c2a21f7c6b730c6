"""Layers of stacked networks, run forward and backward by hand to get the gradient of each example.

Parameters of the S networks are ``(S, ...)``.  Activations are folded to ``(S B, ...)``, the examples of the first
network first.  No layer mixes examples, so the gradient of the summed losses in y contains the gradient of each.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dplangevin.engine import ghost

Parameters = Sequence[Tensor]


class PerExampleGradients(NamedTuple):
    """Gradients ``g_si`` of S x B examples in the parameters of one layer.

    - `squares`: (S B,). ``||g_si||^2``; None if no norms were requested.
    - `weighted`: Takes weights (S, B) and returns ``sum_i w_si g_si``, one tensor (S, ...) for each parameter.
    """

    squares: Tensor | None
    weighted: Callable[[Tensor], list[Tensor]]


class Layer(Protocol):
    """A layer of stacked networks; `sizes` has the shapes of its parameters in one network.

    A layer with parameters, Linear or Conv2d, also has ``per_example_gradients(parameters, saved, g, norms)``.
    """

    sizes: Sequence[tuple[int, ...]]

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Any]:
        """Return the outputs y for x (S B, ...), and the tensors that the backward pass needs."""

    def backward(self, parameters: Parameters, saved: Any, g: Tensor) -> Tensor:
        """Return the gradient in x, from what `forward` saved and the gradient g in y."""


class Linear:
    """The map ``y = x W^T + b`` along the last axis of x."""

    def __init__(self, layer: nn.Linear) -> None:
        self.sizes: Sequence[tuple[int, ...]] = [tuple(p.shape) for p in layer.parameters()]

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        weight, *bias = parameters
        if len(weight) == 1:
            return F.linear(x, weight[0], *(b[0] for b in bias)), x
        rows = x.reshape(len(weight), -1, x.shape[-1])
        y = torch.baddbmm(bias[0][:, None], rows, weight.mT) if bias else rows @ weight.mT
        return y.view(*x.shape[:-1], -1), x

    def backward(self, parameters: Parameters, x: Tensor, g: Tensor) -> Tensor:
        weight = parameters[0]
        if len(weight) == 1:
            return g @ weight[0]
        return (g.reshape(len(weight), -1, g.shape[-1]) @ weight).view(x.shape)

    def per_example_gradients(
        self, parameters: Parameters, x: Tensor, g: Tensor, norms: bool
    ) -> PerExampleGradients:
        biased = len(parameters) > 1
        a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (x, g))  # (S B, T, D) and (S B, T, p)
        places, inputs, outputs = a.shape[1], a.shape[2], g.shape[2]
        if norms and places > 1 and not ghost.gram_is_cheaper(places, inputs, outputs):
            return materialised([g.mT @ a, *([g.sum(1)] if biased else [])])

        def weighted(weight: Tensor) -> list[Tensor]:
            scaled = (g * weight.view(-1, 1, 1)).view(len(weight), -1, outputs)  # (S, B T, p)
            product = scaled.mT @ a.view(len(weight), -1, inputs)
            return [product, *([scaled.sum(1)] if biased else [])]

        if not norms:
            return PerExampleGradients(None, weighted)
        if places == 1:
            return PerExampleGradients(ghost.squared_norms(g) * (ghost.squared_norms(a) + biased), weighted)
        return PerExampleGradients(
            ghost.gram_squared_norms(a, g) + (ghost.squared_norms(g.sum(1)) if biased else 0), weighted
        )


def materialised(gradients: Sequence[Tensor]) -> PerExampleGradients:
    """Return `PerExampleGradients` for gradients that are written out, (S B, ...) for each parameter."""

    def weighted(weight: Tensor) -> list[Tensor]:
        return [weighted_sum(weight, g) for g in gradients]

    return PerExampleGradients(torch.stack([ghost.squared_norms(g) for g in gradients]).sum(0), weighted)


def weighted_sum(weight: Tensor, g: Tensor) -> Tensor:
    """Return ``sum_i w_si g_si``, (S, ...), for weight (S, B) and a contiguous g (S B, ...)."""
    return (weight[:, None] @ g.view(*weight.shape, -1)).view(-1, *g.shape[1:])


class Differentiated:
    """A layer of PyTorch without parameters that works on each example separately, differentiated by autograd."""

    sizes: Sequence[tuple[int, ...]] = ()

    def __init__(self, layer: nn.Module) -> None:
        if getattr(layer, "inplace", False):
            layer = copy.copy(layer)
            layer.inplace = False  # type: ignore[assignment]
        self.layer = layer

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Any]:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = self.layer(x)
        return y.detach(), (x, y)

    def backward(self, parameters: Parameters, saved: Any, g: Tensor) -> Tensor:
        return torch.autograd.grad(saved[1], saved[0], g)[0]


LAYERS: dict[type[nn.Module], Callable[[Any], Layer]] = dict.fromkeys((
    nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.AvgPool2d, nn.CELU, nn.ELU, nn.Flatten, nn.GELU, nn.Hardtanh,
    nn.Identity, nn.LPPool2d, nn.LeakyReLU, nn.MaxPool2d, nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid,
    nn.Softplus, nn.Softsign, nn.Tanh, nn.ZeroPad2d,
), Differentiated)  # fmt: skip
