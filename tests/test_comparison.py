"""Paired comparisons: intervals against scipy, pairing, interpolation on the audited axis, what cannot be
compared."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dplangevin.comparison import (
    NoCommonRange,
    compare,
    curve,
    difference,
    holm,
    paired_p,
    read_off,
    select,
    t_interval,
)

EPSILONS = [0.1, 1.0, 10.0]


def rows(method: str, table: dict[float, list[float]], bill: float = 1.0, **other: object) -> pd.DataFrame:
    """Accuracy rows: budget -> accuracy by repeat; the tight epsilon is bill * epsilon."""
    fixed = {
        "experiment": "e",
        "dataset": "d",
        "method": method,
        "variant": "",
        "scaling": "unit",
        "metric": "accuracy",
    }
    return pd.DataFrame(
        [
            {**fixed, "epsilon": e, "epsilon_tight": bill * e, "repeat": r, "value": value, **other}
            for e, values in table.items()
            for r, value in enumerate(values)
        ]
    )


@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
def test_interval_agrees_with_scipy(rng: np.random.Generator, level: float) -> None:
    x = rng.normal(0.8, 0.02, 10)
    found = t_interval(x, level)
    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(level, 9, loc=x.mean(), scale=stats.sem(x))
    )
    assert found.mean == pytest.approx(x.mean())


def test_interval_of_one_value_and_of_bad_values() -> None:
    found = t_interval(np.array([0.5]))
    assert found.mean == 0.5
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    with pytest.raises(ValueError, match="finite"):
        t_interval(np.array([0.5, np.nan]))
    with pytest.raises(ValueError, match="finite"):
        t_interval(np.array([]))


def test_difference_is_paired_by_repeat_on_shared_budgets() -> None:
    first = rows("a", {0.1: [0.6, 0.8], 1.0: [0.7, 0.9], 5.0: [1.0, 1.0]})
    second = rows("b", {0.1: [0.5, 0.7], 1.0: [0.6, 0.8]})
    gap = difference(first, second.iloc[::-1], "asked")
    assert gap.to_numpy() == pytest.approx(np.full((2, 2), 0.1))
    found = compare(gap)
    assert found.interval == pytest.approx((0.1, 0.1, 0.1))
    assert found.above == pytest.approx([0.1, 1.0])
    assert (found.below, found.points, found.repeats) == ([], 2, 2)


def test_audited_difference_interpolates_in_ln_epsilon() -> None:
    line = {e: [0.5 + 0.1 * math.log(e), 0.6 + 0.1 * math.log(e)] for e in EPSILONS}
    gap = difference(rows("a", line), rows("b", line, bill=0.5), "audited")
    points = np.exp(gap.columns.to_numpy(float))
    assert points == pytest.approx([0.1, 0.5, 1.0, 5.0])
    assert gap.to_numpy() == pytest.approx(np.full((2, 4), 0.1 * math.log(0.5)))


def test_factor_reads_the_second_curve_at_a_share_of_the_budget() -> None:
    line = {e: [0.5 + 0.1 * math.log(e)] * 2 for e in EPSILONS}
    gap = difference(rows("a", line), rows("b", line), "asked", factor=0.5)
    assert np.exp(gap.columns.to_numpy(float)) == pytest.approx([1.0, 10.0])
    assert gap.to_numpy() == pytest.approx(np.full((2, 2), 0.1 * math.log(2)))


def test_a_method_without_a_budget_holds_at_every_budget() -> None:
    top = rows("nonprivate", {math.inf: [0.9, 0.8]})
    line = rows("a", {e: [0.7, 0.7] for e in EPSILONS}, bill=0.1)
    for axis in ("asked", "audited"):
        assert difference(top, line, axis).to_numpy() == pytest.approx(np.array([[0.2] * 3, [0.1] * 3]))
        assert difference(line, top, axis).to_numpy() == pytest.approx(np.array([[-0.2] * 3, [-0.1] * 3]))


def test_points_of_zero_or_infinite_epsilon_are_left_out() -> None:
    line = rows("a", {e: [0.7, 0.7] for e in EPSILONS})
    line.loc[line.epsilon.eq(0.1), "epsilon_tight"] = 0.0
    line.loc[line.epsilon.eq(10.0), "epsilon_tight"] = math.inf
    assert curve(line, "audited").columns.to_numpy(float) == pytest.approx([0.0])


def test_what_cannot_be_compared_says_why() -> None:
    line = rows("a", {e: [0.7, 0.7] for e in EPSILONS})
    with pytest.raises(NoCommonRange, match="share no point"):
        difference(line, rows("b", {e: [0.7, 0.7] for e in EPSILONS}, bill=1e-6), "audited")
    with pytest.raises(NoCommonRange, match="no point"):
        difference(line, rows("b", {e: [0.7, 0.7] for e in EPSILONS}, bill=0.0), "audited")
    with pytest.raises(ValueError, match="repeats differ"):
        difference(line, rows("b", {e: [0.7] for e in EPSILONS}), "asked")
    with pytest.raises(ValueError, match="one variant"):
        curve(pd.concat([line, rows("a", {1.0: [0.5]}, variant="radius=3.0")]), "asked")
    with pytest.raises(ValueError, match="axis"):
        curve(line, "tight")
    with pytest.raises(ValueError, match="conf/claim"):
        select(line, "d", "b", "e")


def test_read_off_interpolates_and_stays_inside() -> None:
    line = {e: [0.5 + 0.1 * math.log(e), 0.3 - 0.1 * math.log(e)] for e in EPSILONS}
    table = curve(rows("a", line, bill=0.5), "audited")
    assert read_off(table, 2.0).to_numpy() == pytest.approx(
        [0.5 + 0.1 * math.log(4), 0.3 - 0.1 * math.log(4)]
    )
    assert read_off(table, 5.01).to_numpy() == pytest.approx(
        [0.5 + 0.1 * math.log(10), 0.3 - 0.1 * math.log(10)]
    )
    for outside in (0.04, 6.0):
        with pytest.raises(NoCommonRange, match="outside"):
            read_off(table, outside)
    free = curve(rows("b", {math.inf: [0.9, 0.8]}), "audited")
    assert read_off(free, 3.0).tolist() == [0.9, 0.8]
    with pytest.raises(NoCommonRange, match="no point"):
        read_off(curve(rows("a", line, bill=0.0), "audited"), 1.0)


def test_paired_p_agrees_with_scipy(rng: np.random.Generator) -> None:
    first, second = pd.Series(rng.normal(0.1, 1, 10)), pd.Series(rng.normal(0, 1, 10))
    assert paired_p(first, second) == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert paired_p(first, first) == 1.0
    assert paired_p(pd.Series([0.75, 0.5]), pd.Series([0.5, 0.25])) == 0.0
    assert math.isnan(paired_p(first[:1], second[:1]))


def test_holm_rejects_what_its_steps_reject(rng: np.random.Generator) -> None:
    """Against the step-down rule itself: reject while p_(k) <= a/(m - k + 1)."""
    p = rng.uniform(0, 0.1, 12)
    adjusted = holm(p.tolist())
    for level in (0.01, 0.05, 0.2):
        rejected = []
        for k, i in enumerate(np.argsort(p)):
            if p[i] > level / (len(p) - k):
                break
            rejected.append(i)
        assert sorted(np.flatnonzero(adjusted <= level)) == sorted(rejected)
    assert holm([0.7, 0.8]).tolist() == [1.0, 1.0]


def test_diverged_repeats_are_left_out() -> None:
    line = rows("a", {e: [0.7, 0.8, 0.9] for e in EPSILONS})
    line.loc[line.epsilon.eq(0.1) & line.repeat.eq(2), "value"] = math.nan
    other = rows("b", {e: [0.6, 0.65, 0.7] for e in EPSILONS})
    found = compare(difference(line, other, "asked"))
    assert found.interval.mean == pytest.approx(0.15)
    assert found.above == pytest.approx([1.0, 10.0])  # at .1, two repeats are left
    with pytest.raises(NoCommonRange, match="diverged"):
        difference(line.assign(value=math.nan), other, "asked")


def test_select_takes_the_variant_that_a_method_has() -> None:
    hot, cold = (rows("a", {1.0: [value]}, variant=f"t={value}") for value in (0.5, 0.6))
    one = rows("b", {1.0: [0.7]})
    runs = pd.concat([hot, cold, one, one.assign(metric="ess", value=90.0)])
    assert select(runs, "d", "a", "e", variant="t=0.6").value.tolist() == [0.6]
    assert select(runs, "d", "b", "e", variant="t=0.6").value.tolist() == [0.7]
    assert select(runs, "d", "b", "e", metric="ess").value.tolist() == [90.0]
