"""Which samplers the minibatches of a run are consistent with.

A right sampler is rejected in less than one run of a thousand, by simulation: each of its tests has an error of about
`ERROR`. No test can prove a sampler: what is consistent with Poisson samples may come from one that only looks so.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, chi2, gamma, norm

AGAIN = "a row returns before its epoch ends"
SKIPPED = 10  # steps that an epoch may leave out
ERROR = 1e-5  # of each test, by approximations of tails
WORDS = {  # the least amplification first: where several fit, the first is priced
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
    """A sampler that the indices are consistent with; without epochs, `per_epoch` is 0.

    Each epoch leaves out `left_out` rows (drop_last).
    """

    scheme: str
    per_epoch: int = 0
    left_out: int = 0


class Found(NamedTuple):
    """The samplers that fit, the least amplification first, and why each other one does not."""

    samplers: tuple[Sampler, ...]
    rejected: dict[str, str]


def recognised(draws: Sequence[np.ndarray], records: int, rate: float | None = None) -> Found:
    """Return the samplers that draws of indices, one array a step, are consistent with.

    `rate` is the stated one of Poisson samples.
    """
    sizes = np.array([len(draw) for draw in draws])
    counts = np.bincount(np.concatenate(draws), minlength=records)
    distinct = all(len(np.unique(draw)) == len(draw) for draw in draws)
    uniform, even = _uniform(sizes, counts, distinct)
    fits, rejected = [], {}
    if not distinct:
        if uniform:
            return Found((Sampler("weighted"),), {"with_replacement": uniform})
        return Found((Sampler("with_replacement"),), {"poisson": "a minibatch has a row twice"})
    if (sizes == records).all():
        return Found((Sampler("full"),), {})
    for sampler, why in (
        *_epochs(draws, sizes, records),
        *_independent(draws, sizes, records, rate, uniform or even),
    ):
        if why:
            rejected[sampler.scheme] = why
        else:
            fits.append(sampler)
    if not fits and uniform:
        fits = [Sampler("weighted")]
    order = list(WORDS)
    return Found(tuple(sorted(fits, key=lambda each: order.index(each.scheme))), rejected)


def _epochs(draws: Sequence[np.ndarray], sizes: np.ndarray, records: int) -> Iterator[tuple[Sampler, str]]:
    """Yield the samplers by epochs, each with the reason why it does not fit, or ""."""
    fixed = max(int(sizes[0]), 1)
    drops = records // fixed
    left = records - drops * fixed
    kept = bool(left > 0 and len(sizes) > drops and sizes[drops] == left)
    if (sizes == np.resize([fixed] * drops + [left] * kept, len(sizes))).all():
        length, out = drops + kept, 0 if kept else left
        tried = range(
            length, max(length // 2, length - SKIPPED), -1
        )  # fewer, if steps are left out of each epoch
        length = next((each for each in tried if not _apart(_blocks(draws, each))), length)
        blocks = _blocks(draws, length)
        whole = [
            np.concatenate([np.sort(draw) for draw in block]) for block in blocks if len(block) == length
        ]
        same = len(whole) > 1 and all((order == whole[0]).all() for order in whole[1:])
        ordered = len(blocks[0]) > 1 and all((np.diff(np.concatenate(block)) == 1).all() for block in blocks)
        apart = _apart(blocks)
        yield Sampler("in_order", length, out), apart or ("" if same or ordered else "epochs differ")
        yield (
            Sampler("shuffled", length, out),
            apart or ("minibatches never change" if same or ordered else ""),
        )
        if binom.pmf(records // length, records, 1 / length) ** (len(sizes) - 1) < ERROR:
            yield Sampler("random_allocation"), "sizes are equal"
            return
    else:
        for scheme in ("in_order", "shuffled"):
            yield Sampler(scheme), "sizes differ within an epoch"
    cover = _cover(draws, records)
    empty = next(
        (at for at, size in enumerate(sizes[cover:]) if size), 0
    )  # steps that may end the first epoch
    lengths = [n for n in range(cover, cover + empty + 1) if n and not _apart(_blocks(draws, n))]
    yield Sampler("random_allocation", min(lengths, default=0)), "" if lengths else AGAIN


def _blocks(draws: Sequence[np.ndarray], length: int) -> list[Sequence[np.ndarray]]:
    return [draws[start : start + length] for start in range(0, len(draws), length)]


def _apart(epochs: Sequence[Sequence[np.ndarray]]) -> str:
    """Return "" if no epoch has a row twice, else that one has."""
    rows = [np.concatenate(epoch) for epoch in epochs]
    return "" if all(len(np.unique(each)) == len(each) for each in rows) else AGAIN


def _cover(draws: Sequence[np.ndarray], records: int) -> int:
    """Return after how many steps every row was drawn exactly once, or all steps if none returned; else 0."""
    seen, total = np.zeros(records, bool), 0
    for number, draw in enumerate(draws, 1):
        if seen[draw].any():
            return 0
        seen[draw] = True
        total += len(draw)
        if total == records:
            return number
    return len(draws)


def _independent(
    draws: Sequence[np.ndarray], sizes: np.ndarray, records: int, rate: float | None, uniform: str
) -> Iterator[tuple[Sampler, str]]:
    """Yield subsets and Poisson samples, each with the reason why it does not fit, or ""."""
    apart = _overlap(draws, sizes, records)
    equal = "" if (sizes == sizes[0]).all() else "sizes differ"
    yield Sampler("subset"), equal or uniform or apart
    mean = sizes.mean() if rate is None else rate * records
    q = min(max(mean / records, 1e-300), 1.0)
    number = len(sizes) - (rate is None)
    why = ""
    if number > 0 and q < 1:
        likely = binom.pmf(np.arange(records + 1), records, q)
        often = Counter(sizes.tolist()).most_common(1)[0][1]
        spread = float(((sizes - mean) ** 2).sum() / (mean * (1 - q)))
        variance = number * (2 + max(1 - 6 * q * (1 - q), 0) / (mean * (1 - q)))
        if binom.sf(often - 1, len(sizes), likely).sum() < ERROR:
            why = f"{often} of {len(sizes)} sizes are equal"
        elif (
            abs(sizes.sum() - len(sizes) * mean)
            > norm.isf(ERROR / 2) * np.sqrt(len(sizes) * mean * (1 - q)) + 4
        ):
            why = "the mean size is not that of the stated rate"
        elif spread < chi2.ppf(ERROR, number):
            why = "sizes vary too little"
        elif spread > _upper(number, variance):
            why = "sizes vary too much"
    yield Sampler("poisson"), why or uniform or apart


def _uniform(sizes: np.ndarray, counts: np.ndarray, distinct: bool) -> tuple[str, str]:
    """Return why rows were drawn too unevenly, and why too evenly, for independent draws of these sizes; "" if not."""
    records, total = len(counts), int(sizes.sum())
    q = sizes / records
    variance = float((q * (1 - q)).sum() if distinct else (sizes / records * (1 - 1 / records)).sum())
    if variance == 0:
        return "", ""
    spread = float(((counts - total / records) ** 2).sum() / variance)
    kurtosis = float((q * (1 - q) * (1 - 6 * q * (1 - q))).sum()) / variance**2 if distinct else 1 / variance
    most = records * max(2 + kurtosis, 2)
    even = records > 99 and spread < records - 6 * math.sqrt(most)
    return "some rows are drawn more often than others" * (spread > _upper(records, most)), (
        "rows are drawn too evenly" * even
    )


def _upper(mean: float, variance: float) -> float:
    """Return the upper quantile of a gamma law, whose tail is about that of a sum of squares with this variance."""
    return float(gamma.isf(ERROR / 4, mean**2 / variance, scale=variance / mean))


def _overlap(draws: Sequence[np.ndarray], sizes: np.ndarray, records: int) -> str:
    """Return "" if neighbouring minibatches share as many rows as independent ones would, else why not."""
    shared = sum(len(np.intersect1d(a, b, assume_unique=True)) for a, b in pairwise(draws))
    first, second = sizes[:-1], sizes[1:]
    expected = float((first * second / records).sum())
    variance = float(
        (first * second / records * (1 - first / records) * (records - second) / max(records - 1, 1)).sum()
    )
    gap = float(norm.isf(ERROR / 2)) * np.sqrt(variance)
    if shared < expected - gap and shared < expected - 9:
        return "neighbouring minibatches share too few rows for independent draws"
    if shared > expected + gap + 4:
        return "neighbouring minibatches share too many rows for independent draws"
    return ""
