"""Pixels in the range that networks take; the map is public and reads nothing off the images.

>>> scaled(torch.tensor([0, 51, 255], dtype=torch.uint8))
tensor([-1.0000, -0.6000,  1.0000])
"""

import torch
from torch import Tensor


def scaled(x: Tensor) -> Tensor:
    """Return x / 127.5 - 1 in float32, elementwise: the public map from pixels 0, ..., 255 to [-1, 1]."""
    if x.dtype != torch.uint8:
        raise ValueError(f"pixels are {x.dtype}: give them as uint8, unscaled")
    return x.to(torch.float32).div_(127.5).sub_(1.0)
