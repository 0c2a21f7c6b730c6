"""The choice between the engine's own layers and torch.func; a network that mixes examples is refused."""

import functools
import logging
import math

from torch import nn

from dplangevin.engine.convolution import Conv2d
from dplangevin.engine.layers import LAYERS, Layer, Linear

log = logging.getLogger(__name__)
Plan = list[Layer]


def plan(module: nn.Module) -> Plan | None:
    """Return the engine's layers for a module, or None, with one log line, if torch.func is to differentiate it."""
    check_supported(module)
    try:
        return layers_of(module)
    except UnsupportedLayer as reason:
        _log(str(reason))
        return None


@functools.cache  # so that each reason is logged once
def _log(reason: str) -> None:
    log.warning("%s: gradients by torch.func, which is slower", reason)


def materialised_size(layers: Plan | None, d: int) -> int:
    """Return an upper bound on how many numbers of an example's gradient are written out for its norm."""
    return d if layers is None else sum(math.prod(m.sizes[0]) for m in layers if isinstance(m, Conv2d))


class UnsupportedLayer(Exception):
    """The reason why the engine's own layers cannot run a module."""


def check_supported(module: nn.Module) -> None:
    """Raise ValueError if examples have no gradient of their own in a module, or if a parameter is frozen."""
    for name, layer in module.named_modules():
        who = f"layer {name or 'itself'} ({type(layer).__name__})"
        if isinstance(layer, nn.modules.batchnorm._NormBase) and (
            layer.training or layer.running_mean is None
        ):
            own = isinstance(layer, nn.modules.instancenorm._InstanceNorm) and not layer.track_running_stats
            if not own:
                raise ValueError(
                    f"{who} mixes the examples of a batch, so that none has a gradient of its own: use "
                    "nn.GroupNorm, or put a layer with running statistics into evaluation mode by .eval()"
                )
        random = isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0 and layer.training
        random |= isinstance(layer, nn.RReLU) and layer.training
        if random or isinstance(layer, nn.FractionalMaxPool2d):
            raise ValueError(f"{who} is random: leave it out, or put it into evaluation mode by .eval()")
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise ValueError(
                f"parameter {name} is frozen, but every parameter of a network is trained: make it a buffer, or "
                "call .requires_grad_(True)"
            )


def layers_of(module: nn.Module) -> Plan:
    """Return the engine's layers of a module, in order.

    A non-decreasing activation h before max-pooling is applied after it instead, to fewer numbers.  Maximum and h
    commute.  The place of the gradient may differ where h rounds different inputs to one value, as beyond the kink
    of ReLU and in the tails of tanh; there h' is 0 or of the size of rounding errors.
    """
    named = _flat(module, "")
    if (shared := len(list(module.parameters()))) != sum(len(list(m.parameters())) for _, m in named):
        raise UnsupportedLayer(f"one of its {shared} parameters is used twice in {type(module).__name__}")
    for i in range(len(named) - 1):
        if type(named[i][1]) in (nn.ReLU, nn.Tanh) and type(named[i + 1][1]) is nn.MaxPool2d:
            named[i], named[i + 1] = named[i + 1], named[i]
    return [_layer(layer, f"layer {name} ({type(layer).__name__})") for name, layer in named]


def _flat(module: nn.Module, name: str) -> list[tuple[str, nn.Module]]:
    """Return the layers with their names, in the order in which they run, also those of an inner Sequential."""
    if type(module) is not nn.Sequential:
        return [(name or "itself", module)]
    _untouched(module, f"layer {name or 'itself'} (Sequential)")
    return [
        pair
        for key, child in module._modules.items()
        if child
        for pair in _flat(child, f"{name}.{key}".lstrip("."))
    ]


def _untouched(layer: nn.Module, who: str) -> None:
    """Raise UnsupportedLayer for a layer with hooks or a replaced forward."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if any(getattr(layer, hook) for hook in hooks) or "forward" in vars(layer):
        raise UnsupportedLayer(f"{who} has hooks or a forward of its own")


def _layer(layer: nn.Module, who: str) -> Layer:
    _untouched(layer, who)
    kind = type(layer)
    if isinstance(layer, nn.Linear) and kind is nn.Linear:
        return Linear(layer)
    if isinstance(layer, nn.Conv2d) and kind is nn.Conv2d:
        return Conv2d(layer, _padding(layer, who))
    if kind is nn.Flatten and (layer.start_dim, layer.end_dim) != (1, -1):
        raise UnsupportedLayer(f"{who} does not flatten all of an example")
    if kind is nn.MaxPool2d and layer.return_indices:
        raise UnsupportedLayer(f"{who} returns indices")
    if kind in LAYERS:
        return LAYERS[kind](layer)
    raise UnsupportedLayer(f"{who} is not one that the engine knows")


def _padding(layer: nn.Conv2d, who: str) -> tuple[int, int]:
    if layer.padding_mode != "zeros":
        raise UnsupportedLayer(f"{who} pads with something other than zeros")
    if not isinstance(layer.padding, str):
        return layer.padding[0], layer.padding[1]
    if layer.padding == "valid":
        return 0, 0
    both = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
    if any(total % 2 for total in both):
        raise UnsupportedLayer(f"{who} pads its sides unequally")
    return both[0] // 2, both[1] // 2
