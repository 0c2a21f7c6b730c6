"""Gaussian steps on batches as events: one noise multiplier for each step, or the schedules of li2019."""

import math
from collections import Counter
from collections.abc import Collection
from typing import Literal, get_args

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

from dplangevin.checks import positive

StepSchedule = Literal["fixed", "decreasing"]

MAX_LEVELS = 100  # about; numerical composition needs a Fourier transform for each noise multiplier
CLOSEST = 1.02  # least ratio of neighbouring levels, if there are more than two
EQUAL = 1e-9  # multipliers that differ by less, relative to the least, differ by rounding errors alone


def composed_steps(records: int, batch: int, multipliers: np.ndarray, poisson: bool = False) -> DpEvent:
    """Return the event of Gaussian steps on random batches with these multipliers, (steps,), every result visible.

    Different multipliers are rounded down to at most MAX_LEVELS + 1 levels, which overstates the cost. Neighbouring
    levels differ by a factor of at least CLOSEST, with one exception: if all multipliers differ by less, the levels
    are the least and the largest. Multipliers that differ by rounding errors alone have one level.

    `batch` is the size of a uniform batch, drawn without replacement afresh in each step, or with `poisson` the mean
    size of a Poisson sample. If batch == records, uniform batches are all records; Poisson samples are still drawn.
    """
    levels = multipliers
    spread = multipliers.max() / multipliers.min()
    if 1 + EQUAL < spread <= CLOSEST:
        levels = np.where(multipliers < multipliers.max(), multipliers.min(), multipliers)
    elif spread > 1:
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


def steps_event(multiplier: float, *, rate: float, steps: int, schedule: StepSchedule) -> DpEvent:
    """Return the event of T Poisson-sampled Gaussian steps at rate q = tau/N in (0, 1].

    The "fixed" schedule has sigma_t = sigma_1. The "decreasing" schedule has eta_t = eta_1 t^(-1/3), so sigma_t =
    sigma_1 t^(1/6), rounded down to sigma_1 CLOSEST^k: the event never claims more noise than there is.
    """
    positive(multiplier=multiplier, rate=rate, steps=steps)
    if schedule not in get_args(StepSchedule):
        raise ValueError(f"schedule = {schedule!r} must be one of {', '.join(get_args(StepSchedule))}")
    if schedule == "fixed":
        return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)), steps)
    levels = np.floor(np.log(np.arange(1, steps + 1)) / 6 / math.log(CLOSEST))
    return falling(multiplier, rate, levels, CLOSEST)


def falling(multiplier: float, rate: float, levels: np.ndarray, ratio: float) -> DpEvent:
    """Return the event of Poisson-sampled Gaussian steps with multipliers ``multiplier ratio^levels``, (steps,)."""
    steps = [
        SelfComposedDpEvent(
            PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier * ratio**level)), int(count)
        )
        for level, count in enumerate(np.bincount(levels.astype(int)))
        if count
    ]
    return ComposedDpEvent(tuple(steps))


def rounding(multipliers: Collection[float]) -> float:
    """Return a bound on the factor by which `composed_steps` and `steps_event` rounded levels down; 1 for one level."""
    spread = max(multipliers, default=1.0) / min(multipliers, default=1.0)
    return max(CLOSEST, spread ** (1 / (MAX_LEVELS - 1))) if spread > 1 else 1.0


def is_subsampled(leaf: DpEvent) -> bool:
    """Return whether the event is a sampled one."""
    return isinstance(leaf, PoissonSampledDpEvent | SampledWithoutReplacementDpEvent)


def rate_and_multiplier(leaf: DpEvent) -> tuple[float, float]:
    """Return the sampling rate q in (0, 1] (1: no sampling) and the noise multiplier of a Gaussian step."""
    if isinstance(leaf, PoissonSampledDpEvent):
        return leaf.sampling_probability, leaf.event.noise_multiplier
    if isinstance(leaf, SampledWithoutReplacementDpEvent):
        return leaf.sample_size / leaf.source_dataset_size, leaf.event.noise_multiplier
    return 1.0, leaf.noise_multiplier


def coarsened(parts: Counter[DpEvent]) -> Counter[DpEvent]:
    """Return the same events with at most about MAX_LEVELS noise levels; rounding noise down overstates the cost."""
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
