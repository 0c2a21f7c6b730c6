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

ERROR = 1e-5  # of each test, by approximations of tails
WORDS = {  # the least amplification first
    "full": "all rows in every step",
    "in_order": "the same minibatches in every epoch",
    "shuffled": "shuffled epochs",
    "subset": "uniform subsets of a fixed size",
    "poisson": "Poisson samples",
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
    if _returns(minibatches):
        return Recognition((), dict.fromkeys(WORDS, "a minibatch has a row twice"))
    if (sizes == records).all():
        return Recognition((Sampler("full"),), {})
    odd = _evenness(sizes, np.bincount(np.concatenate(minibatches), minlength=records))
    odd = odd or _overlap(minibatches, sizes, records)
    length, ruled_out = _epochs(minibatches, sizes, records)
    ruled_out["subset"] = "sizes differ" * bool((sizes != sizes[0]).any()) or odd
    ruled_out["poisson"] = _not_binomial(sizes, records, rate) or odd
    fits = [scheme for scheme in WORDS if ruled_out.get(scheme) == ""]
    samplers = (Sampler(each, length if each in ("in_order", "shuffled") else 0) for each in fits)
    return Recognition(tuple(samplers), {scheme: why for scheme, why in ruled_out.items() if why})


def _epochs(minibatches: Sequence[np.ndarray], sizes: np.ndarray, records: int) -> tuple[int, dict[str, str]]:
    """Return the steps of an epoch, and for each sampler by epochs the reason why it does not fit, or ""."""
    fixed = max(int(sizes[0]), 1)
    whole, left = divmod(records, fixed)
    last = left > 0 and len(sizes) > whole and sizes[whole] == left
    epoch = [fixed] * whole + [left] * int(last)
    length = len(epoch)
    blocks = [minibatches[start : start + length] for start in range(0, len(minibatches), length)]
    apart = "sizes differ within an epoch" * bool((sizes != np.resize(epoch, len(sizes))).any())
    apart = apart or "a row returns before its epoch ends" * _returns([*map(np.concatenate, blocks)])
    first, *others = [[np.sort(rows) for rows in block] for block in blocks]
    same = [all(map(np.array_equal, first, block)) for block in others]
    kept = all(same) and (bool(same) or bool((np.diff(np.concatenate(first)) == 1).all()))
    return length, {
        "in_order": apart or "epochs differ" * (not kept),
        "shuffled": apart or "minibatches never change" * kept,
    }


def _returns(parts: Sequence[np.ndarray]) -> bool:
    return any(len(np.unique(rows)) < len(rows) for rows in parts)


def _not_binomial(sizes: np.ndarray, records: int, rate: float | None) -> str:
    """Return why sizes are not those of Poisson samples, or ""."""
    mean = sizes.mean() if rate is None else rate * records
    q, number = mean / records, len(sizes) - (rate is None)
    if number == 0 or not 0 < q < 1:
        return ""
    often = Counter(sizes.tolist()).most_common(1)[0][1]
    likely = binom.pmf(np.arange(records + 1), records, q)
    spread = float(((sizes - mean) ** 2).sum() / (mean * (1 - q)))
    variance = number * (2 + max(1 - 6 * q * (1 - q), 0) / (mean * (1 - q)))
    gap = norm.isf(ERROR / 2) * np.sqrt(len(sizes) * mean * (1 - q)) + 4
    if abs(sizes.sum() - len(sizes) * mean) > gap:
        return "the mean size is not that of the stated rate"
    equal = binom.sf(often - 1, len(sizes), likely).sum() < ERROR
    if equal or not chi2.ppf(ERROR, number) <= spread <= _upper(number, variance):
        return f"sizes vary otherwise, {often} of {len(sizes)} are equal"
    return ""


def _evenness(sizes: np.ndarray, counts: np.ndarray) -> str:
    """Return why rows were drawn too unevenly or too evenly for independent draws; "" if they were not."""
    records, q = len(counts), sizes / len(counts)
    variance = float((q * (1 - q)).sum())
    if variance == 0:
        return ""
    spread = float(((counts - q.sum()) ** 2).sum() / variance)
    kurtosis = float((q * (1 - q) * (1 - 6 * q * (1 - q))).sum()) / variance**2
    most = records * max(2 + kurtosis, 2)
    if spread > _upper(records, most):
        return "some rows are drawn more often than others"
    return "rows are drawn too evenly" * (records > 99 and spread < records - 6 * math.sqrt(most))


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
