"""Conv2d of stacked networks: see layers.py."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dplangevin.engine import ghost
from dplangevin.engine.columns import Columns
from dplangevin.engine.layers import Examples, Parameters, weigh

CACHED = 2**18  # numbers in a block of columns: 1 MB, which the cache of a core holds


class Conv2d:
    """Cross-correlation with zero padding.  padding: rows and columns added on each side."""

    def __init__(self, layer: nn.Conv2d, padding: tuple[int, int]) -> None:
        self.sizes: Sequence[tuple[int, ...]] = [tuple(p.shape) for p in layer.parameters()]
        self.groups = layer.groups
        self.geometry = (layer.stride, padding, layer.dilation)

    def forward(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        networks = zip(x.chunk(len(parameters[0])), zip(*parameters, strict=True), strict=True)
        outputs = [
            F.conv2d(part, p[0], p[1] if p[1:] else None, *self.geometry, self.groups) for part, p in networks
        ]
        return _joined(outputs), x

    def backward(self, parameters: Parameters, x: Tensor, g: Tensor) -> Tensor:
        return _joined([both[0] for both in self._gradients(parameters[0], x, g, (True, False, False))])

    def examples(self, parameters: Parameters, x: Tensor, g: Tensor, norms: bool) -> Examples:
        p, *inner = self.sizes[0]
        rows = g.permute(0, 2, 3, 1).flatten(1, 2)  # (S B, T, p)
        biases = [rows.sum(1)] if parameters[1:] else []

        def by_library(weight: Tensor) -> list[Tensor]:
            scaled = g * weight.view(-1, 1, 1, 1)
            both = self._gradients(parameters[0], x, scaled, (False, True, False))
            return [torch.stack([gradients[1] for gradients in both]), *(weigh(weight, b) for b in biases)]

        if not norms:
            return Examples(None, by_library)
        gram = ghost.gram_is_cheaper(rows.shape[1], inner[0] * inner[1] * inner[2], p // self.groups)
        columns = Columns(x, inner[1:], *self.geometry, self.groups, g.shape[2:])
        squares, written = self._by_blocks(columns, rows, gram)
        squares = sum((ghost.squares(b) for b in biases), squares)

        def by_example(weight: Tensor) -> list[Tensor]:
            return [columns.filters(weigh(weight, written)), *(weigh(weight, b) for b in biases)]

        return Examples(squares, by_library if gram else by_example)

    def _gradients(
        self, weight: Tensor, x: Tensor, g: Tensor, which: tuple[bool, bool, bool]
    ) -> Iterator[Sequence[Tensor]]:
        """PyTorch's gradients in input and weight, network by network."""
        for part, w, out in zip(x.chunk(len(weight)), weight, g.chunk(len(weight)), strict=True):
            yield torch.ops.aten.convolution_backward(
                out, part, w, None, *self.geometry, False, (0, 0), self.groups, which
            )

    def _by_blocks(self, columns: Columns, rows: Tensor, gram: bool) -> tuple[Tensor, Tensor]:
        """``||dW_i||^2``, (S B,), and unless gram dW_i itself, (S B, groups, p/groups, D) or as `filters` has it."""
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
                squares[block] = ghost.gram(a.mT if columns.by_pixel else a, g).view(-1, groups).sum(1)
            else:
                product = (a, g) if columns.by_pixel else (g.mT, a)
                torch.bmm(*product, out=written[block].flatten(0, 1))
                squares[block] = ghost.squares(written[block])
        return squares, written


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
