"""Compositions of subsampled Gaussian mechanisms as few events, where each step has a noise multiplier of its own."""

import math
from collections import Counter
from collections.abc import Collection

import attr
import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

MAX_LEVELS = 100  # noise multipliers in an event, about: numerical composition takes a transform for each
CLOSEST = 1.02  # ratio of two of them, at least


def composed_steps(records: int, batch: int, multipliers: np.ndarray, poisson: bool = False) -> DpEvent:
    """The event of Gaussian steps with every result visible, on fresh uniform batches of `batch` of `records`, or on
    Poisson samples of so many records in the mean.

    multipliers: ``(steps,)``, > 0, noise over sensitivity.  batch == records: no sampling.  Different multipliers are
    rounded down, which overstates the cost, to at most MAX_LEVELS + 1 levels, a factor of CLOSEST apart or more; equal
    ones are kept as they are.
    """
    levels = multipliers
    spread = multipliers.max() / multipliers.min()
    if spread > 1:
        ratio = max(CLOSEST, spread ** (1 / MAX_LEVELS))
        levels = multipliers.min() * ratio ** np.floor(
            np.log(multipliers / multipliers.min()) / math.log(ratio)
        )
    values, counts = np.unique(np.minimum(levels, multipliers), return_counts=True)
    parts = []
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        step: DpEvent = GaussianDpEvent(value)
        if poisson:
            step = PoissonSampledDpEvent(batch / records, step)
        elif batch < records:
            step = SampledWithoutReplacementDpEvent(records, batch, step)
        parts.append(SelfComposedDpEvent(step, count))
    return parts[0] if len(parts) == 1 else ComposedDpEvent(tuple(parts))


def rounding(multipliers: Collection[float]) -> float:
    """By what factor at most `composed_steps` and `stepsize.steps_event` round noise down to such levels; of one, 1.

    multipliers: the levels of an event, > 0, whose spread is up to one level less than that of the noise itself.
    """
    spread = max(multipliers, default=1.0) / min(multipliers, default=1.0)
    return max(CLOSEST, spread ** (1 / (MAX_LEVELS - 1))) if spread > 1 else 1.0


def is_subsampled(leaf: DpEvent) -> bool:
    """Whether the event is a sampled one."""
    return isinstance(leaf, PoissonSampledDpEvent | SampledWithoutReplacementDpEvent)


def rate_and_multiplier(leaf: DpEvent) -> tuple[float, float]:
    """Sampling rate q in (0, 1] and noise multiplier of a Gaussian step; q = 1 without sampling."""
    if isinstance(leaf, PoissonSampledDpEvent):
        return leaf.sampling_probability, leaf.event.noise_multiplier
    if isinstance(leaf, SampledWithoutReplacementDpEvent):
        return leaf.sample_size / leaf.source_dataset_size, leaf.event.noise_multiplier
    return 1.0, leaf.noise_multiplier


def coarsened(parts: Counter[DpEvent]) -> Counter[DpEvent]:
    """The same events; of more than MAX_LEVELS, subsampled ones at noise rounded down to about MAX_LEVELS levels.

    Levels are a factor of CLOSEST apart or more, and rounding down overstates the cost.  parts: how often each event
    happens.
    """
    if len(parts) <= MAX_LEVELS:
        return parts
    levels = sorted({rate_and_multiplier(leaf)[1] for leaf in parts if is_subsampled(leaf)})
    if not levels or levels[0] == 0:
        return parts
    ratio = max(CLOSEST, (levels[-1] / levels[0]) ** (1 / MAX_LEVELS))
    floor, start = {}, levels[0]
    for level in levels:
        start = level if level > ratio * start else start
        floor[level] = start
    result: Counter[DpEvent] = Counter()
    for leaf, count in parts.items():
        if is_subsampled(leaf):
            leaf = attr.evolve(leaf, event=GaussianDpEvent(floor[rate_and_multiplier(leaf)[1]]))
        result[leaf] += count
    return result
