"""Methods side by side at a few values of audited epsilon: the frame behind the exhibit `compare`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.comparison import NEAR, NoCommonRange, curve, holm, paired_p, read_off, t_interval

METRICS = {"accuracy": "accuracy", "log_score": "log_loss", "brier": "brier", "ece": "ece"}
COLUMNS = [
    "dataset", "epsilon", "method", "reach", "epsilon_end", "accuracy", "low", "high", "log_score", "brier", "ece",
    "seconds", "difference", "difference_low", "difference_high", "p_adjusted", "best", "significant", "violated",
    "repeats",
]  # fmt: skip
REACHED, BELOW, ABOVE, FREE = "reached", "ends below", "begins above", "not private"
DIVERGED, UNPRICED = "diverged", "no audited ε"
LEVEL = 0.05


def at_epsilon(runs: pd.DataFrame, *, epsilons: Sequence[float]) -> pd.DataFrame:
    """One row per data set, audited epsilon and method: mean accuracy with its 95 % interval, log score (nats), Brier
    score and expected calibration error, seconds, and the paired difference in accuracy to the most accurate method.

    runs: rows of an experiment, and of `files.read_timings`; one variant and scaling per method. Every repeat is
    interpolated linearly in ln epsilon between neighbouring budgets. Where a method's budgets end below or begin above
    the epsilon (`reach`), `accuracy` and the scores are those at `epsilon_end`, its nearest audited epsilon, and it is
    not compared; nor are methods without a budget. difference: to the best, with a plain 95 % Student interval.
    p_adjusted: of the paired t-test, by Holm over all pairs of methods that are compared on the data set at this
    epsilon, so that it also holds for a best that the same data have chosen; significant: p_adjusted <= .05. violated:
    a condition of the guarantee fails at one of the budgets used. Repeats of diverged chains (nan) are left out.
    """
    trained = runs[~runs.metric.eq("seconds")]
    seconds = runs[runs.metric.eq("seconds")].set_index(["dataset", "method"]).value
    rows = []
    for dataset, here in trained.groupby("dataset", sort=False):
        methods = {str(name): part for name, part in here.groupby("method", sort=False)}
        for epsilon in epsilons:
            found = {name: _one(part, epsilon) for name, part in methods.items()}
            _against_best([row for row in found.values() if row["reach"] == REACHED])
            for name, row in found.items():
                row |= {"dataset": dataset, "method": name, "seconds": seconds.get((dataset, name), np.nan)}
                rows.append({"epsilon": epsilon, **row})
    return pd.DataFrame(rows).reindex(columns=COLUMNS)


def _one(part: pd.DataFrame, epsilon: float) -> dict[str, Any]:
    """The row of one method; `values`: its accuracy by repeat."""
    tables = {name: curve(part[part.metric.eq(metric)], "audited") for name, metric in METRICS.items()}
    ends = np.exp(tables["accuracy"].columns.to_numpy(float))
    row: dict[str, Any] = {"reach": REACHED, "epsilon_end": np.nan, "best": False, "significant": False}
    used = epsilon
    if np.isinf(ends).all():
        row["reach"] = FREE
    else:
        try:
            read_off(tables["accuracy"], epsilon)
        except NoCommonRange:
            used = min(ends, key=lambda end: abs(np.log(end / epsilon)))
            row |= {"reach": BELOW if used < epsilon else ABOVE, "epsilon_end": used}
    read = {name: read_off(table, used).dropna() for name, table in tables.items() if table.size}
    row |= {name: values.mean() for name, values in read.items()}
    accuracy = read.get("accuracy", pd.Series(dtype=float))
    if accuracy.empty:
        return row | {"reach": DIVERGED if len(ends) else UNPRICED, "violated": True, "repeats": 0}
    interval = t_interval(accuracy)
    row |= {"values": accuracy, "low": interval.low, "high": interval.high, "repeats": len(accuracy)}
    return row | {"violated": _violated(part, used)}


def _violated(part: pd.DataFrame, epsilon: float) -> bool:
    """Whether a condition of the guarantee fails at one of the two budgets around an audited epsilon."""
    points = part[part.metric.eq("accuracy") & part.epsilon_tight.gt(0) & np.isfinite(part.epsilon_tight)]
    away = np.log(points.epsilon_tight / epsilon)
    near = [away[away <= NEAR].max(), away[away >= -NEAR].min()]
    return bool(points[away.isin(near)].violated.ne("").any())


def _against_best(rows: list[dict[str, Any]]) -> None:
    """Fill in the differences to the most accurate of `rows`."""
    if not rows:
        return
    best = max(rows, key=lambda row: row["accuracy"])
    best["best"] = True
    pairs = list(itertools.combinations(range(len(rows)), 2))
    p = [paired_p(rows[i]["values"], rows[j]["values"]) for i, j in pairs]
    adjusted = {frozenset(pair): value for pair, value in zip(pairs, holm(p), strict=True)}
    place = next(i for i, row in enumerate(rows) if row is best)
    for i, row in enumerate(rows):
        gap = t_interval((row["values"] - best["values"]).dropna())
        row |= {"difference": gap.mean, "difference_low": gap.low, "difference_high": gap.high}
        row["p_adjusted"] = adjusted.get(frozenset((i, place)), np.nan)
        row["significant"] = row["p_adjusted"] <= LEVEL
