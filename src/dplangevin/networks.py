"""Image classifiers and generators as configuration: template networks, and stacked parameters for many at once."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dplangevin.engine.clipped import forward

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "leaky_relu": partial(nn.LeakyReLU, 0.2),  # the slope usual in GANs (Radford, Metz and Chintala 2016)
}
ENTRIES = ("conv", "linear", "max_pool", "avg_pool", "activation", "flatten", "unflatten", "conv_transpose")


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
        return initial(self.module, rng, seeds)

    def logits(self, theta: Tensor, x: Tensor) -> Tensor:
        """f(x; theta_s) without a graph.  theta: (S, d).  x: (S or 1, B, C, H, W).  Returns (S, B, K)."""
        return forward(self, theta, x)


@dataclass(frozen=True)
class Generator:
    """A network g(z; theta) from latent variables to images.

    module: a template, as that of a `Network`.  latent: numbers in z.  shape: of an image: channels, height, width.
    """

    module: nn.Module
    latent: int
    shape: tuple[int, int, int]

    @property
    def d(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.module.parameters())

    def init(self, rng: torch.Generator, seeds: int) -> Tensor:
        """As `Network.init`."""
        return initial(self.module, rng, seeds)

    def images(self, theta: Tensor, z: Tensor) -> Tensor:
        """g(z; theta) ``(B, C, H, W)`` of one network, theta ``(d,)``, z ``(B, latent)``; autograd goes through it."""
        return functional_call(self.module, named(self.module, theta), (z,))


def named(module: nn.Module, theta: Tensor) -> dict[str, Tensor]:
    """The parameters of a template by name, as views of theta ``(d,)``."""
    found, start = {}, 0
    for name, parameter in module.named_parameters():
        found[name] = theta[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return found


def initial(module: nn.Module, rng: torch.Generator, seeds: int) -> Tensor:
    """Parameters (seeds, d), see `Network.init`; of a transposed convolution as of a convolution, whose weight's first
    axis is that of its inputs."""
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
    """The generator of a file of conf/problem/: layers as for `build`, from `latent` numbers to images of `shape`."""
    size = tuple(shape)
    if len(size) != 3:
        raise ValueError(f"shape must be channels, height, width, not {list(size)}")
    module, made = _sequence(layers, (latent,))
    if made != size:
        raise ValueError(f"the last layer gives {list(made)}, not images of {list(size)}")
    return Generator(module, latent, (size[0], size[1], size[2]))


def build(layers: Iterable[Mapping[str, Any]], shape: Iterable[int], classes: int) -> Network:
    """The network of a file of conf/problem/.

    layers: one mapping each, whose first word says what it is::

        {conv: channels, kernel: side, stride: 1, padding: 0, dilation: 1, groups: 1, bias: true}
        {conv_transpose: channels, kernel: side, ...}   # as conv, and output_padding: 0
        {linear: units, bias: true}         # flattens what it is given
        {max_pool: side, stride: side}   {avg_pool: side, stride: side}
        {activation: relu | leaky_relu | tanh}   {flatten: true}   {unflatten: [channels, height, width]}

    The numbers of inputs follow from shape, that of one example.  ValueError for unknown words, and where the last
    layer does not give `classes` logits.
    """
    size = tuple(shape)
    if len(size) != 3:
        raise ValueError(f"shape must be channels, height, width, not {list(size)}")
    template, made = _sequence(layers, size)
    if made != (classes,):
        raise ValueError(f"the last layer gives {list(made)}, not the {classes} logits of {classes} classes")
    return Network(template, (size[0], size[1], size[2]), classes)


def adversaries(
    shape: Iterable[int], classes: int, channels: Iterable[int], latent: int
) -> tuple[Network, Generator]:
    """Discriminator and generator in the manner of Radford, Metz and Chintala (2016), without batch normalisation,
    which mixes examples: 4x4 kernels that halve the side of an image, channels of each given, and a linear layer;
    leaky ReLU.  The generator is its mirror image, with ReLU and a last tanh.

    shape: channels, height, width of an image; classes: logits; latent: numbers in z.  ValueError for sides that cannot
    be halved so often.
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


def _sequence(
    layers: Iterable[Mapping[str, Any]], size: tuple[int, ...]
) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A template of these layers, and the shape of what it gives for one example of shape `size`."""
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
    template = nn.Sequential(*modules).to_empty(device="cpu")
    nn.utils.vector_to_parameters(
        torch.zeros(sum(p.numel() for p in template.parameters())), template.parameters()
    )
    return template, tuple(x.shape[1:])


def _modules(entry: dict[str, Any], x: Tensor) -> list[nn.Module]:
    """The modules of one entry, given what the layers before it return."""
    kind = next(iter(entry), "")
    if kind not in ENTRIES:
        raise ValueError(f"unknown layer {entry}: its first word must be one of {', '.join(ENTRIES)}")
    size = entry.pop(kind)
    known = {"conv": {"kernel", "stride", "padding", "dilation", "groups", "bias"}, "linear": {"bias"}}
    known |= {"max_pool": {"stride", "padding"}, "avg_pool": {"stride", "padding"}}
    known |= {"conv_transpose": known["conv"] | {"output_padding"}}
    if unknown := set(entry) - known.get(kind, set()):
        raise ValueError(f"unknown words {sorted(unknown)} in layer {kind}: {size}")
    if kind in ("conv", "conv_transpose"):
        if "kernel" not in entry:
            raise ValueError(f"layer {kind}: {size} lacks its kernel, the side of the filter")
        of = nn.Conv2d if kind == "conv" else nn.ConvTranspose2d
        return [of(x.shape[1], size, entry.pop("kernel"), **entry)]
    if kind == "linear":
        flat = [nn.Flatten()] if x.dim() > 2 else []
        return [*flat, nn.Linear(math.prod(x.shape[1:]), size, **entry)]
    if kind == "activation":
        if size not in ACTIVATIONS:
            raise ValueError(f"unknown activation {size}: it must be one of {', '.join(ACTIVATIONS)}")
        return [ACTIVATIONS[size]()]
    if kind == "flatten":
        return [nn.Flatten()]
    if kind == "unflatten":
        return [nn.Unflatten(1, tuple(size))]
    return [(nn.MaxPool2d if kind == "max_pool" else nn.AvgPool2d)(size, **entry)]
