"""Rules for claims on trained networks: test accuracies, and one method above another.

What a rule finds on the paper's network and on a small one is judged by `sides.verdict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dplangevin.claims import NoRows, Verdict
from dplangevin.claims.sides import Side, limits, percent, points, prices, verdict, welch
from dplangevin.comparison import t_interval
from dplangevin.exhibits.style import short

Where = Mapping[str, Any]


def select(frame: pd.DataFrame, where: Where) -> pd.DataFrame:
    """The rows in which every column of `where` has its value, or one of its values. NoRows if there are none."""
    rows = frame
    for column, value in where.items():
        rows = rows[rows[column].isin(value if isinstance(value, list) else [value])]
    if rows.empty:
        raise NoRows(f"no run with {said(where)}")
    return rows


def said(where: Where) -> str:
    """`where` in short: (equal, dp_sgld, epsilon 0.99)."""
    words = {
        key: " or ".join(map(str, value if isinstance(value, list) else [value]))
        for key, value in where.items()
    }
    return f"({', '.join(f'{key} {text}' if key == 'epsilon' else text for key, text in words.items())})"


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
    setting of each network. small: the name of the small network. others: name -> `where` of other settings to try.
    """
    rows = select(frame, where)
    paper, stand_in = (_cell(part, published, margin) for part in _networks(rows, small))
    text, tries = f"published {percent(published)}, asked: within {points(margin)}", ""
    held = []
    for name, other in (others or {}).items():
        try:
            tried = [_cell(part, published, margin) for part in _networks(select(frame, other), small)]
        except NoRows:
            continue
        tries += "".join(f"; {name}, {side.text}" for side in tried if side)
        held += [name for side in tried if side and side.holds]
    return verdict(paper, stand_in, text, tries, bool(held))


def above(
    frame: pd.DataFrame, *, first: Where, second: Where, small: str = "", margin: float = 0.0, by: str = ""
) -> Verdict:
    """The accuracy of `first` less that of `second` is above -margin; margin: given away, in [0, 1).

    Shown if the 95 % interval of the difference (Welch, seeds are independent) lies above -margin and that of no single
    value of `by` lies below it; the opposite if it lies below. by: a column on whose common values the two are
    compared, averaged over them within each seed; else each is one setting of each network. small: as for `accuracy`.
    """
    sides = [_networks(select(frame, where), small) for where in (first, second)]
    found = [_ordered(one, two, margin, by) for one, two in zip(*sides, strict=True)]
    if not any(found):
        raise NoRows(f"no network was trained both with {said(first)} and with {said(second)}")
    bar = f"at most {points(margin)} below" if margin else "above it"
    text = f"accuracy of {said(first)} less that of {said(second)}, asked: {bar}"
    return verdict(found[0], found[1], text)


def _networks(rows: pd.DataFrame, small: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the paper's network and of the small one; either may be empty."""
    rest = rows[~rows.network.eq(small)]
    if rest.network.nunique() > 1:
        raise ValueError(
            f"several networks {sorted(rest.network.unique())} beside {small!r}: name one in `where`"
        )
    return rest, rows[rows.network.eq(small)]


def _seeds(rows: pd.DataFrame) -> pd.Series:
    """Accuracies by seed of one setting."""
    if rows.seed.duplicated().any():
        settings = rows[["run", "epsilon"]].drop_duplicates().to_dict("records")
        raise ValueError(f"a claim on one setting meets several, {settings}: narrow its `where`")
    return rows.set_index("seed").accuracy


def _cell(rows: pd.DataFrame, published: float, margin: float) -> Side | None:
    if rows.empty:
        return None
    interval = t_interval(_seeds(rows))
    outside = interval.low > published + margin or interval.high < published - margin
    holds = abs(interval.mean - published) <= margin
    text = f"{rows.network.iloc[0]}: {percent(interval.mean)} {limits(interval, len(rows))}{prices(rows)}"
    return Side(interval, holds, 1 if holds else -1 if outside else 0, text)


def _ordered(one: pd.DataFrame, two: pd.DataFrame, margin: float, by: str) -> Side | None:
    if one.empty or two.empty:
        return None
    at: list[Any] = [None]
    if by:
        at = sorted(set(one[by]) & set(two[by]))
        if not at:
            return None
        one, two = one[one[by].isin(at)], two[two[by].isin(at)]
    pairs = [
        tuple(_seeds(rows if value is None else rows[rows[by].eq(value)]) for rows in (one, two))
        for value in at
    ]
    each = [welch(first, second) for first, second in pairs]
    means = [pd.concat([pair[side] for pair in pairs], axis=1).mean(axis=1) for side in (0, 1)]
    interval = welch(means[0], means[1])
    below = [value for value, one_of in zip(at, each, strict=True) if one_of.high < -margin]
    proven = 1 if interval.low > -margin and not below else -1 if interval.high < -margin else 0
    text = f"{one.network.iloc[0]}: {points(interval.mean, '+')} {limits(interval, len(means[0]), len(means[1]))}"
    if by:
        listed = ", ".join(
            f"{100 * one_of.mean:+.2f} at {short(float(value))}"
            for value, one_of in zip(at, each, strict=True)
        )
        text += f", by {by}: {listed}"
    else:
        text += f" ({percent(means[0].mean())}{prices(one)}; {percent(means[1].mean())}{prices(two)})"
    return Side(interval, interval.mean > -margin, proven, text)
