"""Which samplers the minibatches of a run are consistent with.

A right sampler is ruled out in less than one run of a thousand, by simulation: each of its tests has an error of about
`ERROR`. No test can prove a sampler: what is consistent with Poisson samples may come from one that only looks so.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, chi2, gamma, norm

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


def recognised(minibatches: Sequence[np.ndarray], records: int, rate: float | None = None) -> Recognition:
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
    length, ruled_out = _epochs(minibatches, sizes, records)
    epochs, odd = {*ruled_out}, uneven or even or _overlap(minibatches, sizes, records)
    ruled_out["subset"] = "sizes differ" * bool((sizes != sizes[0]).any()) or odd
    ruled_out["poisson"] = _not_poisson(sizes, records, rate) or odd
    fits = [Sampler(each, length * (each in epochs)) for each in WORDS if ruled_out.get(each) == ""]
    ruled_out = {scheme: why for scheme, why in ruled_out.items() if why}
    return Recognition(tuple(fits or [Sampler("weighted")] * bool(uneven)), ruled_out)


def _epochs(minibatches: Sequence[np.ndarray], sizes: np.ndarray, records: int) -> tuple[int, dict[str, str]]:
    """Return the steps of an epoch, and for each sampler by epochs the reason why it does not fit, or ""."""
    fixed = max(int(sizes[0]), 1)
    whole, left = divmod(records, fixed)
    last = left > 0 and len(sizes) > whole and sizes[whole] == left
    epoch = [fixed] * whole + [left] * int(last)
    cover = min(int(np.searchsorted(sizes.cumsum(), records)) + 1, len(sizes))  # steps of the first epoch
    empty = next((at for at, size in enumerate(sizes[cover:]) if size), 0)  # and others that may end it
    lengths = range(cover, cover + empty + 1)
    if (sizes == np.resize(epoch, len(sizes))).all():  # if steps are left out of each epoch
        lengths = range(len(epoch), max(len(epoch) // 2, len(epoch) - SKIPPED), -1)
    length = next((each for each in lengths if not _returns(minibatches, each)), lengths[0])
    again = "a row returns before its epoch ends" * _returns(minibatches, length)
    first, *others = [[np.sort(rows) for rows in block] for block in _blocks(minibatches, length)]
    same = [all(map(np.array_equal, first, block)) for block in others]
    ordered = bool((np.diff(np.concatenate(first)) == 1).all()) and len(first) > 1
    kept = "minibatches never change" * (all(same) and (bool(same) or ordered))
    repeated = bool((sizes == np.resize(sizes[:length], len(sizes))).all())
    odd = kept or _not_multinomial(sizes, length, records)
    differ = "sizes differ between epochs, as if rows drew their steps" * (not (odd or repeated))
    return length, {
        "in_order": again or "epochs differ" * (not kept),
        "shuffled": again or kept or differ,
        "random_allocation": again or odd,
    }


def _not_multinomial(sizes: np.ndarray, length: int, records: int) -> str:
    """Return why sizes, given the sum in each epoch of `length` steps, are not multinomial with equal shares, or ""."""
    starts = np.arange(0, len(sizes), length)
    steps = np.diff([*starts, len(sizes)])
    mean = np.repeat(np.add.reduceat(sizes, starts) / steps, steps).clip(min=1e-9)
    epochs = sizes[: len(sizes) // length * length].reshape(-1, length)
    if len(epochs) > 1 and _too_little(
        epochs - epochs.mean(0), mean.mean(), (len(epochs) - 1) * (length - 1)
    ):
        return "sizes are too much alike in all epochs"
    return _odd(sizes, mean, mean, records, len(starts))


def _odd(sizes: np.ndarray, mean: np.ndarray, variance: np.ndarray, records: int, tied: int) -> str:
    """Return why sizes are not binomial with these means and variances, or ""; `tied` of them follow from others."""
    often, freedom = Counter(sizes.tolist()).most_common(1)[0][1], len(sizes) - tied
    likely = binom.pmf(np.arange(records + 1), records, mean.mean() / records)
    if freedom == 0:
        return ""
    if binom.sf(often - tied - 1, freedom, likely).sum() < ERROR:
        return f"{often} of {len(sizes)} sizes are equal"
    if _too_little(sizes - mean, variance.mean(), freedom):
        return "sizes vary too little"
    upper = _upper(freedom, freedom * (2 + float((1 / variance).mean())))
    return "sizes vary too much" * bool(((sizes - mean) ** 2 / variance).sum() > upper)


def _too_little(deviations: np.ndarray, variance: float, freedom: int) -> bool:
    """Return whether integers vary too little for a chi-square law; rounding adds at most 1/2 to each deviation."""
    length = np.sqrt((deviations**2).sum()) + np.sqrt(deviations.size) / 2
    return bool(length**2 / variance < chi2.ppf(ERROR, freedom))


def _blocks(minibatches: Sequence[np.ndarray], length: int) -> list[Sequence[np.ndarray]]:
    return [minibatches[start : start + length] for start in range(0, len(minibatches), length)]


def _returns(minibatches: Sequence[np.ndarray], length: int) -> bool:
    """Return whether one of the blocks of `length` steps has a row twice."""
    rows = (np.concatenate(block) for block in _blocks(minibatches, length))
    return any(len(np.unique(each)) < len(each) for each in rows)


def _not_poisson(sizes: np.ndarray, records: int, rate: float | None) -> str:
    """Return why sizes are not those of Poisson samples, or ""."""
    q = sizes.mean() / records if rate is None else rate
    if not 0 < q < 1:
        return ""
    mean = np.full(len(sizes), q * records)
    gap = norm.isf(ERROR / 2) * np.sqrt(len(sizes) * records * q * (1 - q)) + 4
    if abs(sizes.sum() - mean.sum()) > gap:
        return "the mean size is not that of the stated rate"
    return _odd(sizes, mean, mean * (1 - q), records, int(rate is None))


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
    uneven = spread > _upper(records, most)
    return "some rows are drawn more often than others" * uneven, "rows are drawn too evenly" * even


def _upper(mean: float, variance: float) -> float:
    """Return the upper quantile of a gamma law, whose tail is about that of a sum of squares with this variance."""
    return float(gamma.isf(ERROR / 4, mean**2 / variance, scale=variance / mean))


def _overlap(minibatches: Sequence[np.ndarray], sizes: np.ndarray, records: int) -> str:
    """Return "" if neighbouring minibatches share as many rows as independent ones would, else why not."""
    shared = sum(len(np.intersect1d(a, b, assume_unique=True)) for a, b in pairwise(minibatches))
    first, second = sizes[:-1], sizes[1:]
    each = first * second / records
    expected = float(each.sum())
    variance = float((each * (1 - first / records) * (records - second) / max(records - 1, 1)).sum())
    gap = float(norm.isf(ERROR / 2)) * np.sqrt(variance)
    few, many = shared < expected - max(gap, 9), shared > expected + gap + 4
    return f"neighbouring minibatches share too {'few' if few else 'many'} rows" * bool(few or many)
