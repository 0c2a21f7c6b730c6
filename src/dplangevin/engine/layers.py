"""Layers of stacked networks, run forward and backward by hand so that each example's gradient can be had.

S networks of one shape are stacked: parameters are ``(S, ...)``, activations are folded, ``(S B, ...)``, the examples
of the first network first.  Examples are not mixed, so that the gradient in y of the sum of the losses holds each
example's own.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dplangevin.engine import ghost

Parameters = Sequence[Tensor]


class Examples(NamedTuple):
    """Gradients ``g_si`` of S x B examples in one layer's parameters.

    squares: ``||g_si||^2``, (S B,); None if no norms were asked for.
    weighted: ``sum_i w_si g_si`` for weights (S, B), one tensor (S, ...) for each parameter.
    """

    squares: Tensor | None
    weighted: Callable[[Tensor], list[Tensor]]


class Layer(Protocol):
    """A layer.  sizes: the shapes of its parameters in one network; none without parameters.

    A layer with parameters, Linear or Conv2d, also has ``examples(parameters, kept, g, norms)``, the examples'
    gradients in the parameters.
    """

    sizes: Sequence[tuple[int, ...]]

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Any]:
        """The outputs y for x (S B, ...), and what the backward pass needs."""

    def backward(self, parameters: Parameters, kept: Any, g: Tensor) -> Tensor:
        """Gradient in x, for g that in y."""


class Linear:
    """``y = x W^T + b`` along the last axis of x."""

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

    def examples(self, parameters: Parameters, x: Tensor, g: Tensor, norms: bool) -> Examples:
        biased = len(parameters) > 1
        a, g = (t.reshape(len(t), -1, t.shape[-1]) for t in (x, g))  # (S B, T, D) and (S B, T, p)
        places, inputs, outputs = a.shape[1], a.shape[2], g.shape[2]
        if norms and places > 1 and not ghost.gram_is_cheaper(places, inputs, outputs):
            return written_out([g.mT @ a, *([g.sum(1)] if biased else [])])

        def weighted(weight: Tensor) -> list[Tensor]:
            scaled = (g * weight.view(-1, 1, 1)).view(len(weight), -1, outputs)  # (S, B T, p)
            product = scaled.mT @ a.view(len(weight), -1, inputs)
            return [product, *([scaled.sum(1)] if biased else [])]

        if not norms:
            return Examples(None, weighted)
        if places == 1:
            return Examples(ghost.squares(g) * (ghost.squares(a) + biased), weighted)
        return Examples(ghost.gram(a, g) + (ghost.squares(g.sum(1)) if biased else 0), weighted)


def written_out(gradients: Sequence[Tensor]) -> Examples:
    """`Examples` of gradients that are there, (S B, ...) for each parameter."""

    def weighted(weight: Tensor) -> list[Tensor]:
        return [weigh(weight, g) for g in gradients]

    return Examples(torch.stack([ghost.squares(g) for g in gradients]).sum(0), weighted)


def weigh(weight: Tensor, g: Tensor) -> Tensor:
    """``sum_i w_si g_si``.  weight: (S, B).  g: (S B, ...), contiguous.  Returns (S, ...)."""
    return (weight[:, None] @ g.view(*weight.shape, -1)).view(-1, *g.shape[1:])
