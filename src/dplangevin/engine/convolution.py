"""The layer Conv2d of stacked networks: as in im2col, the patches of its input are the rows of a matrix."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dplangevin.engine import ghost
from dplangevin.engine.layers import Parameters, PerExampleGradients, weighted_sum

CACHED = 2**18  # numbers in a block of columns: 1 MB, which fits into the cache of a core


def layout(device: torch.device) -> torch.memory_format:
    """Return the memory format of images that is fast on a device and safe there.

    On processors without AVX-512, torch 2.13 writes outside of its memory in the gradient of 1x1 convolutions with
    stride 2 and fewer than 8 input channels, if channels are last.
    """
    safe = device.type != "cpu" or torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return torch.channels_last if safe else torch.contiguous_format


class Columns:
    """Patches of images x (n, C, H, W): T places, each with the D = c kh kw inputs of a filter, c = C/groups.

    All of them are one strided view, of which `block` copies a part.  A copy moves runs of neighbouring numbers: a
    row of a patch with all its channels, or, if there are few (`by_pixel`), a row of output pixels.
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
            # every stride-th row and column goes into a plane, in which the outputs of a row are neighbours
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
        """Return the patches of examples, (examples groups, T, D); if by_pixel, (examples groups, D, T)."""
        view = self.view[examples]
        if self.by_pixel:
            return view.reshape(len(view) * self.groups, self.inputs, self.places)
        if self.groups == 1:
            return view.reshape(len(view), self.places, self.inputs)
        parts = view.unflatten(5, (self.groups, -1)).movedim(5, 1)
        return parts.reshape(len(view) * self.groups, self.places, self.inputs)

    def filters(self, product: Tensor) -> Tensor:
        """Return gradients in the shape of the filters, (S, p, c, kh, kw), from (S, groups, p/groups, D).

        If by_pixel, D comes before p/groups.
        """
        if self.by_pixel:
            return product.mT.flatten(1, 2).unflatten(2, (-1, *self.kernel))
        return product.flatten(1, 2).unflatten(2, (*self.kernel, -1)).movedim(4, 2)


class Conv2d:
    """A cross-correlation with zero padding."""

    def __init__(self, layer: nn.Conv2d, padding: tuple[int, int]) -> None:
        self.sizes: Sequence[tuple[int, ...]] = [tuple(p.shape) for p in layer.parameters()]
        self.groups = layer.groups
        self.geometry = (layer.stride, padding, layer.dilation)
        self.skips = max(layer.stride) > 1 and max(layer.kernel_size) == 1  # pixels; see `layout`

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        networks = zip(x.chunk(len(parameters[0])), zip(*parameters, strict=True), strict=True)
        outputs = [
            F.conv2d(part, p[0], p[1] if p[1:] else None, *self.geometry, self.groups) for part, p in networks
        ]
        return _joined(outputs), x

    def backward(self, parameters: Parameters, x: Tensor, g: Tensor) -> Tensor:
        return _joined([both[0] for both in self._gradients(parameters[0], x, g, (True, False, False))])

    def per_example_gradients(
        self, parameters: Parameters, x: Tensor, g: Tensor, norms: bool
    ) -> PerExampleGradients:
        p, *inner = self.sizes[0]
        rows = g.permute(0, 2, 3, 1).flatten(1, 2)  # (S B, T, p)
        biases = [rows.sum(1)] if parameters[1:] else []

        def by_library(weight: Tensor) -> list[Tensor]:
            scaled = g * weight.view(-1, 1, 1, 1)
            both = self._gradients(parameters[0], x, scaled, (False, True, False))
            return [
                torch.stack([gradients[1] for gradients in both]),
                *(weighted_sum(weight, b) for b in biases),
            ]

        if not norms:
            return PerExampleGradients(None, by_library)
        gram = ghost.gram_is_cheaper(rows.shape[1], inner[0] * inner[1] * inner[2], p // self.groups)
        columns = Columns(x, inner[1:], *self.geometry, self.groups, g.shape[2:])
        squares, written = self._by_blocks(columns, rows, gram)
        squares = sum((ghost.squared_norms(b) for b in biases), squares)

        def by_example(weight: Tensor) -> list[Tensor]:
            return [
                columns.filters(weighted_sum(weight, written)),
                *(weighted_sum(weight, b) for b in biases),
            ]

        return PerExampleGradients(squares, by_library if gram else by_example)

    def _gradients(
        self, weight: Tensor, x: Tensor, g: Tensor, which: tuple[bool, bool, bool]
    ) -> Iterator[Sequence[Tensor]]:
        if self.skips:
            x, g = (of.contiguous(memory_format=layout(of.device)) for of in (x, g))
        for part, w, out in zip(x.chunk(len(weight)), weight, g.chunk(len(weight)), strict=True):
            yield torch.ops.aten.convolution_backward(
                out, part, w, None, *self.geometry, False, (0, 0), self.groups, which
            )

    def _by_blocks(self, columns: Columns, rows: Tensor, gram: bool) -> tuple[Tensor, Tensor]:
        """Return ``||dW_i||^2``, (S B,), and dW_i itself, (S B, groups, p/groups, D); an empty tensor if `gram`.

        If by_pixel, D comes before p/groups.
        """
        (n, places, p), groups, inputs = rows.shape, self.groups, columns.inputs
        squares = rows.new_empty(n)
        shape = (inputs, p // groups) if columns.by_pixel else (p // groups, inputs)
        written = rows.new_empty(0 if gram else n, groups, *shape)
        step = n if rows.is_cuda else max(1, CACHED // (places * inputs * groups))
        for start in range(0, n, step):
            block = slice(start, start + step)
            a = columns.block(block)
            g = rows[block].unflatten(2, (groups, -1)).transpose(1, 2).flatten(0, 1)
            if gram:
                squares[block] = (
                    ghost.gram_squared_norms(a.mT if columns.by_pixel else a, g).view(-1, groups).sum(1)
                )
            else:
                product = (a, g) if columns.by_pixel else (g.mT, a)
                torch.bmm(*product, out=written[block].flatten(0, 1))
                squares[block] = ghost.squared_norms(written[block])
        return squares, written


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
