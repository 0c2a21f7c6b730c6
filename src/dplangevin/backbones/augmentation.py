"""Random crops and mirror images."""

import torch
from torch import Tensor
from torch.nn import functional as F


def shifted(images: Tensor, padding: int, flip: bool, rng: torch.Generator) -> Tensor:
    """Return images (B, C, H, W), padded with 0 and cut at random; `flip` mirrors half of them; `rng` is on the CPU."""
    count, _, height, width = images.shape
    places = torch.randint(2 * padding + 1, (2, count, 1), generator=rng)
    mirrored = torch.rand(count, 1, generator=rng) < (0.5 if flip else 0.0)
    rows = places[0] + torch.arange(height)  # (B, H)
    columns = torch.arange(width).expand(count, width)
    columns = places[1] + torch.where(mirrored, columns.flip(1), columns)  # (B, W)
    framed = F.pad(images, (padding,) * 4)
    b, i, j = (
        part.to(images.device)
        for part in (torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :])
    )
    return framed.permute(0, 2, 3, 1)[b, i, j].permute(0, 3, 1, 2)
