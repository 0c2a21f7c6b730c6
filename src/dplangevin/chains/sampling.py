"""Which rows a step sees: Poisson samples, uniform subsets without replacement, or all rows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from dplangevin import noise

Scheme = Literal["poisson", "subset", "full"]


class Batch(NamedTuple):
    """Of one step and every seed.

    rows: ``(S, B)`` indices, the start of a uniformly random order of the rows.  sizes: ``(S,)``, how many of them,
    from the start, are the seed's Poisson sample; None where no chain draws one.  normals: standard, ``(S, 1, d)``.
    """

    rows: Tensor
    sizes: Tensor | None
    normals: Tensor

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(None if part is None else part.to(device) for part in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sampling:
    """How a step draws its minibatch, and for how many steps.

    scheme: "poisson", each row is in the minibatch with probability batch/n (q), independently; "subset", a uniform
    subset of `batch` rows, drawn without replacement and anew each step; "full", all rows (batch is then n).
    batch: tau, in 1..n, of Poisson samples the expected size; None: round(sqrt(n)).  epochs: passes over the rows, > 0;
    None: sqrt(n), as wang2015 runs its experiments.  There are ``T = floor(n epochs/tau)`` steps, so never more passes
    than are stated.
    Raises ValueError, naming it, for a number out of its domain.
    """

    scheme: Scheme
    batch: int | None = None
    epochs: float | None = None

    def __post_init__(self) -> None:
        if self.scheme not in get_args(Scheme):
            raise ValueError(f"scheme must be one of {', '.join(get_args(Scheme))}, not {self.scheme!r}")
        if self.scheme == "full" and self.batch is not None:
            raise ValueError(f"scheme full takes all rows: leave out batch = {self.batch}")
        if self.batch is not None and not (self.batch >= 1 and self.batch == int(self.batch)):
            raise ValueError(f"batch must be a whole number of at least 1, not {self.batch}")
        if self.epochs is not None and not (self.epochs > 0 and math.isfinite(self.epochs)):
            raise ValueError(f"epochs must be positive and finite, not {self.epochs}")

    def size(self, n: int) -> int:
        """tau, of n rows."""
        if self.scheme == "full":
            return n
        size = round(math.sqrt(n)) if self.batch is None else int(self.batch)
        if size > n:
            raise ValueError(f"batch = {size} is larger than the data set ({n} rows): lower it")
        return size

    def rate(self, n: int) -> float:
        """q = tau/n."""
        return self.size(n) / n

    def steps(self, n: int) -> int:
        """T."""
        epochs = math.sqrt(n) if self.epochs is None else self.epochs
        steps = math.floor(n * epochs / self.size(n))
        if steps < 1:
            raise ValueError(f"epochs = {epochs:g} make no step with batch = {self.size(n)}: raise epochs")
        return steps


def batches(
    rng: torch.Generator, schemes: set[Scheme], seeds: int, n: int, size: int, d: int, steps: int, block: int
) -> Iterator[Batch]:
    """`steps` batches for chains of the given schemes, which share rows and normals.

    Drawn are, for `block` steps at a time: where a chain asks for Poisson samples their sizes, ``Binomial(n, size/n)``;
    the start of a random order, long enough for all; normals.  The first `size` rows are a uniform subset, the first
    `sizes` a Poisson sample.
    """
    for first in range(0, steps, block):
        shape = min(block, steps - first), seeds
        sizes = None
        longest = size if schemes - {"poisson"} else 1
        if "poisson" in schemes:
            rate = torch.full(shape, size / n)
            sizes = torch.binomial(torch.full(shape, float(n)), rate, generator=rng).long()
            longest = max(longest, int(sizes.max()))
        every = schemes == {"full"}
        rows = torch.arange(n).expand(*shape, n) if every else noise.subsets(rng, shape, n, longest)
        normals = torch.randn(*shape, 1, d, generator=rng)
        for k in range(shape[0]):
            yield Batch(rows[k], None if sizes is None else sizes[k], normals[k])
