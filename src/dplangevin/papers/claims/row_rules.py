"""Rules for claims on the rows of an analysis: values in a range, exponents, intervals and promised ε.

`where` picks rows. The claim asks for values within `bounds` (None: an open end). `what` names the quantity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.papers.claims import verdicts
from dplangevin.papers.claims.verdicts import AskedRange, Bounds, Verdict, Where, rows_where, within
from dplangevin.papers.statistics import Interval, power_law
from dplangevin.reporting import words
from dplangevin.reporting.words import at_least, at_most
from dplangevin.text import epsilon, short

LIMITS = ["value", "low", "high"]
# columns that name the case of an exact value, and their names where `words.COLUMNS` has others
SETTINGS = ("batch", "schedule", "case", "condition", "step", "records", "steps")
SYMBOLS = {"case": "", "condition": "β/λ", "step": "ηβ", "records": "n", "steps": "K"}


def inside(
    frame: pd.DataFrame, *, column: str, bounds: Bounds, where: Where = MappingProxyType({}), what: str = "",
    strict: bool = False, more: bool = False, measure: str = verdicts.RANGE, ours: str = "median", smallest: str = "",
    over: Where | None = None, keys: Sequence[str] = (), x: str = "", by: Sequence[str] = (),
    others: Where | str | None = None, choice: str = "another choice", query: str = "", names: str = "",
    numbers: Callable[[pd.DataFrame], pd.DataFrame] | None = None, dataset: str = "",
) -> Verdict:  # fmt: skip
    """Test by `verdicts.within` all values of a column; with `over` their ratios, with `x` their exponents.

    - `column`: A column, or a formula of columns. `numbers`: Makes the rows of the frame. `query`: Narrows `where`.
    - `measure`: What the values are, one of `verdicts.MEASURES`. `names`: The column that names them in the reason.
    - `smallest`: A column. Only rows at its smallest value count, which stands for a limit, such as a step size.
    - `over`: Rows that the rows `where` are divided by, matched on `keys`.
    - `x`: A positive variable. An exponent is the slope on log scales between neighbouring x in each group `by`.
    - `others`: Rows, or the column, that hold the values under another `choice`.
    """
    frame = numbers(frame) if numbers else frame

    def limit(where: Where) -> pd.DataFrame:
        rows = rows_where(frame, where)
        rows = rows.query(query) if query else rows
        rows = rows[rows[smallest].eq(rows[smallest].min())] if smallest else rows
        return rows.set_axis(rows[names].map(words.features)) if names else rows

    rows, asked, name = limit(where), AskedRange.within(bounds), what or words.column(column) or "values"
    values: Any = rows.eval(column)
    lacking = f"no row of {dict(where)} has {query}"
    if over is not None:
        pairs = rows.merge(rows_where(frame, over), on=list(keys), suffixes=("_top", "_bottom"))
        values = pairs[f"{column}_top"] / pairs[f"{column}_bottom"]
        pairs, values = pairs[values.notna()], values.dropna()
        lacking = f"no rows of {dict(where)} and {dict(over)} share {', '.join(keys)}"
        if len(values):
            largest = words.named(dict(pairs.iloc[int(values.argmax())]), keys)
            name = f"{what or f'ratio of {name}'}, largest at {largest}"
    elif x:
        values = pd.Series(log_slopes(rows.dropna(subset=[column]), x, column, by), dtype=float)
        name, lacking = what or f"exponent of {name}", f"no two values of {x} to compare in {dict(where)}"
    if values.empty:
        return verdicts.not_testable(lacking, asked)
    name += f" at {words.column(smallest)} {rows[smallest].min():g}" if smallest else ""
    elsewhere = {}
    if others is not None:
        elsewhere = {choice: rows[others] if isinstance(others, str) else limit(others)[column]}
    return within(values, asked, name, measure, ours, strict=strict, more=more, others=elsewhere)


def log_slopes(frame: pd.DataFrame, x: str, y: str, by: Sequence[str]) -> list[float]:
    """Return the slopes of ln y (its median at each x) in ln x between neighbouring x of each group."""
    slopes: list[float] = []
    for _, rows in frame.groupby(list(by), dropna=False):
        medians = rows.groupby(x)[y].median()
        slopes += (np.diff(np.log(medians)) / np.diff(np.log(medians.index))).tolist()
    return slopes


def holds(frame: pd.DataFrame, *, where: Where, what: str) -> Verdict:
    """Test that no exact value exceeds its bound (columns `exact` and `bound`); ours is the largest of exact/bound."""
    rows = rows_where(frame, where).reset_index(drop=True)
    ratios = rows.exact / rows.bound
    at = words.named(dict(rows.iloc[int(ratios.argmax())]), SETTINGS, SYMBOLS)
    return within(ratios, AskedRange(high=1.0), f"{what}, largest at {at}", ours="max", strict=True)


def computed(
    frame: pd.DataFrame, *, formulas: str | Mapping[str, str], what: str, bounds: Bounds = (None, None),
    published: float = math.nan, given: Where = MappingProxyType({}), others: Mapping[str, str] = MappingProxyType({}),
    digits: int = 0, strict: bool = False, more: bool = False, measure: str = verdicts.EXACT, refutes: bool = True,
    dataset: str = "",
) -> Verdict:  # fmt: skip
    """Test by `verdicts.within` the value of one formula (`pandas.eval`), or the values of several, by name.

    - `given`: Name in the formulas -> number. `others`: Other choice -> its formula.
    - `refutes`: False if the claim may mean other numbers. A value outside the range then leaves the claim open.
    """

    def value(formula: str) -> float:
        number: Any = pd.eval(formula, local_dict=dict(given))
        return float(number)

    values = value(formulas) if isinstance(formulas, str) else pd.Series([*map(value, formulas.values())])
    asked = AskedRange.within(bounds) if math.isnan(published) else AskedRange.near(published)
    each = {name: value(formula) for name, formula in others.items()}
    found = within(values, asked, what, measure, "min", strict=strict, more=more, digits=digits, others=each)
    if found["verdict"] == verdicts.FAILS and not refutes:
        return found | {"verdict": verdicts.OPEN, "cause": verdicts.ABSENT}
    return found


def covered(
    frame: pd.DataFrame, *, where: Where, bounds: Bounds, what: str = "", over: Where | None = None,
    keys: Sequence[str] = (), x: str = "", first: float = 0.0,
) -> Verdict:  # fmt: skip
    """Test by `verdicts.covered` the 95 % interval of each row, or with `x` of the exponent of all in x >= `first`.

    With `over`, rows are divided by those rows, matched on `keys`: the lower end by the upper end and the reverse.
    """
    rows, asked = rows_where(frame, where).dropna(subset=LIMITS), AskedRange.within(bounds)
    if x:
        rows = rows[rows[x].ge(first)]
        if rows[x].nunique() < 2:
            return verdicts.not_testable(
                f"no two values of {x} from {first:g} to fit in {dict(where)}", asked
            )
        span = f"from {rows[x].min():g} to {rows[x].max():g}"
        what = f"exponent over {len(rows)} values of the {words.column(x) or 'variable'} {span}"
        return verdicts.covered([power_law(rows, x)], asked, what)
    values = rows[LIMITS].to_numpy(float)
    if over is not None:
        divisors = rows_where(frame, over).dropna(subset=LIMITS)
        pairs = rows.merge(divisors, on=list(keys), suffixes=("", "_over"))
        values = pairs[LIMITS].div(pairs[["value_over", "high_over", "low_over"]].to_numpy()).to_numpy(float)
    return verdicts.covered([Interval(*row) for row in values], asked, what)


def nearer_to_one(
    frame: pd.DataFrame, *, first: Where, second: Where, keys: Sequence[str], what: str
) -> Verdict:
    """Test by 95 % intervals that in each group of `keys` the rows `first` stay nearer to 1 than the rows `second`."""
    nearer, further = (rows_where(frame, where).dropna(subset=LIMITS) for where in (first, second))
    groups, ratios = dict(list(further.groupby(list(keys)))), []
    for name, rows in nearer.groupby(list(keys)):
        near, far = _distance(rows), _distance(groups[name])
        over = zip(near, (far.mean, far.high, far.low), strict=True)
        ratios.append(Interval(*(top / bottom if bottom else math.inf for top, bottom in over)))
    return verdicts.covered(ratios, AskedRange(high=1.0), what, max(ratios))


def _distance(rows: pd.DataFrame) -> Interval:
    """Return the largest |value - 1|, with its smallest and largest possible size within the intervals."""
    ends = rows[["low", "high"]].to_numpy(float)
    least = max(max(low - 1, 1 - high, 0.0) for low, high in ends)
    return Interval(float((rows.value - 1).abs().max()), least, float(np.abs(ends - 1).max()))


def together(frame: pd.DataFrame, *, first: str, second: str, small: float, large: float) -> Verdict:
    """Test that two kinds of values are in each case, at the largest x, both <= `small` or both >= `large`."""
    last = frame[frame.x.eq(rows_where(frame, {"kind": first}).x.max())]
    pairs = rows_where(last, {"kind": first}).merge(rows_where(last, {"kind": second}), on="case")
    values = pairs[["value_x", "value_y"]]
    low, high = values.min(axis=1), values.max(axis=1)
    alike, opposite = high.le(small) | low.ge(large), low.le(small) & high.ge(large)
    named = ", ".join(f"{row.case} {row.value_x:.2g} and {row.value_y:.2g}" for row in pairs.itertuples())
    reason = (
        f"at n = {last.x.max():g}, the chances that a posterior sample and that the posterior miss: {named}"
    )
    verdict = verdicts.decide(bool(alike.all()), bool(opposite.any()))
    return verdicts.result(float((high - low).max()), verdict, reason, verdicts.EXACT)


def without_test(frame: pd.DataFrame, *, reason: str) -> Verdict:
    """Return "not testable" with a reason."""
    return verdicts.not_testable(reason)


def guarantee(frame: pd.DataFrame, *, id: str) -> Verdict:
    """Test a printed (ε, δ) of `privacy_claims` by its exact ε, or else by attack ε (or a pair's) and proven ε."""
    row = rows_where(frame, {"id": id}).iloc[0]
    claimed, replaced, exact = row.epsilon_claimed, row.epsilon_replace_one, bool(row.tight)
    if pd.isna(row.mechanism):
        return verdicts.not_testable(row.note, AskedRange(high=claimed))
    kind, bound = ("exact ε", epsilon) if exact else ("proven ε", at_most)
    runs = f"an attack (95 % confidence, {short(row.attack_runs)} runs) on the theorem's hypotheses shows at least"
    shows = runs if row.attack_runs else "one pair that the theorem's hypotheses admit costs at least"
    said = {
        "claimed ε:": epsilon(claimed),
        f"{kind} for replace-one neighbours:": bound(replaced),
        f"{kind} for add/remove neighbours:": bound(row.epsilon_add_remove),
        f"ε by the paper's formula ({row.formula}):": epsilon(row.epsilon_formula),
        shows: at_least(row.epsilon_attack),
        f"for add/remove neighbours, {shows}": at_least(row.epsilon_attack_add_remove or math.nan),
        "it would hold for": row.solved if replaced > claimed else "",
        "priced:": row.mechanism,
        "chosen:": row.chosen,
        "note:": row.note,
    }
    return verdicts.promise(
        claimed, said, replaced=replaced, added=row.epsilon_add_remove, attack=row.epsilon_attack,
        attack_added=row.epsilon_attack_add_remove, elsewhere=row.epsilon_solved if row.rescued else math.nan,
        exact=exact, pair=not row.attack_runs, tool=row.formula_adjacency == "add_remove",
    )  # fmt: skip


def bracketed(
    frame: pd.DataFrame, *, where: Where, claimed: str, proven: str, attack: str, keys: Sequence[str]
) -> Verdict:
    """Test a promised ε between an attack ε and a proven ε (values of the column `quantity`) in all settings `keys`.

    It holds if it is at least the proven ε in all of them, and fails if an attack exceeds it in one.
    """
    rows = rows_where(frame, where)
    wide = rows.pivot_table(index=list(keys), columns="quantity", values="epsilon", aggfunc="first")
    below, above = wide[attack] / wide[claimed], wide[proven] / wide[claimed]
    said = {
        "claimed ε:": f"{short(wide[claimed].min())} to {short(wide[claimed].max())} in {len(wide)} settings",
        "largest ε that an attack shows (95 % confidence), over the claimed:": at_least(float(below.max())),
        "proven ε over the claimed:": f"{above.min():.2g} to {above.max():.3g}",
        "settings in which the claimed ε is proven:": str(int((above <= 1).sum())),
    }
    found = verdicts.promise(1.0, said, replaced=float(above.max()), attack=float(below.max()))
    return found | {"ours": found["high"]}


def printed(
    frame: pd.DataFrame, *, where: Where, column: str, published: float, digits: int = 0, margin: float = 0.0,
    query: str = "", what: str = "", others: Where | None = None, names: Sequence[str] = (), dataset: str = "",
) -> Verdict:  # fmt: skip
    """Test a printed number by recomputing it in one row: both agree to `digits` significant digits, or to `margin`.

    It holds in part if a row of `others` agrees, which hold it under other choices. The reason names a row by its
    columns `names`.
    """
    rows = rows_where(frame, where)
    rows = rows.query(query) if query else rows
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows have {dict(where)}: a printed number needs one")
    ours, rest = float(rows[column].iloc[0]), rows.iloc[:0] if others is None else rows_where(frame, others)
    choices: dict[str, float] = {}
    for _, row in rest.dropna(subset=[column]).iterrows():
        name = words.named(dict(row), names) or "another choice"
        same = sum(one.partition(" (no. ")[0] == name for one in choices)
        choices[f"{name} (no. {same + 1})" if same else name] = float(row[column])
    name, asked = what or words.column(column) or "ours", AskedRange.near(published, margin)
    found = within(ours, asked, name, strict=True, digits=digits, others=choices)
    return found | ({"measure": verdicts.RANGE} if choices and found["verdict"] == verdicts.FAILS else {})
