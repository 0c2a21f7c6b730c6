"""Rules for numbers that a paper prints: counts of the data, a theorem's constant, what it costs."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dplangevin.claims import CONTRADICTED, NOT_REPRODUCED, REPRODUCED, Verdict, not_testable, result
from dplangevin.comparison import Interval, select
from dplangevin.exhibits.style import number


def loose(runs: pd.DataFrame, *, dataset: str, method: str, experiment: str = "wang2015") -> Verdict:
    """The theorem's constants cost privacy budget: the ratio of the theorem's epsilon to the tight
    accountant's, same delta and adjacency. ours is the median over budgets, low and high the extremes (not a
    confidence interval). Reproduced if every ratio exceeds 1, contradicted if none does."""
    rows = select(runs, dataset, method, experiment).drop_duplicates("epsilon")
    rows = rows[np.isfinite(rows.epsilon_paper) & (rows.epsilon_tight > 0) & np.isfinite(rows.epsilon_tight)]
    if rows.empty:
        return not_testable(f"{method} has no finite audited epsilon")
    ratio = rows.epsilon_paper / rows.epsilon_tight
    verdict = REPRODUCED if ratio.min() > 1 else CONTRADICTED if ratio.max() <= 1 else NOT_REPRODUCED
    reason = (
        f"epsilon by the theorem / audited epsilon of {method}, median and range over {len(ratio)} budgets"
    )
    return result(Interval(ratio.median(), ratio.min(), ratio.max()), verdict, reason)


def theorem4_constant(
    runs: pd.DataFrame,
    *,
    dataset: str,
    method: str,
    bounds: tuple[float, float],
    experiment: str = "wang2015",
) -> Verdict:
    """Constant and logarithms of wang2015 Theorem 4, `128 ln(2.5 N T / (tau delta)) ln(2 / delta)`, at T =
    tau, N training rows and the runs' delta; unitless. Reproduced inside `bounds`, otherwise contradicted."""
    n = _fact(runs, dataset, "rows_train")
    delta = float(select(runs, dataset, method, experiment).delta.iloc[0])
    ours = 128 * math.log(2.5 * n / delta) * math.log(2 / delta)
    verdict = REPRODUCED if bounds[0] <= ours <= bounds[1] else CONTRADICTED
    reason = f"128 ln(2.5 N T/(tau delta)) ln(2/delta) at T = tau, N = {n:.0f}, delta = {number(delta)}"
    reason += f"; the words are read as {bounds[0]:g} to {bounds[1]:g}"
    return result(Interval(ours, math.nan, math.nan), verdict, reason)


def count(runs: pd.DataFrame, *, dataset: str, metric: str, published: int) -> Verdict:
    """A count of the prepared data (features, rows_train, rows): reproduced if it equals the published one,
    else contradicted."""
    ours = _fact(runs, dataset, metric)
    reason = f"{metric} of the prepared {dataset} data"
    return result(
        Interval(ours, math.nan, math.nan), REPRODUCED if ours == published else CONTRADICTED, reason
    )


def _fact(runs: pd.DataFrame, dataset: str, metric: str) -> float:
    rows = runs[runs.experiment.eq("data") & runs.dataset.eq(dataset) & runs.metric.eq(metric)]
    if rows.empty:
        raise ValueError(f"no fact {metric!r} about data set {dataset!r}: list it under data in conf/claim")
    return float(rows.value.iloc[0])
