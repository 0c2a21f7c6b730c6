"""Noise of Theorem 4 of Wang, Fienberg and Smola (2015), and the event of steps on uniform subsets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dp_accounting import DpEvent

from dplangevin.privacy.calibrate import rounded_up
from dplangevin.privacy.events import Budget
from dplangevin.privacy.subsampled_gaussian import composed_steps

if TYPE_CHECKING:
    from torch import Tensor


def gradient_variance(steps: int, lipschitz: float, budget: Budget) -> float:
    """Return the variance C of the noise that Algorithm 2 adds to ``(N/tau) sum_S grad``, rounded up to ten digits.

    ``C = 128 N T L^2/(tau eps^2) ln(2.5 N T/(tau delta)) ln(2/delta)``, and 0 for eps = inf; steps = N T/tau.

    Source: wang2015, Theorem 4 and Algorithm 2.
    """
    if budget.epsilon == math.inf:
        return 0.0
    if budget.delta <= 0:
        raise ValueError(f"Theorem 4 of wang2015 needs delta > 0, not {budget.delta}")
    logs = math.log(2.5 * steps / budget.delta) * math.log(2 / budget.delta)
    return rounded_up(128 * steps * (lipschitz / budget.epsilon) ** 2 * logs)


def subset_event(records: int, batch: int, multipliers: Tensor) -> DpEvent:
    """Return the event of steps whose noise on the minibatch's sum, over L, is `multipliers` (steps,)."""
    return composed_steps(records, batch, multipliers.double().numpy())
