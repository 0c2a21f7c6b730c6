"""Forward and backward passes of stacked networks, by the engine's own layers or by torch.func."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from dplangevin.engine.convolution import Conv2d
from dplangevin.engine.layers import Linear, Parameters, PerExampleGradients
from dplangevin.engine.recognise import Plan

# From logits z (n, K) and targets y (n,) to the losses of n examples (n,) and their gradients in z (n, K)
Loss = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Block(NamedTuple):
    """Results for some examples of some networks.

    - `loss`: (S, B).
    - `squares`: (S, B). ``||g_si||^2``; None if no norms were requested.
    - `add`: Takes weights (S, B) and a tensor (S, d); adds ``sum_i w_si g_si`` to that tensor.
    """

    loss: Tensor
    squares: Tensor | None
    add: Callable[[Tensor, Tensor], None]


def logits(layers: Plan | None, module: nn.Module, theta: Tensor, x: Tensor) -> Tensor:
    """Return the logits (S, B, K) for theta (S, d) and x (S, B, C, H, W); layers None: by torch.func."""
    if layers is None:
        each = vmap(partial(_call, module), in_dims=(None, 0))
        return torch.stack([each(t, images) for t, images in zip(theta, x, strict=True)])
    h = _folded(x)
    for layer, own in zip(layers, _split(layers, theta), strict=True):
        h, _ = layer.forward(own, h)
    return h.unflatten(0, x.shape[:2])


def cross_entropy(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``log sum_k e^(z_k) - z_y`` and its gradient in the logits z, ``softmax(z) - e_y``."""
    log_p, chosen = z.log_softmax(1), y[:, None]
    loss = log_p.gather(1, chosen).neg_()[:, 0]
    return loss, log_p.exp_().scatter_add_(1, chosen, log_p.new_full(chosen.shape, -1.0))


def gradients(
    layers: Plan | None,
    module: nn.Module,
    theta: Tensor,
    x: Tensor,
    y: Tensor,
    norms: bool,
    loss_of: Loss = cross_entropy,
) -> Block:
    """Return the `Block` of examples x (S, B, C, H, W) with targets y (S, B), by the engine's layers or torch.func.

    The backward pass ends at the first layer with parameters, because its input needs no gradient.
    """
    if layers is None:
        return _functional_gradients(module, theta, x, y, norms, loss_of)
    h, own = _folded(x), _split(layers, theta)
    saved: list[Any] = []
    for layer, parameters in zip(layers, own, strict=True):
        h, needed = layer.forward(parameters, h)
        saved.append(needed)
    loss, g = loss_of(h, y.flatten())
    parts: list[PerExampleGradients] = []  # from the first layer to the last
    first = next(i for i, layer in enumerate(layers) if layer.sizes)
    for i in reversed(range(first, len(layers))):
        layer, needed = layers[i], saved.pop()
        if isinstance(layer, Linear | Conv2d):
            parts.insert(0, layer.per_example_gradients(own[i], needed, g, norms))
        if i > first:
            g = layer.backward(own[i], needed, g)

    def add(weight: Tensor, total: Tensor) -> None:
        start = 0
        for part in (part for each in parts for part in each.weighted(weight)):
            end = start + part[0].numel()
            total[:, start:end] += part.flatten(1)
            start = end

    squares = [each.squares for each in parts if each.squares is not None]
    total = torch.stack(squares).sum(0).view(y.shape) if norms else None
    return Block(loss.view(y.shape), total, add)


def _functional_gradients(
    module: nn.Module, theta: Tensor, x: Tensor, y: Tensor, norms: bool, loss_of: Loss
) -> Block:
    """Return the `Block` of some examples, by torch.func, which writes out the gradient of every example, (S, B, d)."""

    def loss(t: Tensor, image: Tensor, label: Tensor) -> Tensor:
        z = _call(module, t, image)
        return F.cross_entropy(z, label) if loss_of is cross_entropy else loss_of(z[None], label[None])[0][0]

    each = vmap(grad_and_value(loss), in_dims=(None, 0, 0))
    gradients, losses = zip(*map(each, theta, x, y), strict=True)
    written = torch.stack(gradients)

    def add(weight: Tensor, total: Tensor) -> None:
        total += (weight[:, None] @ written)[:, 0]

    squares = torch.linalg.vector_norm(written, dim=2).square_() if norms else None
    return Block(torch.stack(losses), squares, add)


def _split(layers: Plan, theta: Tensor) -> list[Parameters]:
    """Return the parameters of each layer, (S, ...), as views of theta (S, d)."""
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


def _folded(x: Tensor) -> Tensor:
    """Return x as (S B, C, H, W) with channels last, which makes convolutions and pooling faster."""
    return x.flatten(0, 1).to(memory_format=torch.channels_last)


def _call(module: nn.Module, theta: Tensor, image: Tensor) -> Tensor:
    """Return the logits (K,) of one image (C, H, W) by the network with parameters theta (d,).

    Parameters that are shared are one slice of theta.  A module that occurs in two places is replaced in only one
    of them; otherwise PyTorch would leave it changed.
    """
    slices, start = {}, 0
    for parameter in module.parameters():
        slices[id(parameter)] = theta[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    named = {
        f"{place}.{name}".lstrip("."): slices[id(parameter)]
        for place, layer in module.named_modules()
        for name, parameter in layer.named_parameters(recurse=False)
    }
    return functional_call(module, named, (image[None],), tie_weights=False)[0]
