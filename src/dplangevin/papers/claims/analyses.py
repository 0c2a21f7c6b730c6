"""Rules for claims on the rows of an analysis: privacy guarantees, printed numbers, ratios and exponents.

The frame of a rule has the rows of one analysis, and `where` picks rows from it. A rule returns a `Verdict`,
in which `ours` is our number and `low` and `high` are its limits. Where a rule uses several rows, ours is
their median. Then low and high are their smallest and largest value, not a confidence interval.

Parameters that several rules share:

bounds
    Lower and upper end of the range that is asked for, None for an open end.
what
    The tested quantity in words, for the reason of the verdict.
measure
    What the values are, one of `verdicts.MEASURES`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dplangevin.papers.claims import words
from dplangevin.papers.claims.verdicts import (
    ADDED,
    ATTACK,
    EXACT,
    FAILS,
    HOLDS,
    IN_PART,
    INTERVAL,
    NOT_BY_DEFAULT,
    PAIR,
    RANGE,
    AskedRange,
    Bounds,
    Verdict,
    Where,
    decide,
    equal_as_printed,
    not_testable,
    promise_verdict,
    result,
    rows_where,
    single,
    within,
)
from dplangevin.papers.claims.words import at_least, at_most
from dplangevin.papers.statistics import Interval, power_law
from dplangevin.text import short


def guarantee(frame: pd.DataFrame, *, id: str) -> Verdict:
    """Test a printed (epsilon, delta) guarantee against its exact ε, or else against attack ε and proven ε.

    The verdict is that of `verdicts.promise_verdict`. A guarantee without settings is not testable.

    - `frame`: Rows of the analysis `privacy_claims` (see `papers.analyses.promises`).
    - `id`: The value of the column `id` in the row of this guarantee.
    - returns: The numbers are those that decide: for replaced records; for added or removed records if the promise
      holds for these alone; or with the settings at which it holds. ours: the exact ε, which some pair of data sets
      costs. It is nan where none is known. low: the attack ε (95 % confidence), or the exact ε of one pair, where
      ours is nan. high: the proven ε there.
    """
    row = rows_where(frame, {"id": id}).iloc[0]
    text = {
        key: "" if pd.isna(row[key]) else str(row[key]) for key in ("mechanism", "chosen", "solved", "note")
    }
    claimed, replaced, added = row.epsilon_claimed, row.epsilon_replace_one, row.epsilon_add_remove
    attack, exact, tool = row.epsilon_attack, bool(row.tight), row.formula_adjacency == "add_remove"
    asked_range = AskedRange(high=claimed)
    if not text["mechanism"]:
        return not_testable(text["note"], asked_range)
    shown = short if exact else at_most
    reason = f"ε {short(claimed)} is claimed, the {'exact' if exact else 'proven'} ε is {shown(replaced)}"
    reason += " for replace-one neighbours"
    reason += "" if math.isnan(added) else f" and {shown(added)} for add/remove"
    if not math.isnan(row.epsilon_formula):
        reason += f", that of the paper's formula {short(row.epsilon_formula)} ({row.formula})"
    if not math.isnan(attack):
        if row.attack_runs:
            reason += f"; an attack on the theorem's hypotheses shows at least {at_least(attack)} "
            reason += f"(95 % confidence, {short(row.attack_runs)} runs)"
        else:
            reason += f"; one pair that the theorem's hypotheses admit costs at least {at_least(attack)}"
        if row.epsilon_attack_add_remove > 0:
            reason += f", and {at_least(row.epsilon_attack_add_remove)} for add/remove"
    elsewhere, known = bool(row.rescued), replaced if exact else attack
    verdict = promise_verdict(
        claimed, replaced=replaced, added=added, shown=known, tool=tool, elsewhere=elsewhere
    )
    price, low, cause = replaced, attack, ""
    if verdict == HOLDS:
        reason += f"; the claim is {claimed / replaced:.2g} times what it costs"
    elif verdict == IN_PART and not elsewhere:
        price, low, cause = added, row.epsilon_attack_add_remove, ADDED
        reason = f"{NOT_BY_DEFAULT}{reason}; it holds for add/remove neighbours only"
    elif verdict == IN_PART:
        price, low, reason = row.epsilon_solved, math.nan, NOT_BY_DEFAULT + reason
    elif added <= claimed:
        reason += "; at this ε and δ it holds for add/remove neighbours"
    elif (added if exact else row.epsilon_attack_add_remove) > claimed:
        reason += "; it fails for add/remove neighbours, too"
    reason += f"; it would hold for {text['solved']}" if text["solved"] and replaced > claimed else ""
    reason += f"; priced: {text['mechanism']}"
    reason += f"; chosen: {text['chosen']}" if text["chosen"] else ""
    reason += f"; {text['note']}" if text["note"] else ""
    if exact:
        return result(single(price), verdict, reason, EXACT, asked_range=asked_range, cause=cause)
    measure = ATTACK if row.attack_runs or math.isnan(low) else PAIR
    interval = Interval(math.nan, low, price)
    return result(interval, verdict, reason, measure, asked_range=asked_range, cause=cause)


def printed(
    frame: pd.DataFrame,
    *,
    where: Where,
    column: str,
    published: float,
    digits: int,
    others: Where | None = None,
    names: Sequence[str] = (),
) -> Verdict:
    """Test a printed number by recomputing it in one row.

    The claim holds if our number equals the printed one to its significant digits. It holds
    in part if a row of `others` equals it. Otherwise it fails.

    - `where`: Conditions that exactly one row meets.
    - `published`: The printed number, in the unit of `column`.
    - `digits`: Number of significant digits that the paper prints.
    - `others`: Rows that hold the number under other choices; the reason names a row by its columns `names`.
    """
    rows = rows_where(frame, where)
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows have {dict(where)}: a printed number needs one")
    ours, asked_range = float(rows[column].iloc[0]), AskedRange.near(published)
    reason = f"{words.column(column) or 'ours'} {ours:.4g} where the paper prints {published:g}"
    if equal_as_printed(ours, published, digits):
        return result(single(ours), HOLDS, reason, EXACT, asked_range=asked_range)
    if others is None:
        return result(single(ours), FAILS, reason, EXACT, asked_range=asked_range)
    rest = rows_where(frame, others).dropna(subset=[column])
    every = [ours, *rest[column]]
    interval = Interval(ours, min(every), max(every))
    spread = f" to {interval.high:.4g}" if len(rest) > 1 else ""
    choices = f"{len(rest)} other choices give" if len(rest) > 1 else "another choice gives"
    reason += f"; {choices} {interval.low:.4g}{spread}"
    equal = rest[[equal_as_printed(value, published, digits) for value in rest[column]]]
    if equal.empty:
        nearest = rest.loc[(np.log(rest[column]) - math.log(published)).abs().idxmin()]
        reason += f", nearest with {_named(nearest, names)}"
        return result(interval, FAILS, reason, RANGE, asked_range=asked_range)
    reason = f"{NOT_BY_DEFAULT}{reason}; equal with {_named(equal.iloc[0], names)}"
    shown = single(float(equal[column].iloc[0]))
    return result(shown, IN_PART, reason, EXACT, asked_range=asked_range)


def _named(row: pd.Series, names: Sequence[str]) -> str:
    """Return the row in words, by its columns `names`."""
    return words.named(dict(row), names)


def inside(
    frame: pd.DataFrame,
    *,
    where: Where,
    column: str,
    bounds: Bounds,
    smallest: str = "",
    strict: bool = False,
    what: str = "",
    measure: str = RANGE,
) -> Verdict:
    """Test that every value of `column` lies in `bounds`; the verdict is that of `verdicts.within`.

    - `frame`, `where`: Rows of the analysis, and conditions of the rows to test.
    - `column`: Column of the values.
    - `smallest`: A column whose smallest value stands for a limit, such as a step size. If it is given, only rows at
      that value count.
    - `strict`: If True, one value outside the bounds refutes the claim.
    """
    rows = rows_where(frame, where)
    at = ""
    if smallest:
        rows = rows[rows[smallest].eq(rows[smallest].min())]
        at = f" at {words.column(smallest)} {rows[smallest].min():g}"
    named = what or words.column(column) or "values"
    return within(rows[column], bounds, f"{named}{at}:", strict, measure)


def ratio(
    frame: pd.DataFrame,
    *,
    top: Where,
    bottom: Where,
    column: str,
    keys: Sequence[str],
    bounds: Bounds,
    strict: bool = False,
    what: str = "",
    measure: str = RANGE,
) -> Verdict:
    """Test that a ratio of `column` between two sets of rows lies in `bounds`.

    The verdict is that of `verdicts.within`. It is "not testable" if no row of one set matches a row of the other.

    - `top`, `bottom`: The rows that are divided, and those that they are divided by.
    - `column`: Column of the values.
    - `keys`: Columns on which the two sets are matched.
    - `strict`: If True, one ratio outside the bounds refutes the claim.
    """
    above, below = (rows_where(frame, where) for where in (top, bottom))
    pairs = above.merge(below, on=list(keys), suffixes=("_top", "_bottom"))
    pairs = pairs.dropna(subset=[f"{column}_top", f"{column}_bottom"])
    if pairs.empty:
        reason = f"no rows of {dict(top)} and {dict(bottom)} share {', '.join(keys)}"
        return not_testable(reason, AskedRange.within(bounds))
    values = pairs[f"{column}_top"] / pairs[f"{column}_bottom"]
    largest = pairs.iloc[int(values.argmax())]
    reason = f"{what or f'ratio of {words.column(column)}'}, largest at {_named(largest, keys)}:"
    return within(values, bounds, reason, strict, measure)


def growth(
    frame: pd.DataFrame,
    *,
    where: Where,
    x: str,
    y: str,
    by: Sequence[str],
    bounds: Bounds,
    what: str = "",
    measure: str = RANGE,
) -> Verdict:
    """Test that the exponent p of y ~ x^p lies in `bounds`; the verdict is that of `verdicts.within`.

    Each exponent is the slope on log scales between two neighbouring x.

    - `frame`, `where`: Rows of the analysis, and conditions of the rows to test.
    - `x`, `y`: Columns of positive values. Several y at one x enter by their median.
    - `by`: Columns that define the groups.
    """
    slopes = log_slopes(rows_where(frame, where).dropna(subset=[y]), x, y, by)
    if not slopes:
        return not_testable(f"no two values of {x} to compare in {dict(where)}", AskedRange.within(bounds))
    named = f"exponent of the {words.column(y)} in the {words.column(x)}" if words.column(y) else "exponent"
    return within(pd.Series(slopes), bounds, f"{what or named}:", measure=measure)


def log_slopes(frame: pd.DataFrame, x: str, y: str, by: Sequence[str]) -> list[float]:
    """Return the slopes of ln y in ln x between neighbouring x.

    - `x`, `y`: Columns of positive values. Several y at one x enter by their median.
    - `by`: Columns that define the groups.
    """
    slopes: list[float] = []
    for _, rows in frame.groupby(list(by), dropna=False):
        medians = rows.groupby(x)[y].median()
        slopes += (np.diff(np.log(medians)) / np.diff(np.log(medians.index))).tolist()
    return slopes


def exponent(
    frame: pd.DataFrame, *, where: Where, x: str, bounds: Bounds, first: float = 0.0, column: str = "value"
) -> Verdict:
    """Test that the exponent of `column` in x, fitted over all rows, lies in `bounds`.

    The claim holds if the whole 95 % interval of the exponent lies in the bounds. It fails
    if no part of the interval does. Otherwise it is open.

    - `x`, `first`: Column of the variable, with positive values, and the smallest x that enters the fit.
    - `column`: Column of the positive values. "value" has 95 % limits; every other column is fitted as exact.
    """
    rows = rows_where(frame, where)
    rows = rows[rows[x].ge(first)].dropna(subset=[column])
    asked_range = AskedRange.within(bounds)
    if rows[x].nunique() < 2:
        reason = f"no two values of {x} from {first:g} to fit an exponent to in {dict(where)}"
        return not_testable(reason, asked_range)
    if column != "value":
        rows = rows.assign(value=rows[column], low=rows[column], high=rows[column])
    slope = power_law(rows, x)
    low, high = asked_range
    verdict = decide(low <= slope.low and slope.high <= high, slope.high < low or slope.low > high)
    limits = f" (95 % interval {slope.low:.3f} to {slope.high:.3f})" if column == "value" else ""
    reason = (
        f"the exponent is {slope.mean:.3f}{limits}, fitted over {len(rows)} "
        f"values of the {words.column(x) or 'variable'} from {rows[x].min():g} to {rows[x].max():g}; "
        f"the claim asks for {asked_range}; the {words.column(column) or 'value'} goes from "
        f"{rows[column].iloc[0]:.3g} to {rows[column].iloc[-1]:.3g}"
    )
    return result(slope, verdict, reason, INTERVAL if column == "value" else EXACT, asked_range=asked_range)
