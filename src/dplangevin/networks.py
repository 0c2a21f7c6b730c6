"""Image classifiers as configuration: a template network, and stacked parameters for many of them at once."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dplangevin.engine.clipped import forward

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}
ENTRIES = ("conv", "linear", "max_pool", "avg_pool", "activation", "flatten")


@dataclass(frozen=True)
class Network:
    """A network f(x; theta) from images to logits.

    module: a template, whose parameters lend their shapes and order to theta but not their values.  shape: of one
    example: channels, height, width.  classes: K.  Stacked networks share the template: theta is (S, d), a row
    each, the parameters one after another in the template's order.
    """

    module: nn.Module
    shape: tuple[int, int, int]
    classes: int

    @property
    def d(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.module.parameters())

    def init(self, rng: torch.Generator, seeds: int) -> Tensor:
        """PyTorch's default law for Conv2d and Linear, kaiming_uniform_ with a = sqrt 5: (seeds, d) float32 on the CPU.

        Weights and biases are uniform on ``+- 1/sqrt(n)``, where each output of the layer has n inputs.  Parameters
        of any other layer start at the template's values.
        """
        theta = torch.empty(seeds, self.d)
        start = 0
        for layer in self.module.modules():
            for parameter in layer.parameters(recurse=False):
                part = theta[:, start : start + parameter.numel()]
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    bound = 1 / math.sqrt(layer.weight[0].numel())
                    part.uniform_(-bound, bound, generator=rng)
                else:
                    part.copy_(parameter.detach().flatten())
                start += parameter.numel()
        return theta

    def logits(self, theta: Tensor, x: Tensor) -> Tensor:
        """f(x; theta_s) without a graph.  theta: (S, d).  x: (S or 1, B, C, H, W).  Returns (S, B, K)."""
        return forward(self, theta, x)


def build(layers: Iterable[Mapping[str, Any]], shape: Iterable[int], classes: int) -> Network:
    """The network of a file of conf/problem/.

    layers: one mapping each, whose first word says what it is::

        {conv: channels, kernel: side, stride: 1, padding: 0, dilation: 1, groups: 1, bias: true}
        {linear: units, bias: true}         # flattens what it is given
        {max_pool: side, stride: side}   {avg_pool: side, stride: side}
        {activation: relu | tanh}   {flatten: true}

    The numbers of inputs follow from shape, that of one example.  ValueError for unknown words, and where the last
    layer does not give `classes` logits.
    """
    size = tuple(shape)
    if len(size) != 3:
        raise ValueError(f"shape must be channels, height, width, not {list(size)}")
    x = torch.zeros(1, *size, device="meta")  # for its shape
    modules: list[nn.Module] = []
    for entry in layers:
        with torch.device("meta"):  # or PyTorch would draw values from its global generator
            made = _modules(dict(entry), x)
        for module in made:
            try:
                x = module(x)
            except RuntimeError as error:
                raise ValueError(
                    f"layer {dict(entry)} does not fit its input {list(x.shape[1:])}: {error}"
                ) from error
            modules.append(module)
    if x.shape != (1, classes):
        raise ValueError(
            f"the last layer gives {list(x.shape[1:])}, not the {classes} logits of {classes} classes"
        )
    template = nn.Sequential(*modules).to_empty(device="cpu")
    nn.utils.vector_to_parameters(
        torch.zeros(sum(p.numel() for p in template.parameters())), template.parameters()
    )
    return Network(template, (size[0], size[1], size[2]), classes)


def _modules(entry: dict[str, Any], x: Tensor) -> list[nn.Module]:
    """The modules of one entry, given what the layers before it return."""
    kind = next(iter(entry), "")
    if kind not in ENTRIES:
        raise ValueError(f"unknown layer {entry}: its first word must be one of {', '.join(ENTRIES)}")
    size = entry.pop(kind)
    known = {"conv": {"kernel", "stride", "padding", "dilation", "groups", "bias"}, "linear": {"bias"}}
    known |= {"max_pool": {"stride", "padding"}, "avg_pool": {"stride", "padding"}}
    if unknown := set(entry) - known.get(kind, set()):
        raise ValueError(f"unknown words {sorted(unknown)} in layer {kind}: {size}")
    if kind == "conv":
        if "kernel" not in entry:
            raise ValueError(f"layer conv: {size} lacks its kernel, the side of the filter")
        return [nn.Conv2d(x.shape[1], size, entry.pop("kernel"), **entry)]
    if kind == "linear":
        flat = [nn.Flatten()] if x.dim() > 2 else []
        return [*flat, nn.Linear(math.prod(x.shape[1:]), size, **entry)]
    if kind == "activation":
        if size not in ACTIVATIONS:
            raise ValueError(f"unknown activation {size}: it must be one of {', '.join(ACTIVATIONS)}")
        return [ACTIVATIONS[size]()]
    if kind == "flatten":
        return [nn.Flatten()]
    return [(nn.MaxPool2d if kind == "max_pool" else nn.AvgPool2d)(size, **entry)]
