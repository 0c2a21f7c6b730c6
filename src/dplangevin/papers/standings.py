"""The standings of learners on the held-out tables of the leaderboard, by class kind and size of a table."""

import math

import numpy as np
import pandas as pd

from dplangevin.leaderboard import COLUMNS, SIMPLEST, kind_of, size_of
from dplangevin.papers.statistics import paired_p, t_interval

DEVELOPMENT = "development"  # the group of tables on which settings were chosen
FREE = "nonprivate"
ERROR = 0.05  # that another learner than the simplest is chosen by chance, in a group (Bonferroni)


def standings(results: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each kind and size of tables and each private learner, with the columns `COLUMNS`.

    A distance is the accuracy of the fit without privacy minus that of the learner.  It is the mean over
    tables of the mean over the budgets that give a table this size.  A learner counts on a table if it has a
    result at each of these budgets, for which no condition of its guarantee fails.  Learners that count on
    every table of the group compete.  The one with the least mean distance is chosen, if a paired t-test over
    tables puts it ahead of the simplest learner.  Otherwise the simplest is chosen.  Tables for development do
    not count.

    Parameters
    ----------
    results : DataFrame
        Rows of the exhibit `leaderboard`, with the columns dataset, split_group, n, d, classes, method, epsilon,
        accuracy and violated.
    """
    held_out = results[results.split_group.ne(DEVELOPMENT) & results.violated.isin(["", np.nan])]
    held_out = held_out.dropna(subset=["accuracy"])
    free = held_out[held_out.method.eq(FREE)].groupby("dataset").accuracy.mean()
    private = held_out[held_out.method.ne(FREE)]
    private = private.assign(
        distance=private.dataset.map(free) - private.accuracy,
        kind=private.classes.map(kind_of),
        size=[size_of(*row) for row in private[["n", "d", "epsilon"]].to_numpy(float).tolist()],
    )
    rows = []
    for (kind, size), group in private.groupby(["kind", "size"]):
        of_table = group.groupby(["dataset", "method"]).distance
        means, counts = of_table.mean().unstack(), of_table.size().unstack()
        tables = means.where(counts.eq(counts.max(axis=1), axis=0))
        chosen = _chosen(tables.dropna(axis=1))
        for method in tables.columns:
            values = tables[method].dropna()
            if len(values):
                interval = t_interval(values)
                rows.append([kind, size, method, len(values), *interval, method == chosen])
    return pd.DataFrame(rows, columns=COLUMNS)


def _chosen(tables: pd.DataFrame) -> str:
    """Return the learner to recommend; `tables` has the distance of each table (row) and learner (column)."""
    best = str(tables.mean().idxmin())
    if SIMPLEST not in tables or best == SIMPLEST:
        return best
    p = paired_p(tables[best], tables[SIMPLEST])
    ahead = not math.isnan(p) and p * (tables.shape[1] - 1) <= ERROR
    return best if ahead else SIMPLEST
