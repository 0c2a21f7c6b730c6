"""Rules for claims on an analysis: what a printed guarantee costs, and numbers, ratios and growth that a paper states.

`where` picks rows. Where several rows answer, ours is their median, low and high the extremes (not a confidence
interval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dplangevin.claims import words
from dplangevin.claims.verdicts import (
    ATTACK,
    CONTRADICTED,
    EXACT,
    INTERVAL,
    RANGE,
    REPRODUCED,
    UNDER_CHOICES,
    Asked,
    Bounds,
    Verdict,
    Where,
    equal_as_printed,
    judged,
    not_testable,
    promised,
    result,
    rows_where,
    single,
    within,
)
from dplangevin.statistics import Interval, power_law
from dplangevin.text import short


def guarantee(frame: pd.DataFrame, *, id: str) -> Verdict:
    """A printed (epsilon, delta). ours: the price for replace-one neighbours (the papers' own) at the default choice,
    nan where that is an upper bound alone; low: the lower bound by an attack on the theorem's hypotheses; high: the
    price, or the larger one of both neighbours where ours is one. Verdict as
    `verdicts.promised`, not testable without settings."""
    row = rows_where(frame, {"id": id}).iloc[0]
    text = {
        key: "" if pd.isna(row[key]) else str(row[key]) for key in ("mechanism", "chosen", "solved", "note")
    }
    claimed, ours, other = row.epsilon_claimed, row.epsilon_replace_one, row.epsilon_add_remove
    asked = Asked(high=claimed)
    if not text["mechanism"]:
        return not_testable(text["note"], asked)
    price = "the tight price is" if row.tight else "proven is at most"
    reason = f"ε {short(claimed)} is claimed, {price} {short(ours)} for replace-one neighbours"
    reason += "" if math.isnan(other) else f" and {short(other)} for add/remove"
    if not math.isnan(row.epsilon_formula):
        reason += f", that of the paper's formula {short(row.epsilon_formula)} ({row.formula})"
    if not math.isnan(row.audit_epsilon):
        if row.audit_runs:
            shown = f"an attack on the theorem's hypotheses shows at least {short(row.audit_epsilon)} "
            shown += f"(95 % confidence, {short(row.audit_runs)} runs)"
        else:
            shown = f"one pair that the theorem's hypotheses admit costs exactly {short(row.audit_epsilon)}"
        reason += f"; {shown}"
    verdict = promised(
        claimed, replaced=ours, added=other, attack=row.audit_epsilon, elsewhere=bool(row.rescued)
    )
    if verdict == REPRODUCED:
        reason += f"; the claim is {claimed / ours:.2g} times what it costs"
    elif other <= claimed:
        reason += "; at this ε and δ it is kept for add/remove neighbours only"
    reason += f"; it would be kept by {text['solved']}" if text["solved"] and ours > claimed else ""
    reason += f"; priced: {text['mechanism']}"
    reason += f"; chosen: {text['chosen']}" if text["chosen"] else ""
    reason += f"; {text['note']}" if text["note"] else ""
    largest = ours if math.isnan(other) or not row.tight else max(ours, other)
    measured = ours if row.tight else math.nan
    return result(Interval(measured, row.audit_epsilon, largest), verdict, reason, ATTACK, asked=asked)


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
    """A printed number recomputed in the one row `where`: reproduced if equal to the printed significant digits; under
    stated choices if a row of `others` equals it, which the reason names by its columns `names`; else contradicted."""
    rows = rows_where(frame, where)
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows have {dict(where)}: a printed number needs one")
    ours, asked = float(rows[column].iloc[0]), Asked.near(published)
    reason = f"{words.column(column) or 'ours'} {ours:.4g} where the paper prints {published:g}"
    if equal_as_printed(ours, published, digits):
        return result(single(ours), REPRODUCED, reason, EXACT, asked=asked)
    if others is None:
        return result(single(ours), CONTRADICTED, reason, EXACT, asked=asked)
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
        return result(interval, CONTRADICTED, reason, RANGE, asked=asked)
    reason += f"; equal with {_named(equal.iloc[0], names)}"
    return result(interval, UNDER_CHOICES, reason, RANGE, asked=asked)


def _named(row: pd.Series, names: Sequence[str]) -> str:
    return words.named(dict(row), names)


def inside(
    frame: pd.DataFrame,
    *,
    where: Where,
    column: str,
    bounds: Bounds,
    smallest: str = "",
    what: str = "",
    measure: str = RANGE,
) -> Verdict:
    """Every value of `column` lies in `bounds` (an end may be null). smallest: a column at whose smallest value alone
    the rows count, such as a step size that stands for its limit. what: the values in words. measure: what they are,
    of `verdicts.MEASURES`. Verdict as `verdicts.within`."""
    rows = rows_where(frame, where)
    at = ""
    if smallest:
        rows = rows[rows[smallest].eq(rows[smallest].min())]
        at = f" at {words.column(smallest)} {rows[smallest].min():g}"
    named = what or words.column(column) or "values"
    return within(rows[column], bounds, f"{named}{at}:", measure=measure)


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
    """The ratio of `column` between the rows `top` and `bottom`, matched on the columns `keys`, lies in `bounds`.
    measure, and verdict: as for `inside`."""
    above, below = (rows_where(frame, where) for where in (top, bottom))
    pairs = above.merge(below, on=list(keys), suffixes=("_top", "_bottom"))
    pairs = pairs.dropna(subset=[f"{column}_top", f"{column}_bottom"])
    if pairs.empty:
        reason = f"no rows of {dict(top)} and {dict(bottom)} share {', '.join(keys)}"
        return not_testable(reason, Asked.within(bounds))
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
    """The exponent p of y ~ x^p, between neighbouring x within each group of `by`, lies in `bounds`. measure, and
    verdict: as for `inside`."""
    slopes: list[float] = []
    for _, rows in rows_where(frame, where).dropna(subset=[y]).groupby(list(by)):
        means = rows.groupby(x)[y].median()
        slopes += (np.diff(np.log(means)) / np.diff(np.log(means.index))).tolist()
    if not slopes:
        return not_testable(f"no two values of {x} to compare in {dict(where)}", Asked.within(bounds))
    named = f"exponent of the {words.column(y)} in the {words.column(x)}" if words.column(y) else "exponent"
    return within(pd.Series(slopes), bounds, f"{what or named}:", measure=measure)


def exponent(
    frame: pd.DataFrame, *, where: Where, x: str, bounds: Bounds, first: float = 0.0, column: str = "value"
) -> Verdict:
    """The exponent of `column` in x, fitted over the rows `where` with x >= first, lies in `bounds` (an end may be
    null).

    Reproduced if its whole 95 % interval does, contradicted if none of it does, else not reproduced. Values without an
    interval (another column than value) are fitted as exact.
    """
    rows = rows_where(frame, where)
    rows = rows[rows[x].ge(first)].dropna(subset=[column])
    asked = Asked.within(bounds)
    if rows[x].nunique() < 2:
        reason = f"no two values of {x} from {first:g} to fit an exponent to in {dict(where)}"
        return not_testable(reason, asked)
    if column != "value":
        rows = rows.assign(value=rows[column], low=rows[column], high=rows[column])
    slope = power_law(rows, x)
    low, high = asked
    verdict = judged(low <= slope.low and slope.high <= high, slope.high < low or slope.low > high)
    limits = f" (95 % interval {slope.low:.3f} to {slope.high:.3f})" if column == "value" else ""
    reason = (
        f"the exponent is {slope.mean:.3f}{limits}, fitted over {len(rows)} "
        f"values of the {words.column(x) or 'variable'} from {rows[x].min():g} to {rows[x].max():g}, asked: "
        f"{asked}; the {words.column(column) or 'value'} goes from {rows[column].iloc[0]:.3g} to "
        f"{rows[column].iloc[-1]:.3g}"
    )
    return result(slope, verdict, reason, INTERVAL if column == "value" else EXACT, asked=asked)
