"""Paired differences in accuracy between methods on convex problems."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dplangevin.papers.statistics import t_interval, trusted


def gaps(runs: pd.DataFrame, *, first: str, second: str, best: bool = False) -> pd.DataFrame:
    """Return the accuracy of each variant of `first` minus that of `second` in points, paired by seed.

    That of `second` has the same variant, or with `best` the highest mean accuracy for the same neighbours.
    """
    keys, rows = ["dataset", "scaling", "adjacency", "epsilon"], []
    for of, group in runs[runs.metric.eq("accuracy") & trusted(runs)].groupby(keys):
        wide: Any = group.pivot(index="seed", columns=["method", "variant"], values="value")
        if not {first, second} <= {*group.method}:
            continue
        for variant in wide[first]:
            rival = wide[second].mean().idxmax() if best else variant
            gap = (100 * (wide[first][variant] - wide[second][rival])).dropna()
            own = {**dict(zip(keys, of, strict=True)), "variant": variant, "repeats": len(gap)}
            rows.append({**own, **t_interval(gap).columns()})
    return pd.DataFrame(rows)
