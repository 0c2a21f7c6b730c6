"""Intervals, tests and summaries against scipy; pairing, interpolation on the proven axis, what cannot be compared."""

import math

import numpy as np
import pandas as pd
import pytest
from fake_results import accuracy_rows, figure1
from scipy import stats

from dplangevin.papers import statistics

EPSILONS = [0.1, 1.0, 10.0]


@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
def test_interval_agrees_with_scipy(rng: np.random.Generator, level: float) -> None:
    x = rng.normal(0.8, 0.02, 10)
    found = statistics.t_interval(x, level)
    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(level, 9, loc=x.mean(), scale=stats.sem(x))
    )
    assert found.mean == pytest.approx(x.mean())


def test_interval_of_one_value_and_of_bad_values() -> None:
    found = statistics.t_interval(np.array([0.5]))
    assert found.mean == 0.5
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    with pytest.raises(ValueError, match="finite"):
        statistics.t_interval(np.array([0.5, np.nan]))
    with pytest.raises(ValueError, match="finite"):
        statistics.t_interval(np.array([]))


def test_difference_is_paired_by_repeat_on_shared_budgets() -> None:
    first = accuracy_rows("a", {0.1: [0.6, 0.8], 1.0: [0.7, 0.9], 5.0: [1.0, 1.0]})
    second = accuracy_rows("b", {0.1: [0.5, 0.7], 1.0: [0.6, 0.8]})
    gap = statistics.difference(first, second.iloc[::-1], "promised")
    assert gap.to_numpy() == pytest.approx(np.full((2, 2), 0.1))
    found = statistics.compare(gap)
    assert found.interval == pytest.approx((0.1, 0.1, 0.1))
    assert found.above == pytest.approx([0.1, 1.0])
    assert (found.below, found.points, found.repeats) == ([], 2, 2)


def test_difference_at_equal_proven_epsilon_interpolates_in_ln_epsilon() -> None:
    line = {e: [0.5 + 0.1 * math.log(e), 0.6 + 0.1 * math.log(e)] for e in EPSILONS}
    gap = statistics.difference(accuracy_rows("a", line), accuracy_rows("b", line, bill=0.5), "proven")
    points = np.exp(gap.columns.to_numpy(float))
    assert points == pytest.approx([0.1, 0.5, 1.0, 5.0])
    assert gap.to_numpy() == pytest.approx(np.full((2, 4), 0.1 * math.log(0.5)))


def test_factor_reads_the_second_curve_at_a_share_of_the_budget() -> None:
    line = {e: [0.5 + 0.1 * math.log(e)] * 2 for e in EPSILONS}
    gap = statistics.difference(accuracy_rows("a", line), accuracy_rows("b", line), "promised", factor=0.5)
    assert np.exp(gap.columns.to_numpy(float)) == pytest.approx([1.0, 10.0])
    assert gap.to_numpy() == pytest.approx(np.full((2, 2), 0.1 * math.log(2)))


def test_a_method_without_a_budget_holds_at_every_budget() -> None:
    top = accuracy_rows("nonprivate", {math.inf: [0.9, 0.8]})
    line = accuracy_rows("a", {e: [0.7, 0.7] for e in EPSILONS}, bill=0.1)
    for axis in ("promised", "proven"):
        assert statistics.difference(top, line, axis).to_numpy() == pytest.approx(
            np.array([[0.2] * 3, [0.1] * 3])
        )
        assert statistics.difference(line, top, axis).to_numpy() == pytest.approx(
            np.array([[-0.2] * 3, [-0.1] * 3])
        )


def test_points_of_zero_or_infinite_epsilon_are_left_out() -> None:
    line = accuracy_rows("a", {e: [0.7, 0.7] for e in EPSILONS})
    line.loc[line.epsilon.eq(0.1), "epsilon_proven"] = 0.0
    line.loc[line.epsilon.eq(10.0), "epsilon_proven"] = math.inf
    assert statistics.curve(line, "proven").columns.to_numpy(float) == pytest.approx([0.0])


def test_what_cannot_be_compared_says_why() -> None:
    values = {e: [0.7, 0.7] for e in EPSILONS}
    line = accuracy_rows("a", values)
    for bill, why in ((1e-6, "share no point"), (0.0, "no point with")):
        with pytest.raises(statistics.NoCommonRange, match=why):
            statistics.difference(line, accuracy_rows("b", values, bill=bill), "proven")
    with pytest.raises(ValueError, match="repeats differ"):
        statistics.difference(line, accuracy_rows("b", {e: [0.7] for e in EPSILONS}), "promised")
    with pytest.raises(ValueError, match="one variant"):
        statistics.curve(
            pd.concat([line, accuracy_rows("a", {1.0: [0.5]}, variant="radius=3.0")]), "promised"
        )
    with pytest.raises(ValueError, match="axis"):
        statistics.curve(line, "tight")
    with pytest.raises(ValueError, match="conf/claim"):
        statistics.select(line, "adult", "b", "wang2015")


def test_read_off_interpolates_and_stays_inside() -> None:
    line = {e: [0.5 + 0.1 * math.log(e), 0.3 - 0.1 * math.log(e)] for e in EPSILONS}
    table = statistics.curve(accuracy_rows("a", line, bill=0.5), "proven")
    assert statistics.read_off(table, 2.0).to_numpy() == pytest.approx(
        [0.5 + 0.1 * math.log(4), 0.3 - 0.1 * math.log(4)]
    )
    assert statistics.read_off(table, 5.01).to_numpy() == pytest.approx(
        [0.5 + 0.1 * math.log(10), 0.3 - 0.1 * math.log(10)]
    )
    for outside in (0.04, 6.0):
        with pytest.raises(statistics.NoCommonRange, match="outside"):
            statistics.read_off(table, outside)
    free = statistics.curve(accuracy_rows("b", {math.inf: [0.9, 0.8]}), "proven")
    assert statistics.read_off(free, 3.0).tolist() == [0.9, 0.8]
    with pytest.raises(statistics.NoCommonRange, match="no point"):
        statistics.read_off(statistics.curve(accuracy_rows("a", line, bill=0.0), "proven"), 1.0)


def test_paired_p_agrees_with_scipy(rng: np.random.Generator) -> None:
    first, second = pd.Series(rng.normal(0.1, 1, 10)), pd.Series(rng.normal(0, 1, 10))
    assert statistics.paired_p(first, second) == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert statistics.paired_p(first, first) == 1.0
    assert statistics.paired_p(pd.Series([0.75, 0.5]), pd.Series([0.5, 0.25])) == 0.0
    assert math.isnan(statistics.paired_p(first[:1], second[:1]))


def test_holm_rejects_what_its_steps_reject(rng: np.random.Generator) -> None:
    """Against the step-down rule itself: reject while p_(k) <= a/(m - k + 1)."""
    p = rng.uniform(0, 0.1, 12)
    adjusted = statistics.holm(p.tolist())
    for level in (0.01, 0.05, 0.2):
        rejected = []
        for k, i in enumerate(np.argsort(p)):
            if p[i] > level / (len(p) - k):
                break
            rejected.append(i)
        assert sorted(np.flatnonzero(adjusted <= level)) == sorted(rejected)
    assert statistics.holm([0.7, 0.8]).tolist() == [1.0, 1.0]


def test_diverged_repeats_are_left_out() -> None:
    line = accuracy_rows("a", {e: [0.7, 0.8, 0.9, 0.7, 0.8, 0.9] for e in EPSILONS})
    line.loc[line.epsilon.eq(0.1) & line.seed.ge(2), "value"] = math.nan
    other = accuracy_rows("b", {e: [0.6, 0.65, 0.7, 0.6, 0.65, 0.7] for e in EPSILONS})
    found = statistics.compare(statistics.difference(line, other, "promised"))
    assert found.interval.mean == pytest.approx(0.125)
    assert (found.repeats, found.above) == (2, [])  # two repeats are left, at every epsilon
    # behind where it does not diverge
    worse = accuracy_rows("c", {e: [0.3 if e < 1 else 0.71] * 6 for e in EPSILONS})
    worse.loc[worse.epsilon.eq(0.1) & worse.seed.ge(2), "value"] = math.nan
    assert statistics.compare(statistics.difference(worse, other, "promised")).interval.mean < 0
    with pytest.raises(statistics.NoCommonRange, match="diverged"):
        statistics.difference(line.assign(value=math.nan), other, "promised")


def test_significant_points_are_those_of_holm() -> None:
    """Two of three points have p < .05; only the one with p < .05/3 counts."""
    noise = np.array([-0.02, -0.01, 0.0, 0.01, 0.02])
    means = {0.1: 0.05, 1.0: 0.02, 10.0: 0.001}  # p = .002, .047 and .9
    gap = pd.DataFrame({math.log(e): mean + noise for e, mean in means.items()})
    p = [stats.ttest_1samp(gap[point], 0.0).pvalue for point in gap.columns]
    assert p[0] < 0.05 / 3 < 0.05 / 2 < p[1] < 0.05 < p[2]
    for sign in (1, -1):
        found = statistics.compare(sign * gap)
        sides = (found.above, found.below)[::sign]
        assert sides[0] == pytest.approx([0.1])
        assert sides[1] == []


def test_select_takes_the_variant_that_a_method_has() -> None:
    hot, cold = (accuracy_rows("a", {1.0: [value]}, variant=f"t={value}") for value in (0.5, 0.6))
    one = accuracy_rows("b", {1.0: [0.7]})
    runs = pd.concat([hot, cold, one, one.assign(metric="ess", value=90.0)])
    assert statistics.select(runs, "adult", "a", "wang2015", variant="t=0.6").value.tolist() == [0.6]
    assert statistics.select(runs, "adult", "b", "wang2015", variant="t=0.6").value.tolist() == [0.7]
    assert statistics.select(runs, "adult", "b", "wang2015", metric="ess").value.tolist() == [90.0]


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    return figure1()


def test_summary_keeps_majority_violations_and_zero_epsilon(runs: pd.DataFrame) -> None:
    table = statistics.summary(runs)
    assert set(table[table.method.eq("majority")].dataset) == {"synthetic", "abalone", "adult"}
    bad = table[table.violated.ne("")]
    assert set(bad.method) == {"dp_sgld", "dp_sgnht"}
    assert bad.epsilon.min() > 3
    zero = table[table.epsilon_proven.eq(0.0)]
    assert np.isneginf(zero.ln_epsilon_proven).all()


def test_trusted_rows_have_their_guarantee_and_all_chains(runs: pd.DataFrame) -> None:
    table = statistics.summary(runs.assign(value=runs.value.mask(runs.method.eq("ops") & runs.seed.eq(1))))
    kept = table[statistics.trusted(table, "mean")]
    assert set(table.method) - set(kept.method) == {"ops"}
    assert kept.violated.eq("").all()
    assert table.diverged.eq(table.method.eq("ops")).all()
    assert len(kept) == (table.violated.eq("") & table.method.ne("ops")).sum()


def test_summary_refuses_a_run_listed_twice(runs: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="listed twice"):
        statistics.summary(pd.concat([runs, runs.head(1)]))


def test_welch_is_that_of_scipy(rng: np.random.Generator) -> None:
    first, second = pd.Series(rng.normal(1, 1, 4)), pd.Series(rng.normal(0, 3, 7))
    terms = [(1.0, first), (-1.0, second)]
    found = statistics.welch(terms)
    reference = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high))
    assert statistics.welch([(3.0, first), (-3.0, second)]) == pytest.approx([3 * part for part in found])
    for threshold in (0.0, -0.5):
        p = stats.ttest_ind(first - threshold, second, equal_var=False).pvalue
        assert statistics.welch_p(terms, threshold) == pytest.approx(p)
    same = pd.Series([0.5, 0.5])
    equal, one_seed = [(1.0, same), (-1.0, same)], [(1.0, same), (-1.0, second[:1])]
    assert statistics.welch(equal) == (0, 0, 0)
    assert (statistics.welch_p(equal, 0.0), statistics.welch_p(equal, -0.1)) == (1.0, 0.0)
    assert math.isnan(statistics.welch(one_seed).low)
    assert math.isnan(statistics.welch_p(one_seed, 0.0))
