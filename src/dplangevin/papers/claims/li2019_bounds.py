"""Rules for claims on exact computations.

Nothing here is random, so that one admissible case refutes a bound.

Parameters that several rules share:

bounds
    Lower and upper end of the range that is asked for, None for an open end.
what
    The tested quantity in words, for the reason of the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dplangevin.papers.claims.analyses import log_slopes
from dplangevin.papers.claims.verdicts import (
    EXACT,
    FAILS,
    IN_PART,
    NOT_BY_DEFAULT,
    AskedRange,
    Bounds,
    Verdict,
    Where,
    decide,
    extremes,
    not_testable,
    result,
    rows_where,
    single,
)
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
    """Test that every exact value of `column` lies in `bounds`.

    One value outside refutes the claim. The claim holds in part instead if all rows
    of `others` lie in the bounds.

    - `others`, `choice`: Rows that hold the values under another choice, and that choice in words.
    - `smallest`: A column whose smallest value stands for a limit. Only rows at that value count.
    - returns: ours: the median; low, high: the smallest and the largest value. They are those of `others` where these
      decide.
    """
    rows = _at_smallest(rows_where(frame, where), smallest)
    asked_range = AskedRange.within(bounds)
    inside = rows[column].between(*asked_range)
    reason = f"{what}: {_range(rows[column])}; the claim asks for {asked_range}; "
    reason += f"{inside.sum()} of {len(rows)} cases hold"
    verdict, values = decide(bool(inside.all()), True), rows[column]
    if verdict == FAILS and others is not None:
        rest = _at_smallest(rows_where(frame, others), smallest)[column]
        reason += f"; {choice}: {_range(rest)}"
        if rest.between(*asked_range).all():
            verdict, values, reason = IN_PART, rest, NOT_BY_DEFAULT + reason
    return result(extremes(values), verdict, reason, EXACT, asked_range=asked_range)


def order(
    frame: pd.DataFrame, *, where: Where, x: str, y: str, by: Sequence[str], bounds: Bounds, what: str
) -> Verdict:
    """Test that the exponent p of y ~ x^p lies in `bounds`, from exact values.

    Each exponent is the slope on log scales between two neighbouring x. The claim holds if all exponents
    lie in the bounds, and fails if none does. Otherwise it is open.

    - `frame`, `where`: Rows of the analysis, and conditions of the rows to test.
    - `x`, `y`: Columns of positive values.
    - `by`: Columns that define the groups.
    - `what`: y as a function of x in words.
    - returns: ours: the median exponent; low, high: the smallest and the largest.
    """
    slopes, asked_range = pd.Series(log_slopes(rows_where(frame, where), x, y, by)), AskedRange.within(bounds)
    if slopes.empty:
        return not_testable(f"no two values of {x} to compare in {dict(where)}", asked_range)
    inside = slopes.between(*asked_range)
    reason = (
        f"exponent of {what}: {_range(slopes)} in {len(slopes)} differences; the claim asks for {asked_range}"
    )
    return result(
        extremes(slopes), decide(bool(inside.all()), not inside.any()), reason, EXACT, asked_range=asked_range
    )


def best_at(
    frame: pd.DataFrame, *, where: Where, x: str, y: str, published: float, within: float, what: str
) -> Verdict:
    """Test that the largest of the exact values of y lies at x = `published`.

    The claim fails if the x of the largest value is further than `within` from `published`. At
    least three rows are needed.

    - `frame`, `where`: Rows of the analysis, and conditions of the rows to test.
    - `x`, `y`: Columns of the variable and of the values.
    - `published`, `within`: The printed x, and the largest distance from it, >= 0.
    - `what`: y in words.
    - returns: ours: the x of the largest y; low, high: nan.
    """
    rows = rows_where(frame, where).sort_values(x).reset_index(drop=True)
    asked_range = AskedRange.near(published, within)
    if len(rows) < 3:
        return not_testable(f"fewer than three values of {x} to compare", asked_range)
    best = int(rows[y].argmax())
    ours = float(rows[x][best])
    reason = f"{what} is largest, {rows[y][best]:.4g}, at {short(ours)} of {len(rows)} values; "
    reason += ", ".join(
        f"{value:.3g} at {short(float(at))}" for at, value in zip(rows[x], rows[y], strict=True)
    )
    verdict = decide(asked_range.low <= ours <= asked_range.high, True)
    return result(single(ours), verdict, reason, EXACT, asked_range=asked_range)


def without_test(frame: pd.DataFrame, *, reason: str) -> Verdict:
    """Return "not testable" with a reason; the frame is not read."""
    return not_testable(reason)


def _at_smallest(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows at the smallest value of `column`, or all rows if `column` is ""."""
    return rows[rows[column].eq(rows[column].min())] if column else rows


def _range(values: pd.Series) -> str:
    """Return the smallest and the largest value as text."""
    return f"{values.min():.4g} to {values.max():.4g}" if len(values) > 1 else f"{values.iloc[0]:.4g}"
