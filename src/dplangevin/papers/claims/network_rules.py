"""Rules for claims on trained networks, on softmax regressions on features, and on fine-tuning.

For networks trained from scratch, the column `problem` names the paper's network or the small one, `small`. For the
others, `dataset` names the features. It names images for fine-tuning, whose rows count as those of `stand_in`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.papers import statistics
from dplangevin.papers.claims import verdicts
from dplangevin.papers.claims.verdicts import AskedRange, NetworkEvidence, NoRows, Verdict, Where
from dplangevin.papers.statistics import Comparison, Interval, holm, t_interval, welch, welch_p
from dplangevin.reporting import words
from dplangevin.reporting.words import at_least, at_most
from dplangevin.text import epsilon, number, numbers, percent, points, short

ADD_REMOVE = "all iterates, add/remove"
PRINTED_AS_CLAIMED = 1.005  # An ε up to this many times the claim prints as the claim, such as 1.00.


def accuracy(
    frame: pd.DataFrame, *, where: Where, published: float, margin: float, small: str = "",
    others: Mapping[str, Where] = MappingProxyType({}), reach: bool = False, paper: str = "", stand_in: str = "",
    metric: str = "accuracy",
) -> Verdict:  # fmt: skip
    """Test that our mean accuracy over seeds lies within `margin` of a printed one, or with `reach` above that.

    The opposite is shown if the whole 95 % t-interval lies outside. `others` are further settings, by their name; one
    whose guarantee fails does not make the claim hold. It is not testable without the features `paper`, if these are
    named; the reason then has the accuracy on the features `stand_in`.
    """
    asked = AskedRange.near(published, margin)
    asked = AskedRange(low=asked.low) if reach else asked
    accepted = f"from {percent(asked.low)} % up" if reach else f"within {points(margin)}"
    text, tried, held = f"published {percent(published)} %; we accept values {accepted}", "", None
    if paper:
        if ours := _near(_on_features(frame, paper, stand_in, where, metric), asked, paper):
            return verdicts.two_networks(ours, None, text, asked_range=asked)
        other = _near(_on_features(frame, stand_in, stand_in, where), asked, stand_in)
        reason = f"there are no {words.features(paper)}, and accuracies of other networks neither confirm nor refute "
        reason += f"{percent(published)} %{f' ({other.text})' if other else ''}"
        return verdicts.not_testable(reason, asked)
    rows = frame[frame.metric.eq("accuracy")]
    mine, alike = (_near(part, asked) for part in _by_network(verdicts.rows_where(rows, where), small))
    for name, setting in others.items():
        for part in _by_network(rows[statistics.matches(rows, setting)], small):
            if evidence := _near(part, asked):
                tried += f"; {name}, {evidence.text}"
                if evidence.holds and bool(statistics.trusted(part).all()):
                    held = held or evidence.interval
    return verdicts.two_networks(mine, alike, text, tried, held, asked_range=asked)


def above(
    frame: pd.DataFrame, *, first: Where, second: Where, small: str = "", margin: float = 0.0, by: str = "",
    metric: str = "accuracy",
) -> Verdict:  # fmt: skip
    """Test that a metric of `first` minus that of `second` is above -margin, by `verdicts.ordering`.

    The interval is Welch's (1947). With `by` the difference is averaged over that column's common values in each seed.
    """
    asked, sides = AskedRange.difference(margin), (first, second)
    rows = [verdicts.rows_where(frame[frame.metric.eq(metric)], where) for where in sides]
    one, two = (_by_network(part, small) for part in rows)
    evidence = [
        _weighted([(1.0, mine, first), (-1.0, theirs, second)], asked, by=by)
        for mine, theirs in zip(one, two, strict=True)
    ]
    if not any(evidence):
        raise NoRows(f"no network was trained both with {dict(first)} and with {dict(second)}")
    named = _in_words(rows, sides)
    text = f"{words.column(metric)} of {named[0]} minus that of {named[1]}; {_asks(asked)}"
    return verdicts.two_networks(evidence[0], evidence[1], text, asked_range=asked)


def _near(rows: pd.DataFrame, asked: AskedRange, name: str = "") -> NetworkEvidence | None:
    if rows.empty:
        return None
    interval = t_interval(_by_seed(rows))
    held = asked.low <= interval.mean <= asked.high
    text = f"{words.features(name or rows.problem.iloc[0])}: {percent(interval.mean)} % "
    text += f"{_limits(interval, len(rows))}{_prices(rows)}"
    return NetworkEvidence(interval, held, 1 if held else min(asked.side(interval), 0), text)


def _weighted(
    terms: Sequence[tuple[float, pd.DataFrame, Where]], asked: AskedRange, name: str = "", by: str = ""
) -> NetworkEvidence | None:
    """Return the evidence of one network on a weighted sum of means over seeds, or None if its terms share nothing.

    On features `name`, where runs may share the noise of a seed, the interval is Student's over the sums of seeds.
    """
    every = [rows for _, rows, _ in terms]
    at: list[Any] = sorted(set.intersection(*(set(rows[by]) for rows in every))) if by else [None]
    if not at or any(rows.empty for rows in every):
        return None
    each = [[(w, _by_seed(rows[rows[by].eq(value)] if by else rows)) for w, rows, _ in terms] for value in at]
    means = [
        (w, pd.concat([one[i][1] for one in each], axis=1).mean(axis=1)) for i, (w, _, _) in enumerate(terms)
    ]
    sums = pd.concat([w * value for w, value in means], axis=1).sum(axis=1, skipna=False)
    interval = t_interval(sums) if name and not sums.hasnans else welch(means)
    gaps = np.array([welch(one).mean for one in each])
    sure = bool(by) & (holm([welch_p(one, asked.low) for one in each]) <= 1 - statistics.LEVEL)
    above, below = ([*np.array(at)[sure & ((gaps > asked.low) == side)]] for side in (True, False))
    comparison = Comparison(interval, above, below, len(at), len(means[0][1]))
    direction = verdicts.DIRECTIONS[verdicts.ordering(comparison, *asked)]
    tie = not by and interval.low == interval.high == asked.low  # equal in every seed: not above
    unit = every[0].metric.str.startswith("accuracy").all()
    scale, size = (100, points(interval.mean, "+")) if unit else (1, f"{interval.mean:+.2f}")
    text = f"{words.features(name or every[0].problem.iloc[0])}: {size} "
    text += _limits(interval, *(len(value) for _, value in means), scale=scale)
    if by:
        listed = [f"{scale * gap:+.2f} at {short(float(value))}" for value, gap in zip(at, gaps, strict=True)]
        text += f", by {words.column(by)}: {', '.join(listed)}"
    else:
        names = _in_words(every, [where for *_, where in terms])
        sides = [
            f"{side} {scale * value.mean():.2f}{' %' if unit else ''}{_prices(rows)}"
            for side, rows, (_, value) in zip(names, every, means, strict=True)
        ]
        text += f" ({'; '.join(sides)}){', the same in every seed' if tie else ''}"
    return NetworkEvidence(interval, asked.low < interval.mean <= asked.high, -1 if tie else direction, text)


def _by_network(rows: pd.DataFrame, small: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the paper's network and those of the small one; either may be empty."""
    return rows[~rows.problem.eq(small)], rows[rows.problem.eq(small)]


def weighted_sum(
    frame: pd.DataFrame, *, weights: Mapping[str, float], paper: str, stand_in: str, what: str,
    column: str = "method", schedule: str = "", calibration: str = "", margin: float = 0.0, most: float = math.inf,
    metric: str = "accuracy",
) -> Verdict:  # fmt: skip
    """Test that a weighted sum of mean accuracies is above -margin and at most `most`, by its 95 % interval.

    `weights`: value of the column `column` -> its weight. `schedule`, `calibration`: of all terms, but "sgd" has no
    calibration. The features `stand_in` always use the metric "accuracy".
    """
    terms = []
    for name, weight in weights.items():
        where = {column: name, "schedule": schedule, "calibration": "" if name == "sgd" else calibration}
        terms.append((weight, {key: value for key, value in where.items() if value}))
    asked = AskedRange(0.0 - margin, most)

    def evidence(on: str, metric: str) -> NetworkEvidence | None:
        parts = [(weight, _on_features(frame, on, stand_in, where, metric), where) for weight, where in terms]
        return _weighted(parts, asked, on)

    mine, small = evidence(paper, metric), None if stand_in == paper else evidence(stand_in, "accuracy")
    if not (mine or small):
        raise NoRows(f"no features on which all of {[where for _, where in terms]} were trained")
    return verdicts.two_networks(mine, small, f"{what}; {_asks(asked)}", asked_range=asked)


def _on_features(
    frame: pd.DataFrame, name: str, stand_in: str, where: Where, metric: str = "accuracy"
) -> pd.DataFrame:
    """Return the rows of the features `name`; rows on images count where `name` is `stand_in`."""
    here = frame.dataset.eq(name) | (frame.dataset.eq(name.partition("_")[0]) & (name == stand_in))
    return frame[here & frame.metric.eq(metric) & statistics.matches(frame, where)]


def budget(
    frame: pd.DataFrame, *, where: Where, claimed: float, delta: float, tool: bool = False, start: str = ""
) -> Verdict:
    """Test a table row that is printed as (claimed, delta)-private, by `verdicts.promise`.

    An ε that rounds to the claim meets it. Where our rows have a larger delta, only the attack counts: at the printed
    delta they cost more. `start`: how the chain starts, if not as in the theorem.
    """
    rows = verdicts.rows_where(frame[frame.metric.eq("accuracy")], where)
    columns = {
        "all iterates, replace-one": "epsilon_proven",
        "the last iterate, replace-one": "epsilon_last",
        ADD_REMOVE: "epsilon_add_remove",
    }
    known = {name: float(rows[at].max()) for name, at in columns.items() if rows[at].notna().any()}
    if not (own := [price for name, price in known.items() if name != ADD_REMOVE]):
        raise NoRows(f"the runs with {dict(where)} have no proven price")
    attack, used = float(rows.epsilon_attack.min()), float(rows.delta.iloc[0])
    larger = used > delta * (1 + 1e-9)
    among = rows.attack_pair.str.contains("among the records").all()
    others = "all others those of the data set" if among else "all others zero"
    at = f" at the larger δ {number(used)} of the authors' command" if larger else ""
    said = {f"claimed ε at δ {number(delta)}:": short(claimed)}
    said |= {f"proven ε for {name}{at}:": at_most(price) for name, price in known.items()}
    said |= {
        f"ε by the paper's formula with K = {name}:": epsilon(float(rows[f"epsilon_formula_{name}"].max()))
        for name in ("epochs", "steps")
    }
    confidence = f"{100 * rows.attack_confidence.iloc[0]:g} % confidence"
    shows = (
        f"an attack ({confidence}) on a pair of records that this problem admits, {others}, shows at least"
    )
    said |= {shows: at_least(attack), f"at δ {number(delta)}": "each proven ε is more" if larger else ""}
    if rows.sampling.eq("shuffled").any():
        said["epochs are shuffled,"] = "and what that hides is not counted in what is proven"
    return verdicts.promise(
        claimed, said | {"start:": start}, replaced=min(own), added=known.get(ADD_REMOVE, math.nan), attack=attack,
        tool=tool, comparable=not larger, room=PRINTED_AS_CLAIMED,
    )  # fmt: skip


def _asks(asked: AskedRange) -> str:
    most = f" and at most {points(asked.high)}" if asked.high < math.inf else ""
    return f"the claim asks for {f'at least {points(asked.low)}' if asked.low else 'more than 0'}{most}"


def _in_words(sides: Sequence[pd.DataFrame], wheres: Sequence[Where]) -> list[str]:
    """Return in words what the rows of each side are; sides of the same name get their schedule, problem or run."""

    def named(rows: pd.DataFrame, where: Where, more: Sequence[str]) -> str:
        row, shown = rows.iloc[0], {*where, *more} | ({"block"} if "run" in where else set())
        keys = dict.fromkeys(("block", "epsilon", "calibration", "schedule", *more))
        settings = {key: row[key] for key in keys if key in shown and row[key] not in ("", "nonprivate")}
        if "variant" in where:
            variant = statistics.variant_settings(row.variant)
            settings |= {key.rpartition(".")[2]: value for key, value in variant.items()}
        return words.method(row.method) + (f" ({words.variant(settings)})" if settings else "")

    found: list[str] = []
    for more in ((), ("schedule",), ("problem",), ("schedule", "problem", "run")):
        found = [named(rows, where, more) for rows, where in zip(sides, wheres, strict=True)]
        if len({*found}) == len(found):
            break
    return found


def _prices(rows: pd.DataFrame) -> str:
    replaced = "epsilon_replace_one" if rows.epsilon_replace_one.notna().any() else "epsilon_proven"
    columns = {"epsilon_add_remove": "add/remove", replaced: "replace-one"}
    largest = {name: float(rows[column].max()) for column, name in columns.items()}
    if np.isinf([*largest.values()]).any():
        return ", not private"
    ones = ", ".join(f"{at_most(price)} {name}" for name, price in largest.items() if not math.isnan(price))
    failed = ", a condition of its guarantee fails" if rows.violated.ne("").any() else ""
    return f" at proven ε {ones or 'unknown'}, δ {number(rows.delta.iloc[0])}{failed}"


def _by_seed(rows: pd.DataFrame) -> pd.Series:
    if rows.seed.duplicated().any():
        settings = rows[["run", "epsilon"]].drop_duplicates().to_dict("records")
        raise ValueError(f"a claim on one setting meets several, {settings}: narrow its `where`")
    values = rows.set_index("seed").value
    values = values[np.isfinite(values)]
    if values.empty:
        raise NoRows(f"every chain of {rows.run.iloc[0]} has diverged")
    return values


def _limits(interval: Interval, *seeds: int, scale: int = 100) -> str:
    if math.isnan(interval.low):
        return "(one seed: no interval)" if max(seeds) == 1 else "(one seed on one side: no interval)"
    return f"[{scale * interval.low:.2f}, {scale * interval.high:.2f}] over {numbers(seeds)} seeds"
