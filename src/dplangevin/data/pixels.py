"""Pixels as networks see them: through a public map that reads nothing off the images, a batch at a time.

>>> scaled(torch.tensor([0, 51, 255], dtype=torch.uint8))
tensor([-1.0000, -0.6000,  1.0000])
"""

import torch
from torch import Tensor


def scaled(x: Tensor) -> Tensor:
    """x / 127.5 - 1 in float32, elementwise: the public map of pixels 0, ..., 255 to [-1, 1].

    x: any shape, uint8, on any device; the result is new. Raises ValueError for another type.
    """
    if x.dtype != torch.uint8:
        raise ValueError(f"pixels are {x.dtype}: give them as uint8, unscaled")
    return x.to(torch.float32).div_(127.5).sub_(1.0)
