"""Rules for claims on trained heads and on fine-tuning: printed accuracies, and one method above another.

Rows have the columns of `exhibits.head_files`. Which network the features are of is in the column `features`, such as
cifar10_resnet18; rows without that column (fine-tuning) are of `stand_in`. Verdicts on two networks are those of
`claims.sides`, with the network that we have as the small one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from dplangevin.claims import (
    CONTRADICTED,
    NOT_REPRODUCED,
    REPRODUCED,
    NoRows,
    Verdict,
    not_testable,
    result,
)
from dplangevin.claims.sides import LEVEL, Side, limits, percent, points, verdict
from dplangevin.claims.training import said, select
from dplangevin.comparison import Interval, t_interval
from dplangevin.exhibits.style import number, short

Where = Mapping[str, Any]


def cell(
    frame: pd.DataFrame, *, where: Where, published: float, margin: float, paper: str, stand_in: str
) -> Verdict:
    """A printed test accuracy of a network: our mean over seeds on the features `paper` lies within `margin` of it.

    Not testable where there are no such features; the reason then tells what those of `stand_in` give. Contradicted
    if the whole 95 % t-interval lies further away, not reproduced if the mean alone does.
    """
    ours, other = (_of(frame, name, stand_in, where) for name in (paper, stand_in))
    if ours is None:
        reason = f"no features of {paper}; accuracies of other networks neither confirm nor refute {percent(published)}"
        if other is not None:
            interval = t_interval(_seeds(other))
            reason += f" (on {stand_in} {percent(interval.mean)} {limits(interval, len(other))}{cost(other)})"
        return not_testable(reason)
    interval = t_interval(_seeds(ours))
    outside = interval.low > published + margin or interval.high < published - margin
    word = CONTRADICTED if outside else NOT_REPRODUCED
    word = REPRODUCED if abs(interval.mean - published) <= margin else word
    reason = f"published {percent(published)}, asked: within {points(margin)}; {percent(interval.mean)}"
    return result(interval, word, f"{reason} {limits(interval, len(ours))}{cost(ours)}")


def ordering(
    frame: pd.DataFrame,
    *,
    weights: Mapping[str, float],
    schedule: str,
    calibration: str,
    paper: str | Sequence[str],
    stand_in: str,
    what: str,
    margin: float = 0.0,
) -> Verdict:
    """As `combined`, over the methods of one schedule; weights: method -> weight. calibration: that of the private
    ones."""
    terms = [{"weight": weight, "method": method, "schedule": schedule} for method, weight in weights.items()]
    terms = [term if term["method"] == "none" else {**term, "calibration": calibration} for term in terms]
    return combined(frame, terms=terms, paper=paper, stand_in=stand_in, what=what, margin=margin)


def combined(
    frame: pd.DataFrame,
    *,
    terms: Sequence[Mapping[str, Any]],
    paper: str | Sequence[str],
    stand_in: str,
    what: str,
    margin: float = 0.0,
) -> Verdict:
    """The sum of `weight` times mean accuracy over `terms` ({weight, column: value}) is above -margin.

    Shown if its 95 % interval (Welch-Satterthwaite: seeds are taken as independent) lies above -margin, the opposite if
    below. paper: features of the paper's network, or several of them, of which the first that we have counts.
    """
    names = [paper] if isinstance(paper, str) else list(paper)
    sides = [_sum(frame, name, stand_in, terms, margin) for name in [*names, stand_in]]
    if not any(sides):
        wanted = ", ".join(said(_where(term)) for term in terms)
        raise NoRows(f"no features on which all of {wanted} were trained")
    bar = f", given away {points(margin)}" if margin else ""
    mine = next((side for side in sides[:-1] if side), None)
    return verdict(mine, sides[-1], f"{what}, asked: above 0{bar}")


def welch_sum(values: Sequence[tuple[float, pd.Series]]) -> Interval:
    """Sum of weight times mean with its 95 % interval, variances unequal (Welch 1947); limits nan where any of the
    means has one seed. values: (weight, accuracies by seed)."""
    mean = float(sum(weight * series.mean() for weight, series in values))
    if min(len(series) for _, series in values) < 2:
        return Interval(mean, math.nan, math.nan)
    parts = [weight**2 * float(series.var(ddof=1)) / len(series) for weight, series in values]
    if sum(parts) == 0:
        return Interval(mean, mean, mean)
    shares = [part**2 / (len(series) - 1) for part, (_, series) in zip(parts, values, strict=True)]
    half = float(stats.t.ppf((1 + LEVEL) / 2, sum(parts) ** 2 / sum(shares))) * math.sqrt(sum(parts))
    return Interval(mean, mean - half, mean + half)


def cost(rows: pd.DataFrame) -> str:
    """What one setting costs, and whether a condition of its guarantee fails."""
    tight = float(rows.epsilon_tight.max())
    if not math.isfinite(tight):
        return ", not private"
    failed = ", a condition of its theorem is not met" if rows.violated.ne("").any() else ""
    return f" at tight ε {short(tight)}, δ {number(rows.delta.iloc[0])}{failed}"


def _where(term: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in term.items() if key != "weight"}


def _of(frame: pd.DataFrame, name: str, stand_in: str, where: Where) -> pd.DataFrame | None:
    """The rows of one features, None if there are none."""
    here = frame.features.eq(name) if "features" in frame else pd.Series(name == stand_in, index=frame.index)
    try:
        return select(frame[here], where)
    except NoRows:
        return None


def _seeds(rows: pd.DataFrame) -> pd.Series:
    """Accuracies by seed of one setting, without diverged chains; NoRows if all have diverged."""
    if rows.seed.duplicated().any():
        settings = rows[["run", "epsilon"]].drop_duplicates().to_dict("records")
        raise ValueError(f"a claim on one setting meets several, {settings}: narrow its `where`")
    values = rows.set_index("seed").accuracy
    values = values[np.isfinite(values)]
    if values.empty:
        raise NoRows(f"every chain of {rows.run.iloc[0]} has diverged")
    return values


def _sum(
    frame: pd.DataFrame, name: str, stand_in: str, terms: Sequence[Mapping[str, Any]], margin: float
) -> Side | None:
    parts = [(float(term["weight"]), _of(frame, name, stand_in, _where(term))) for term in terms]
    kept = [(weight, rows) for weight, rows in parts if rows is not None]
    if len(kept) < len(parts):
        return None
    values = [(weight, _seeds(rows)) for weight, rows in kept]
    interval = welch_sum(values)
    proven = 1 if interval.low > -margin else -1 if interval.high < -margin else 0
    each = "; ".join(f"{rows.run.iloc[0]} {percent(_seeds(rows).mean())}{cost(rows)}" for _, rows in kept)
    text = f"{name}: {points(interval.mean, '+')} {limits(interval, *(len(v) for _, v in values))} ({each})"
    return Side(interval, interval.mean > -margin, proven, text)
