"""The map from the bytes of images to the inputs of a network: size, three channels, public normalisation.

>>> Inputs(2, [0.0, 0.0, 0.0], [1.0, 0.5, 1.0])(torch.full((1, 1, 2, 2), 51, dtype=torch.uint8))[0, :, 0, 0]
tensor([0.2000, 0.4000, 0.2000])
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dplangevin.checks import require

RESIZE = ("none", "antialias")


@dataclass(frozen=True)
class Inputs:
    """The map ``(resized(x / 255) - mean_c) / std_c`` in channel c of three, with constants of the public set."""

    size: int
    mean: Sequence[float]
    std: Sequence[float]

    def __post_init__(self) -> None:
        right = len(self.mean) == len(self.std) == 3 and min(self.std) > 0
        require(right, f"mean {list(self.mean)} and std {list(self.std)}: give three numbers each, std > 0")

    def __call__(self, pixels: Tensor, resize: str = "none") -> Tensor:
        """Map images ``(B, 1 or 3, H, W)`` uint8 to ``(B, 3, size, size)`` float32; grey is repeated.

        `resize` is for images of another size. "antialias": bilinear, with a triangle filter as wide as the reduction.
        "none": only images of the right size are accepted.
        """
        require(resize in RESIZE, f"resize = {resize!r} must be one of {', '.join(RESIZE)}")
        found = f"images are {pixels.dtype} {tuple(pixels.shape)}"
        require(
            pixels.dtype == torch.uint8 and pixels.ndim == 4 and pixels.shape[1] in (1, 3),
            f"{found}: give uint8 (B, 1 or 3, H, W)",
        )
        side, x = (self.size, self.size), pixels.to(torch.float32).div_(255)
        if pixels.shape[2:] != side:
            require(
                resize != "none", f"{found}, the backbone takes {side[0]}x{side[1]}: set resize to antialias"
            )
            x = F.interpolate(x, side, mode="bilinear", antialias=True)
        mean, std = (torch.tensor(list(v), device=x.device).view(3, 1, 1) for v in (self.mean, self.std))
        return (x - mean) / std
