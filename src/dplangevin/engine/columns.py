"""The patches that a convolution multiplies with its filters, as the rows of a matrix."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


class Columns:
    """Patches of images x (n, C, H, W): T places, each with the D = c kh kw inputs of a filter, c = C/groups.

    Patches overlap, so that they are one strided view; a block of it is copied when it is asked for.  Copies go in runs
    of neighbours: a patch's row, all channels of it, or with few channels the pixels of one row of outputs.
    """

    def __init__(
        self,
        x: Tensor,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
        output: Sequence[int],
    ) -> None:
        n, channels = x.shape[:2]
        self.kernel, self.groups, self.places = tuple(kernel), groups, output[0] * output[1]
        self.inputs = channels // groups * kernel[0] * kernel[1]
        whole = all(
            s == 1 or (k % s == 0 and d == 1) for k, s, d in zip(kernel, stride, dilation, strict=True)
        )
        self.by_pixel = whole and output[1] > channels * kernel[1]
        rest = [-(x.shape[2 + i] + 2 * padding[i]) % stride[i] if self.by_pixel else 0 for i in (0, 1)]
        if any(padding) or any(rest):
            x = F.pad(x, (padding[1], padding[1] + rest[1], padding[0], padding[0] + rest[0]))
        if self.by_pixel:
            # every stride-th row and column into a plane of their own, in which the outputs of a row are neighbours
            x = (
                x.unflatten(3, (-1, stride[1]))
                .unflatten(2, (-1, stride[0]))
                .permute(0, 1, 3, 5, 2, 4)
                .contiguous()
            )
            example, channel, plane, slot, row, column = x.stride()
            sizes = (kernel[0] // stride[0], stride[0], kernel[1] // stride[1], stride[1])
            steps = (row * dilation[0], plane, column * dilation[1], slot)
            self.view = x.as_strided((n, channels, *sizes, *output), (example, channel, *steps, row, column))
        else:
            x = x.contiguous(memory_format=torch.channels_last)
            example, channel, row, column = x.stride()
            steps = (row * stride[0], column * stride[1], row * dilation[0], column * dilation[1])
            self.view = x.as_strided((n, *output, *kernel, channels), (example, *steps, channel))

    def block(self, examples: slice) -> Tensor:
        """The patches of some examples, (examples groups, T, D); by_pixel: (examples groups, D, T)."""
        view = self.view[examples]
        if self.by_pixel:
            return view.reshape(len(view) * self.groups, self.inputs, self.places)
        if self.groups == 1:
            return view.reshape(len(view), self.places, self.inputs)
        parts = view.unflatten(5, (self.groups, -1)).movedim(5, 1)
        return parts.reshape(len(view) * self.groups, self.places, self.inputs)

    def filters(self, product: Tensor) -> Tensor:
        """Gradients (S, groups, p/groups, D) as of the filters, (S, p, c, kh, kw); by_pixel: of D and p in turn."""
        if self.by_pixel:
            return product.mT.flatten(1, 2).unflatten(2, (-1, *self.kernel))
        return product.flatten(1, 2).unflatten(2, (*self.kernel, -1)).movedim(4, 2)
