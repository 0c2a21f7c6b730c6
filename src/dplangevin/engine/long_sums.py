"""Sums over many records, in which rounding moves no record further than its price says.

A float32 sum of n terms is rounded to multiples of about ``n 2^-24`` times the largest term, by which two
neighbours can be rounded apart.  So a long sum is made of float32 products of few rows, added in float64.
"""

import torch
from torch import Tensor

LONG = 1024  # a sum of so many terms may be one float32 product
BLOCK = 128  # terms of a longer sum that are added in float32
CELLS = 2**22  # numbers of such products that are held at a time


def weighted(weight: Tensor, x: Tensor) -> Tensor:
    """Return ``weight @ x``, ``(S, C, p)``, for weights ``(S, C, n)`` and rows ``(S, n, p)``; float64 above `LONG`."""
    n, columns = x.shape[1], weight.shape[1] * x.shape[2] * len(x)
    if n <= LONG or x.dtype == torch.float64:
        return weight @ x
    whole = n // BLOCK * BLOCK
    total = (weight[..., whole:] @ x[:, whole:]).double()
    at_once = max(1, CELLS // columns) * BLOCK
    for first in range(0, whole, at_once):
        at = slice(first, min(first + at_once, whole))
        blocks = weight[..., at].unflatten(-1, (-1, BLOCK)).transpose(1, 2)  # (S, blocks, C, BLOCK)
        total += (blocks @ x[:, at].unflatten(1, (-1, BLOCK))).sum(1, dtype=torch.float64)
    return total
