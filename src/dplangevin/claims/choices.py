"""Does a claim that fails with the default choices hold for other choices? A search over the settings of a
sensitivity run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from dplangevin.comparison import Interval, NoCommonRange, difference
from dplangevin.exhibits.tables import variant_settings

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
    if not covers(runs, dataset, experiments[0], methods):
        return f"; {experiments[0]} does not cover {dataset}", False
    first, second = (settings(runs, dataset, method, experiments) for method in methods)
    pairs = [(a, b) for a in first for b in second if alike(first[a], second[b])]
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


def search_all(
    runs: pd.DataFrame,
    dataset: str,
    first: str,
    others: Sequence[str],
    axis: str,
    experiments: tuple[str, str],
    holds: Holds,
) -> tuple[str, bool]:
    """As `search`, for a claim about one method and each of several others: a setting of `first` agrees if the claim
    holds against every setting of every other in the same row scaling. Budgets may be for different neighbours, as in
    the paper; the settings name them. The level is corrected for the number of comparisons (Bonferroni). The
    example has the widest margin against its strongest other.
    """
    if not covers(runs, dataset, experiments[0], [first]):
        return f"; {experiments[0]} does not cover {dataset}", False
    mine = settings(runs, dataset, first, experiments)
    rivals = [list(settings(runs, dataset, name, experiments).values()) for name in others]
    matched = {
        a: [[b for b in each if scaling(b) == scaling(rows)] for each in rivals] for a, rows in mine.items()
    }
    tried = {a: [b for each in found for b in each] for a, found in matched.items() if all(found)}
    number = sum(map(len, tried.values()))
    held = []
    for a, those in tried.items():
        try:
            gaps = [difference(mine[a], b, axis) for b in those]
        except NoCommonRange:
            continue
        found = [holds(gap, 1 - 0.05 / number) for gap in gaps]
        if all(found):
            least = min((interval for interval in found if interval), key=lambda interval: interval.mean)
            text = f"{first} ({a[0] or 'default'}) with rows scaled {a[1]!r}: at least {least.mean:.3g}"
            held.append((least.low, f"{text} (corrected interval {least.low:.3g} to {least.high:.3g})"))
    count = f"; {len(held)} of {len(tried)} settings of {first} in {experiments[0]} agree"
    return count + (f", for example {max(held)[1]}" if held else ""), bool(held)


def covers(runs: pd.DataFrame, dataset: str, experiment: str, methods: Sequence[str]) -> bool:
    """Whether a sensitivity run has one of the methods on the data set."""
    return bool((runs.dataset.eq(dataset) & runs.experiment.eq(experiment) & runs.method.isin(methods)).any())


def alike(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    """Same row scaling, the same largest step size where both state one and, unless one of them has no budget, budgets
    for the same neighbours."""
    free = any(np.isinf(rows.epsilon).all() for rows in (first, second))
    steps = {variant_settings(rows.variant.iloc[0]).get("step", "") for rows in (first, second)} - {""}
    neighbours = free or first.adjacency.iloc[0] == second.adjacency.iloc[0]
    return scaling(first) == scaling(second) and neighbours and len(steps) <= 1


def scaling(rows: pd.DataFrame) -> str:
    return str(rows.scaling.iloc[0])


def settings(
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
