"""From step size to noise multiplier and back: Li, Chen, Liu, Carin (2019), Algorithm 1.

A step moves by (eta/tau) times the minibatch sum of clipped gradients and adds N(0, (eta/N) I), so its noise
is sqrt(eta/N), one record moves it by at most eta L/tau, and the noise multiplier is

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

from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.calibrate import calibrate
from dplangevin.privacy.events import Adjacency, Budget
from dplangevin.privacy.subsampled_gaussian import CLOSEST

Schedule = Literal["fixed", "decreasing"]

SMALLEST, LARGEST = 1e-2, 1e6  # noise multipliers searched by `smallest_multiplier`


def multiplier_of(step: float, *, records: int, batch: float, lipschitz: float) -> float:
    """sigma = tau/(L sqrt(eta N)). step: eta > 0. records: N. batch: tau. lipschitz: L, or the clip."""
    _check(step=step, records=records, batch=batch, lipschitz=lipschitz)
    return batch / (lipschitz * math.sqrt(step * records))


def step_of(multiplier: float, *, records: int, batch: float, lipschitz: float) -> float:
    """eta = tau^2/(N L^2 sigma^2), the inverse of `multiplier_of`."""
    _check(multiplier=multiplier, records=records, batch=batch, lipschitz=lipschitz)
    return batch**2 / (records * (lipschitz * multiplier) ** 2)


def steps_event(multiplier: float, *, rate: float, steps: int, schedule: Schedule) -> DpEvent:
    """T Poisson-sampled Gaussian steps whose first has noise multiplier sigma_1.

    "fixed": sigma_t = sigma_1. "decreasing": eta_t = eta_1 t^(-1/3), so sigma_t = sigma_1 t^(1/6); sigma_t
    is rounded down to sigma_1 CLOSEST^k, so that the event never claims more noise than there is.
    rate: q = tau/N in (0, 1]. steps: T >= 1.
    """
    _check(multiplier=multiplier, rate=rate, steps=steps)
    if schedule not in get_args(Schedule):
        raise ValueError(f"schedule = {schedule!r} must be one of {', '.join(get_args(Schedule))}")
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
    schedule: Schedule,
    adjacency: Adjacency,
    low: float = SMALLEST,
    high: float = LARGEST,
    rtol: float = 1e-4,
) -> float:
    """The smallest noise multiplier in [low, high] (of the first step) whose T steps fit the budget.

    To a relative rtol, from above; `low` if that fits. rate: q in (0, 1]. Raises ValueError where `high` does not fit,
    as `calibrate` does.
    """

    def event(sigma: float) -> DpEvent:
        return steps_event(sigma, rate=rate, steps=steps, schedule=schedule)

    return calibrate(accountant, event, budget, low=low, high=high, adjacency=adjacency, rtol=rtol)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} = {value} must be positive and finite")
