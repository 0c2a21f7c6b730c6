"""Rules for claims on the rows of an analysis: values in a range, exponents, intervals and promised ε.

A rule takes rows and a question, and returns a `Verdict`. `where` picks rows (column -> value, or a list of values).
The claim asks for values within `bounds` (None: an open end). `what` names the tested quantity in the reason. Where a
rule uses several rows, ours is their median; low and high are their extremes, not a confidence interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from dplangevin.papers.claims import verdicts
from dplangevin.papers.claims.verdicts import AskedRange, Bounds, Verdict, Where, decide, result, rows_where
from dplangevin.papers.statistics import Interval, power_law
from dplangevin.reporting import words
from dplangevin.reporting.words import at_least, at_most
from dplangevin.text import short

LIMITS = ["value", "low", "high"]
ROUNDING = 1e-9  # relative rounding error that is allowed in exact values


def inside(
    frame: pd.DataFrame, *, where: Where, column: str, bounds: Bounds, what: str = "", strict: bool = False,
    measure: str = verdicts.RANGE, smallest: str = "", over: Where | None = None, keys: Sequence[str] = (), x: str = "",
    by: Sequence[str] = (), others: Where | None = None, choice: str = "",
) -> Verdict:  # fmt: skip
    """Test that all values of a column lie in the bounds; with `over` their ratios, with `x` their exponents.

    The claim fails if no value lies in the bounds, or with `strict` if one does not. It holds in part if all rows of
    `others` do, which hold the values under another `choice`.

    - `measure`: What the values are, one of `verdicts.MEASURES`.
    - `smallest`: A column. Only rows at its smallest value count, which stands for a limit, such as a step size.
    - `over`: Rows that the rows `where` are divided by, matched on `keys`.
    - `x`: A positive variable. An exponent is the slope on log scales between neighbouring x in each group `by`.
    """
    rows, asked = _limit(rows_where(frame, where), smallest), AskedRange.within(bounds)
    values, label = rows[column], words.column(column)
    if over is not None:
        pairs = rows.merge(rows_where(frame, over), on=list(keys), suffixes=("_top", "_bottom"))
        pairs = pairs.dropna(subset=[f"{column}_top", f"{column}_bottom"])
        if pairs.empty:
            reason = f"no rows of {dict(where)} and {dict(over)} share {', '.join(keys)}"
            return verdicts.not_testable(reason, asked)
        values = pairs[f"{column}_top"] / pairs[f"{column}_bottom"]
        largest = words.named(dict(pairs.iloc[int(values.argmax())]), keys)
        name = f"{what or f'ratio of {label}'}, largest at {largest}"
    elif x:
        values = pd.Series(log_slopes(rows.dropna(subset=[column]), x, column, by), dtype=float)
        if values.empty:
            return verdicts.not_testable(f"no two values of {x} to compare in {dict(where)}", asked)
        name = what or (f"exponent of the {label} in the {words.column(x)}" if label else "exponent")
    else:
        name = what or label or "values"
        name += f" at {words.column(smallest)} {rows[smallest].min():g}" if smallest else ""
    held, n = int(values.between(*asked).sum()), len(values)
    reason = f"{name}: {_span(values)} in {_cases(n)}; the claim asks for {asked}; {held} of {n} hold"
    verdict = decide(held == n, strict or held == 0)
    if verdict == verdicts.FAILS and others is not None:
        rest = _limit(rows_where(frame, others), smallest)[column]
        reason += f"; {choice}: {_span(rest)}"
        if rest.between(*asked).all():
            verdict, values, reason = verdicts.IN_PART, rest, verdicts.NOT_BY_DEFAULT + reason
    return result(verdicts.extremes(values), verdict, reason, measure, asked)


def log_slopes(frame: pd.DataFrame, x: str, y: str, by: Sequence[str]) -> list[float]:
    """Return the slopes of ln y (its median at each x) in ln x between neighbouring x of each group."""
    slopes: list[float] = []
    for _, rows in frame.groupby(list(by), dropna=False):
        medians = rows.groupby(x)[y].median()
        slopes += (np.diff(np.log(medians)) / np.diff(np.log(medians.index))).tolist()
    return slopes


def exponent(frame: pd.DataFrame, *, where: Where, x: str, bounds: Bounds, first: float) -> Verdict:
    """Test that the 95 % interval of the exponent of the column "value" in x >= `first` lies in the bounds."""
    rows, asked = rows_where(frame, where), AskedRange.within(bounds)
    rows = rows[rows[x].ge(first)].dropna(subset=["value"])
    if rows[x].nunique() < 2:
        reason = f"no two values of {x} from {first:g} to fit an exponent to in {dict(where)}"
        return verdicts.not_testable(reason, asked)
    slope = power_law(rows, x)
    limits = f"95 % interval {slope.low:.3f} to {slope.high:.3f}"
    span = f"{words.column(x) or 'variable'} from {rows[x].min():g} to {rows[x].max():g}"
    reason = f"the exponent is {slope.mean:.3f} ({limits}), fitted over {len(rows)} values of the {span}; "
    reason += f"the claim asks for {asked}; the value goes from {rows.value.iloc[0]:.3g} to {rows.value.iloc[-1]:.3g}"
    verdict = decide(asked.side(slope) == 1, asked.side(slope) == -1)
    return result(slope, verdict, reason, verdicts.INTERVAL, asked)


def holds(frame: pd.DataFrame, *, where: Where, what: str) -> Verdict:
    """Test that no exact value exceeds its bound (columns `exact` and `bound`); ours is the largest of exact/bound."""
    rows = rows_where(frame, where).reset_index(drop=True)
    ratios = rows.exact / rows.bound
    worst, above = dict(rows.iloc[int(ratios.argmax())]), int((ratios > 1 + ROUNDING).sum())
    texts = {"batch": "batch {}", "schedule": "{} steps", "case": "{}"}
    at = [
        text.format(worst[key]) for key, text in texts.items() if isinstance(worst[key], str) and worst[key]
    ]
    sizes = {"condition": "β/λ", "step": "ηβ", "records": "n", "steps": "K"}
    at += [f"{name} {short(worst[key])}" for key, name in sizes.items() if not math.isnan(worst[key])]
    reason = (
        f"{what}: {ratios.min():.3g} to {ratios.max():.3g} in {_cases(len(rows), 'exact ')}, above 1 in "
        f"{above}; largest at {', '.join(at)}: {short(worst['exact'])} against {short(worst['bound'])}"
    )
    verdict = decide(above == 0, True)
    return result(verdicts.extremes(ratios, "max"), verdict, reason, verdicts.EXACT, AskedRange(high=1.0))


def best_at(
    frame: pd.DataFrame, *, where: Where, x: str, column: str, published: float, within: float, what: str
) -> Verdict:
    """Test that the largest of the exact values lies within a distance of the printed x."""
    rows, asked = rows_where(frame, where).sort_values(x), AskedRange.near(published, within)
    if len(rows) < 3:
        return verdicts.not_testable(f"fewer than three values of {x} to compare", asked)
    best = rows.iloc[int(rows[column].argmax())]
    each = ", ".join(f"{row[column]:.3g} at {short(float(row[x]))}" for _, row in rows.iterrows())
    ours = float(best[x])
    reason = f"{what} is largest, {best[column]:.4g}, at {short(ours)} of {len(rows)} values; {each}"
    verdict = decide(asked.low <= ours <= asked.high, True)
    return result(ours, verdict, reason, verdicts.EXACT, asked)


def covered(
    frame: pd.DataFrame, *, where: Where, bounds: Bounds, what: str, over: Where | None = None, keys: Sequence[str] = ()
) -> Verdict:  # fmt: skip
    """Test that the 95 % interval of each row lies in the bounds; the claim fails if every interval lies outside.

    With `over`, rows are divided by those rows, matched on `keys`: the lower end by the upper end and the reverse (at
    least 90 %). ours, low, high: the row whose interval reaches furthest from the middle of the bounds.
    """
    rows, asked = rows_where(frame, where).dropna(subset=LIMITS), AskedRange.within(bounds)
    values = rows[LIMITS].to_numpy(float)
    if over is not None:
        divisors = rows_where(frame, over).dropna(subset=LIMITS)
        pairs = rows.merge(divisors, on=list(keys), suffixes=("", "_over"))
        crossed = pairs[["value_over", "high_over", "low_over"]].to_numpy(float)
        values = pairs[LIMITS].to_numpy(float) / crossed
    intervals, (low, high) = [Interval(*row) for row in values], asked
    sides = [asked.side(one) for one in intervals]
    middle = (low + high) / 2 if math.isfinite(low + high) else low if math.isfinite(low) else high
    far = max(intervals, key=lambda one: max(abs(one.low - middle), abs(one.high - middle)))
    reason = (
        f"{what}: 95 % interval within [{low:g}, {high:g}] for {sides.count(1)} of {len(sides)}, outside it for "
        f"{sides.count(-1)}; the furthest {far.mean:.3g} [{far.low:.3g}, {far.high:.3g}]"
    )
    return result(far, decide(set(sides) == {1}, set(sides) == {-1}), reason, verdicts.INTERVAL, asked)


def nearer_to_one(
    frame: pd.DataFrame, *, first: Where, second: Where, keys: Sequence[str], what: str
) -> Verdict:
    """Test that in each group `keys` the values of `first` are nearer to 1 than those of `second`, with 95 % intervals.

    ours: the largest distance of `first` from 1 over that of `second`, in the group where this ratio is largest.
    """
    nearer, further = (rows_where(frame, where).dropna(subset=LIMITS) for where in (first, second))
    groups, ratios = dict(list(further.groupby(list(keys)))), []
    for name, rows in nearer.groupby(list(keys)):
        near, far = _distance(rows), _distance(groups[name])
        over = zip(near, (far.mean, far.high, far.low), strict=True)
        ratios.append(Interval(*(top / bottom if bottom else math.inf for top, bottom in over)))
    ours, n = max(ratios, key=lambda ratio: ratio.mean), len(ratios)
    shown, opposite = sum(ratio.high < 1 for ratio in ratios), sum(ratio.low > 1 for ratio in ratios)
    reason = (
        f"{what}: below 1 beyond the 95 % intervals in {shown} of {n} comparisons, above it in {opposite}; the largest "
        f"{ours.mean:.3g} [{ours.low:.3g}, {ours.high:.3g}]"
    )
    return result(ours, decide(shown == n, opposite == n), reason, verdicts.INTERVAL, AskedRange(high=1.0))


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
    verdict = decide(bool(alike.all()), bool(opposite.any()))
    named = ", ".join(f"{row.case} {row.value_x:.2g} and {row.value_y:.2g}" for row in pairs.itertuples())
    reason = (
        f"at n = {last.x.max():g}, the chances that a posterior sample and that the posterior miss: {named}"
    )
    return result(float((high - low).max()), verdict, reason, verdicts.EXACT)


def without_test(frame: pd.DataFrame, *, reason: str) -> Verdict:
    """Return "not testable" with a reason."""
    return verdicts.not_testable(reason)


# Promised ε and printed numbers


def guarantee(frame: pd.DataFrame, *, id: str) -> Verdict:
    """Test a printed (ε, δ) of the analysis `privacy_claims` by its exact ε, or else by attack ε and proven ε.

    The numbers are those that decide: for replaced records, for added or removed ones if the promise holds for these
    alone, or with the settings at which it holds. ours: the exact ε, or nan. low: the attack ε, or the exact ε of one
    pair. high: the proven ε.
    """
    row = rows_where(frame, {"id": id}).iloc[0]
    claimed, replaced, added = row.epsilon_claimed, row.epsilon_replace_one, row.epsilon_add_remove
    attack, attack_added = row.epsilon_attack, row.epsilon_attack_add_remove
    exact, elsewhere, asked = bool(row.tight), bool(row.rescued), AskedRange(high=claimed)
    if pd.isna(row.mechanism):
        return verdicts.not_testable(row.note, asked)
    reason = _prices(row, "exact" if exact else "proven", short if exact else at_most)
    known, tool = replaced if exact else attack, row.formula_adjacency == "add_remove"
    verdict = verdicts.promise_verdict(
        claimed, replaced=replaced, added=added, shown=known, tool=tool, elsewhere=elsewhere
    )
    price, low, cause = replaced, attack, ""
    if verdict == verdicts.HOLDS:
        reason += f"; the claim is {claimed / replaced:.2g} times what it costs"
    elif verdict == verdicts.IN_PART and elsewhere:
        price, low, reason = row.epsilon_solved, math.nan, verdicts.NOT_BY_DEFAULT + reason
    elif verdict == verdicts.IN_PART:
        price, low, cause = added, attack_added, verdicts.ADDED
        reason = f"{verdicts.NOT_BY_DEFAULT}{reason}; it holds for add/remove neighbours only"
    elif added <= claimed:
        reason += "; at this ε and δ it holds for add/remove neighbours"
    elif (added if exact else attack_added) > claimed:
        reason += "; it fails for add/remove neighbours, too"
    solved = row.solved if replaced > claimed else math.nan
    texts = {"it would hold for ": solved, "priced: ": row.mechanism, "chosen: ": row.chosen, "": row.note}
    reason += "".join(f"; {what}{text}" for what, text in texts.items() if pd.notna(text) and text)
    if exact:
        return result(price, verdict, reason, verdicts.EXACT, asked, cause)
    measure = verdicts.ATTACK if row.attack_runs or math.isnan(low) else verdicts.PAIR
    return result(Interval(math.nan, low, price), verdict, reason, measure, asked, cause)


def _prices(row: pd.Series, kind: str, shown: Callable[[float], str]) -> str:
    """Return in words what a guarantee costs by accountants of a `kind`, by the paper's formula and by an attack."""
    added, attack, attack_added = row.epsilon_add_remove, row.epsilon_attack, row.epsilon_attack_add_remove
    text = f"ε {short(row.epsilon_claimed)} is claimed, the {kind} ε is {shown(row.epsilon_replace_one)} for "
    text += "replace-one neighbours" + ("" if math.isnan(added) else f" and {shown(added)} for add/remove")
    if not math.isnan(row.epsilon_formula):
        text += f", that of the paper's formula {short(row.epsilon_formula)} ({row.formula})"
    if math.isnan(attack):
        return text
    if row.attack_runs:
        text += f"; an attack on the theorem's hypotheses shows at least {at_least(attack)} "
        text += f"(95 % confidence, {short(row.attack_runs)} runs)"
    else:
        text += f"; one pair that the theorem's hypotheses admit costs at least {at_least(attack)}"
    return text + (f", and {at_least(attack_added)} for add/remove" if attack_added > 0 else "")


def bracketed(
    frame: pd.DataFrame, *, where: Where, claimed: str, proven: str, attack: str, keys: Sequence[str]
) -> Verdict:
    """Test a promised ε between an attack ε and a proven ε.

    It holds if in all settings `keys` it is at least the proven ε, and fails if an attack exceeds it in one.
    `claimed`, `proven` and `attack` (95 % confidence) are values of the column `quantity`. ours, high: the largest
    proven/claimed; low: the largest attack/claimed.
    """
    rows = rows_where(frame, where)
    wide = rows.pivot_table(index=list(keys), columns="quantity", values="epsilon", aggfunc="first")
    below, above = wide[attack] / wide[claimed], wide[proven] / wide[claimed]
    holding, largest = int((above <= 1).sum()), float(below.max())
    reason = (
        f"in {len(wide)} settings the claimed ε is {short(wide[claimed].min())} to {short(wide[claimed].max())}; an "
        f"attack shows at most {largest:.2g} of it, and it is proven in {holding}: what we can prove is "
        f"{above.min():.2g} to {above.max():.3g} times as much"
    )
    interval = Interval(float(above.max()), largest, float(above.max()))
    verdict = decide(holding == len(wide), largest > 1)
    return result(interval, verdict, reason, verdicts.ATTACK, AskedRange(high=1.0))


def printed(
    frame: pd.DataFrame, *, where: Where, column: str, published: float, digits: int, others: Where | None = None,
    names: Sequence[str] = (),
) -> Verdict:  # fmt: skip
    """Test a printed number by recomputing it in one row: it holds if both agree to the printed significant digits.

    It holds in part if a row of `others` agrees, which hold it under other choices. The reason names a row by its
    columns `names`.
    """
    rows = rows_where(frame, where)
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows have {dict(where)}: a printed number needs one")
    ours, asked = float(rows[column].iloc[0]), AskedRange.near(published)
    reason = f"{words.column(column) or 'ours'} {ours:.4g} where the paper prints {published:g}"
    if others is None or verdicts.equal_as_printed(ours, published, digits):
        verdict = verdicts.HOLDS if verdicts.equal_as_printed(ours, published, digits) else verdicts.FAILS
        return result(ours, verdict, reason, verdicts.EXACT, asked)
    rest = rows_where(frame, others).dropna(subset=[column])
    interval, several = Interval(ours, min(ours, *rest[column]), max(ours, *rest[column])), len(rest) > 1
    choices = f"{len(rest)} other choices give" if several else "another choice gives"
    reason += f"; {choices} {interval.low:.4g}" + (f" to {interval.high:.4g}" if several else "")
    equal = rest[[verdicts.equal_as_printed(value, published, digits) for value in rest[column]]]
    if equal.empty:
        nearest = rest.loc[(np.log(rest[column]) - math.log(published)).abs().idxmin()]
        reason += f", nearest with {words.named(dict(nearest), names)}"
        return result(interval, verdicts.FAILS, reason, verdicts.RANGE, asked)
    reason = f"{verdicts.NOT_BY_DEFAULT}{reason}; equal with {words.named(dict(equal.iloc[0]), names)}"
    return result(float(equal[column].iloc[0]), verdicts.IN_PART, reason, verdicts.EXACT, asked)


def _limit(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    return rows[rows[column].eq(rows[column].min())] if column else rows


def _cases(n: int, kind: str = "") -> str:
    return f"{n} {kind}case{'' if n == 1 else 's'}"


def _span(values: pd.Series) -> str:
    return " to ".join(dict.fromkeys(f"{end:.4g}" for end in (values.min(), values.max())))
