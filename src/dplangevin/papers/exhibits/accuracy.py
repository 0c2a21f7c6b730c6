"""Numbers of accuracy on convex problems: settings of methods in words, and paired differences."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pandas as pd

from dplangevin.papers.statistics import summary, t_interval, trusted
from dplangevin.reporting.words import SCALINGS, look
from dplangevin.text import number

# Setting -> its name in a caption
CHOSEN = {"radius": "ball of radius", "prior": "Gaussian prior of precision", "ridge": "ridge", "l2": "ridge"}


def gaps(runs: pd.DataFrame, *, first: str, second: str, best: bool = False) -> pd.DataFrame:
    """Return the accuracy of each variant of `first` minus that of `second` in points, paired by seed.

    That of `second` has the same variant, or with `best` the highest mean accuracy for the same neighbours.
    """
    keys, rows = ["dataset", "scaling", "adjacency", "epsilon"], []
    for of, group in runs[runs.metric.eq("accuracy") & trusted(runs)].groupby(keys):
        wide = group.pivot(index="seed", columns=["method", "variant"], values="value")
        if not {first, second} <= {*group.method}:
            continue
        for variant in wide[first]:
            rival = wide[second].mean().idxmax() if best else variant
            gap = (100 * (wide[first][variant] - wide[second][rival])).dropna()
            own = {**dict(zip(keys, of, strict=True)), "variant": variant, "repeats": len(gap)}
            rows.append({**own, **t_interval(gap).columns()})
    return pd.DataFrame(rows)


def of_private(runs: pd.DataFrame, column: str) -> str:
    """Return the distinct values of `column` in the private rows, joined by " / "."""
    values = runs[np.isfinite(runs.epsilon)][column].unique()
    return " / ".join(number(v) if isinstance(v, float) else str(v) for v in values)


def chosen(runs: pd.DataFrame, methods: Iterable[str]) -> str:
    """Return radius, prior and ridge of the methods that have one setting of them, and the scaling of the rows."""
    users: dict[str, list[str]] = {}
    for method in methods:
        settings = runs[runs.method.eq(method)].settings.unique()
        values = json.loads(settings[0]) if len(settings) == 1 and settings[0] else {}
        values |= values.get("first", {})
        if values.get("bound") == "gdp":  # there is no ball
            values |= {"radius": None, "prior": values["precision"]}
        for key, name in CHOSEN.items():
            if values.get(key):
                users.setdefault(f"{name} {number(values[key])}", []).append(look(method).label)
    scalings = [SCALINGS[scaling] for scaling in runs[np.isfinite(runs.epsilon)].scaling.unique()]
    listed = [f"{value} for {' and '.join(labels)}" for value, labels in users.items()]
    return f"Our choices: {'; '.join(listed)}; {' or '.join(scalings)}." if listed else ""


def with_choices(runs: pd.DataFrame) -> pd.DataFrame:
    """Return `summary` with the column choices, a sentence on the settings of all methods."""
    return summary(runs).assign(choices=chosen(runs, runs.method.unique()))
