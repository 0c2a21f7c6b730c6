"""Gaussian steps at many noise levels, as few events: decreasing step sizes give every step its own level."""

import math
from collections import Counter

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

LEVELS = 100


def visible_steps(records: int, batch: int, multipliers: np.ndarray) -> DpEvent:
    """Gaussian steps with every result visible, on fresh uniform batches of `batch` of `records`.

    multipliers: (steps,) noise multipliers. batch == records: no sampling. Different multipliers are rounded
    down to at most LEVELS + 1 levels, a factor of 1.02 apart or more; equal ones are kept as they are.
    """
    levels = multipliers
    spread = multipliers.max() / multipliers.min()
    if spread > 1:
        ratio = max(1.02, spread ** (1 / LEVELS))
        levels = multipliers.min() * ratio ** np.floor(
            np.log(multipliers / multipliers.min()) / math.log(ratio)
        )
    values, counts = np.unique(np.minimum(levels, multipliers), return_counts=True)
    parts = []
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        step: DpEvent = GaussianDpEvent(value)
        if batch < records:
            step = SampledWithoutReplacementDpEvent(records, batch, step)
        parts.append(SelfComposedDpEvent(step, count))
    return parts[0] if len(parts) == 1 else ComposedDpEvent(parts)


def is_sampled(leaf: DpEvent) -> bool:
    """Whether the event is a sampled one."""
    return isinstance(leaf, PoissonSampledDpEvent | SampledWithoutReplacementDpEvent)


def sampled(leaf: DpEvent) -> tuple[float, float]:
    """(sampling rate, noise multiplier) of a Gaussian step; rate 1 without sampling."""
    if isinstance(leaf, PoissonSampledDpEvent):
        return leaf.sampling_probability, leaf.event.noise_multiplier
    if isinstance(leaf, SampledWithoutReplacementDpEvent):
        return leaf.sample_size / leaf.source_dataset_size, leaf.event.noise_multiplier
    return 1.0, leaf.noise_multiplier


def merged(parts: Counter[DpEvent]) -> Counter[DpEvent]:
    """More than LEVELS parts: the sampled ones' noise rounded down to about LEVELS, or fewer if 2 % apart."""
    if len(parts) <= LEVELS:
        return parts
    levels = sorted({sampled(leaf)[1] for leaf in parts if is_sampled(leaf)})
    if not levels or levels[0] == 0:
        return parts
    ratio = max(1.02, (levels[-1] / levels[0]) ** (1 / LEVELS))
    floor, start = {}, levels[0]
    for level in levels:
        start = level if level > ratio * start else start
        floor[level] = start
    result: Counter[DpEvent] = Counter()
    for leaf, count in parts.items():
        if is_sampled(leaf):
            leaf = attr.evolve(leaf, event=GaussianDpEvent(floor[sampled(leaf)[1]]))
        result[leaf] += count
    return result
