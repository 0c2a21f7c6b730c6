"""Search for the smallest noise that fits a privacy budget, by any accountant."""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context
from functools import lru_cache
from typing import Any

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.events import Adjacency, Budget

DIGITS = 10
FINEST = 1e-12  # smallest rtol
LEAP = 2.0
SMALLEST, LARGEST = 1e-2, 1e6  # noise multipliers that are searched by default


def noise_for(
    accountant: Accountant,
    make_event: Callable[[float], DpEvent],
    budget: Budget,
    *,
    low: float = SMALLEST,
    high: float = LARGEST,
    adjacency: Adjacency = "replace_one",
    rtol: float = 1e-4,
) -> float:
    """Return the smallest noise in [low, high] whose event fits the budget.

    The search keeps a bracket in log(noise) and narrows it by secants of log(cost), or by halving where secants are
    slow. Small noise can be slow to price, so it is tried last. The cost must not increase with the noise.

    The result fits the budget and exceeds the smallest noise that does by a factor of at most ``(1 + rtol)(1 + 1e-9)``,
    rtol >= 1e-12. It has ten digits, unless it is `low` (where that fits, as always at epsilon = inf) or `high`.
    """
    if not 0 < low < high < math.inf:
        raise ValueError(f"low = {low}, high = {high}: need 0 < low < high < inf")
    if not rtol >= FINEST:
        raise ValueError(f"rtol = {rtol} must be at least {FINEST}")
    if math.isinf(budget.epsilon):
        return low

    def excess(noise: float) -> float:
        """Return log(cost / budget): at most 0 where the event fits, above 0 elsewhere, despite rounding."""
        cost = remembered(accountant, make_event(noise), budget.delta, adjacency)
        if cost <= budget.epsilon:
            return min(0.0, math.log(cost / budget.epsilon)) if cost > 0 else -math.inf
        return math.log(cost / budget.epsilon) or math.ulp(0.0)

    inside, below = high, excess(high)
    if not below <= 0:
        raise _out_of_reach(accountant, budget, adjacency, high, make_event)
    outside, above = low, math.nan
    leap = 0.05
    while math.isnan(above):  # go down from high until the budget is exceeded, or to low
        if math.isfinite(below):  # guess that cost falls as 1/noise; leaps at least double, up to LEAP
            leap = max(min(2 * leap, LEAP), -below * (1.05 if below > -0.5 else 0.9))
        else:
            leap = math.log(inside / low) / 2
        noise = inside * math.exp(-leap)
        if noise <= low * (1 + rtol):
            noise = low
        found = excess(noise)
        if found > 0:
            outside, above = noise, found
        elif noise == low:
            return low
        else:
            inside, below = noise, found
    found = _narrowed(excess, (outside, above), (inside, below), math.log1p(rtol))
    short = min(rounded_up(found), high)
    return short if excess(short) <= 0 else found


def rounded_up(noise: float) -> float:
    """Round up to `DIGITS` digits: the last bits of a logarithm depend on the processor, and a plan must not."""
    return float(Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal_from_float(noise))


def _narrowed(
    excess: Callable[[float], float], outside: tuple[float, float], inside: tuple[float, float], width: float
) -> float:
    """Return the end that fits the budget, once log(inside / outside) <= width; an end is (noise, excess)."""
    (left, above), (right, below) = outside, inside
    last, slow, span = 0, 0, math.log(right / left)
    while span > width:
        share = above / (above - below) if math.isfinite(above) and math.isfinite(below) else 0.5
        if slow >= 4:
            share, slow = 0.5, 0
        edge = min(0.5, 0.9 * width / span)  # a good guess then narrows the bracket from the other side
        noise = left * math.exp(span * min(max(share, edge), 1 - edge))
        found = excess(noise)
        side = 1 if found > 0 else -1
        if found > 0:
            left, above = noise, found
            below /= 2 if side == last else 1  # Illinois method: halve the value at an end that stays
        else:
            right, below = noise, found
            above /= 2 if side == last else 1
        before, span, last = span, math.log(right / left), side
        slow = slow + 1 if span > before / 2 else 0
    return right


def _out_of_reach(
    accountant: Accountant,
    budget: Budget,
    adjacency: Adjacency,
    high: float,
    make_event: Callable[[float], DpEvent],
) -> ValueError:
    wanted = f"epsilon = {budget.epsilon} at delta = {budget.delta} is out of reach: "
    floor = getattr(accountant, "least", None)
    if floor is not None and floor(budget.delta) > budget.epsilon:
        return ValueError(
            f"{wanted}{accountant.name} cannot report an epsilon below ln(1/delta)/max_order = "
            f"{floor(budget.delta):.4g}, whatever the noise; raise max_order or delta"
        )
    cost = remembered(accountant, make_event(high), budget.delta, adjacency)
    return ValueError(
        f"{wanted}by {accountant.name} ({adjacency}) even the largest noise, high = {high}, costs {cost}; "
        "raise high, or the budget, or do less to the data (fewer steps, smaller batches)"
    )


@lru_cache(maxsize=16384)
def _answer(accountant: Any, *asked: Any) -> float:
    return float(accountant.epsilon(*asked))


def remembered(accountant: Accountant, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
    """Return accountant.epsilon(event, delta, adjacency), cached unless it is an error or has no hash."""
    asked: Any = (accountant, event, delta, adjacency)
    try:
        hash(asked)
    except TypeError:
        return accountant.epsilon(event, delta, adjacency)
    return _answer(*asked)
