"""Conversion between step size and noise multiplier for DP-SGLD (li2019, Algorithm 1).

A step moves by (eta/tau) times the minibatch sum of clipped gradients and adds N(0, (eta/N) I). One record moves it by
at most eta L/tau (N: records, tau: batch, L: the bound on one record's gradient, or the clip). The noise multiplier is

    sigma = sqrt(eta/N) / (eta L/tau) = tau / (L sqrt(eta N)).

>>> round(multiplier_of(0.3, records=60_000, batch=128, lipschitz=0.3), 3)
3.18
"""

import math
from typing import Literal, get_args

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

from dplangevin.checks import positive
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.calibrate import calibrate
from dplangevin.privacy.events import Adjacency, Budget
from dplangevin.privacy.subsampled_gaussian import CLOSEST

StepSchedule = Literal["fixed", "decreasing"]

SMALLEST, LARGEST = 1e-2, 1e6  # noise multipliers searched by `smallest_multiplier`


def multiplier_of(step: float, *, records: int, batch: float, lipschitz: float) -> float:
    """Return the noise multiplier sigma = tau/(L sqrt(eta N)) of a step size."""
    positive(step=step, records=records, batch=batch, lipschitz=lipschitz)
    return batch / (lipschitz * math.sqrt(step * records))


def step_of(multiplier: float, *, records: int, batch: float, lipschitz: float) -> float:
    """Return the step size eta = tau^2/(N L^2 sigma^2)."""
    positive(multiplier=multiplier, records=records, batch=batch, lipschitz=lipschitz)
    return batch**2 / (records * (lipschitz * multiplier) ** 2)


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
    counts = np.bincount(np.floor(np.log(np.arange(1, steps + 1)) / 6 / math.log(CLOSEST)).astype(int))
    return ComposedDpEvent(
        tuple(
            SelfComposedDpEvent(
                PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier * CLOSEST**level)), int(count)
            )
            for level, count in enumerate(counts)
            if count
        )
    )


def smallest_multiplier(
    accountant: Accountant,
    budget: Budget,
    *,
    rate: float,
    steps: int,
    schedule: StepSchedule,
    adjacency: Adjacency,
    low: float = SMALLEST,
    high: float = LARGEST,
    rtol: float = 1e-4,
) -> float:
    """Return the smallest sigma_1 in [low, high] whose T steps fit the budget, up to `rtol` and never below it."""

    def event(sigma: float) -> DpEvent:
        return steps_event(sigma, rate=rate, steps=steps, schedule=schedule)

    return calibrate(accountant, event, budget, low=low, high=high, adjacency=adjacency, rtol=rtol)
