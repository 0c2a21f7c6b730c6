"""Rules for a private method that turns into its non-private baseline."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dplangevin.claims import (
    CONTRADICTED,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDER_CHOICES,
    Verdict,
    result,
)
from dplangevin.claims.choices import covers, search, settings
from dplangevin.claims.words import violations
from dplangevin.comparison import Interval, difference, select, t_interval
from dplangevin.exhibits.style import number, short

ROUNDING = 1e-9  # relative
BELOW_BUDGET = 0.01  # relative; calibration stops nearer than this to the budget


def reaches(
    runs: pd.DataFrame,
    *,
    dataset: str,
    first: str,
    baseline: str,
    margin: float,
    by: float,
    experiment: str,
    sensitivity: str = "",
    variant: str = "",
) -> Verdict:
    """From budget `by` on, `first` has the accuracy of its non-private `baseline`: the 95 % interval of the paired
    difference lies within +-margin at every asked budget >= by.

    ours is the smallest asked budget from which on that holds (nan for none), low the next smaller one. Reproduced if
    ours <= by; contradicted if at some budget >= by the interval lies outside +-margin altogether; otherwise not
    reproduced. sensitivity: other settings of `first`, against the baseline in the same row scaling (`choices.search`).
    variant: as for `orderings.beats`.
    """
    sides = [select(runs, dataset, method, experiment, variant=variant) for method in (first, baseline)]
    gap = difference(sides[0], sides[1], "asked")
    start, low, outside = _threshold(gap, margin, by, 0.95)
    verdict = REPRODUCED if start <= by else CONTRADICTED if outside else NOT_REPRODUCED
    reason = f"accuracy of {first} minus {baseline} within +-{number(margin)} with 95 % confidence "
    reason += f"from eps {number(start)} on" if start < math.inf else "not even at the largest budget"
    at = ", ".join(f"{gap[c].mean():.4f} at {np.exp(c):.2g}" for c in gap.columns)
    reason += f", asked for: eps {number(by)} at most; mean difference by eps: {at}{violations(*sides)}"
    if sensitivity:

        def holds(other: pd.DataFrame, level: float) -> Interval | None:
            if _threshold(other, margin, by, level)[0] > by:
                return None
            later = [column for column in other.columns if np.exp(column) >= by * (1 - ROUNDING)]
            return t_interval(other[later].mean(axis=1), level)

        names = (first, baseline)
        text, any_holds = search(runs, dataset, names, "asked", (sensitivity, experiment), holds)
        reason += text
        if any_holds and verdict != REPRODUCED:
            verdict = UNDER_CHOICES
    ours = start if start < math.inf else math.nan
    return result(Interval(ours, low, ours), verdict, reason)


def _threshold(gap: pd.DataFrame, margin: float, by: float, level: float) -> tuple[float, float, bool]:
    """The smallest budget from which on the interval is within +-margin (inf for none), the next smaller one (nan for
    none), and whether the interval lies outside at some budget >= by."""
    each = {
        float(np.exp(column).round(9)): t_interval(gap[column].dropna(), level)
        for column in sorted(gap.columns)
    }
    start, low = math.inf, math.nan
    for epsilon in reversed(each):
        if not (each[epsilon].low >= -margin and each[epsilon].high <= margin):
            low = epsilon
            break
        start = epsilon
    later = [interval for epsilon, interval in each.items() if epsilon >= by]
    return start, low, any(i.high < -margin or i.low > margin for i in later)


def price_of_standard_step(
    runs: pd.DataFrame,
    *,
    dataset: str,
    method: str,
    by: float,
    experiment: str,
    sensitivity: str = "",
) -> Verdict:
    """From budget `by` on, the method takes the step size that it would take without privacy. It then costs less than
    it was asked for (by more than 1 %), always the same: ours, the epsilon of the standard step by the
    accountant that calibrates (nan where every budget is spent).

    Reproduced if ours <= by, otherwise contradicted, with no allowance for chance, since nothing here is random.
    sensitivity: an experiment with other settings; under stated choices if one of them has a price <= by.
    """
    rows = select(runs, dataset, method, experiment)
    ours = _price(rows)
    verdict = REPRODUCED if ours <= by else CONTRADICTED
    reason = f"price of the standard step of {method} by the accountant that calibrates; asked: at most {number(by)}"
    if math.isnan(ours):
        reason += f"; every budget up to {number(rows.epsilon.max())} is spent: its steps stay below the standard one"
    low, high = math.nan, math.nan
    if sensitivity and covers(runs, dataset, sensitivity, [method]):
        found = settings(runs, dataset, method, (sensitivity, sensitivity))
        prices = {key: price for key, part in found.items() if not math.isnan(price := _price(part))}
        kept = {key: price for key, price in prices.items() if price <= by}
        reason += f"; at most {number(by)} in {len(kept)} of {len(found)} settings in {sensitivity}"
        if prices:
            low, high = min(prices.values()), max(prices.values())
            key = min(prices, key=lambda key: prices[key])
            reason += f", the least {short(low)} with {key[0] or 'default'} and rows scaled {key[1]!r}"
        if kept and verdict != REPRODUCED:
            verdict = UNDER_CHOICES
    return result(Interval(ours, low, high), verdict, reason)


def _price(rows: pd.DataFrame) -> float:
    """The paper's epsilon where it is below the budget asked for; nan where it never is."""
    capped = rows[np.isfinite(rows.epsilon) & (rows.epsilon_paper < rows.epsilon * (1 - BELOW_BUDGET))]
    return float(capped.epsilon_paper.max()) if len(capped) else math.nan
