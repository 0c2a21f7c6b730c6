"""Paired comparisons: intervals against scipy, pairing, interpolation on the audited axis, what cannot be
compared."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dplangevin.comparison import NoCommonRange, compare, curve, difference, select, t_interval

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
