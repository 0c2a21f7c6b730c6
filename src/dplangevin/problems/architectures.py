"""Image classifiers and generators that a configuration describes; many of one template are stacked in one tensor."""

import math
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dplangevin.engine.clipped import forward

ACTIVATIONS: dict[str, Callable[..., nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "leaky_relu": partial(nn.LeakyReLU, 0.2),  # the usual slope in GANs (Radford, Metz and Chintala 2016)
}
ENTRIES = ("conv", "linear", "max_pool", "avg_pool", "activation", "flatten", "unflatten", "conv_transpose")
WORDS = {"kernel", "stride", "padding", "dilation", "groups", "bias", "output_padding"}  # beside the first


@dataclass(frozen=True)
class Template:
    """A `Network` or `Generator`: theta has the shapes and order of the parameters of `module`, not their values."""

    module: nn.Module

    @property
    def d(self) -> int:
        return sum(p.numel() for p in self.module.parameters())

    def to(self, device: torch.device) -> Self:
        return replace(self, module=deepcopy(self.module).to(device))

    def init(self, rng: torch.Generator, seeds: int) -> Tensor:
        """Draw parameters from PyTorch's default law for Conv2d and Linear, (seeds, d) float32.

        Weights and biases are uniform on ``+- 1/sqrt(n)``, where each output of the layer has n inputs.  The
        parameters of any other layer start at the template's values.
        """
        return initial(self.module, rng, seeds)


@dataclass(frozen=True)
class Network(Template):
    """A network f(x; theta) from images of `shape` to logits; stacked networks have theta (S, d), one row for each."""

    shape: tuple[int, int, int]
    classes: int

    def logits(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return the logits f(x; theta_s), (S, B, K), without a graph, for theta (S, d) and x (S or 1, B, C, H, W)."""
        return forward(self, theta, x)


@dataclass(frozen=True)
class Generator(Template):
    """A network g(z; theta) from `latent` variables to images of `shape`."""

    latent: int
    shape: tuple[int, int, int]

    def images(self, theta: Tensor, z: Tensor) -> Tensor:
        """Return images ``(B, C, H, W)`` of one theta ``(d,)`` for z ``(B, latent)``; autograd goes through them."""
        return functional_call(self.module, named(self.module, theta), (z,))


def named(module: nn.Module, theta: Tensor) -> dict[str, Tensor]:
    """Return the parameters of a template by name, as views of theta ``(d,)``."""
    found, start = {}, 0
    for name, parameter in module.named_parameters():
        found[name] = theta[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return found


def initial(module: nn.Module, rng: torch.Generator, seeds: int) -> Tensor:
    """Draw parameters (seeds, d) as `Template.init`; a transposed convolution has its inputs on the first axis."""
    theta = torch.empty(seeds, sum(p.numel() for p in module.parameters()))
    start = 0
    for layer in module.modules():
        for parameter in layer.parameters(recurse=False):
            part = theta[:, start : start + parameter.numel()]
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
                bound = 1 / math.sqrt(layer.weight[0].numel())
                part.uniform_(-bound, bound, generator=rng)
            else:
                part.copy_(parameter.detach().flatten())
            start += parameter.numel()
    return theta


def generator(layers: Iterable[Mapping[str, Any]], latent: int, shape: Iterable[int]) -> Generator:
    """Return the generator that a file of conf/problem/ describes."""
    size = _image_shape(shape)
    module, made = _sequence(layers, (latent,))
    if made != size:
        raise ValueError(f"the last layer gives {list(made)}, not images of {list(size)}")
    return Generator(module, latent, size)


def build(layers: Iterable[Mapping[str, Any]], shape: Iterable[int], classes: int) -> Network:
    """Return the network that a file of conf/problem/ describes.

    Each layer is one mapping; its first word names the kind of layer::

        {conv: channels, kernel: side, stride: 1, padding: 0, dilation: 1, groups: 1, bias: true}
        {conv_transpose: channels, kernel: side, ...}   # as conv, and output_padding: 0
        {linear: units, bias: true}         # flattens its input
        {max_pool: side, stride: side}   {avg_pool: side, stride: side}
        {activation: relu | leaky_relu | tanh}   {flatten: true}   {unflatten: [channels, height, width]}

    The numbers of inputs of the layers follow from `shape`.  The last layer must give `classes` logits.
    """
    size = _image_shape(shape)
    template, made = _sequence(layers, size)
    if made != (classes,):
        raise ValueError(f"the last layer gives {list(made)}, not the {classes} logits of {classes} classes")
    return Network(template, size, classes)


def adversaries(
    shape: Iterable[int], classes: int, channels: Iterable[int], latent: int
) -> tuple[Network, Generator]:
    """Return a discriminator and a generator in the manner of Radford, Metz and Chintala (2016).

    Neither has batch normalisation, because it mixes examples. The discriminator has 4x4 convolutions, each of which
    halves the side of an image, leaky ReLU and a linear layer. The generator is its mirror image, with ReLU and a final
    tanh.
    """
    (colours, height, width), widths = tuple(shape), list(channels)
    halved: dict[str, Any] = {"kernel": 4, "stride": 2, "padding": 1}
    if not widths or any(side % 2 ** len(widths) for side in (height, width)):
        raise ValueError(
            f"sides {height} and {width} cannot be halved {len(widths)} times: give other channels"
        )
    inner = [widths[-1], height >> len(widths), width >> len(widths)]
    down: list[dict[str, Any]] = []
    for count in widths:
        down += [{"conv": count, **halved}, {"activation": "leaky_relu"}]
    up: list[dict[str, Any]] = [{"linear": math.prod(inner)}, {"unflatten": inner}]
    for count in [*reversed(widths[:-1]), colours]:
        up += [{"activation": "relu"}, {"conv_transpose": count, **halved}]
    image = (colours, height, width)
    discriminator = build([*down, {"linear": classes}], image, classes)
    return discriminator, generator([*up, {"activation": "tanh"}], latent, image)


def _image_shape(shape: Iterable[int]) -> tuple[int, int, int]:
    size = tuple(shape)
    if len(size) != 3:
        raise ValueError(f"shape must be channels, height, width, not {list(size)}")
    return size[0], size[1], size[2]


def _sequence(
    layers: Iterable[Mapping[str, Any]], size: tuple[int, ...]
) -> tuple[nn.Sequential, tuple[int, ...]]:
    x = torch.zeros(1, *size, device="meta")  # a tensor without data, for its shape
    modules: list[nn.Module] = []
    for entry in layers:
        try:
            with torch.device("meta"):  # otherwise PyTorch would draw values from its global generator
                made = _modules(dict(entry), x)
            for module in made:
                x = module(x)
        except (RuntimeError, TypeError) as error:
            given = list(x.shape[1:])
            raise ValueError(f"layer {dict(entry)} cannot be made, or not for {given}: {error}") from error
        modules += made
    template = nn.Sequential(*modules).to_empty(device="cpu")
    nn.utils.vector_to_parameters(
        torch.zeros(sum(p.numel() for p in template.parameters())), template.parameters()
    )
    return template, tuple(x.shape[1:])


def _modules(entry: dict[str, Any], x: Tensor) -> list[nn.Module]:
    kind = next(iter(entry), "")
    if kind not in ENTRIES:
        raise ValueError(f"unknown layer {entry}: its first word must be one of {', '.join(ENTRIES)}")
    size = entry.pop(kind)
    if unknown := set(entry) - WORDS:
        raise ValueError(f"unknown words {sorted(unknown)} in layer {kind}: {size}")
    if kind in ("conv", "conv_transpose"):
        of = nn.Conv2d if kind == "conv" else nn.ConvTranspose2d
        return [of(x.shape[1], size, **{"kernel_size" if k == "kernel" else k: v for k, v in entry.items()})]
    if kind == "linear":
        flat = [nn.Flatten()] if x.dim() > 2 else []
        return [*flat, nn.Linear(math.prod(x.shape[1:]), size, **entry)]
    if kind == "activation":
        if size not in ACTIVATIONS:
            raise ValueError(f"unknown activation {size}: it must be one of {', '.join(ACTIVATIONS)}")
        return [ACTIVATIONS[size](**entry)]
    if kind == "flatten":
        return [nn.Flatten(**entry)]
    if kind == "unflatten":
        return [nn.Unflatten(1, tuple(size), **entry)]
    return [(nn.MaxPool2d if kind == "max_pool" else nn.AvgPool2d)(size, **entry)]
