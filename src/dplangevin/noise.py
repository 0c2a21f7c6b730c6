"""The only place that draws random numbers for private releases and samplers.

Draws are shared along the budget axis (common random numbers: budgets are compared on paired noise) and independent
along repeats.  This is a research generator (Mersenne Twister through torch), not a cryptographically secure one.
"""

import zlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor


def generator(seed: int, label: str) -> torch.Generator:
    """Generator seeded with ``SeedSequence([seed, crc32(label)])``: one independent stream per label."""
    state = np.random.SeedSequence([seed, zlib.crc32(label.encode())]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def gaussian(rng: torch.Generator, repeats: int, d: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal ``(repeats, 1, d)``, to be multiplied by a standard deviation per budget."""
    return torch.randn(repeats, 1, d, generator=rng, dtype=dtype)


def gamma_ball(rng: torch.Generator, repeats: int, d: int) -> Tensor:
    """Vectors ``(repeats, 1, d)`` with density proportional to ``exp(-||b||)``: norm ~ Gamma(d, 1), uniform direction.

    Float64.  Divide by the rate (Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2).
    """
    direction = torch.randn(repeats, 1, d, generator=rng, dtype=torch.float64)
    # a Gamma(d) variate is a sum of d unit exponentials, -log of uniforms in (0, 1]
    length = -(1 - torch.rand(repeats, 1, d, generator=rng, dtype=torch.float64)).log().sum(-1, keepdim=True)
    return length * direction / direction.norm(dim=-1, keepdim=True)


def subsets(rng: torch.Generator, shape: tuple[int, ...], n: int, size: int) -> Tensor:
    """Uniform random subsets of ``{0..n-1}`` of the given size, without replacement: indices ``(*shape, size)``.

    Draws with replacement and draws again, for each later copy of a value, until all differ.  Every step treats all
    values alike, so by symmetry each subset of that size is equally likely, and so is each start of it.
    """
    if not 0 < size <= n:
        raise ValueError(f"a subset of {size} of {n} rows does not exist: batch must be in 1..{n}")
    if size > n // 4:
        keys = torch.rand(*shape, n, generator=rng)
        return keys.topk(size, dim=-1).indices
    out = torch.randint(n, (int(np.prod(shape)), size), generator=rng)
    rows = torch.arange(len(out))
    while len(rows):
        values, order = out[rows].sort(dim=-1, stable=True)
        copies = torch.zeros_like(values, dtype=torch.bool)
        copies[:, 1:] = values[:, 1:] == values[:, :-1]
        again = torch.zeros_like(copies).scatter_(-1, order, copies)
        count = int(again.sum())
        part = out[rows]
        part[again] = torch.randint(n, (count,), generator=rng)
        out[rows] = part
        rows = rows[again.any(-1)]
    return out.reshape(*shape, size)


def minibatch_stream(
    rng: torch.Generator, repeats: int, n: int, size: int, d: int, steps: int, block: int = 256
) -> Iterator[tuple[Tensor, Tensor]]:
    """`steps` pairs: a minibatch per repeat, indices ``(repeats, size)``; standard normals ``(repeats, 1, d)``."""
    for start in range(0, steps, block):
        count = min(block, steps - start)
        rows = subsets(rng, (count, repeats), n, size)
        normals = torch.randn(count, repeats, 1, d, generator=rng)
        yield from zip(rows, normals, strict=True)


def poisson_stream(
    rng: torch.Generator, repeats: int, n: int, rate: float, d: int, steps: int, block: int = 64
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """`steps` triples: per repeat a Poisson sample of the rows, each in it with probability `rate`; standard normals.

    The sample is padded: indices ``(repeats, size)`` and a mask ``(repeats, size)``, False for padding; normals
    ``(repeats, 1, d)``.  A Binomial(n, rate) number of rows, then a uniform subset of that size; `size` is the largest
    number in the block.
    """
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be in (0, 1], not {rate}: it is batch/n")
    for start in range(0, steps, block):
        count = min(block, steps - start)
        numbers = torch.binomial(
            torch.full((count, repeats), float(n)), torch.full((count, repeats), float(rate)), generator=rng
        ).long()
        size = max(1, int(numbers.max()))
        rows = subsets(rng, (count, repeats), n, size)
        mask = torch.arange(size) < numbers[..., None]
        normals = torch.randn(count, repeats, 1, d, generator=rng)
        yield from zip(rows, mask, normals, strict=True)
