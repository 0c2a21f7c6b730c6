"""The generic inverse of an accountant: how much noise a budget needs."""

import math
from collections.abc import Callable

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.events import Adjacency, Budget


def calibrate(
    accountant: Accountant,
    make_event: Callable[[float], DpEvent],
    budget: Budget,
    *,
    low: float,
    high: float,
    adjacency: Adjacency = "replace_one",
    rtol: float = 1e-4,
) -> float:
    """The smallest noise in [low, high] whose event fits the budget, to a relative rtol; never above it.

    Bisection on log(noise): accountant.epsilon(make_event(noise), budget.delta) must not increase with
    noise. make_event: noise -> DpEvent. low, high: ends of the search, 0 < low < high. Returns `low` if
    that already fits.
    Raises ValueError if even `high` costs more than the budget, or if the arguments are out of their
    domain.
    """
    if not 0 < low < high < math.inf:
        raise ValueError(f"low = {low}, high = {high}: need 0 < low < high < inf")
    if not rtol > 0:
        raise ValueError(f"rtol = {rtol} must be positive")

    def cost(noise: float) -> float:
        return accountant.epsilon(make_event(noise), budget.delta, adjacency)

    if cost(low) <= budget.epsilon:
        return low
    least = cost(high)
    if not least <= budget.epsilon:
        raise ValueError(
            f"epsilon = {budget.epsilon} at delta = {budget.delta} is out of reach: "
            f"by {accountant.name} ({adjacency}) even the largest noise, high = {high}, costs {least}; "
            "raise high, or the budget, or do less to the data (fewer steps, smaller batches)"
        )
    inside, outside = high, low
    while inside > outside * (1 + rtol):
        middle = math.sqrt(inside * outside)
        if cost(middle) <= budget.epsilon:
            inside = middle
        else:
            outside = middle
    return inside
