"""Rules for claims on runs of convex problems: orderings, baselines and mixed chains.

Methods are compared by their paired difference within each repeat (`seed`): at the promised ε, or on the axis "proven"
at equal proven ε. `sensitivity` names an experiment with other settings: the claim holds in part if only some of these
show it. The search leaves out a setting that differs from the value that the paper prints (`printed`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dplangevin.papers import statistics
from dplangevin.papers.claims import verdicts
from dplangevin.papers.claims.verdicts import AskedRange, Verdict, decide, not_testable, result, within
from dplangevin.papers.statistics import Interval, compare, difference, select
from dplangevin.reporting import words
from dplangevin.text import number, points, short

DIVERGED = "chains diverged"  # a text in the column `violated`
MIXED = 1.05  # split R-hat below which chains count as mixed
BELOW_BUDGET = 0.01  # relative; calibration ends nearer to the budget than this
LEARNED = 0.01  # accuracy above the share of the majority class
# Maps a paired difference and a confidence level to its interval and a direction:
# 1 if the difference shows the claim, -1 if it shows the opposite, 0 if neither.
Shown = Callable[[pd.DataFrame, float], tuple[Interval, int]]
Settings = dict[tuple[str, str, str], pd.DataFrame]  # by variant, scaling and adjacency


class Contest(NamedTuple):
    """The first of some methods against the others, on one data set and at equal ε of an axis."""

    dataset: str
    methods: Sequence[str]
    axis: str
    experiments: tuple[str, str]  # that with other settings ("": none), and that of the claim


def beats(
    runs: pd.DataFrame, *, dataset: str, first: str, second: str, axis: str = "promised", experiment: str = "wang2015",
    margin: float = 0.0, factor: float = 1.0, sensitivity: str = "", printed: Mapping[str, str] = MappingProxyType({}),
) -> Verdict:  # fmt: skip
    """Test that the first method is more accurate than the second, on average over the budgets (`verdicts.ordering`).

    A `margin` above 0 asks for "as well as". The accuracy of the second method is taken at factor * ε.
    """
    asked, there = AskedRange.difference(margin), _as_printed(runs, printed)
    if np.isinf(select(runs, dataset, second, experiment).epsilon).all():
        there = there[~there.method.eq(second) | learned(there, dataset)]  # an idle baseline is easy to reach
    of, shown = Contest(dataset, (first, second), axis, (sensitivity, experiment)), _above(asked.low)
    found, _ = _compared(runs, of, asked, shown, factor)
    if math.isnan(found["ours"]):
        return found
    if found["verdict"] == verdicts.OPEN and (found["low"] > asked.low or found["high"] < asked.low):
        average = "the average alone would decide, the budgets on the other side leave the claim open"
        found["reason"] += f"; {average}"
    return searched(found, there, of, shown)


def _compared(
    runs: pd.DataFrame, of: Contest, asked: AskedRange, shown: Shown, factor: float = 1.0
) -> tuple[Verdict, pd.DataFrame]:
    pair = [select(runs, of.dataset, method, of.experiments[1]) for method in of.methods]
    names = [words.method(method) for method in of.methods]
    try:
        gap = difference(pair[0], pair[1], of.axis, factor)
    except statistics.NoCommonRange as error:
        return not_testable(f"{words.listed(names)} cannot be compared: {error}", asked), pd.DataFrame()
    comparison, (interval, direction) = compare(gap, asked.low), shown(gap, statistics.LEVEL)
    low, high = np.exp([gap.columns.min(), gap.columns.max()])
    where = "budgets" if of.axis == "promised" else f"points of equal proven ε from {low:.3g} to {high:.3g}"
    reason = f"the accuracy of {names[0]} is {points(abs(interval.mean))} {'above' if interval.mean >= 0 else 'below'} "
    reason += f"that of {names[1]}{f' at {number(factor)} ε' if factor != 1 else ''} on average over {gap.shape[1]} "
    reason += f"{where} and {comparison.repeats} repeats; significantly above "
    above, below = (_budgets(side, comparison.points) for side in (comparison.above, comparison.below))
    reason += f"{points(asked.low) if asked.low else 'it'} at {above} and below at {below}{_violations(pair)}"
    reason += _adjacencies(pair) if of.axis == "promised" else ""
    draws = runs[runs.experiment.eq("data") & runs.dataset.eq(of.dataset) & runs.metric.eq("draws")].value
    measure = verdicts.ONE_SPLIT if len(draws) and draws.eq(1).all() else verdicts.INTERVAL
    return result(interval, decide(direction == 1, direction == -1), reason, measure, asked), gap


def beats_all(
    runs: pd.DataFrame, *, dataset: str, others: list[str], first: str = "", last: str = "", axis: str = "promised",
    experiment: str = "wang2015", sensitivity: str = "", printed: Mapping[str, str] = MappingProxyType({}),
) -> Verdict:  # fmt: skip
    """Test that `first` beats each of `others`, or that each of `others` beats `last` (see `beats`).

    One of `others` does not count if its guarantee fails at a budget, or if its chains have diverged.
    """
    where: dict[str, Any] = {"dataset": dataset, "axis": axis, "experiment": experiment}
    each = {name: beats(runs, first=first or name, second=last or name, **where) for name in others}
    counted = {name for name in others if statistics.trusted(select(runs, dataset, name, experiment)).all()}
    notes = {name: "" if name in counted else " (not counted: its guarantee fails)" for name in each}
    reason = "; ".join(
        f"{one['verdict']} with {words.method(name)}{notes[name]}" for name, one in each.items()
    )
    those = [one for name, one in each.items() if name in counted]
    nearest, verdict = not_testable(reason, AskedRange.difference(0.0)), verdicts.NOT_TESTABLE
    if those:
        worst_first = (verdicts.FAILS, verdicts.NOT_TESTABLE, verdicts.OPEN, verdicts.HOLDS)
        verdict = min((one["verdict"] for one in those), key=worst_first.index)
        decisive = [one for one in those if one["verdict"] == verdict]
        nearest = min(decisive, key=lambda one: math.inf if math.isnan(one["ours"]) else one["ours"])
        reason += f"; the {'strongest' if first else 'nearest'}: {nearest['reason']}"
    found = {**nearest, "verdict": verdict, "reason": reason}
    of = Contest(dataset, (first, *others), axis, (sensitivity, experiment))
    return searched(found, _as_printed(runs, printed), of, _above(0.0))


def _as_printed(runs: pd.DataFrame, printed: Mapping[str, str]) -> pd.DataFrame:
    """Return the runs without variants in which a setting differs from the value that the paper prints."""

    def fits(variant: Any) -> bool:
        named = statistics.variant_settings(variant) if isinstance(variant, str) else {}
        return all(named.get(key, value) == value for key, value in printed.items())

    return runs[runs.variant.isin([variant for variant in runs.variant.unique() if fits(variant)])]


def _above(threshold: float) -> Shown:

    def shown(gap: pd.DataFrame, level: float) -> tuple[Interval, int]:
        comparison = compare(gap, threshold, level)
        return comparison.interval, verdicts.DIRECTIONS[verdicts.ordering(comparison, threshold)]

    return shown


def equal_or_slightly_worse(
    runs: pd.DataFrame, *, dataset: str, first: str, second: str, slight: float, sensitivity: str = ""
) -> Verdict:
    """Test that the first method is "often" equal to or at most `slight` (an accuracy) worse than the second.

    A budget agrees if the first is not significantly better there, and at most `slight` worse on average. The claim
    holds if half of the budgets or more agree, and the 95 % interval of the mean difference lies within [-slight,
    slight]. It fails if fewer agree, and the interval lies above 0 or below -slight.
    """
    of = Contest(dataset, (first, second), "promised", (sensitivity, "wang2015"))
    asked = AskedRange.near(0.0, slight)

    def shown(gap: pd.DataFrame, level: float) -> tuple[Interval, int]:
        often = 2 * _agreeing(gap, slight) >= gap.shape[1]
        interval = compare(gap, level=level).interval
        apart = interval.low > 0 or interval.high < asked.low
        return interval, 1 if often and asked.side(interval) == 1 else -1 if not often and apart else 0

    found, gap = _compared(runs, of, asked, shown)
    found["reason"] += f"; equal or at most {points(slight)} worse at {_agreeing(gap, slight)} of them"
    return searched(found, runs, of, shown)


def _agreeing(gap: pd.DataFrame, slight: float) -> int:
    return gap.shape[1] - len(compare(gap).above) - int((gap.mean() < -slight).sum())


def reaches_baseline(
    runs: pd.DataFrame, *, dataset: str, first: str, baseline: str, margin: float, by: float, experiment: str,
    sensitivity: str = "",
) -> Verdict:  # fmt: skip
    """Test that from budget `by` on, a private method is as accurate as its non-private baseline.

    It is so at a budget if the 95 % interval of the paired difference lies within [-margin, margin]. The claim fails if
    it lies outside at some budget >= by. Of other settings only those count whose baseline has `learned`.
    """
    pair = [select(runs, dataset, method, experiment) for method in (first, baseline)]
    gap = difference(pair[0], pair[1], "promised")
    start, low, outside = _equivalence_threshold(gap, margin, by, statistics.LEVEL)
    at = ", ".join(f"{100 * gap[c].mean():+.2f} at ε {short(float(np.exp(c)))}" for c in gap.columns)
    reason = f"the accuracy of {words.method(first)} is that of {words.method(baseline)} to ±{points(margin)} (95 % "
    reason += f"confidence) {f'from ε {number(start)} on' if start < math.inf else 'at no budget'}; the claim asks for "
    reason += f"ε {number(by)}; mean difference in points over {len(gap)} repeats: {at}{_violations(pair)}"

    def shown(gap: pd.DataFrame, level: float) -> tuple[Interval, int]:
        later = [column for column in gap.columns if np.exp(column) >= by * (1 - verdicts.ROUNDING)]
        if not later:
            return verdicts.single(math.nan), 0
        start, _, outside = _equivalence_threshold(gap, margin, by, level)
        direction = 1 if start <= by else -1 if outside else 0
        return statistics.t_interval(gap[later].mean(axis=1), level), direction

    ours, verdict = start if start < math.inf else math.nan, decide(start <= by, outside)
    found = result(Interval(ours, low, ours), verdict, reason, verdicts.RANGE, AskedRange(high=by))
    of = Contest(dataset, (first, baseline), "promised", (sensitivity, experiment))
    there = runs[~runs.method.eq(baseline) | learned(runs, dataset)]
    return searched(found, there, of, shown, verdicts.single(by))


def learned(runs: pd.DataFrame, dataset: str) -> pd.Series:
    """Return a mask of the rows whose settings are on average LEARNED more accurate than the majority class."""
    share = runs[runs.dataset.eq(dataset) & runs.metric.eq(statistics.MAJORITY)].value.max()
    accuracy = runs.value.where(runs.metric.eq("accuracy"))
    keys = [runs[key] for key in ("experiment", "dataset", "method", "variant", "scaling")]
    return accuracy.groupby(keys).transform("mean") >= (0.0 if math.isnan(share) else share) + LEARNED


def _equivalence_threshold(
    gap: pd.DataFrame, margin: float, by: float, level: float
) -> tuple[float, float, bool]:
    """Return the first budget of equivalence, the next smaller one, and whether an interval at >= `by` lies outside."""
    asked, start, low, outside = AskedRange.near(0.0, margin), math.inf, math.nan, False
    for column in sorted(gap.columns, reverse=True):
        epsilon = float(np.exp(column).round(9))
        side = asked.side(statistics.t_interval(gap[column].dropna(), level))
        outside |= epsilon >= by and side == -1
        if math.isnan(low) and side == 1:
            start = epsilon
        elif math.isnan(low):
            low = epsilon
    return start, low, outside


def price_of_standard_step(
    runs: pd.DataFrame,
    *,
    dataset: str,
    method: str,
    baseline: str,
    by: float,
    experiment: str,
    sensitivity: str = "",
) -> Verdict:
    """Test that from budget `by` on, a method takes the step size that it would take without privacy.

    The method then costs the same ε at all these budgets, more than 1 % below what was asked. Of other settings only
    those count whose `baseline` has `learned`.
    """
    ours, asked = _price(select(runs, dataset, method, experiment)), AskedRange(high=by)
    there = runs[runs.experiment.eq(sensitivity) & runs.method.eq(baseline) & learned(runs, dataset)]
    prices = {
        words.variant(statistics.variant_settings(variant), scaling): _price(rows)
        for (variant, scaling, _), rows in _settings(runs, dataset, method, (sensitivity,)).items()
        if there.variant.eq(variant).any()
    }
    others = dict(sorted(prices.items(), key=lambda item: math.inf if math.isnan(item[1]) else item[1]))
    what = (
        f"ε that the step of {words.method(method)} without privacy costs by the accountant that calibrates"
    )
    what += " (nan: every budget is spent in full)" * math.isnan(ours)
    return within(ours, asked, what, verdicts.RANGE, others=others)


def _price(rows: pd.DataFrame) -> float:
    """Return the largest `epsilon_promised` that is below its budget; nan if none is."""
    capped = rows[np.isfinite(rows.epsilon) & (rows.epsilon_promised < rows.epsilon * (1 - BELOW_BUDGET))]
    return float(capped.epsilon_promised.max()) if len(capped) else math.nan


def better_where_mixed(
    runs: pd.DataFrame, *, dataset: str, first: str, second: str, metric: str, experiment: str, variant: str
) -> Verdict:
    """Test that at all budgets where both methods have mixed (R-hat below MIXED), a metric of `first` is larger."""
    names, asked = (first, second), AskedRange(low=1.0)

    def of(wanted: str, how: str) -> pd.DataFrame:
        each = {name: select(runs, dataset, name, experiment, wanted, variant) for name in names}
        return pd.DataFrame({name: rows.groupby("epsilon").value.agg(how) for name, rows in each.items()})

    worst = of("r_hat", "max")
    means = of(metric, "mean").loc[worst.index[worst.lt(MIXED).all(axis=1)]]
    if means.empty:
        spans = [f"{short(worst[n].min())} to {short(worst[n].max())} for {words.method(n)}" for n in names]
        return not_testable(
            f"at no budget have both mixed (R-hat < {MIXED}): R-hat is {words.listed(spans)}", asked
        )
    ratio = means[first] / means[second]
    ratio.index = pd.Index([f"ε {number(budget)}:" for budget in ratio.index])
    what = f"{words.column(metric)} of {words.method(first)} over that of {words.method(second)}, without an interval"
    return within(ratio, asked, what, verdicts.RANGE, "min", more=True)


def _budgets(epsilons: Sequence[float], of: int) -> str:
    if len(epsilons) in (0, of):
        return "all" if epsilons else "none"
    each = [f"{epsilon:.2g}" for epsilon in epsilons]
    few = len(each) <= verdicts.FEW
    return f"{len(each)} (ε {words.listed(each) if few else f'from {each[0]} to {each[-1]}'})"


def _violations(pair: Iterable[pd.DataFrame]) -> str:
    text = ""
    for rows in pair:
        diverged = rows.violated.str.contains(DIVERGED)
        failed = rows.violated.str.split("; ").map(lambda notes: any(n and DIVERGED not in n for n in notes))
        cases = {"violates a condition of its guarantee": failed, "has diverged chains": diverged}
        for what, concerned in cases.items():
            if n := rows[concerned].epsilon.nunique():
                text += f"; {words.method(rows.method.iloc[0])} {what} at {n} of its budgets"
    return text


def _adjacencies(pair: Iterable[pd.DataFrame]) -> str:
    kinds = {rows.method.iloc[0]: rows.adjacency.iloc[0] for rows in pair if np.isfinite(rows.epsilon).any()}
    if len(set(kinds.values())) < 2:
        return ""
    named = [f"{words.NEIGHBOURS.get(kind, kind)} for {words.method(name)}" for name, kind in kinds.items()]
    return f"; budgets are for different neighbours, {words.listed(named)}"


def searched(
    found: Verdict, runs: pd.DataFrame, of: Contest, shown: Shown, numbers: Interval | None = None
) -> Verdict:
    """Return the outcome of a rule after a search for other settings that show the claim: then it holds in part.

    A single rival is tried in each of its settings; the example has the most accurate rival, then the widest margin. Of
    several rivals, one setting must beat all settings in its row scaling. The level is corrected (Bonferroni).
    """
    single_rival = len(of.methods) == 2
    if not of.experiments[0]:
        return found
    tried = runs[runs.dataset.eq(of.dataset) & runs.experiment.eq(of.experiments[0])]
    if not tried.method.isin(of.methods if single_rival else of.methods[:1]).any():
        nothing = f"no other settings were tried on {words.features(of.dataset)}"
        return found | {"reason": f"{found['reason']}; {nothing}"}
    trials = [*_trials(of.methods, *(_settings(runs, of.dataset, m, of.experiments) for m in of.methods))]
    level = 1 - 0.05 / max(1, sum(len(opponents) for _, opponents, _ in trials))
    held: list[tuple[float, float, str, Interval]] = []
    against = 0
    for rows, opponents, name in trials:
        try:
            each = [shown(difference(rows, other, of.axis), level) for other in opponents]
        except statistics.NoCommonRange:
            continue
        least = min((interval for interval, _ in each), key=lambda interval: interval.mean)
        direction = min(direction for _, direction in each)
        against += direction == -1
        rank = opponents[0].value.mean() if single_rival else 0.0
        held += [(rank, least.low, name, least)] * (direction == 1)
    what = "pairs of settings" if single_rival else f"settings of {words.method(of.methods[0])}"
    reason = f"{found['reason']}; of the {len(trials)} {what} tried {len(held)} agree with the claim beyond chance and "
    reason += f"{against} speak against it"
    if held:
        *_, name, least = max(held)
        reason += f"; for example {name}{points(least.mean, '+')} [{100 * least.low:+.2f}, {100 * least.high:+.2f}], "
        reason += "corrected for their number"
    if not held or found["verdict"] == verdicts.HOLDS:
        return found | {"reason": reason}
    default = {key: found[key] for key in ("ours", "low", "high")} | {"reason": reason}
    of_example = dict(zip(("ours", "low", "high"), numbers or least, strict=True))
    in_part = {"verdict": verdicts.IN_PART, "reason": verdicts.NOT_BY_DEFAULT + reason, "default": default}
    return found | of_example | in_part


def _trials(
    methods: Sequence[str], mine: Settings, *rivals: Settings
) -> Iterator[tuple[pd.DataFrame, list[pd.DataFrame], str]]:
    """Yield each setting of the first method with its opponents and the name of the trial."""
    for (variant, scaling, _), rows in mine.items():
        name = f"{words.method(methods[0])} ({words.variant(statistics.variant_settings(variant), scaling)})"
        if len(rivals) > 1:
            matched = [[other for key, other in each.items() if key[1] == scaling] for each in rivals]
            if all(matched):
                yield rows, [*itertools.chain(*matched)], f"{name}: at least "
        for (theirs, _, _), rival in rivals[0].items() if len(rivals) == 1 else ():
            if _comparable(rows, rival):
                against = words.variant(statistics.variant_settings(theirs))
                yield rows, [rival], f"{name} against {words.method(methods[1])} ({against}): "


def _comparable(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    """Return whether two settings share scaling, step size if both state one, and neighbours if both have a budget."""
    one, two = first.iloc[0], second.iloc[0]
    nonprivate = any(np.isinf(rows.epsilon).all() for rows in (first, second))
    steps = {statistics.variant_settings(row.variant).get("step", "") for row in (one, two)} - {""}
    neighbours = nonprivate or one.adjacency == two.adjacency
    return bool(one.scaling == two.scaling and neighbours and len(steps) <= 1)


def _settings(runs: pd.DataFrame, dataset: str, method: str, experiments: Sequence[str]) -> Settings:
    """Return the sound rows of each setting of a method, in the first of `experiments` that has it."""
    on = runs.dataset.eq(dataset)
    repeats = runs.seed[on & runs.experiment.eq(experiments[0])].unique()
    rows = runs[on & runs.method.eq(method) & runs.metric.eq("accuracy") & runs.seed.isin(repeats)]
    here = rows[rows.experiment.eq(next((e for e in experiments if rows.experiment.eq(e).any()), ""))]
    keys = ["variant", "scaling", "adjacency"]
    sound = statistics.trusted(here).groupby([here[key] for key in (*keys, "epsilon")]).transform("all")
    return {(str(v), str(s), str(a)): group for (v, s, a), group in here[sound.astype(bool)].groupby(keys)}
