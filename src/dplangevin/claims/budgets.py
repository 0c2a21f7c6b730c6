"""Rules for printed budgets and for settings that methods are said to share.

Rows have the columns of `exhibits.head_files`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from dplangevin.claims import CONTRADICTED, NOT_REPRODUCED, REPRODUCED, UNDER_CHOICES, NoRows, Verdict, result
from dplangevin.claims.heads import Where, select
from dplangevin.claims.training import said
from dplangevin.comparison import Interval
from dplangevin.exhibits.style import number, short

ROUNDED = 1.005  # times the claim: what prints as 1.00


def budget(frame: pd.DataFrame, *, where: Where, claimed: float) -> Verdict:
    """A row that is printed as (claimed, delta)-private. ours: the smallest proven price for replace-one neighbours,
    of all iterates or of the last; low: the lower bound by an attack on these rows; high: the larger proven price.

    Reproduced if ours is at most what rounds to the claim; under stated choices if the price for add/remove neighbours
    is; contradicted if neither and the attack exceeds it; else not reproduced."""
    rows = select(frame, where)
    prices = {
        "all iterates": float(rows.epsilon_tight.max()),
        "last iterate": float(rows.epsilon_last.max()) if "epsilon_last" in rows else math.nan,
        "all iterates for add/remove": float(rows.epsilon_tight_add_remove.max()),
    }
    known = {name: price for name, price in prices.items() if not math.isnan(price)}
    shown = float(rows.epsilon_audit.min()) if "epsilon_audit" in rows else math.nan
    own = [price for name, price in known.items() if "add/remove" not in name]
    if not own:
        raise NoRows(f"the runs with {said(where)} have no proven price")
    ours, most = min(own), claimed * ROUNDED
    reason = (
        f"claimed {short(claimed)} at δ {number(rows.delta.iloc[0])}; proven for replace-one: "
        + ", ".join(f"{name} {short(price)}" for name, price in known.items())
    )
    for column, name in (("epochs", "K = epochs"), ("steps", "K = steps")):
        price = float(rows.get(f"epsilon_formula_{column}", pd.Series([math.nan])).max())
        reason += "" if math.isnan(price) else f"; by the paper's formula with {name} {short(price)}"
    if not math.isnan(shown):
        confidence = 100 * rows.audit_confidence.iloc[0]
        reason += f"; an attack on these rows shows at least {short(shown)} ({confidence:g} % confidence)"
    interval = Interval(ours, shown, max(own))
    if ours <= most:
        return result(interval, REPRODUCED, reason)
    if prices["all iterates for add/remove"] <= most:
        return result(interval, UNDER_CHOICES, f"{reason}; kept for add/remove neighbours only")
    return result(interval, CONTRADICTED if shown > most else NOT_REPRODUCED, reason)


def shared(frame: pd.DataFrame, *, where: Where, columns: Sequence[str]) -> Verdict:
    """Every row of `where` has the same value in each of `columns`, by features; ours: the number of columns and
    features in which they differ. Contradicted by one difference."""
    rows = select(frame, where)
    differ = []
    for name, part in rows.groupby("features"):
        for column in columns:
            values = part[["method", column]].drop_duplicates()
            if values[column].nunique(dropna=False) > 1:
                listed = ", ".join(f"{row[1]} {short(row[2])}" for row in values.itertuples())
                differ.append(f"{column} on {name}: {listed}")
    methods = ", ".join(sorted(rows.method.unique()))
    reason = f"{', '.join(columns)} of {methods}" + (
        f" differ: {'; '.join(differ)}" if differ else " are equal"
    )
    interval = Interval(float(len(differ)), math.nan, math.nan)
    return result(interval, CONTRADICTED if differ else REPRODUCED, reason)
