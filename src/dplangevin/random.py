"""The only module that draws minibatches and the noise of chains and perturbed fits, on which privacy rests.

Draws of chains are shared along the axis of budgets and variants (common random numbers). Those of perturbed fits and
posterior samples are not, so that an unlucky draw affects one budget. Along seeds all draws are independent.

The generator is for research (Mersenne Twister through torch), not cryptographically secure. A seed below 2^64 names
one of 2^32 streams, and an attacker can try all of them. For a release that is published, draw from `unpredictable`, or
from a seed of 128 bits of the system's entropy that is kept secret.
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

# In the state that torch returns, STATE bytes come first: a seed of 8 bytes, two numbers of 4 and one of 8.
# Then come WORDS words of the Mersenne Twister, in 8 bytes each.
STATE, WORDS = 24, 624
NORMALS = torch.float64  # precision in which noise is drawn
EXACT = 2**24  # float32 holds all whole numbers up to this
FINE = 2.0**-26  # a uniform number below this gets more digits
LARGE = 2**64  # from here on, all bits of a seed count
GRID = 2.0**-10  # of the standard deviation of the noise: what a released sum is rounded to, see `on_grid`
HOST = torch.device("cpu")


class Batch(NamedTuple):
    """The random numbers of one step for every seed.

    - `rows`: (S, B), row indices, the start of a uniformly random order of the rows.
    - `sizes`: (S,), how many of the first `rows` are the seed's minibatch, for chains whose minibatches differ in
      size; None if no chain has such.
    - `normals`: (S, 1, d), standard normal, in the precision in which they were drawn.
    """

    rows: Tensor
    sizes: Tensor | None
    normals: Tensor

    def to(self, device: torch.device) -> "Batch":
        if self.rows.device == device:
            return self
        return Batch(*(None if part is None else part.to(device) for part in self))  # type: ignore[arg-type]


def generator(seed: int, label: str) -> torch.Generator:
    """Return the generator of a seed; each label has a stream of its own.

    Below `LARGE`, the generator is seeded with ``SeedSequence([seed, crc32(label)])``, of which torch takes
    32 bits.  From `LARGE` on, SHAKE-256 of seed and label gives the whole state.  Then no stream reveals the
    seed or another stream.
    """
    if seed >= LARGE:
        return _with_state(hashlib.shake_256(f"{seed} {label}".encode()).digest(4 * WORDS))
    state = np.random.SeedSequence([seed, zlib.crc32(label.encode())]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def unpredictable() -> torch.Generator:
    """Return a generator whose whole state, 624 words of 32 bits, is the system's entropy: no seed can be tried."""
    return _with_state(secrets.token_bytes(4 * WORDS))


def _with_state(content: bytes) -> torch.Generator:
    """Return the generator whose state has the words of `content`, 4 bytes each."""
    made = torch.Generator().manual_seed(0)
    state = made.get_state()
    words = np.frombuffer(content, "<u4").astype(np.uint64)
    state[STATE : STATE + 8 * WORDS] = torch.from_numpy(words.view(np.uint8).copy())
    return made.set_state(state)


def uniform(rng: torch.Generator, count: int) -> Tensor:
    """Draw uniform numbers on (0, 1), ``(count,)`` in float64, with small values as accurate as large ones.

    torch draws multiples of 2^-53.  A uniform number below 2^-26 is 2^-26 times another uniform number, which is drawn
    in its place.
    """
    found = torch.rand(count, generator=rng, dtype=torch.float64)
    small = (found < FINE).nonzero()[:, 0]
    if len(small):
        found[small] = FINE * uniform(rng, len(small))
    return found


def noise(
    rng: torch.Generator, *shape: int, dtype: torch.dtype = NORMALS, device: torch.device = HOST
) -> Tensor:
    """Draw the standard normals that hide records: all Gaussian noise of every private method is a multiple of them.

    In float64 they come from the transform of Box and Muller (1958): sqrt(-2 log u) times the cosine and the
    sine of a uniform angle, with u from `uniform`.  Their tails reach 38 standard deviations.  torch's own
    normals end where torch's own u ends: at sqrt(106 log 2) = 8.57 in float64, and at sqrt(48 log 2) = 5.77
    in float32, for which this function uses them.  A value beyond that end shows which of two neighbouring
    data sets was used, with a probability that no delta accounts for.
    """
    if dtype == torch.float32:
        return normals(rng, *shape, device=device)
    count = math.prod(shape)
    radius = uniform(rng, (count + 1) // 2).log_().mul_(-2).sqrt_()
    angle = torch.rand(len(radius), generator=rng, dtype=torch.float64).mul_(2 * math.pi)
    return torch.cat([radius * angle.cos(), radius * angle.sin()])[:count].view(shape).to(device)


def on_grid(noisy: Tensor, std: Tensor) -> Tensor:
    """Round float64 numbers to multiples of h, the largest power of two up to GRID times the `std` of their noise.

    The last bits of a floating-point sum depend on both summands (Mironov 2012).  The grid is public, so
    rounding is post-processing, and it drops these bits.  Where `std` is 0 the numbers stay as they are.
    """
    shift = grid_shift(std)
    return (noisy + shift) - shift


def grid_shift(std: Tensor) -> Tensor:
    """Return the number that rounds a float64 number to the grid of `on_grid` when it is added and subtracted.

    Float64 has 52 bits after the first, so the last bit of ``1.5 2^52 h`` is h.  This holds for numbers up to
    ``2^51 h``, which is 2^40 standard deviations or more.
    """
    return 1.5 * 2.0**52 * torch.exp2(torch.floor(torch.log2(GRID * std.double())))


def normals(rng: torch.Generator, *shape: int, device: torch.device = HOST) -> Tensor:
    """Draw standard normals in float32 that hide no record: starts, momenta of a sampler."""
    return torch.randn(*shape, generator=rng).to(device)


def uniforms(rng: torch.Generator, *shape: int, device: torch.device = HOST) -> Tensor:
    """Draw uniform numbers on [0, 1) in float32."""
    return torch.rand(*shape, generator=rng).to(device)


def gamma_ball(rng: torch.Generator, *shape: int, device: torch.device = HOST) -> Tensor:
    """Draw b with density proportional to ``exp(-||b||)`` on R^d, ``(..., d)`` in float64."""
    direction = noise(rng, *shape)
    # the length is Gamma(d, 1): the sum of d unit exponentials, -log of uniforms
    length = -uniform(rng, math.prod(shape)).log().view(shape).sum(-1, keepdim=True)
    return (length * direction / direction.norm(dim=-1, keepdim=True)).to(device)


def integers(rng: torch.Generator, n: int, *shape: int) -> Tensor:
    """Draw uniform numbers of ``{0..n-1}``.

    torch draws words of 32 bits modulo n, which makes low values too likely, by up to n/2^32.  That is accepted for n
    up to 2^16, where the error is at most 2^-16; for larger n words have 62 bits.
    """
    if n <= 2**16:
        return torch.randint(n, shape, generator=rng)
    return torch.randint(2**62, shape, generator=rng) % n


def subsets(rng: torch.Generator, shape: tuple[int, ...], n: int, size: int) -> Tensor:
    """Draw uniform subsets of ``{0..n-1}`` without replacement, as indices ``(*shape, size)``.

    The function draws with replacement.  While a value occurs twice, it draws again for each later copy.
    Every step treats all values alike.  So by symmetry all subsets of that size are equally likely, and the
    first entries of a subset are a uniform subset, too.
    """
    if not 0 < size <= n:
        raise ValueError(f"a subset of {size} of {n} rows does not exist: batch must be in 1..{n}")
    if size > n // 4:
        keys = torch.rand(*shape, n, generator=rng)
        return keys.topk(size, dim=-1).indices
    out = integers(rng, n, int(np.prod(shape)), size)
    drawn, rows = out.numpy(), np.arange(len(out))
    bits = (size - 1).bit_length()  # number of bits of an index within the subset
    whole = np.int32 if n << bits < 2**31 else np.int64
    places: NDArray[np.signedinteger[Any]] = np.arange(size).astype(whole)
    while len(rows):
        # value and place in one number, so that any sort gives the order of a stable sort
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


def stream_seed(rng: torch.Generator, secret: bool) -> int:
    """Draw the seed of the orders of `epochs` or `allocations`.

    The price of random allocation assumes that the places are `secret`.  Who knows all other rows can test a seed
    on the outputs of an epoch.  So a secret seed has 124 bits beside a leading one, and `generator` takes the whole
    state of a stream from it.  The price of shuffled epochs holds for known orders, so their seed has 31 bits.
    """
    if not secret:
        return int(integers(rng, 2**31, 1))
    low, high = integers(rng, 2**62, 2).tolist()
    return int(1 << 124 | high << 62 | low)


def epochs(seed: int, seeds: int, n: int, size: int, first: int) -> Iterator[Tensor]:
    """Yield the rows ``(seeds, size)`` of step `first` and of all later steps of shuffled epochs.

    Each order comes from a stream of its own, so that a run can be resumed within an epoch.
    """
    epoch, done = divmod(first, n // size)
    while True:
        streams = [generator(seed, f"epoch {epoch} of {s}") for s in range(seeds)]
        order = torch.stack([torch.randperm(n, generator=stream) for stream in streams])
        yield from order.split(size, 1)[done : n // size]
        epoch, done = epoch + 1, 0


def allocations(seed: int, seeds: int, n: int, size: int, first: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the rows ``(seeds, longest)`` of step `first` and later steps, and their numbers ``(seeds,)``.

    Only the first rows of a seed, as many as its number says, are in the minibatch.
    """
    steps = n // size
    epoch, done = divmod(first, steps)
    while True:
        streams = [generator(seed, f"epoch {epoch} of {s}") for s in range(seeds)]
        places = torch.stack([integers(stream, steps, n) for stream in streams])
        order = places.argsort(dim=1, stable=True)
        sizes = torch.zeros(seeds, steps, dtype=torch.long)
        sizes.scatter_add_(1, places, torch.ones_like(places))
        starts, longest = sizes.cumsum(1) - sizes, max(1, int(sizes.max()))
        for t in range(done, steps):
            at = starts[:, t, None] + torch.arange(longest)
            yield order.gather(1, at.clamp(max=n - 1)), sizes[:, t]
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
    by_epoch: Iterator[Any] | None = None,
    drawn_in: torch.dtype = NORMALS,
) -> Iterator[Batch]:
    """Yield `steps` batches for chains that share rows and normals.

    For `block` steps at a time, the function draws the following:

    * sizes ``Binomial(n, size/n)``, if a scheme is "poisson";
    * the start of a random order, long enough for all chains;
    * normals.

    The first `size` rows are a uniform subset, and the first `sizes` rows are a Poisson sample.  `by_epoch`, of
    `epochs` or `allocations`, has the rows of "shuffled" or "random_allocation", which no other scheme can share.
    """
    if by_epoch is not None:
        for drawn in islice(by_epoch, steps):
            rows, sizes = drawn if isinstance(drawn, tuple) else (drawn, None)
            yield Batch(rows, sizes, noise(rng, seeds, 1, d, dtype=drawn_in))
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
        normals = noise(rng, *shape, 1, d, dtype=drawn_in)
        for k in range(shape[0]):
            yield Batch(rows[k], None if sizes is None else sizes[k], normals[k])
