"""Rules for claims on exact computations, where nothing is drawn and one admissible case refutes a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dplangevin.claims.verdicts import (
    CONTRADICTED,
    EXACT,
    UNDER_CHOICES,
    Asked,
    Bounds,
    Verdict,
    Where,
    extremes,
    judged,
    not_testable,
    result,
    rows_where,
)
from dplangevin.statistics import Interval
from dplangevin.text import short


def every_case(
    frame: pd.DataFrame,
    *,
    where: Where,
    column: str,
    bounds: Bounds,
    what: str,
    others: Where | None = None,
    choice: str = "",
    smallest: str = "",
) -> Verdict:
    """Every exact value of `column` in the rows `where` lies in `bounds`: contradicted by one that does not, but
    reproduced under stated choices where `others` names rows that all do, which `choice` says in words. smallest: a
    column at whose smallest value alone rows count, as it stands for a limit. low, high: the smallest and largest
    value. what: the column in words."""
    rows = _at_smallest(rows_where(frame, where), smallest)
    asked = Asked.within(bounds)
    held = int(rows[column].between(*asked).sum())
    reason = f"{what}: {_range(rows[column])}, asked: {asked}; {held} of {len(rows)} cases hold"
    verdict = judged(held == len(rows), True)
    if verdict == CONTRADICTED and others is not None:
        rest = _at_smallest(rows_where(frame, others), smallest)[column]
        reason += f"; {choice}: {_range(rest)}"
        verdict = UNDER_CHOICES if rest.between(*asked).all() else CONTRADICTED
    return result(extremes(rows[column]), verdict, reason, EXACT, asked=asked)


def order(
    frame: pd.DataFrame, *, where: Where, x: str, y: str, by: Sequence[str], bounds: Bounds, what: str
) -> Verdict:
    """The exponent p of y ~ x^p between neighbouring x, within each group of `by`, lies in `bounds`; exact values.
    Reproduced if all do, contradicted if none does, else not reproduced. ours: their median, low and high: the smallest
    and largest. what: y as a function of x in words."""
    slopes: list[float] = []
    for _, rows in rows_where(frame, where).groupby(list(by), dropna=False):
        line = rows.sort_values(x)
        slopes += (np.diff(np.log(line[y])) / np.diff(np.log(line[x]))).tolist()
    asked = Asked.within(bounds)
    if not slopes:
        return not_testable(f"no two values of {x} to compare in {dict(where)}", asked)
    found = pd.Series(slopes)
    held = int(found.between(*asked).sum())
    reason = f"exponent of {what}: {_range(found)} in {len(found)} differences, asked: {asked}"
    return result(extremes(found), judged(held == len(found), held == 0), reason, EXACT, asked=asked)


def best_at(
    frame: pd.DataFrame, *, where: Where, x: str, y: str, published: float, within: float, what: str
) -> Verdict:
    """Of the exact values of y in the rows `where`, the largest is at x = `published` (to `within`), else contradicted.
    low, high: the x next to ours. what: y in words."""
    rows = rows_where(frame, where).sort_values(x).reset_index(drop=True)
    asked = Asked.near(published, within)
    if len(rows) < 3:
        return not_testable(f"fewer than three values of {x} to compare", asked)
    best = int(rows[y].argmax())
    beside = [float(rows[x][i]) if 0 <= i < len(rows) else math.nan for i in (best - 1, best + 1)]
    ours = float(rows[x][best])
    reason = f"{what} is largest, {rows[y][best]:.4g}, at {short(ours)} of {len(rows)} values; "
    reason += ", ".join(
        f"{value:.3g} at {short(float(at))}" for at, value in zip(rows[x], rows[y], strict=True)
    )
    verdict = judged(asked.low <= ours <= asked.high, True)
    return result(Interval(ours, *beside), verdict, reason, EXACT, asked=asked)


def without_test(frame: pd.DataFrame, *, reason: str) -> Verdict:
    """Not testable, and why; the frame is not read."""
    return not_testable(reason)


def _at_smallest(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    return rows[rows[column].eq(rows[column].min())] if column else rows


def _range(values: pd.Series) -> str:
    return f"{values.min():.4g} to {values.max():.4g}" if len(values) > 1 else f"{values.iloc[0]:.4g}"
