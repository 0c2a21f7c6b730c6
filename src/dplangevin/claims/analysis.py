"""Rules for claims on an analysis: what a promise costs, and numbers, ratios and growth that a paper states.

`where` picks rows: column -> value, or a list of values. Where several rows answer, ours is their median, low and high
the extremes (not a confidence interval).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.claims import (
    CONTRADICTED,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDER_CHOICES,
    NoRows,
    Verdict,
    not_testable,
    result,
)
from dplangevin.comparison import Interval
from dplangevin.exhibits.style import short

Where = Mapping[str, Any]
Bounds = Sequence[float | None]


def select(frame: pd.DataFrame, where: Where) -> pd.DataFrame:
    """The rows in which every column of `where` has its value, or one of its values. NoRows if there are none."""
    rows = frame
    for column, value in where.items():
        values = value if isinstance(value, list) else [value]
        rows = rows[rows[column].isin(values)]
    if rows.empty:
        raise NoRows(f"no row of the analysis has {dict(where)}: compare the claim's test with its columns")
    return rows


def promise(frame: pd.DataFrame, *, id: str) -> Verdict:
    """A printed (epsilon, delta). ours: the tight price for replace-one neighbours (the papers' own) at the default
    choice; low: the lower bound by an attack on the theorem's hypotheses; high: the larger tight price.

    Reproduced if ours is at most the claimed epsilon; under stated choices if that holds for add/remove neighbours only
    or for other settings that the paper leaves open; contradicted if neither and the attack exceeds the claim; else not
    reproduced. Not testable without settings."""
    row = select(frame, {"id": id}).iloc[0]
    text = {
        key: "" if pd.isna(row[key]) else str(row[key]) for key in ("mechanism", "chosen", "solved", "note")
    }
    if not text["mechanism"]:
        return not_testable(text["note"])
    claimed, ours, other = row.epsilon_claimed, row.epsilon_replace_one, row.epsilon_add_remove
    said = f"claimed {short(claimed)}; tight price {short(ours)} for replace-one"
    said += "" if math.isnan(other) else f", {short(other)} for add/remove"
    if not math.isnan(row.epsilon_formula):
        said += f"; by the paper's formula {short(row.epsilon_formula)} ({row.formula})"
    if not math.isnan(row.audit_epsilon):
        said += (
            f"; an attack on the theorem's hypotheses with {short(row.audit_runs)} runs: "
            f"at least {short(row.audit_epsilon)}"
        )
    if ours <= claimed:
        verdict = REPRODUCED
        said += f"; {claimed / ours:.2g} times what it costs"
    elif other <= claimed:
        verdict = UNDER_CHOICES
        said += "; kept for add/remove neighbours only"
    elif row.rescued:
        verdict = UNDER_CHOICES
    else:
        verdict = CONTRADICTED if row.audit_epsilon > claimed else NOT_REPRODUCED
    said += f"; kept by {text['solved']}" if text["solved"] and ours > claimed else ""
    said += f"; at {text['mechanism']}"
    said += "".join(
        f"; {name}{text[key]}" for key, name in (("chosen", "chosen: "), ("note", "")) if text[key]
    )
    interval = Interval(ours, row.audit_epsilon, max(ours, other) if not math.isnan(other) else ours)
    return result(interval, verdict, said)


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
    """A printed number recomputed in the one row `where`: reproduced if equal to the printed significant digits;
    under stated choices if a row of `others` equals it, which the reason names by its columns `names`; else
    contradicted."""
    rows = select(frame, where)
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows have {dict(where)}: a printed number needs one")
    ours = float(rows[column].iloc[0])

    def shown(value: float) -> str:
        return f"{value:.{digits - 1}e}"

    reason = f"{column} {ours:.4g} where the paper prints {published:g}"
    if shown(ours) == shown(published):
        return result(Interval(ours, math.nan, math.nan), REPRODUCED, reason)
    interval = Interval(ours, math.nan, math.nan)
    if others is None:
        return result(interval, CONTRADICTED, reason)
    rest = select(frame, others).dropna(subset=[column])
    interval = Interval(ours, rest[column].min(), rest[column].max())
    reason += f"; {len(rest)} other choices give {interval.low:.4g} to {interval.high:.4g}"
    equal = rest[[shown(value) == shown(published) for value in rest[column]]]
    if equal.empty:
        nearest = rest.loc[(np.log(rest[column]) - math.log(published)).abs().idxmin()]
        return result(interval, CONTRADICTED, f"{reason}, nearest with {_named(nearest, names)}")
    return result(interval, UNDER_CHOICES, f"{reason}; equal with {_named(equal.iloc[0], names)}")


def _named(row: pd.Series, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {row[name]}" for name in names if not pd.isna(row[name]))


def inside(
    frame: pd.DataFrame,
    *,
    where: Where,
    column: str,
    bounds: Bounds,
    smallest: str = "",
    strict: bool = False,
) -> Verdict:
    """Every value of `column` lies in `bounds` (an end may be null). smallest: a column at whose smallest value alone
    the rows count, such as a step size that stands for its limit. Verdict as `_judged`."""
    rows = select(frame, where)
    if smallest:
        rows = rows[rows[smallest].eq(rows[smallest].min())]
    reason = f"{column} in {len(rows)} rows" + (
        f" at {smallest} {rows[smallest].min():g}" if smallest else ""
    )
    return _judged(rows[column], bounds, strict, reason)


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
) -> Verdict:
    """The ratio of `column` between the rows `top` and `bottom`, matched on the columns `keys`, lies in `bounds`.
    Verdict as `_judged`."""
    pairs = select(frame, top).merge(select(frame, bottom), on=list(keys), suffixes=("_top", "_bottom"))
    pairs = pairs.dropna(subset=[f"{column}_top", f"{column}_bottom"])
    if pairs.empty:
        return not_testable(f"no rows of {dict(top)} and {dict(bottom)} share {', '.join(keys)}")
    values = pairs[f"{column}_top"] / pairs[f"{column}_bottom"]
    extreme = pairs.iloc[int(values.argmax())]
    reason = f"{what or f'ratio of {column}'} at {len(pairs)} points, largest at {_named(extreme, keys)}"
    return _judged(values, bounds, strict, reason)


def growth(
    frame: pd.DataFrame,
    *,
    where: Where,
    x: str,
    y: str,
    by: Sequence[str],
    bounds: Bounds,
    strict: bool = False,
) -> Verdict:
    """The exponent p of y ~ x^p, between neighbouring x within each group of `by`, lies in `bounds`. Verdict as
    `_judged`."""
    slopes: list[float] = []
    for _, rows in select(frame, where).dropna(subset=[y]).groupby(list(by)):
        means = rows.groupby(x)[y].median()
        slopes += (np.diff(np.log(means)) / np.diff(np.log(means.index))).tolist()
    if not slopes:
        return not_testable(f"no two values of {x} to compare in {dict(where)}")
    return _judged(pd.Series(slopes), bounds, strict, f"exponent of {y} in {x}, {len(slopes)} differences")


def _judged(values: pd.Series, bounds: Bounds, strict: bool, reason: str) -> Verdict:
    """Reproduced if all values lie in the bounds, contradicted if none does, otherwise not reproduced; `strict`, for a
    statement that one exception refutes: contradicted unless all do."""
    low, high = (math.inf * sign if end is None else end for end, sign in zip(bounds, (-1, 1), strict=True))
    held = int(values.between(low, high).sum())
    interval = Interval(float(values.median()), float(values.min()), float(values.max()))
    failed = CONTRADICTED if strict or held == 0 else NOT_REPRODUCED
    reason += f": {interval.low:.4g} to {interval.high:.4g}, {held} of {len(values)} within"
    return result(interval, REPRODUCED if held == len(values) else failed, f"{reason} [{low:g}, {high:g}]")
