"""Rules for claims on trained networks, on softmax regressions on features, and on fine-tuning.

The claims are printed test accuracies, orderings of methods, and printed budgets.
The rows are those of `papers.exhibits.read.read_runs`. A rule reads those of the metric "accuracy", unless it
has a parameter `metric`.

For networks trained from scratch, the column `problem` names the network: the paper's or a small one. `small`
is the name of the small one. `verdicts.two_networks` combines the evidence of both. For a softmax regression,
the column `dataset` names features, such as "cifar10_resnet18". For fine-tuning it names the images
("cifar10"). Rows on images count as rows of the features `stand_in`, because these runs train that network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.papers.claims import words
from dplangevin.papers.claims.verdicts import (
    ADDED,
    ATTACK,
    IN_PART,
    NOT_BY_DEFAULT,
    ONE_SPLIT,
    AskedRange,
    NetworkEvidence,
    NoRows,
    Verdict,
    Where,
    decide,
    not_testable,
    promise_verdict,
    result,
    rows_where,
    two_networks,
)
from dplangevin.papers.claims.words import at_least, at_most
from dplangevin.papers.statistics import LEVEL, Interval, holm, t_interval, trusted, welch, welch_p
from dplangevin.text import number, numbers, percent, points, short

ADD_REMOVE = "all iterates, add/remove"
PRINTED_AS_CLAIMED = 1.005  # An ε up to this many times the claim prints as the claim, such as 1.00.


# Networks trained from scratch


def accuracy(
    frame: pd.DataFrame,
    *,
    where: Where,
    published: float,
    margin: float,
    small: str = "",
    others: Mapping[str, Where] | None = None,
    reach: bool = False,
) -> Verdict:
    """Test that our mean accuracy over seeds lies within `margin` of a printed test accuracy.

    The claim holds if the mean lies within. The opposite is shown if the whole 95 % t-interval lies outside.

    - `where`: Rows of one setting of each network.
    - `published`, `margin`: The printed accuracy in [0, 1], and the largest distance from it in [0, 1).
    - `others`: Other settings to try, by their name. A setting whose guarantee fails does not make the claim hold.
    - `reach`: Whether a higher accuracy meets the claim, too.
    """
    asked_range = AskedRange.near(published, margin)
    asked_range = AskedRange(low=asked_range.low) if reach else asked_range
    paper, stand_in = (_near(part, asked_range) for part in _by_network(_runs_where(frame, where), small))
    accepted = f"from {percent(asked_range.low)} % up" if reach else f"within {points(margin)}"
    text, tried = f"published {percent(published)} %; we accept values {accepted}", ""
    held = None
    for name, other in (others or {}).items():
        try:
            parts = _by_network(_runs_where(frame, other), small)
        except NoRows:
            continue
        for part in parts:
            if evidence := _near(part, asked_range):
                tried += f"; {name}, {evidence.text}"
                if evidence.holds and bool(trusted(part).all()):
                    held = held or evidence.interval
    return two_networks(paper, stand_in, text, tried, held, asked_range=asked_range)


def above(
    frame: pd.DataFrame, *, first: Where, second: Where, small: str = "", margin: float = 0.0, by: str = ""
) -> Verdict:
    """Test that the accuracy of `first` minus that of `second` is above -margin.

    The claim is shown under two conditions. The 95 % interval of the mean difference lies above -margin. The
    difference is significantly below -margin at no value of `by` (Holm 1979). The opposite is shown by the
    mirror image of both. Intervals are by Welch (1947), because seeds are independent.

    - `margin`: Accuracy by which `first` may be lower, in [0, 1).
    - `by`: A column. The methods are compared at its common values, and the difference is averaged over them within
      each seed. If "", each method has one setting of each network.
    """
    pair = [_by_network(_runs_where(frame, where), small) for where in (first, second)]
    evidence = [_difference(one, two, margin, by) for one, two in zip(*pair, strict=True)]
    if not any(evidence):
        raise NoRows(f"no network was trained both with {_listed(first)} and with {_listed(second)}")
    size = f"at most {points(margin)} below 0" if margin else "more than 0"
    sides = [_in_words(_runs_where(frame, where), where) for where in (first, second)]
    text = f"accuracy of {sides[0]} minus that of {sides[1]}; the claim asks for {size}"
    return two_networks(evidence[0], evidence[1], text, asked_range=AskedRange.difference(margin))


def more_covered(
    frame: pd.DataFrame, *, first: Where, second: Where, metric: str, small: str, by: str = ""
) -> Verdict:
    """Test that the generator of `first` covers more than that of `second`.

    The network `small` is a stand-in for the paper's. The 95 % interval of the difference shows the claim or
    its opposite (Welch 1947; seeds are independent).

    - `metric`: A metric of `digit_classifier.DigitClassifier`, such as "digits_covered".
    - `by`: A column over whose common values the metric is averaged within each seed; "" for none.
    """
    rows = [_runs_where(frame, where, metric) for where in (first, second)]
    at: list[Any] = sorted(set(rows[0][by]) & set(rows[1][by])) if by else [None]
    if not at:
        raise NoRows(f"{_listed(first)} and {_listed(second)} have no {words.column(by)} in common")
    parts = [[each if value is None else each[each[by].eq(value)] for value in at] for each in rows]
    means = [pd.concat([_by_seed(part) for part in each], axis=1).mean(axis=1) for each in parts]
    interval = welch([(1.0, means[0]), (-1.0, means[1])])
    direction = 1 if interval.low > 0 else -1 if interval.high < 0 else 0
    sides = [_in_words(each, where) for each, where in zip(rows, (first, second), strict=True)]
    text = f"{words.column(metric)} of {sides[0]} minus that of {sides[1]}; the claim asks for more than 0"
    if by:
        text += f", averaged over {words.column(by)} {words.listed([short(float(value)) for value in at])}"
    own = f"{words.features(small)}: {interval.mean:+.2f} [{interval.low:.2f}, {interval.high:.2f}] over "
    own += f"{numbers([len(each) for each in means])} seeds ({means[0].mean():.2f}; {means[1].mean():.2f})"
    evidence = NetworkEvidence(interval, interval.mean > 0, direction, own)
    return two_networks(None, evidence, text, asked_range=AskedRange.difference(0.0))


def _near(rows: pd.DataFrame, asked_range: AskedRange) -> NetworkEvidence | None:
    """Return the evidence of one network on a printed accuracy, or None without rows."""
    if rows.empty:
        return None
    interval = t_interval(_by_seed(rows))
    holds, outside = _compared(interval, asked_range)
    network = words.features(rows.problem.iloc[0])
    text = f"{network}: {percent(interval.mean)} % {_limits(interval, len(rows))}{_prices(rows)}"
    return NetworkEvidence(interval, holds, 1 if holds else -1 if outside else 0, text)


def _compared(interval: Interval, asked_range: AskedRange) -> tuple[bool, bool]:
    """Return whether the mean lies in the range `asked_range`, and whether the whole interval lies outside."""
    outside = interval.low > asked_range.high or interval.high < asked_range.low
    return asked_range.low <= interval.mean <= asked_range.high, outside


def _difference(one: pd.DataFrame, two: pd.DataFrame, margin: float, by: str) -> NetworkEvidence | None:
    """Return the evidence of one network on a difference of accuracies, or None if the two share nothing."""
    if one.empty or two.empty:
        return None
    at: list[Any] = sorted(set(one[by]) & set(two[by])) if by else [None]
    if not at:
        return None
    parts = [
        tuple(rows if value is None else rows[rows[by].eq(value)] for rows in (one, two)) for value in at
    ]
    pairs = [tuple(_by_seed(rows) for rows in part) for part in parts]
    each = [welch([(1.0, first), (-1.0, second)]) for first, second in pairs]
    means = [pd.concat([pair[side] for pair in pairs], axis=1).mean(axis=1) for side in (0, 1)]
    interval = welch([(1.0, means[0]), (-1.0, means[1])])
    tested = holm([welch_p([(1.0, first), (-1.0, second)], -margin) for first, second in pairs])
    sure = [gap.mean for gap, p in zip(each, tested, strict=True) if by and p <= 1 - LEVEL]
    direction = 0
    if interval.low > -margin and all(mean > -margin for mean in sure):
        direction = 1
    elif interval.high < -margin and all(mean < -margin for mean in sure):
        direction = -1
    seeds = _limits(interval, len(means[0]), len(means[1]))
    text = f"{words.features(one.problem.iloc[0])}: {points(interval.mean, '+')} {seeds}"
    if by:
        gaps = zip(at, each, strict=True)
        text += f", by {words.column(by)}: " + ", ".join(
            f"{100 * gap.mean:+.2f} at {short(float(value))}" for value, gap in gaps
        )
    else:
        costs = (_prices(one), _prices(two))
        each_mean = [f"{percent(mean.mean())} %{cost}" for mean, cost in zip(means, costs, strict=True)]
        text += f" ({'; '.join(each_mean)})"
    return NetworkEvidence(interval, interval.mean > -margin, direction, text)


def _by_network(rows: pd.DataFrame, small: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the paper's network and those of the small one; either may be empty."""
    rest = rows[~rows.problem.eq(small)]
    if rest.problem.nunique() > 1:
        raise ValueError(
            f"several networks {sorted(rest.problem.unique())} beside {small!r}: name one in `where`"
        )
    return rest, rows[rows.problem.eq(small)]


def _prices(rows: pd.DataFrame) -> str:
    """Return the proven ε of one setting for both neighbours as text, with a note on failed conditions."""
    if not np.isfinite(rows.epsilon_add_remove).all():
        return ", not private"
    ones = f"{at_most(rows.epsilon_add_remove.max())} add/remove, {at_most(rows.epsilon_replace_one.max())} replace-one"
    failed = ", a condition of its guarantee fails" if rows.violated.ne("").any() else ""
    return f" at proven ε {ones}, δ {number(rows.delta.iloc[0])}{failed}"


# Softmax regressions on features, and fine-tuning


def accuracy_on_features(
    frame: pd.DataFrame,
    *,
    where: Where,
    published: float,
    margin: float,
    paper: str,
    stand_in: str,
    metric: str = "accuracy",
) -> Verdict:
    """Test that our mean accuracy on the features `paper` lies within `margin` of a printed test accuracy.

    The claim fails if the whole 95 % t-interval lies further away. It is open if the mean
    lies further away but the interval does not. It is not testable without such features; the reason then
    gives the accuracy on the features `stand_in`.

    - `published`, `margin`: The printed accuracy in [0, 1], and the largest distance from it in [0, 1).
    - `paper`, `stand_in`: Features of the paper's network and of the network that stands in for it.
    - `metric`: "accuracy" of the last iterate, or "accuracy_best_epoch" of the epoch that is best on the test set.
    """
    asked_range = AskedRange.near(published, margin)
    ours = _on_features(frame, paper, stand_in, where, metric)
    if ours is None:
        other = _on_features(frame, stand_in, stand_in, where)
        reason = f"there are no {words.features(paper)}, and accuracies of other networks neither confirm nor refute "
        reason += f"{percent(published)} %"
        if other is not None:
            interval = t_interval(_by_seed(other))
            text = f"{percent(interval.mean)} % {_limits(interval, len(other))}{_price(other)}"
            reason += f" (on {words.features(stand_in)} {text})"
        return not_testable(reason, asked_range)
    interval = t_interval(_by_seed(ours))
    holds, outside = _compared(interval, asked_range)
    reason = f"published {percent(published)} %; we accept values within {points(margin)}; {percent(interval.mean)} %"
    reason += f" {_limits(interval, len(ours))}{_price(ours)}"
    return result(interval, decide(holds, outside), reason, ONE_SPLIT, asked_range=asked_range)


def weighted_methods(
    frame: pd.DataFrame,
    *,
    weights: Mapping[str, float],
    schedule: str,
    calibration: str,
    paper: str | Sequence[str],
    stand_in: str,
    what: str,
    margin: float = 0.0,
    metric: str = "accuracy",
) -> Verdict:
    """Test a weighted sum of accuracies of methods with one step schedule, as `weighted_sum` does.

    - `weights`: Method -> its weight.
    - `schedule`: Step schedule of all methods.
    - `calibration`: Calibration of the private methods. The method "sgd" has none.
    """
    terms = [{"weight": weight, "method": method, "schedule": schedule} for method, weight in weights.items()]
    terms = [term if term["method"] == "sgd" else {**term, "calibration": calibration} for term in terms]
    return weighted_sum(
        frame, terms=terms, paper=paper, stand_in=stand_in, what=what, margin=margin, metric=metric
    )


def weighted_sum(
    frame: pd.DataFrame,
    *,
    terms: Sequence[Mapping[str, Any]],
    paper: str | Sequence[str],
    stand_in: str,
    what: str,
    margin: float = 0.0,
    most: float = math.inf,
    metric: str = "accuracy",
) -> Verdict:
    """Test that a weighted sum of mean accuracies is above -margin and at most `most`.

    The claim is shown if the 95 % interval of the sum lies between these two ends. The opposite is shown if
    the interval lies outside. The interval is Student's over the sums of single seeds, because runs may share
    the noise of a seed. Where terms have different seeds it is by Welch-Satterthwaite.

    - `terms`: Each has `weight` and the columns and values that pick its rows: {weight, column: value}.
    - `paper`: Features of the paper's network. If there are several, the first that we have counts.
    - `stand_in`: Features of the network that stands in for it.
    - `margin`: Accuracy that is given away, in [0, 1).
    - `most`: Upper end of the sum.
    - `metric`: As in `accuracy_on_features`, for the features `paper`. The features `stand_in` always use "accuracy".
    """
    names = [paper] if isinstance(paper, str) else list(paper)
    weighted = [(float(term["weight"]), {k: v for k, v in term.items() if k != "weight"}) for term in terms]
    evidence = [_sum(frame, name, stand_in, weighted, margin, most, metric) for name in names]
    evidence.append(None if stand_in in names else _sum(frame, stand_in, stand_in, weighted, margin, most))
    if not any(evidence):
        wanted = ", ".join(_listed(where) for _, where in weighted)
        raise NoRows(f"no features on which all of {wanted} were trained")
    text = f"{what}; the claim asks for more than 0" + (
        f", less a margin of {points(margin)}" if margin else ""
    )
    text += f" and at most {points(most)}" if most < math.inf else ""
    mine = next((one for one in evidence[:-1] if one), None)
    return two_networks(mine, evidence[-1], text, asked_range=AskedRange(0.0 - margin, most))


def _sum(
    frame: pd.DataFrame,
    name: str,
    stand_in: str,
    terms: Sequence[tuple[float, Where]],
    margin: float,
    most: float,
    metric: str = "accuracy",
) -> NetworkEvidence | None:
    """Return the evidence of one set of features on a weighted sum, or None if a term has no rows."""
    parts = [(weight, _on_features(frame, name, stand_in, where, metric)) for weight, where in terms]
    present = [(weight, rows) for weight, rows in parts if rows is not None]
    if len(present) < len(parts):
        return None
    values = [(weight, _by_seed(rows)) for weight, rows in present]
    sums = pd.concat([weight * value for weight, value in values], axis=1).sum(axis=1, skipna=False)
    interval = welch(values) if sums.hasnans else t_interval(sums)
    inside = interval.low > -margin and interval.high <= most
    direction = 1 if inside else -1 if interval.high <= -margin or interval.low > most else 0
    each = "; ".join(
        f"{_in_words(rows, where)} {percent(_by_seed(rows).mean())} %{_price(rows)}"
        for (_, rows), (_, where) in zip(present, terms, strict=True)
    )
    seeds = _limits(interval, *(len(v) for _, v in values))
    text = f"{words.features(name)}: {points(interval.mean, '+')} {seeds} ({each})"
    text += ", the same in every seed" if not sums.hasnans and sums.eq(0).all() else ""
    return NetworkEvidence(interval, -margin < interval.mean <= most, direction, text)


def _on_features(
    frame: pd.DataFrame, name: str, stand_in: str, where: Where, metric: str = "accuracy"
) -> pd.DataFrame | None:
    """Return the rows of the features `name`, or None; rows on images count where `name` is `stand_in`."""
    here = frame.dataset.eq(name) | (frame.dataset.eq(name.partition("_")[0]) & (name == stand_in))
    try:
        return _runs_where(frame[here], where, metric)
    except NoRows:
        return None


def _price(rows: pd.DataFrame) -> str:
    """Return the proven ε of one setting as text, with a note if a condition of its guarantee fails."""
    largest = float(rows.epsilon_proven.max())
    if not math.isfinite(largest):
        return ", not private"
    failed = ", a condition of its theorem is not met" if rows.violated.ne("").any() else ""
    return f" at proven ε {at_most(largest)}, δ {number(rows.delta.iloc[0])}{failed}"


def budget(
    frame: pd.DataFrame, *, where: Where, claimed: float, delta: float, tool: bool = False, start: str = ""
) -> Verdict:
    """Test a table row that is printed as (claimed, delta)-private.

    The verdict is that of `verdicts.promise_verdict`; an ε that rounds to the claim meets it. Our rows may use a
    larger delta, that of the authors' command. At the printed delta they then cost more than the proven ε
    says. Only the attack counts in that case.

    - `frame`, `where`: Rows of `papers.exhibits.read.read_runs`, and conditions of the rows to test.
    - `claimed`, `delta`: The printed ε and δ.
    - `start`: How the chain starts, if not as in the theorem.
    - returns: ours: nan, because neither bound is the exact cost. low: the attack ε, on a pair of records that the
      problem admits. high: the smallest proven ε for replace-one neighbours, of all iterates or of the last one.
      Where the claim holds for add/remove neighbours only, low is nan and high is for these.
    """
    rows = _runs_where(frame, where)
    prices = {
        "all iterates, replace-one": float(rows.epsilon_proven.max()),
        "the last iterate, replace-one": float(rows.epsilon_last.max()),
        ADD_REMOVE: float(rows.epsilon_add_remove.max()),
    }
    known = {name: price for name, price in prices.items() if not math.isnan(price)}
    attack = float(rows.epsilon_attack.min())
    own = [price for name, price in known.items() if name != ADD_REMOVE]
    if not own:
        raise NoRows(f"the runs with {_listed(where)} have no proven price")
    ours, most, asked_range = min(own), claimed * PRINTED_AS_CLAIMED, AskedRange(high=claimed)
    larger = float(rows.delta.iloc[0]) > delta * (1 + 1e-9)
    reason = f"ε {short(claimed)} is claimed at δ {number(delta)}; proven"
    reason += (
        f" at the larger δ {number(rows.delta.iloc[0])} of the authors' command alone: " if larger else ": "
    )
    reason += ", ".join(f"{at_most(price)} for {name}" for name, price in known.items())
    for column, name in (("epochs", "K = epochs"), ("steps", "K = steps")):
        price = float(rows[f"epsilon_formula_{column}"].max())
        reason += "" if math.isnan(price) else f"; by the paper's formula with {name} {short(price)}"
    if not math.isnan(attack):
        confidence = 100 * rows.attack_confidence.iloc[0]
        among = rows.attack_pair.str.contains("among the records").all()
        others = "all others those of the data set" if among else "all others zero"
        reason += f"; an attack on a pair of records that this problem admits, {others}, shows at least "
        reason += f"{at_least(attack)} ({confidence:g} % confidence)"
    if rows.sampling.eq("shuffled").any():
        reason += "; epochs are shuffled, and what that hides is not counted in what is proven"
    reason += f"; {start}" if start else ""
    added = math.inf if larger else prices[ADD_REMOVE]
    verdict = promise_verdict(
        most, replaced=math.inf if larger else ours, added=added, shown=attack, tool=tool
    )
    if verdict == IN_PART:
        reason = f"{NOT_BY_DEFAULT}{reason}; at this δ it holds for add/remove neighbours only"
        interval = Interval(math.nan, math.nan, added)
        return result(interval, verdict, reason, ATTACK, asked_range=asked_range, cause=ADDED)
    reason += f"; at δ {number(delta)} each of them is more" if larger else ""
    interval = Interval(math.nan, attack, ours)
    return result(interval, verdict, reason, ATTACK, asked_range=asked_range)


# Helpers of both parts


def _runs_where(frame: pd.DataFrame, where: Where, metric: str = "accuracy") -> pd.DataFrame:
    """Return the rows of one metric that match `where`; raise NoRows if none does."""
    return rows_where(frame[frame.metric.eq(metric)], where, f"no run with {_listed(where)}")


def _listed(where: Where) -> str:
    """Return `where` as short text, such as "(equal, dp_sgld, epsilon 0.99)"."""
    texts = []
    for key, value in where.items():
        text = " or ".join(map(str, value if isinstance(value, list) else [value]))
        texts.append(f"{key} {text}" if key == "epsilon" else text)
    return f"({', '.join(texts)})"


def _in_words(rows: pd.DataFrame, where: Where) -> str:
    """Return in words what the rows picked by `where` are, such as "DP-SGLD at a proven ε of 0.99"."""
    row = rows.iloc[0]
    parts = [words.method(row.method)]
    if "block" in where or "run" in where:
        parts.append(words.BLOCKS.get(row.block, ""))
        if row.block == "equal":
            parts.append(
                f"at a proven ε of {short(row.epsilon)}" if "epsilon" in where else "at equal proven ε"
            )
    if "calibration" in where:
        parts.append(
            words.CALIBRATIONS.get(row.calibration, "at the authors' settings").format(short(row.epsilon))
        )
    if "variant" in where and row.variant:
        settings = dict(each.rpartition(".")[2].split("=") for each in row.variant.split(";"))
        parts.append(f"with {words.variant(settings)}")
    if row.problem in ("head", "block"):
        parts.append(f"on the {row.problem}")
    if row.schedule == "decreasing":
        parts.append("with decreasing steps")
    return " ".join(part for part in parts if part)


def _by_seed(rows: pd.DataFrame) -> pd.Series:
    """Return the values by seed of one setting without diverged chains; raise NoRows if all have diverged."""
    if rows.seed.duplicated().any():
        settings = rows[["run", "epsilon"]].drop_duplicates().to_dict("records")
        raise ValueError(f"a claim on one setting meets several, {settings}: narrow its `where`")
    values = rows.set_index("seed").value
    values = values[np.isfinite(values)]
    if values.empty:
        raise NoRows(f"every chain of {rows.run.iloc[0]} has diverged")
    return values


def _limits(interval: Interval, *seeds: int) -> str:
    """Return the interval in percent and the number of seeds as text, or a note that there is no interval."""
    if math.isnan(interval.low):
        return "(one seed: no interval)" if max(seeds) == 1 else "(one seed on one side: no interval)"
    return f"[{percent(interval.low)}, {percent(interval.high)}] over {numbers(seeds)} seeds"
