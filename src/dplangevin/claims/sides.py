"""A verdict from two networks: the paper's, and a small one that stands in where it can afford more seeds.

reproduced      the claim is shown on the paper's network; or that was trained once and points the same way, and the
                claim is shown on the small one
under choices   it is shown on the small network only, or in other settings that the reason names
contradicted    it fails on the paper's network, if that was trained, and the opposite is shown on either
not reproduced  neither

Shown: with 95 % confidence, unless a rule says otherwise.  ours, low and high are those of the paper's network where it
was trained, else of the small one; low and high are nan for one seed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from dplangevin.claims import CONTRADICTED, NOT_REPRODUCED, REPRODUCED, UNDER_CHOICES, Verdict, result
from dplangevin.comparison import Interval
from dplangevin.exhibits.style import number, short

LEVEL = 0.95


class Side(NamedTuple):
    """What one network says. proven: 1 if the claim, -1 if its opposite is shown, 0 if neither."""

    interval: Interval
    holds: bool
    proven: int
    text: str


def verdict(
    paper: Side | None, small: Side | None, text: str, tries: str = "", elsewhere: bool = False
) -> Verdict:
    """The rules of the module. At least one network was trained. text: what was asked; tries: of other settings, and
    elsewhere: the claim holds in one of them."""
    present = [side for side in (paper, small) if side is not None]
    reason = "; ".join([text, *(side.text for side in present)]) + tries
    reason += "; the paper's network was not trained with these settings" if paper is None else ""
    shown = small is not None and small.proven == 1
    opposite = any(side.proven == -1 for side in present)
    if paper is not None and (
        paper.proven == 1 or (shown and paper.holds and math.isnan(paper.interval.low))
    ):
        word = REPRODUCED
    elif shown or elsewhere:
        word = UNDER_CHOICES
    else:
        word = CONTRADICTED if opposite and not (paper and paper.holds) else NOT_REPRODUCED
    return result(present[0].interval, word, reason)


def welch(first: pd.Series, second: pd.Series) -> Interval:
    """Difference of two means over independent seeds with its 95 % interval, variances unequal (Welch 1947); limits nan
    where either has one seed."""
    mean = float(first.mean() - second.mean())
    if min(len(first), len(second)) < 2:
        return Interval(mean, math.nan, math.nan)
    parts = [float(values.var(ddof=1)) / len(values) for values in (first, second)]
    if sum(parts) == 0:
        return Interval(mean, mean, mean)
    shares = [part**2 / (len(values) - 1) for part, values in zip(parts, (first, second), strict=True)]
    half = float(stats.t.ppf((1 + LEVEL) / 2, sum(parts) ** 2 / sum(shares))) * math.sqrt(sum(parts))
    return Interval(mean, mean - half, mean + half)


def limits(interval: Interval, *seeds: int) -> str:
    """The interval in percent and the seeds behind it; says where there is none."""
    if math.isnan(interval.low):
        return "(one seed: no interval)" if max(seeds) == 1 else "(one seed on one side: no interval)"
    counts = "/".join(str(n) for n in sorted(set(seeds)))
    return f"[{100 * interval.low:.2f}, {100 * interval.high:.2f}] over {counts} seeds"


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def points(share: float, sign: str = "") -> str:
    """A difference of two shares; sign "+" to show it always."""
    return f"{100 * share:{sign}.2f} points"


def prices(rows: pd.DataFrame) -> str:
    """What one setting costs, for both kinds of neighbours."""
    if not np.isfinite(rows.epsilon_add_remove).all():
        return ", not private"
    ones = f"{short(rows.epsilon_add_remove.max())} add/remove, {short(rows.epsilon_replace_one.max())} replace-one"
    failed = ", a condition of its guarantee fails" if rows.violated.ne("").any() else ""
    return f" at tight ε {ones}, δ {number(rows.delta.iloc[0])}{failed}"
