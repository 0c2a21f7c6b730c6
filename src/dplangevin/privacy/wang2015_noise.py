"""Theorem 4 of Wang, Fienberg and Smola (2015): how much noise steps on uniform subsets need, and their event."""

import math

from dp_accounting import DpEvent
from torch import Tensor

from dplangevin.privacy.events import Budget
from dplangevin.privacy.subsampled_gaussian import composed_steps
from dplangevin.problems import Facts


def record_bound(facts: Facts, clip: float | None, method: str, budget: Budget) -> float:
    """L: the clip, or the problem's own bound if that is less; 0 without a budget.  ValueError for neither."""
    if budget.epsilon == math.inf:
        return 0.0
    return facts.bounded(method) if clip is None else min(clip, facts.lipschitz)


def gradient_variance(steps: int, lipschitz: float, budget: Budget) -> float:
    """``C = 128 N T L^2/(tau eps^2) ln(2.5 N T/(tau delta)) ln(2/delta)``, 0 for eps = inf.

    The noise that Algorithm 2 adds to ``(N/tau) sum_S grad``.  steps: N T/tau, counted whole.
    """
    if budget.epsilon == math.inf:
        return 0.0
    if budget.delta <= 0:
        raise ValueError(f"Theorem 4 of wang2015 needs delta > 0, not {budget.delta}")
    logs = math.log(2.5 * steps / budget.delta) * math.log(2 / budget.delta)
    return 128 * steps * (lipschitz / budget.epsilon) ** 2 * logs


def subset_event(records: int, batch: int, multipliers: Tensor) -> DpEvent:
    """What the steps do to the data; multipliers ``(steps,)``: noise on the minibatch's sum over L."""
    return composed_steps(records, batch, multipliers.double().numpy())
