"""Rules for claims on trained networks, on softmax regressions on features, and on fine-tuning.

For networks trained from scratch, the column `problem` names the network: the paper's, or the small one `small`.
`verdicts.two_networks` combines the evidence of both. For a softmax regression the column `dataset` names features,
such as "cifar10_resnet18", for fine-tuning images ("cifar10"). Rows on images count as rows of the features `stand_in`,
because these runs train that network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.papers import statistics
from dplangevin.papers.claims import verdicts
from dplangevin.papers.claims.verdicts import AskedRange, NetworkEvidence, NoRows, Verdict, Where, result
from dplangevin.papers.statistics import Comparison, Interval, holm, t_interval, welch, welch_p
from dplangevin.reporting import words
from dplangevin.reporting.words import at_least, at_most
from dplangevin.text import number, numbers, percent, points, short

ADD_REMOVE = "all iterates, add/remove"
PRINTED_AS_CLAIMED = 1.005  # An ε up to this many times the claim prints as the claim, such as 1.00.
REPLACED = {"epsilon_proven": ""}  # columns of prices -> words
BOTH = {"epsilon_add_remove": " add/remove", "epsilon_replace_one": " replace-one"}


# Networks trained from scratch


def accuracy(
    frame: pd.DataFrame, *, where: Where, published: float, margin: float, small: str = "",
    others: Mapping[str, Where] | None = None, reach: bool = False,
) -> Verdict:  # fmt: skip
    """Test that our mean accuracy over seeds lies within `margin` of a printed one, or with `reach` above that.

    The opposite is shown if the whole 95 % t-interval lies outside.

    - `where`: Rows of one setting of each network.
    - `others`: Other settings to try, by their name. A setting whose guarantee fails does not make the claim hold.
    """
    asked = AskedRange.near(published, margin)
    asked = AskedRange(low=asked.low) if reach else asked
    paper, stand_in = (_near(part, asked) for part in _by_network(_runs_where(frame, where), small))
    accepted = f"from {percent(asked.low)} % up" if reach else f"within {points(margin)}"
    text, tried = f"published {percent(published)} %; we accept values {accepted}", ""
    held = None
    for name, other in (others or {}).items():
        try:
            parts = _by_network(_runs_where(frame, other), small)
        except NoRows:
            continue
        for part in parts:
            if evidence := _near(part, asked):
                tried += f"; {name}, {evidence.text}"
                if evidence.holds and bool(statistics.trusted(part).all()):
                    held = held or evidence.interval
    return verdicts.two_networks(paper, stand_in, text, tried, held, asked_range=asked)


def above(
    frame: pd.DataFrame, *, first: Where, second: Where, small: str = "", margin: float = 0.0, by: str = "",
    metric: str = "accuracy",
) -> Verdict:  # fmt: skip
    """Test that a metric of `first` minus that of `second` is above -margin.

    It is shown if the 95 % interval of the mean difference (Welch 1947) lies above -margin, and at no value of `by` the
    difference is significantly below (Holm 1979). The opposite is shown by the mirror image of both.

    - `by`: A column. The difference is averaged over its common values within each seed.
    - `metric`: "accuracy", or one of `digit_classifier.DigitClassifier`, such as "digits_covered".
    """
    pair = [_by_network(_runs_where(frame, where, metric), small) for where in (first, second)]
    evidence = [_difference(one, two, margin, by) for one, two in zip(*pair, strict=True)]
    if not any(evidence):
        raise NoRows(f"no network was trained both with {dict(first)} and with {dict(second)}")
    size = f"at most {points(margin)} below 0" if margin else "more than 0"
    sides = [_in_words(_runs_where(frame, where, metric), where) for where in (first, second)]
    text = f"{words.column(metric)} of {sides[0]} minus that of {sides[1]}; the claim asks for {size}"
    return verdicts.two_networks(evidence[0], evidence[1], text, asked_range=AskedRange.difference(margin))


def _near(rows: pd.DataFrame, asked: AskedRange) -> NetworkEvidence | None:
    """Return the evidence of one network on a printed accuracy, or None without rows."""
    if rows.empty:
        return None
    interval = t_interval(_by_seed(rows))
    held = asked.low <= interval.mean <= asked.high
    network = words.features(rows.problem.iloc[0])
    text = f"{network}: {percent(interval.mean)} % {_limits(interval, len(rows))}{_prices(rows, BOTH)}"
    return NetworkEvidence(interval, held, 1 if held else min(asked.side(interval), 0), text)


def _difference(one: pd.DataFrame, two: pd.DataFrame, margin: float, by: str) -> NetworkEvidence | None:  # noqa: PLR0914
    """Return the evidence of one network on a difference of a metric, or None if the two share nothing."""
    at: list[Any] = sorted(set(one[by]) & set(two[by])) if by else [None]
    if one.empty or two.empty or not at:
        return None
    pairs = [
        [_by_seed(rows if value is None else rows[rows[by].eq(value)]) for rows in (one, two)] for value in at
    ]
    means = [pd.concat([pair[side] for pair in pairs], axis=1).mean(axis=1) for side in (0, 1)]
    interval, *each = (welch([(1.0, one), (-1.0, two)]) for one, two in [means, *pairs])
    tested = holm([welch_p([(1.0, one), (-1.0, two)], -margin) for one, two in pairs])
    gaps = [gap.mean for gap in each]
    sure = [(value, gap) for value, gap, p in zip(at, gaps, tested, strict=True) if p <= 1 - statistics.LEVEL]
    above, below = ([value for value, gap in sure if (gap > -margin) == side] for side in (True, False))
    comparison = Comparison(interval, above, below, len(at), len(means[0]))
    direction = verdicts.DIRECTIONS[verdicts.ordering(comparison, -margin)]
    share = one.metric.eq("accuracy").all()
    scale, size = (100, points(interval.mean, "+")) if share else (1, f"{interval.mean:+.2f}")
    seeds = _limits(interval, len(means[0]), len(means[1]), scale=scale)
    text = f"{words.features(one.problem.iloc[0])}: {size} {seeds}"
    if by:
        listed = [f"{scale * gap:+.2f} at {short(float(value))}" for value, gap in zip(at, gaps, strict=True)]
        text += f", by {words.column(by)}: {', '.join(listed)}"
    else:
        unit, sides = " %" if share else "", zip(means, (one, two), strict=True)
        costs = [f"{scale * mean.mean():.2f}{unit}{_prices(rows, BOTH)}" for mean, rows in sides]
        text += f" ({'; '.join(costs)})"
    return NetworkEvidence(interval, interval.mean > -margin, direction, text)


def _by_network(rows: pd.DataFrame, small: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the paper's network and those of the small one; either may be empty."""
    rest = rows[~rows.problem.eq(small)]
    if rest.problem.nunique() > 1:
        raise ValueError(
            f"several networks {sorted(rest.problem.unique())} beside {small!r}: name one in `where`"
        )
    return rest, rows[rows.problem.eq(small)]


# Softmax regressions on features, and fine-tuning


def accuracy_on_features(
    frame: pd.DataFrame, *, where: Where, published: float, margin: float, paper: str, stand_in: str,
    metric: str = "accuracy",
) -> Verdict:  # fmt: skip
    """Test that our mean accuracy on the features `paper` lies within `margin` of a printed test accuracy.

    The claim fails if the whole 95 % t-interval lies further away. It is not testable without such features; the reason
    then gives the accuracy on the features `stand_in` of another network.

    - `metric`: "accuracy" of the last iterate, or "accuracy_best_epoch" of the epoch that is best on the test set.
    """
    asked = AskedRange.near(published, margin)
    ours = _on_features(frame, paper, stand_in, where, metric)
    shown = _on_features(frame, stand_in, stand_in, where) if ours is None else ours
    interval, found = verdicts.single(math.nan), ""
    if shown is not None:
        interval = t_interval(_by_seed(shown))
        found = f"{percent(interval.mean)} % {_limits(interval, len(shown))}{_prices(shown, REPLACED)}"
    if ours is None:
        reason = f"there are no {words.features(paper)}, and accuracies of other networks neither confirm nor refute "
        reason += f"{percent(published)} %" + (f" (on {words.features(stand_in)} {found})" if found else "")
        return verdicts.not_testable(reason, asked)
    verdict = verdicts.decide(asked.low <= interval.mean <= asked.high, asked.side(interval) == -1)
    reason = f"published {percent(published)} %; we accept values within {points(margin)}; {found}"
    return result(interval, verdict, reason, verdicts.ONE_SPLIT, asked)


def weighted_sum(
    frame: pd.DataFrame, *, weights: Mapping[str, float], paper: str, stand_in: str, what: str,
    column: str = "method", schedule: str = "", calibration: str = "", margin: float = 0.0, most: float = math.inf,
    metric: str = "accuracy",
) -> Verdict:  # fmt: skip
    """Test that a weighted sum of mean accuracies is above -margin and at most `most`.

    The 95 % interval of the sum decides. It is Student's over the sums of single seeds, because runs may share the
    noise of a seed. Where terms have different seeds it is by Welch-Satterthwaite.

    - `weights`: Value of the column `column` -> its weight.
    - `paper`, `stand_in`, `metric`: As in `accuracy_on_features`; the features `stand_in` always use "accuracy".
    - `schedule`, `calibration`: Of all terms; the method "sgd" has no calibration. "": not asked for.
    """
    shared = {key: value for key, value in (("schedule", schedule), ("calibration", calibration)) if value}
    terms = [({column: name, **shared}, weight) for name, weight in weights.items()]
    for where, _ in terms:
        if where[column] == "sgd":
            where.pop("calibration", None)
    asked = AskedRange(0.0 - margin, most)
    mine = _sum(frame, paper, stand_in, terms, asked, metric)
    small = None if stand_in == paper else _sum(frame, stand_in, stand_in, terms, asked)
    if not (mine or small):
        raise NoRows(f"no features on which all of {[dict(where) for where, _ in terms]} were trained")
    text = f"{what}; the claim asks for more than 0"
    text += f", less a margin of {points(margin)}" if margin else ""
    text += f" and at most {points(most)}" if most < math.inf else ""
    return verdicts.two_networks(mine, small, text, asked_range=asked)


def _sum(
    frame: pd.DataFrame, name: str, stand_in: str, terms: Sequence[tuple[Where, float]], asked: AskedRange,
    metric: str = "accuracy",
) -> NetworkEvidence | None:  # fmt: skip
    """Return the evidence of one set of features on a weighted sum, or None if a term has no rows."""
    found = [(_on_features(frame, name, stand_in, where, metric), where, weight) for where, weight in terms]
    parts = [(rows, where, weight) for rows, where, weight in found if rows is not None]
    if len(parts) < len(terms):
        return None
    values = [(weight, _by_seed(rows)) for rows, _, weight in parts]
    sums = pd.concat([weight * value for weight, value in values], axis=1).sum(axis=1, skipna=False)
    interval = welch(values) if sums.hasnans else t_interval(sums)
    inside = interval.low > asked.low and interval.high <= asked.high
    direction = 1 if inside else -1 if interval.high <= asked.low or interval.low > asked.high else 0
    each = [
        f"{_in_words(rows, where)} {percent(value.mean())} %{_prices(rows, REPLACED)}"
        for (rows, where, _), (_, value) in zip(parts, values, strict=True)
    ]
    seeds = _limits(interval, *(len(value) for _, value in values))
    text = f"{words.features(name)}: {points(interval.mean, '+')} {seeds} ({'; '.join(each)})"
    text += ", the same in every seed" if not sums.hasnans and sums.eq(0).all() else ""
    return NetworkEvidence(interval, asked.low < interval.mean <= asked.high, direction, text)


def _on_features(
    frame: pd.DataFrame, name: str, stand_in: str, where: Where, metric: str = "accuracy"
) -> pd.DataFrame | None:
    """Return the rows of the features `name`, or None; rows on images count where `name` is `stand_in`."""
    here = frame.dataset.eq(name) | (frame.dataset.eq(name.partition("_")[0]) & (name == stand_in))
    try:
        return _runs_where(frame[here], where, metric)
    except NoRows:
        return None


def budget(
    frame: pd.DataFrame, *, where: Where, claimed: float, delta: float, tool: bool = False, start: str = ""
) -> Verdict:
    """Test a table row that is printed as (claimed, delta)-private, by `verdicts.promise_verdict`.

    An ε that rounds to the claim meets it. Our rows may use a larger delta, that of the authors' command. At the
    printed delta they then cost more than the proven ε says. Only the attack counts in that case.

    - `start`: How the chain starts, if not as in the theorem.
    - returns: low: the attack ε, on a pair of records that the problem admits. high: the smallest proven ε for replaced
      records; if the claim holds for add/remove neighbours only, low is nan and high is for these.
    """
    rows = _runs_where(frame, where)
    columns = {
        "all iterates, replace-one": "epsilon_proven",
        "the last iterate, replace-one": "epsilon_last",
        ADD_REMOVE: "epsilon_add_remove",
    }
    known = {name: float(rows[at].max()) for name, at in columns.items() if rows[at].notna().any()}
    if not (own := [price for name, price in known.items() if name != ADD_REMOVE]):
        raise NoRows(f"the runs with {dict(where)} have no proven price")
    ours, attack, asked = min(own), float(rows.epsilon_attack.min()), AskedRange(high=claimed)
    used = float(rows.delta.iloc[0])
    larger = used > delta * (1 + 1e-9)
    at_delta = f" at the larger δ {number(used)} of the authors' command alone" if larger else ""
    reason = f"ε {short(claimed)} is claimed at δ {number(delta)}; proven{at_delta}: "
    reason += ", ".join(f"{at_most(price)} for {name}" for name, price in known.items())
    for column in ("epochs", "steps"):
        price = float(rows[f"epsilon_formula_{column}"].max())
        reason += "" if math.isnan(price) else f"; by the paper's formula with K = {column} {short(price)}"
    if not math.isnan(attack):
        among = rows.attack_pair.str.contains("among the records").all()
        others = "all others those of the data set" if among else "all others zero"
        reason += f"; an attack on a pair of records that this problem admits, {others}, shows at least "
        reason += f"{at_least(attack)} ({100 * rows.attack_confidence.iloc[0]:g} % confidence)"
    if rows.sampling.eq("shuffled").any():
        reason += "; epochs are shuffled, and what that hides is not counted in what is proven"
    reason += f"; {start}" if start else ""
    replaced, added = (math.inf, math.inf) if larger else (ours, known.get(ADD_REMOVE, math.nan))
    most = claimed * PRINTED_AS_CLAIMED
    verdict = verdicts.promise_verdict(most, replaced=replaced, added=added, shown=attack, tool=tool)
    interval, cause = Interval(math.nan, attack, ours), ""
    if verdict == verdicts.IN_PART:
        interval, cause = Interval(math.nan, math.nan, added), verdicts.ADDED
        reason = f"{verdicts.NOT_BY_DEFAULT}{reason}; at this δ it holds for add/remove neighbours only"
    elif larger:
        reason += f"; at δ {number(delta)} each of them is more"
    return result(interval, verdict, reason, verdicts.ATTACK, asked, cause)


# Helpers of both parts


def _runs_where(frame: pd.DataFrame, where: Where, metric: str = "accuracy") -> pd.DataFrame:
    """Return the rows of one metric that match `where`; raise NoRows if none does."""
    return verdicts.rows_where(frame[frame.metric.eq(metric)], where)


def _in_words(rows: pd.DataFrame, where: Where) -> str:
    """Return in words what the rows picked by `where` are, such as "DP-SGLD at a proven ε of 0.99"."""
    row = rows.iloc[0]
    parts = [words.method(row.method)]
    if "block" in where or "run" in where:
        equal = f"at a proven ε of {short(row.epsilon)}" if "epsilon" in where else "at equal proven ε"
        parts.append({**words.BLOCKS, "equal": equal}.get(row.block, ""))
    if "calibration" in where:
        calibration = words.CALIBRATIONS.get(row.calibration, "at the authors' settings")
        parts.append(calibration.format(short(row.epsilon)))
    if "variant" in where and row.variant:
        settings = dict(each.rpartition(".")[2].split("=") for each in row.variant.split(";"))
        parts.append(f"with {words.variant(settings)}")
    if row.schedule == "decreasing":
        parts.append("with decreasing steps")
    return " ".join(part for part in parts if part)


def _prices(rows: pd.DataFrame, columns: Mapping[str, str]) -> str:
    """Return the proven ε of one setting as text, by its columns, with a note if a condition of its guarantee fails."""
    largest = {name: float(rows[column].max()) for column, name in columns.items()}
    if np.isinf([*largest.values()]).any():
        return ", not private"
    ones = ", ".join(f"{at_most(price) or 'unknown'}{name}" for name, price in largest.items())
    failed = ", a condition of its guarantee fails" if rows.violated.ne("").any() else ""
    return f" at proven ε {ones}, δ {number(rows.delta.iloc[0])}{failed}"


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


def _limits(interval: Interval, *seeds: int, scale: int = 100) -> str:
    """Return the scaled interval and the number of seeds as text, or a note that there is no interval."""
    if math.isnan(interval.low):
        return "(one seed: no interval)" if max(seeds) == 1 else "(one seed on one side: no interval)"
    return f"[{scale * interval.low:.2f}, {scale * interval.high:.2f}] over {numbers(seeds)} seeds"
