"""Rules for claims on trained networks, on heads on features and on fine-tuning: printed test accuracies, one method
above another, printed budgets and settings that methods are said to share.

Rows are those of `exhibits.read.read_runs`, of which the accuracies count. What the runs of the paper's network and of
a small one (in the column `problem`) say is judged by `verdicts.two_networks`. The data set of a softmax regression is
features, such as cifar10_resnet18; rows on images themselves (fine-tuning) are of `stand_in`, the network of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.claims import words
from dplangevin.claims.verdicts import (
    ATTACK,
    CONTRADICTED,
    EXACT,
    ONE_SPLIT,
    REPRODUCED,
    Asked,
    NetworkEvidence,
    NoRows,
    Verdict,
    Where,
    judged,
    not_testable,
    promised,
    result,
    rows_where,
    single,
    two_networks,
)
from dplangevin.statistics import LEVEL, Interval, holm, t_interval, trusted, welch, welch_p
from dplangevin.text import number, numbers, percent, points, short

ADD_REMOVE = "all iterates, add/remove"
PRINTED_AS_CLAIMED = 1.005  # times the claim: what prints as 1.00


# Networks trained from scratch


def accuracy(
    frame: pd.DataFrame,
    *,
    where: Where,
    published: float,
    margin: float,
    small: str = "",
    others: Mapping[str, Where] | None = None,
) -> Verdict:
    """A printed test accuracy: our mean over seeds lies within `margin` (in [0, 1)) of it.

    Holds if the mean does; the opposite is shown if the whole 95 % t-interval lies outside. where: the rows, one
    setting of each network. small: the name of the small network. others: name -> `where` of other settings to try; the
    accuracy of one whose guarantee fails does not make the claim hold.
    """
    asked = Asked.near(published, margin)
    paper, stand_in = (_near(part, asked) for part in _by_network(_runs_where(frame, where), small))
    text, tried = f"published {percent(published)} %, asked: within {points(margin)}", ""
    held = False
    for name, other in (others or {}).items():
        try:
            parts = _by_network(_runs_where(frame, other), small)
        except NoRows:
            continue
        for part in parts:
            if evidence := _near(part, asked):
                tried += f"; {name}, {evidence.text}"
                held |= evidence.holds and bool(trusted(part).all())
    return two_networks(paper, stand_in, text, tried, held, asked=asked)


def above(
    frame: pd.DataFrame, *, first: Where, second: Where, small: str = "", margin: float = 0.0, by: str = ""
) -> Verdict:
    """The accuracy of `first` less that of `second` is above -margin; margin: given away, in [0, 1).

    Shown if the 95 % interval of the difference (Welch, seeds are independent) lies above -margin and the difference is
    significantly below it (Holm) at no value of `by`; the opposite if the mirror image holds. by: a column on whose
    common values the two are compared, averaged over them within each seed; else each is one setting of each network.
    small: as for `accuracy`.
    """
    pair = [_by_network(_runs_where(frame, where), small) for where in (first, second)]
    evidence = [_difference(one, two, margin, by) for one, two in zip(*pair, strict=True)]
    if not any(evidence):
        raise NoRows(f"no network was trained both with {_listed(first)} and with {_listed(second)}")
    size = f"at most {points(margin)} below" if margin else "above it"
    sides = [_in_words(_runs_where(frame, where), where) for where in (first, second)]
    text = f"accuracy of {sides[0]} less that of {sides[1]}, asked: {size}"
    return two_networks(evidence[0], evidence[1], text, asked=Asked.difference(margin))


def more_covered(
    frame: pd.DataFrame, *, first: Where, second: Where, metric: str, small: str, by: str = ""
) -> Verdict:
    """What the generator of `first` covers, less that of `second`, is above 0.

    metric: of `judge.Judge`, such as digits_covered.  Shown, and its opposite, by the 95 % interval of the difference
    (Welch, seeds are independent), averaged within each seed over the common values of the column `by`, if one is
    named.  small: the name of the network, which stands in for the paper's.
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
    text = f"{words.column(metric)} of {sides[0]} less that of {sides[1]}, asked: above 0"
    if by:
        text += f", averaged over {words.column(by)} {words.listed([short(float(value)) for value in at])}"
    own = f"{words.features(small)}: {interval.mean:+.2f} [{interval.low:.2f}, {interval.high:.2f}] over "
    own += f"{numbers([len(each) for each in means])} seeds ({means[0].mean():.2f}; {means[1].mean():.2f})"
    evidence = NetworkEvidence(interval, interval.mean > 0, direction, own)
    return two_networks(None, evidence, text, asked=Asked.difference(0.0))


def _near(rows: pd.DataFrame, asked: Asked) -> NetworkEvidence | None:
    if rows.empty:
        return None
    interval = t_interval(_by_seed(rows))
    holds, outside = _compared(interval, asked)
    network = words.features(rows.problem.iloc[0])
    text = f"{network}: {percent(interval.mean)} % {_limits(interval, len(rows))}{_prices(rows)}"
    return NetworkEvidence(interval, holds, 1 if holds else -1 if outside else 0, text)


def _compared(interval: Interval, asked: Asked) -> tuple[bool, bool]:
    """Whether the mean lies within what is asked, and whether the whole interval lies outside."""
    outside = interval.low > asked.high or interval.high < asked.low
    return asked.low <= interval.mean <= asked.high, outside


def _difference(one: pd.DataFrame, two: pd.DataFrame, margin: float, by: str) -> NetworkEvidence | None:
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
    """Rows of the paper's network and of the small one; either may be empty."""
    rest = rows[~rows.problem.eq(small)]
    if rest.problem.nunique() > 1:
        raise ValueError(
            f"several networks {sorted(rest.problem.unique())} beside {small!r}: name one in `where`"
        )
    return rest, rows[rows.problem.eq(small)]


def _prices(rows: pd.DataFrame) -> str:
    """What one setting costs, for both kinds of neighbours."""
    if not np.isfinite(rows.epsilon_add_remove).all():
        return ", not private"
    ones = f"{short(rows.epsilon_add_remove.max())} add/remove, {short(rows.epsilon_replace_one.max())} replace-one"
    failed = ", a condition of its guarantee fails" if rows.violated.ne("").any() else ""
    return f" at tight ε {ones}, δ {number(rows.delta.iloc[0])}{failed}"


# Heads on features, and fine-tuning


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
    """A printed test accuracy of a network: our mean over seeds on the features `paper` lies within `margin` of it.
    metric: accuracy, of the last iterate, or accuracy_best_epoch, of the epoch that is best on the test set.

    Not testable where there are no such features; the reason then tells what those of `stand_in` give. Contradicted if
    the whole 95 % t-interval lies further away, not reproduced if the mean alone does.
    """
    asked = Asked.near(published, margin)
    ours = _on_features(frame, paper, stand_in, where, metric)
    if ours is None:
        other = _on_features(frame, stand_in, stand_in, where)
        reason = f"there are no {words.features(paper)}, and accuracies of other networks neither confirm nor refute "
        reason += f"{percent(published)} %"
        if other is not None:
            interval = t_interval(_by_seed(other))
            text = f"{percent(interval.mean)} % {_limits(interval, len(other))}{_price(other)}"
            reason += f" (on {words.features(stand_in)} {text})"
        return not_testable(reason, asked)
    interval = t_interval(_by_seed(ours))
    holds, outside = _compared(interval, asked)
    reason = f"published {percent(published)} %, asked: within {points(margin)}; {percent(interval.mean)} %"
    reason += f" {_limits(interval, len(ours))}{_price(ours)}"
    return result(interval, judged(holds, outside), reason, ONE_SPLIT, asked=asked)


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
    """As `weighted_sum`, over the methods of one schedule; weights: method -> weight. calibration: that of the private
    ones."""
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
    """The sum of `weight` times mean accuracy over `terms` ({weight, column: value}) is above -margin, at most `most`.

    Shown if its 95 % interval (Welch-Satterthwaite: seeds are taken as independent) lies between these, the opposite if
    it lies outside. paper: features of the paper's network, or several of them, of which the first that we have counts.
    metric: as of `accuracy_on_features`, on the paper's network.
    """
    names = [paper] if isinstance(paper, str) else list(paper)
    weighted = [(float(term["weight"]), {k: v for k, v in term.items() if k != "weight"}) for term in terms]
    evidence = [_sum(frame, name, stand_in, weighted, margin, most, metric) for name in names]
    evidence.append(None if stand_in in names else _sum(frame, stand_in, stand_in, weighted, margin, most))
    if not any(evidence):
        wanted = ", ".join(_listed(where) for _, where in weighted)
        raise NoRows(f"no features on which all of {wanted} were trained")
    text = f"{what}, asked: above 0" + (f", given away {points(margin)}" if margin else "")
    text += f" and at most {points(most)}" if most < math.inf else ""
    mine = next((one for one in evidence[:-1] if one), None)
    return two_networks(mine, evidence[-1], text, asked=Asked(0.0 - margin, most))


def _sum(
    frame: pd.DataFrame,
    name: str,
    stand_in: str,
    terms: Sequence[tuple[float, Where]],
    margin: float,
    most: float,
    metric: str = "accuracy",
) -> NetworkEvidence | None:
    parts = [(weight, _on_features(frame, name, stand_in, where, metric)) for weight, where in terms]
    kept = [(weight, rows) for weight, rows in parts if rows is not None]
    if len(kept) < len(parts):
        return None
    values = [(weight, _by_seed(rows)) for weight, rows in kept]
    interval = welch(values)
    inside = interval.low > -margin and interval.high <= most
    direction = 1 if inside else -1 if interval.high < -margin or interval.low > most else 0
    each = "; ".join(
        f"{_in_words(rows, where)} {percent(_by_seed(rows).mean())} %{_price(rows)}"
        for (_, rows), (_, where) in zip(kept, terms, strict=True)
    )
    seeds = _limits(interval, *(len(v) for _, v in values))
    text = f"{words.features(name)}: {points(interval.mean, '+')} {seeds} ({each})"
    return NetworkEvidence(interval, -margin < interval.mean <= most, direction, text)


def _on_features(
    frame: pd.DataFrame, name: str, stand_in: str, where: Where, metric: str = "accuracy"
) -> pd.DataFrame | None:
    """The rows of one features, None if there are none; of images where their network is `stand_in`."""
    here = frame.dataset.eq(name) | (frame.dataset.eq(name.partition("_")[0]) & (name == stand_in))
    try:
        return _runs_where(frame[here], where, metric)
    except NoRows:
        return None


def _price(rows: pd.DataFrame) -> str:
    """What one setting costs, and whether a condition of its guarantee fails."""
    tight = float(rows.epsilon_tight.max())
    if not math.isfinite(tight):
        return ", not private"
    failed = ", a condition of its theorem is not met" if rows.violated.ne("").any() else ""
    return f" at tight ε {short(tight)}, δ {number(rows.delta.iloc[0])}{failed}"


def budget(frame: pd.DataFrame, *, where: Where, claimed: float, delta: float) -> Verdict:
    """A row that is printed as (claimed, delta)-private. low: the lower bound by an attack on a pair of records that
    the problem admits; high: the smallest proven price for replace-one neighbours, of all iterates or of the last.
    Neither is what the row costs, so that ours is nan.

    Verdict as `verdicts.promised`, of what rounds to the claim.  Rows at a larger delta, as a command has it, cost more
    at that of the claim: of them an attack alone counts."""
    rows = _runs_where(frame, where)
    prices = {
        "all iterates, replace-one": float(rows.epsilon_tight.max()),
        "the last iterate, replace-one": float(rows.epsilon_last.max()),
        ADD_REMOVE: float(rows.epsilon_add_remove.max()),
    }
    known = {name: price for name, price in prices.items() if not math.isnan(price)}
    attack = float(rows.epsilon_audit.min())
    own = [price for name, price in known.items() if name != ADD_REMOVE]
    if not own:
        raise NoRows(f"the runs with {_listed(where)} have no proven price")
    ours, most, asked = min(own), claimed * PRINTED_AS_CLAIMED, Asked(high=claimed)
    larger = float(rows.delta.iloc[0]) > delta * (1 + 1e-9)
    reason = f"ε {short(claimed)} is claimed at δ {number(delta)}; proven"
    reason += (
        f" at the larger δ {number(rows.delta.iloc[0])} of the authors' command alone: " if larger else ": "
    )
    reason += ", ".join(f"{short(price)} for {name}" for name, price in known.items())
    for column, name in (("epochs", "K = epochs"), ("steps", "K = steps")):
        price = float(rows[f"epsilon_formula_{column}"].max())
        reason += "" if math.isnan(price) else f"; by the paper's formula with {name} {short(price)}"
    if not math.isnan(attack):
        confidence = 100 * rows.audit_confidence.iloc[0]
        reason += (
            "; an attack on a pair of records that this problem admits, all others zero, shows at least "
        )
        reason += f"{short(attack)} ({confidence:g} % confidence)"
    if rows.sampling.eq("shuffled").any():
        reason += "; epochs are shuffled, and what that hides is not counted in what is proven"
    interval = Interval(math.nan, attack, ours)
    added = prices[ADD_REMOVE]
    verdict = promised(
        most, replaced=math.inf if larger else ours, added=math.inf if larger else added, attack=attack
    )
    if larger:
        reason += f"; at δ {number(delta)} each of them is more"
    elif ours > most and prices[ADD_REMOVE] <= most:
        reason += "; at this δ it is kept for add/remove neighbours only"
    return result(interval, verdict, reason, ATTACK, asked=asked)


def shared(frame: pd.DataFrame, *, where: Where, columns: Sequence[str]) -> Verdict:
    """Every row of `where` has the same value in each of `columns`, by features; ours: the number of columns and
    features in which they differ. Contradicted by one difference."""
    rows = _runs_where(frame, where)
    differ = []
    for name, part in rows.groupby("dataset"):
        for column in columns:
            values = part[["method", column]].drop_duplicates()
            if values[column].nunique(dropna=False) > 1:
                listed = words.listed(
                    [f"{words.method(row[1])} {short(row[2])}" for row in values.itertuples()]
                )
                differ.append(f"{words.column(column)} on {words.features(name)}: {listed}")
    methods = words.listed([words.method(name) for name in sorted(rows.method.unique())])
    outcome = f"differ: {'; '.join(differ)}" if differ else "are equal"
    reason = f"{words.listed([words.column(column) for column in columns])} of {methods} {outcome}"
    verdict = CONTRADICTED if differ else REPRODUCED
    return result(single(float(len(differ))), verdict, reason, EXACT, asked=Asked.near(0.0))


# Common to both


def _runs_where(frame: pd.DataFrame, where: Where, metric: str = "accuracy") -> pd.DataFrame:
    return rows_where(frame[frame.metric.eq(metric)], where, f"no run with {_listed(where)}")


def _listed(where: Where) -> str:
    """`where` in short: (equal, dp_sgld, epsilon 0.99)."""
    texts = []
    for key, value in where.items():
        text = " or ".join(map(str, value if isinstance(value, list) else [value]))
        texts.append(f"{key} {text}" if key == "epsilon" else text)
    return f"({', '.join(texts)})"


def _in_words(rows: pd.DataFrame, where: Where) -> str:
    """What rows that were picked by `where` are: DP-SGLD at a tight ε of 0.99."""
    row = rows.iloc[0]
    parts = [words.method(row.method)]
    if "block" in where or "run" in where:
        parts.append(words.BLOCKS.get(row.block, ""))
        if row.block == "equal":
            parts.append(
                f"at a tight ε of {short(row.epsilon)}" if "epsilon" in where else "at equal tight ε"
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
    """Accuracies by seed of one setting, without diverged chains; NoRows if all have diverged."""
    if rows.seed.duplicated().any():
        settings = rows[["run", "epsilon"]].drop_duplicates().to_dict("records")
        raise ValueError(f"a claim on one setting meets several, {settings}: narrow its `where`")
    values = rows.set_index("seed").value
    values = values[np.isfinite(values)]
    if values.empty:
        raise NoRows(f"every chain of {rows.run.iloc[0]} has diverged")
    return values


def _limits(interval: Interval, *seeds: int) -> str:
    """The interval in percent and the seeds behind it; says where there is none."""
    if math.isnan(interval.low):
        return "(one seed: no interval)" if max(seeds) == 1 else "(one seed on one side: no interval)"
    return f"[{percent(interval.low)}, {percent(interval.high)}] over {numbers(seeds)} seeds"
