"""The only place that draws minibatches and the noise of chains and of perturbed fits, on which their privacy rests.

Draws of chains are shared along the axis of budgets and variants (common random numbers: they are compared on paired
noise); those of perturbed fits and of posterior samples are not, so that an unlucky draw is one budget's and not all of
theirs.  Along seeds all are independent.  This is a research generator (Mersenne Twister through torch), not a
cryptographically secure one.  A seed below 2^64 names one of 2^32 streams, which can all be tried: a release that is
published draws from `unpredictable`, or from a seed of 128 bits of the system's entropy that is kept secret.
"""

import hashlib
import math
import secrets
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# of the state that torch gives out: a seed of 8 bytes, two numbers of 4 and one of 8 come before the words, in 8 each
STATE, WORDS = 24, 624
NORMALS = torch.float64  # the precision that noise is drawn in
EXACT = 2**24  # whole numbers that float32 holds
FINE = 2.0**-26  # below it a uniform number is drawn with more digits
LARGE = 2**64  # seeds from which on all their bits count


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


def generator(seed: int, label: str) -> torch.Generator:
    """Generator of a seed >= 0: one stream per label.

    Below `LARGE` it is seeded with ``SeedSequence([seed, crc32(label)])``, of which torch takes 32 bits.  From `LARGE`
    on SHAKE-256 of seed and label gives the whole state: no stream tells the seed, or another stream.
    """
    if seed >= LARGE:
        return _with_state(hashlib.shake_256(f"{seed} {label}".encode()).digest(4 * WORDS))
    state = np.random.SeedSequence([seed, zlib.crc32(label.encode())]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def unpredictable() -> torch.Generator:
    """Generator whose whole state, 624 words of 32 bits, is the system's entropy: no seed can be tried."""
    return _with_state(secrets.token_bytes(4 * WORDS))


def _with_state(content: bytes) -> torch.Generator:
    """Generator whose words are these, 4 bytes each."""
    made = torch.Generator().manual_seed(0)
    state = made.get_state()
    words = np.frombuffer(content, "<u4").astype(np.uint64)
    state[STATE : STATE + 8 * WORDS] = torch.from_numpy(words.view(np.uint8).copy())
    return made.set_state(state)


def uniform(rng: torch.Generator, count: int) -> Tensor:
    """Uniform on (0, 1), ``(count,)`` in float64, small values as accurate as large ones.

    torch's are multiples of 2^-53.  Given that one is below 2^-26, it is 2^-26 times another uniform, which is drawn.
    """
    found = torch.rand(count, generator=rng, dtype=torch.float64)
    small = (found < FINE).nonzero()[:, 0]
    if len(small):
        found[small] = FINE * uniform(rng, len(small))
    return found


def noise(rng: torch.Generator, *shape: int, dtype: torch.dtype = NORMALS) -> Tensor:
    """Standard normals that hide records: all Gaussian noise of every private method is a multiple of these.

    In float64 by the transform of Box and Muller (1958), sqrt(-2 log u) times cosine and sine of a uniform angle, of a
    u from `uniform`: with tails to 38 standard deviations.  torch's own end where its u does, at sqrt(106 log 2) = 8.57
    and in float32, where they are taken, at sqrt(48 log 2) = 5.77: what lies beyond tells two neighbours apart, with a
    probability that no delta pays for.
    """
    if dtype == torch.float32:
        return torch.randn(*shape, generator=rng)
    count = math.prod(shape)
    radius = uniform(rng, (count + 1) // 2).log_().mul_(-2).sqrt_()
    angle = torch.rand(len(radius), generator=rng, dtype=torch.float64).mul_(2 * math.pi)
    return torch.cat([radius * angle.cos(), radius * angle.sin()])[:count].view(shape)


def gamma_ball(rng: torch.Generator, *shape: int) -> Tensor:
    """Density proportional to ``exp(-||b||)`` on R^d, ``(..., d)`` in float64."""
    direction = noise(rng, *shape)
    # the length is Gamma(d, 1): the sum of d unit exponentials, -log of uniforms
    length = -uniform(rng, math.prod(shape)).log().view(shape).sum(-1, keepdim=True)
    return length * direction / direction.norm(dim=-1, keepdim=True)


def integers(rng: torch.Generator, n: int, *shape: int) -> Tensor:
    """Uniform on ``{0..n-1}``.

    torch's are words of 32 bits modulo n, which makes low values too likely, by up to n/2^32: 2^-16 where they are
    taken; beyond, words of 62 bits are.
    """
    if n <= 2**16:
        return torch.randint(n, shape, generator=rng)
    return torch.randint(2**62, shape, generator=rng) % n


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
    out = integers(rng, n, int(np.prod(shape)), size)
    drawn, rows = out.numpy(), np.arange(len(out))
    bits = (size - 1).bit_length()  # of a place
    whole = np.int32 if n << bits < 2**31 else np.int64
    places: NDArray[np.signedinteger[Any]] = np.arange(size).astype(whole)
    while len(rows):
        # a value and its place in one number: sorted as a stable sort has them
        ordered: NDArray[np.signedinteger[Any]] = drawn[rows].astype(whole)
        ordered <<= bits
        ordered |= places
        ordered.sort()
        values = ordered >> bits
        among, at = np.nonzero(values[:, 1:] == values[:, :-1])
        later = among << bits | ordered[among, at + 1] & ((1 << bits) - 1)  # row and place of later copies
        later.sort()
        among, at = later >> bits, later & ((1 << bits) - 1)
        drawn[rows[among], at] = integers(rng, n, len(later)).numpy()
        rows = rows[np.unique(among)]
    return out.reshape(*shape, size)


def epochs(seed: int, seeds: int, n: int, size: int, first: int) -> Iterator[Tensor]:
    """Rows ``(seeds, size)`` of step `first` and of all later ones, see "shuffled" of `chains.sampling`; seed: of the
    orders, each drawn from a stream of its own, so that a run can be resumed within an epoch."""
    epoch, done = divmod(first, n // size)
    while True:
        streams = [generator(seed, f"epoch {epoch} of {s}") for s in range(seeds)]
        order = torch.stack([torch.randperm(n, generator=stream) for stream in streams])
        yield from order.split(size, 1)[done : n // size]
        epoch, done = epoch + 1, 0


def batches(
    rng: torch.Generator,
    schemes: set[str],
    seeds: int,
    n: int,
    size: int,
    d: int,
    steps: int,
    block: int,
    shuffled: Iterator[Tensor] | None = None,
    drawn_in: torch.dtype = NORMALS,
) -> Iterator[Batch]:
    """`steps` batches for chains of the given sampling schemes, which share rows and normals.

    Drawn are, for `block` steps at a time: where one of them is "poisson" the sizes, ``Binomial(n, size/n)``; the start
    of a random order, long enough for all; normals.  The first `size` rows are a uniform subset, the first `sizes` a
    Poisson sample.  shuffled: the rows of the scheme of that name, from `epochs`; no other scheme can share them.
    drawn_in: the precision that normals are drawn in before they are rounded to float32, see `noise`.
    """
    if shuffled is not None:
        for rows in islice(shuffled, steps):
            yield Batch(rows, None, noise(rng, seeds, 1, d, dtype=drawn_in).float())
        return
    for first in range(0, steps, block):
        shape = min(block, steps - first), seeds
        sizes = None
        longest = size if schemes - {"poisson"} else 1
        if "poisson" in schemes:
            count = torch.full(shape, n, dtype=torch.float32 if n <= EXACT else torch.float64)
            sizes = torch.binomial(count, torch.full_like(count, size / n), generator=rng).long()
            longest = max(longest, int(sizes.max()))
        every = schemes == {"full"}
        rows = torch.arange(n).expand(*shape, n) if every else subsets(rng, shape, n, longest)
        normals = noise(rng, *shape, 1, d, dtype=drawn_in).float()
        for k in range(shape[0]):
            yield Batch(rows[k], None if sizes is None else sizes[k], normals[k])
