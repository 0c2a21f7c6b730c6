"""Convolutions that hold the batch normalisation after them, for evaluation."""

import copy

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dplangevin.backbones import Backbone


def fused(backbone: Backbone) -> Backbone:
    """A copy, in evaluation mode, whose batch normalisations are part of the convolutions before them.

    ``gamma (W x - mu) / s + beta = (gamma W / s) x + (beta - gamma mu / s)``, s = sqrt(var + eps): the same function
    but for rounding, with fewer passes over memory.  ValueError for a normalisation that is not registered right after
    a convolution of as many channels, and for a backbone in training mode.
    """
    if backbone.training:
        raise ValueError("the backbone is in training mode, where statistics change: call .eval()")
    made = copy.deepcopy(backbone)
    for path, parent in list(made.named_modules()):
        named = list(parent.named_children())
        for (first, conv), (second, norm) in zip([("", parent), *named], named, strict=False):
            if not isinstance(norm, nn.BatchNorm2d):
                continue
            if not isinstance(conv, nn.Conv2d) or conv.out_channels != norm.num_features:
                raise ValueError(
                    f"{path}.{second} normalises {norm.num_features} channels, but what is registered before "
                    f"it is {type(conv).__name__}: register it right after its convolution"
                )
            setattr(parent, first, fuse_conv_bn_eval(conv, norm))
            setattr(parent, second, nn.Identity())
    return made
