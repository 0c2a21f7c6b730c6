"""A rule for what can be said of chains only if they have mixed."""

from __future__ import annotations

import pandas as pd

from dplangevin.claims import CONTRADICTED, NOT_REPRODUCED, REPRODUCED, Verdict, not_testable, result
from dplangevin.comparison import Interval, select
from dplangevin.exhibits.style import number, short

MIXED = 1.05  # split R-hat below which chains count as mixed


def better_where_mixed(
    runs: pd.DataFrame,
    *,
    dataset: str,
    first: str,
    second: str,
    metric: str,
    experiment: str,
    larger: bool = True,
    variant: str = "",
) -> Verdict:
    """Where both methods have mixed, a metric > 0 of `first` is larger (larger=False: smaller) than that of `second`.

    Mixed: at an asked budget the worst R-hat over repeats is below 1.05. ours: the smallest ratio first/second
    (larger=False: second/first) of the means over repeats, low and high the range over these budgets; no interval,
    since repeats that share data are the chains of one estimate. Reproduced if it is above 1 at all of them,
    contradicted if at none, else not reproduced; not testable where no budget is left.
    """
    tables = {}
    for name in (first, second):
        worst = select(runs, dataset, name, experiment, "r_hat", variant).groupby("epsilon").value.max()
        mean = select(runs, dataset, name, experiment, metric, variant).groupby("epsilon").value.mean()
        tables[name] = pd.DataFrame({"r_hat": worst, "value": mean})
    both = tables[first].merge(tables[second], on="epsilon", suffixes=("_first", "_second"))
    kept = both[both[["r_hat_first", "r_hat_second"]].max(axis=1) < MIXED]
    if kept.empty:
        ranges = ", ".join(
            f"{name} {short(table.r_hat.min())} to {short(table.r_hat.max())}"
            for name, table in tables.items()
        )
        return not_testable(f"no budget at which both chains have mixed (R-hat < {MIXED}): R-hat of {ranges}")
    ratio = kept.value_first / kept.value_second
    ratio = ratio if larger else 1 / ratio
    verdict = REPRODUCED if (ratio > 1).all() else CONTRADICTED if (ratio <= 1).all() else NOT_REPRODUCED
    at = ", ".join(
        f"{short(value)} at eps {number(epsilon)}" for epsilon, value in zip(kept.index, ratio, strict=True)
    )
    named = f"{first} over {second}" if larger else f"{second} over {first}"
    found = Interval(float(ratio.min()), float(ratio.min()), float(ratio.max()))
    return result(found, verdict, f"{metric} of {named}: {at}; no interval")
