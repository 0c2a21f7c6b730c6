"""Gradients of single examples by torch.func, for modules that the engine's own layers do not make up."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from dplangevin.engine.tape import Block


def call(module: nn.Module, theta: Tensor, image: Tensor) -> Tensor:
    """Logits (K,) of one image (C, H, W) by the network with parameters theta (d,).

    Parameters that are shared are one slice of theta; a module in two places is replaced in one, as PyTorch would
    otherwise leave it changed.
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


def logits(module: nn.Module, theta: Tensor, x: Tensor) -> Tensor:
    """(S, B, K) of x (S, B, C, H, W), each example by itself."""
    each = vmap(partial(call, module), in_dims=(None, 0))
    return torch.stack([each(t, images) for t, images in zip(theta, x, strict=True)])


def examples(module: nn.Module, theta: Tensor, x: Tensor, y: Tensor, norms: bool) -> Block:
    """x: (S, B, C, H, W).  y: (S, B).  Writes every example's gradient out, (S, B, d)."""

    def loss(t: Tensor, image: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        z = call(module, t, image)
        return F.cross_entropy(z, label), z

    each = vmap(grad_and_value(loss, has_aux=True), in_dims=(None, 0, 0))
    gradients, losses, outputs = [], [], []
    for t, images, labels in zip(theta, x, y, strict=True):
        gradient, (value, z) = each(t, images, labels)
        gradients.append(gradient)
        losses.append(value)
        outputs.append(z)
    written = torch.stack(gradients)

    def add(weight: Tensor, total: Tensor) -> None:
        total += (weight[:, None] @ written)[:, 0]

    squares = torch.linalg.vector_norm(written, dim=2).square_() if norms else None
    return Block(torch.stack(outputs), torch.stack(losses), squares, add)
