"""Which samplers the minibatches of a run are consistent with.

A right sampler is ruled out in less than one run of a thousand, by simulation: each of its tests has an error of about
`ERROR`. No test can prove a sampler: what is consistent with Poisson samples may come from one that only looks so.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, chi2, gamma, norm

Rows = Sequence[np.ndarray]  # row numbers of each step
AGAIN = "a row returns before its epoch ends"
UNEVEN = "some rows are drawn more often than others"
SHARED = "neighbouring minibatches share too {} rows for independent draws"
SKIPPED = 10  # steps that an epoch may leave out
ERROR = 1e-5  # of each test, by approximations of tails
WORDS = {  # the least amplification first
    "full": "all rows in every step",
    "in_order": "the same minibatches in every epoch",
    "shuffled": "shuffled epochs",
    "random_allocation": "epochs in which every row draws its step (random allocation)",
    "subset": "uniform subsets of a fixed size",
    "poisson": "Poisson samples",
    "with_replacement": "uniform draws with replacement",
    "weighted": "draws with unequal weights",
}


class Sampler(NamedTuple):
    """A way to draw minibatches; `per_epoch` steps make an epoch, 0 without epochs."""

    scheme: str
    per_epoch: int = 0


class Recognition(NamedTuple):
    """The samplers that fit, the least amplification first, and why each other one does not."""

    samplers: tuple[Sampler, ...]
    ruled_out: dict[str, str]


def recognised(minibatches: Rows, records: int, rate: float | None = None) -> Recognition:
    """Return the samplers that each step's row numbers fit; `rate` is that stated of Poisson samples."""
    sizes = np.array([len(rows) for rows in minibatches])
    counts = np.bincount(np.concatenate(minibatches), minlength=records)
    distinct = not _returns(minibatches, 1)
    uneven, even = _evenness(sizes, counts, distinct)
    if not distinct and uneven:
        return Recognition((Sampler("weighted"),), {"with_replacement": uneven})
    if not distinct:
        return Recognition((Sampler("with_replacement"),), {"poisson": "a minibatch has a row twice"})
    if (sizes == records).all():
        return Recognition((Sampler("full"),), {})
    tried = [*_epochs(minibatches, sizes, records)]
    tried += _independent(minibatches, sizes, records, rate, uneven or even)
    fits = [sampler for sampler, why in tried if not why] or [Sampler("weighted")] * bool(uneven)
    fits.sort(key=lambda sampler: [*WORDS].index(sampler.scheme))
    return Recognition(tuple(fits), {sampler.scheme: why for sampler, why in tried if why})


def _epochs(minibatches: Rows, sizes: np.ndarray, records: int) -> Iterator[tuple[Sampler, str]]:
    """Yield the samplers by epochs, each with the reason why it does not fit, or ""."""
    fixed = max(int(sizes[0]), 1)
    whole, left = divmod(records, fixed)
    last = left > 0 and len(sizes) > whole and sizes[whole] == left
    epoch = [fixed] * whole + [left] * int(last)
    cover = min(int(np.searchsorted(sizes.cumsum(), records)) + 1, len(sizes))  # steps of the first epoch
    empty = next((at for at, size in enumerate(sizes[cover:]) if size), 0)  # and others that may end it
    lengths = range(cover, cover + empty + 1)
    if equal := bool((sizes == np.resize(epoch, len(sizes))).all()):  # steps may be left out of each epoch
        lengths = range(len(epoch), max(len(epoch) // 2, len(epoch) - SKIPPED), -1)
    length = next((each for each in lengths if not _returns(minibatches, each)), lengths[0])
    again, blocks = _returns(minibatches, length), _blocks(minibatches, length)
    orders = [np.concatenate([*map(np.sort, block)]) for block in blocks if len(block) == length]
    same = len(orders) > 1 and all(np.array_equal(order, orders[0]) for order in orders)
    ordered = len(blocks[0]) > 1 and all((np.diff(np.concatenate(block)) == 1).all() for block in blocks)
    kept = "minibatches never change" * (same or ordered)
    yield Sampler("in_order", length), again or "epochs differ" * (not kept)
    # No test tells a random allocation from shuffled rows that are cut at its sizes, so both fit.
    yield Sampler("shuffled", length), again or kept
    alike = equal and binom.pmf(records // length, records, 1 / length) ** (len(sizes) - 1) < ERROR
    yield Sampler("random_allocation", length), again or kept or "sizes are equal" * bool(alike)


def _blocks(minibatches: Rows, length: int) -> list[Rows]:
    return [minibatches[start : start + length] for start in range(0, len(minibatches), length)]


def _returns(minibatches: Rows, length: int) -> str:
    """Return `AGAIN` if one of the blocks of `length` steps has a row twice, else ""."""
    rows = (np.concatenate(block) for block in _blocks(minibatches, length))
    return "" if all(len(np.unique(each)) == len(each) for each in rows) else AGAIN


def _independent(
    minibatches: Rows, sizes: np.ndarray, records: int, rate: float | None, uneven: str
) -> Iterator[tuple[Sampler, str]]:
    """Yield subsets and Poisson samples, each with the reason why it does not fit, or ""."""
    drawn = uneven or _overlap(minibatches, sizes, records)
    yield Sampler("subset"), "sizes differ" * bool((sizes != sizes[0]).any()) or drawn
    mean = sizes.mean() if rate is None else rate * records
    q, number, why = min(max(mean / records, 1e-300), 1.0), len(sizes) - (rate is None), ""
    if number > 0 and q < 1:
        likely = binom.pmf(np.arange(records + 1), records, q)
        often = Counter(sizes.tolist()).most_common(1)[0][1]
        spread = float(((sizes - mean) ** 2).sum() / (mean * (1 - q)))
        variance = number * (2 + max(1 - 6 * q * (1 - q), 0) / (mean * (1 - q)))
        gap = norm.isf(ERROR / 2) * np.sqrt(len(sizes) * mean * (1 - q)) + 4
        faults = {
            f"{often} of {len(sizes)} sizes are equal": binom.sf(often - 1, len(sizes), likely).sum() < ERROR,
            "the mean size is not that of the stated rate": abs(sizes.sum() - len(sizes) * mean) > gap,
            "sizes vary too little": spread < chi2.ppf(ERROR, number),
            "sizes vary too much": spread > _upper(number, variance),
        }
        why = next((text for text, applies in faults.items() if applies), "")
    yield Sampler("poisson"), why or drawn


def _evenness(sizes: np.ndarray, counts: np.ndarray, distinct: bool) -> tuple[str, str]:
    """Return why rows were drawn too unevenly, and why too evenly, for independent draws; "" if they were not."""
    records, total = len(counts), int(sizes.sum())
    q = sizes / records
    variance = float((q * (1 - q)).sum() if distinct else (q * (1 - 1 / records)).sum())
    if variance == 0:
        return "", ""
    spread = float(((counts - total / records) ** 2).sum() / variance)
    kurtosis = float((q * (1 - q) * (1 - 6 * q * (1 - q))).sum()) / variance**2 if distinct else 1 / variance
    most = records * max(2 + kurtosis, 2)
    even = records > 99 and spread < records - 6 * math.sqrt(most)
    return UNEVEN * (spread > _upper(records, most)), "rows are drawn too evenly" * even


def _upper(mean: float, variance: float) -> float:
    """Return the upper quantile of a gamma law, whose tail is about that of a sum of squares with this variance."""
    return float(gamma.isf(ERROR / 4, mean**2 / variance, scale=variance / mean))


def _overlap(minibatches: Rows, sizes: np.ndarray, records: int) -> str:
    """Return "" if neighbouring minibatches share as many rows as independent ones would, else why not."""
    shared = sum(len(np.intersect1d(a, b, assume_unique=True)) for a, b in pairwise(minibatches))
    first, second = sizes[:-1], sizes[1:]
    each = first * second / records
    expected = float(each.sum())
    variance = float((each * (1 - first / records) * (records - second) / max(records - 1, 1)).sum())
    gap = float(norm.isf(ERROR / 2)) * np.sqrt(variance)
    if shared < expected - max(gap, 9):
        return SHARED.format("few")
    return SHARED.format("many") * bool(shared > expected + gap + 4)
