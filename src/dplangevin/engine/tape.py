"""One forward and one backward pass of stacked networks, which keeps what the examples' gradients are made of."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dplangevin.engine.convolution import Conv2d
from dplangevin.engine.layers import Examples, Linear, Parameters
from dplangevin.engine.recognise import Plan


class Block(NamedTuple):
    """Gradients of some examples of some networks.

    logits: (S, B, K).  loss: cross entropy, (S, B).  squares: ``||g_si||^2``, (S, B), or None.
    add: adds ``sum_i w_si g_si`` for weights (S, B) to its second argument, (S, d).
    """

    logits: Tensor
    loss: Tensor
    squares: Tensor | None
    add: Callable[[Tensor, Tensor], None]


def split(layers: Plan, theta: Tensor) -> list[Parameters]:
    """The parameters of each layer, (S, ...), as views of theta (S, d)."""
    parts: list[Parameters] = []
    start = 0
    for layer in layers:
        own = []
        for size in layer.sizes:
            end = start + math.prod(size)
            own.append(theta[:, start:end].unflatten(1, size))
            start = end
        parts.append(own)
    return parts


def logits(layers: Plan, theta: Tensor, x: Tensor) -> Tensor:
    """(S, B, K) of x (S, B, C, H, W)."""
    h = _folded(x)
    for layer, own in zip(layers, split(layers, theta), strict=True):
        h, _ = layer.forward(own, h)
    return h.unflatten(0, x.shape[:2])


def examples(layers: Plan, theta: Tensor, x: Tensor, y: Tensor, norms: bool) -> Block:
    """x: (S, B, C, H, W).  y: (S, B).

    The loss is ``log sum_k e^(z_k) - z_y``, whose gradient in the logits z is ``softmax(z) - e_y``.  The backward
    pass ends at the first layer with parameters, whose input needs no gradient.
    """
    h, own = _folded(x), split(layers, theta)
    kept: list[Any] = []
    for layer, parameters in zip(layers, own, strict=True):
        h, needed = layer.forward(parameters, h)
        kept.append(needed)
    log_p = h.log_softmax(1)
    chosen = y.reshape(-1, 1)
    loss = log_p.gather(1, chosen).neg_().view(y.shape)
    g = log_p.exp_().scatter_add_(1, chosen, log_p.new_full(chosen.shape, -1.0))
    found: list[Examples] = []  # from the first layer to the last
    first = next(i for i, layer in enumerate(layers) if layer.sizes)
    for i in reversed(range(first, len(layers))):
        layer, needed = layers[i], kept.pop()
        if isinstance(layer, Linear | Conv2d):
            found.insert(0, layer.examples(own[i], needed, g, norms))
        if i > first:
            g = layer.backward(own[i], needed, g)

    def add(weight: Tensor, total: Tensor) -> None:
        start = 0
        for part in (part for each in found for part in each.weighted(weight)):
            end = start + part[0].numel()
            total[:, start:end] += part.flatten(1)
            start = end

    squares = [each.squares for each in found if each.squares is not None]
    total = torch.stack(squares).sum(0).view(y.shape) if norms else None
    return Block(h.view(*y.shape, -1), loss, total, add)


def _folded(x: Tensor) -> Tensor:
    """(S B, C, H, W), the channels last: convolutions and pooling run faster so."""
    return x.flatten(0, 1).to(memory_format=torch.channels_last)
