"""Does a claim that fails with the default choices hold for other choices? A search over the settings of a
sensitivity run."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from dplangevin.comparison import Interval, NoCommonRange, difference

Holds = Callable[[pd.DataFrame, float], Interval | None]


def search(
    runs: pd.DataFrame,
    dataset: str,
    methods: tuple[str, str],
    axis: str,
    experiments: tuple[str, str],
    holds: Holds,
) -> tuple[str, bool]:
    """Try every pair of settings of two methods: a text that says how many hold, with one example, and
    whether any does.

    experiments: the sensitivity run, and the run that supplies a method the former lacks. A pair shares row
    scaling and adjacency. holds(gap, level): the interval of the paired difference at that level if the claim
    holds there, else None; the level is corrected for the number of pairs (Bonferroni). The example is, of
    those that hold, the one against the most accurate second method, with the widest margin.
    """
    tried = runs.dataset.eq(dataset) & runs.experiment.eq(experiments[0]) & runs.method.isin(methods)
    if not tried.any():
        return f"; {experiments[0]} does not cover {dataset}", False
    first, second = (_settings(runs, dataset, method, experiments) for method in methods)
    pairs = [(a, b) for a in first for b in second if a[1:] == b[1:]]
    held = []
    for a, b in pairs:
        try:
            gap = difference(first[a], second[b], axis)
        except NoCommonRange:
            continue
        if interval := holds(gap, 1 - 0.05 / len(pairs)):
            sides = [f"{name} ({key[0] or 'default'})" for name, key in zip(methods, (a, b), strict=True)]
            text = f"{' against '.join(sides)} with rows scaled {a[1]!r}: "
            text += f"{interval.mean:.3g} (corrected interval {interval.low:.3g} to {interval.high:.3g})"
            held.append((second[b].value.mean(), interval.low, text))
    count = f"; {len(held)} of {len(pairs)} pairs of settings in {experiments[0]} agree"
    return count + (f", for example {max(held)[2]}" if held else ""), bool(held)


def _settings(
    runs: pd.DataFrame, dataset: str, method: str, experiments: tuple[str, str]
) -> dict[tuple[str, str, str], pd.DataFrame]:
    """Rows by (variant, scaling, adjacency), from the first of `experiments` that has the method."""
    rows = runs[runs.dataset.eq(dataset) & runs.method.eq(method) & runs.metric.eq("accuracy")]
    for experiment in experiments:
        here = rows[rows.experiment.eq(experiment)]
        if not here.empty:
            groups = here.groupby(["variant", "scaling", "adjacency"])
            return {(str(v), str(s), str(a)): group for (v, s, a), group in groups}
    return {}
