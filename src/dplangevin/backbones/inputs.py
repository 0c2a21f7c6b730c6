"""The map from the bytes of images to the inputs of a network: size, three channels, public normalisation.

>>> Inputs(2, [0.0, 0.0, 0.0], [1.0, 0.5, 1.0])(torch.full((1, 1, 2, 2), 51, dtype=torch.uint8))[0, :, 0, 0]
tensor([0.2000, 0.4000, 0.2000])
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

RESIZE = ("none", "antialias", "area")


@dataclass(frozen=True)
class Inputs:
    """The map ``(resized(x / 255) - mean_c) / std_c`` in channel c of three.

    Mean and std belong to the weights: they are constants of the public set on which these were trained.
    """

    size: int
    mean: Sequence[float]
    std: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ValueError(
                f"mean {list(self.mean)} and std {list(self.std)}: give three numbers each, std > 0"
            )

    def __call__(self, pixels: Tensor, resize: str = "none") -> Tensor:
        """Map images ``(B, 1 or 3, H, W)`` uint8 to ``(B, 3, size, size)`` float32; grey is repeated.

        `resize` is for images of another size. "antialias": bilinear, with a triangle filter as wide as the reduction.
        "area": the mean over the pixels that a new pixel touches. "none": only images of the right size are accepted.
        """
        if resize not in RESIZE:
            raise ValueError(f"resize = {resize!r} must be one of {', '.join(RESIZE)}")
        if pixels.dtype != torch.uint8 or pixels.ndim != 4:
            raise ValueError(f"pixels are {pixels.dtype} {tuple(pixels.shape)}: give uint8 (B, C, H, W)")
        if pixels.shape[1] not in (1, 3):
            raise ValueError(
                f"images have {pixels.shape[1]} channels: a backbone takes 1 (grey) or 3 (colour)"
            )
        x = pixels.to(torch.float32).div_(255)
        side = (self.size, self.size)
        if pixels.shape[2:] != side:
            found = f"images are {pixels.shape[2]}x{pixels.shape[3]}"
            if resize == "none":
                raise ValueError(
                    f"{found}, the backbone takes {self.size}x{self.size}: set resize to antialias or area"
                )
            smooth = resize == "antialias"
            mode = "bilinear" if smooth else "area"
            x = F.interpolate(x, side, mode=mode, antialias=smooth)
        mean, std = (torch.tensor(list(v), device=x.device).view(3, 1, 1) for v in (self.mean, self.std))
        return (x - mean) / std
