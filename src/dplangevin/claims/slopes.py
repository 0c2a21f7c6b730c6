"""The rule for claims on a rate: the exponent of a power law, fitted to values with intervals."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy import stats

from dplangevin.claims import CONTRADICTED, NOT_REPRODUCED, REPRODUCED, Verdict, not_testable, result
from dplangevin.claims.analysis import Bounds, Where, select
from dplangevin.comparison import Interval

LEVEL = 0.95


def fit(rows: pd.DataFrame, x: str) -> Interval:
    """The exponent p of ``value ~ x^p`` by weighted least squares on the logarithms, with its 95 % interval.

    rows: independent values with their 95 % limits (columns value, low, high), at two x or more.  A logarithm's
    standard error is ``(high - low)/(2 z value)`` (delta method); with no spread, as in closed form, the weights are
    equal and the interval is the point.
    """
    spread = (rows.high - rows.low) / (2 * stats.norm.ppf((1 + LEVEL) / 2) * rows.value)
    exact = bool((spread == 0).all())
    weight = np.ones(len(rows)) if exact else 1 / spread.to_numpy(float) ** 2
    at, logs = np.log(rows[x].to_numpy(float)), np.log(rows.value.to_numpy(float))
    centred = at - weight @ at / weight.sum()
    square = float(weight @ centred**2)
    slope = float(weight @ (centred * logs)) / square
    half = 0.0 if exact else float(stats.norm.ppf((1 + LEVEL) / 2)) / math.sqrt(square)
    return Interval(slope, slope - half, slope + half)


def exponent(
    frame: pd.DataFrame, *, where: Where, x: str, bounds: Bounds, first: float = 0.0, column: str = "value"
) -> Verdict:
    """The exponent of `column` in x over the rows `where` with x >= first lies in `bounds` (an end may be null).

    Reproduced if its whole 95 % interval does, contradicted if none of it does, else not reproduced.  Values without an
    interval (another column than value) are fitted as exact.
    """
    rows = select(frame, where)
    rows = rows[rows[x].ge(first)].dropna(subset=[column])
    if rows[x].nunique() < 2:
        return not_testable(f"no two values of {x} from {first:g} to fit an exponent to in {dict(where)}")
    if column != "value":
        rows = rows.assign(value=rows[column], low=rows[column], high=rows[column])
    found = fit(rows, x)
    low, high = (math.inf * sign if end is None else end for end, sign in zip(bounds, (-1, 1), strict=True))
    inside = low <= found.low and found.high <= high
    outside = found.high < low or found.low > high
    reason = (
        f"exponent in {x} over {len(rows)} values from {rows[x].min():g} to {rows[x].max():g}: {found.mean:.3f} "
        f"[{found.low:.3f}, {found.high:.3f}], wanted [{low:g}, {high:g}]; {column} {rows[column].iloc[0]:.3g} to "
        f"{rows[column].iloc[-1]:.3g}"
    )
    return result(found, REPRODUCED if inside else CONTRADICTED if outside else NOT_REPRODUCED, reason)
