"""Methods at equal audited epsilon: what is read off, against what, and what the page and the figure say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dplangevin.exhibits import compare, files
from dplangevin.exhibits.at_epsilon import ABOVE, BELOW, COLUMNS, DIVERGED, FREE, REACHED, at_epsilon

EPSILONS = [0.1, 1.0]
DATASETS = {"synthetic": "Two normals", "adult": "Adult"}


@pytest.fixture(scope="module")
def table(compare_runs: pd.DataFrame) -> pd.DataFrame:
    return at_epsilon(compare_runs, epsilons=EPSILONS)


def accuracy(runs: pd.DataFrame, method: str, epsilon: float) -> np.ndarray:
    """By repeat, interpolated by hand between .05 and .2."""
    mine = runs[runs.method.eq(method) & runs.dataset.eq("adult") & runs.metric.eq("accuracy")]
    low, high = (mine[mine.epsilon.eq(e)].sort_values("repeat").value.to_numpy() for e in (0.05, 0.2))
    share = np.log(epsilon / 0.05) / np.log(4)
    return np.asarray((1 - share) * low + share * high)


def test_reads_every_repeat_off_in_ln_epsilon(table: pd.DataFrame, compare_runs: pd.DataFrame) -> None:
    assert list(table.columns) == COLUMNS
    here = table[table.dataset.eq("adult") & table.epsilon.eq(0.1)].set_index("method")
    ops, sgd = (accuracy(compare_runs, method, 0.1) for method in ("ops", "dp_sgd"))
    assert here.accuracy.ops == pytest.approx(ops.mean())
    best = here.index[here.best].tolist()
    assert best == [here[here.reach.eq(REACHED)].accuracy.idxmax()]
    rival, other = (ops, sgd) if best == ["ops"] else (sgd, ops)
    name = "dp_sgd" if best == ["ops"] else "ops"
    assert here.difference[name] == pytest.approx((other - rival).mean())
    low, high = stats.t.interval(0.95, 9, loc=(other - rival).mean(), scale=stats.sem(other - rival))
    assert (here.difference_low[name], here.difference_high[name]) == pytest.approx((low, high))
    pairs = here.reach.eq(REACHED).sum() * (here.reach.eq(REACHED).sum() - 1) / 2
    p = stats.ttest_rel(other, rival).pvalue
    assert p <= here.p_adjusted[name] <= min(1.0, pairs * p)
    assert here.significant.pate
    assert not here.significant[best[0]]


def test_says_where_budgets_do_not_reach(table: pd.DataFrame, compare_runs: pd.DataFrame) -> None:
    rows = table[table.dataset.eq("adult")].set_index(["method", "epsilon"])
    assert rows.reach[("nonprivate", 1.0)] == FREE
    assert rows.reach[("dp_sgld", 0.1)] == REACHED
    assert (rows.reach[("dp_sgld", 1.0)], rows.epsilon_end[("dp_sgld", 1.0)]) == (BELOW, pytest.approx(0.5))
    assert np.isnan(rows.difference[("dp_sgld", 1.0)])
    later = compare_runs[compare_runs.method.eq("ops") & compare_runs.epsilon.gt(0.3)]
    above = at_epsilon(later, epsilons=[0.1])
    assert above.reach.eq(ABOVE).all()
    assert above.epsilon_end.to_numpy() == pytest.approx(0.5)
    lost = at_epsilon(later.assign(value=np.nan), epsilons=[1.0])
    assert lost.reach.eq(DIVERGED).all()


def test_one_diverged_repeat_is_left_out(compare_runs: pd.DataFrame) -> None:
    two = compare_runs[compare_runs.method.isin(["dpvi", "ops"]) & compare_runs.dataset.eq("adult")]
    wild = two.assign(value=two.value.mask(two.repeat.eq(3) & two.method.eq("dpvi")))
    row = at_epsilon(wild, epsilons=[1.0]).set_index("method").loc["dpvi"]
    calm = at_epsilon(two[two.repeat.ne(3)], epsilons=[1.0]).set_index("method").loc["dpvi"]
    assert row.repeats == 9
    assert (row.accuracy, row.difference) == pytest.approx((calm.accuracy, calm.difference))


def test_a_failed_condition_counts_at_the_budgets_used(compare_runs: pd.DataFrame) -> None:
    ops = compare_runs[compare_runs.method.eq("ops") & compare_runs.dataset.eq("adult")]
    failed = ops.assign(violated=np.where(ops.epsilon.eq(5.0), "T too small", ""))
    table = at_epsilon(failed, epsilons=[1.0, 3.0, 5.0, 10.0]).groupby("epsilon").violated.any()
    assert table.to_dict() == {1.0: False, 3.0: True, 5.0: True, 10.0: True}


def test_page_marks_the_best_and_shows_seconds(compare_runs: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "methods.csv"
    assert files.read_timings(path).empty
    pd.DataFrame([{"dataset": "adult", "method": "ops", "seconds": 12.3, "runs": 3}]).to_csv(
        path, index=False
    )
    both = pd.concat([compare_runs, files.read_timings(path)], ignore_index=True)
    text = compare.page(both, epsilons=EPSILONS, datasets=DATASETS, title="t")
    overview = text.split("## ")[1]
    (ops,) = [line for line in overview.splitlines() if line.startswith("| One-posterior sample (OPS)")]
    assert ops.endswith("| 12.3 |")
    (sgld,) = [line for line in overview.splitlines() if line.startswith("| DP-SGLD |")]
    assert sgld.count("ends at 0.5: ") == 2
    assert sgld.endswith("|  |")
    assert overview.count("**") == 2 * len(EPSILONS) * len(DATASETS)
    assert "≈" in overview
    assert text.count("\n## ") == 1 + len(EPSILONS) * len(DATASETS)
    assert "replace-one, δ = 1e-5" in text
    assert "Mean over 10 repeats" in text


def test_dots_leave_out_what_is_not_reached(compare_runs: pd.DataFrame) -> None:
    figure = compare.dots(compare_runs, epsilons=EPSILONS, datasets=DATASETS)
    stars = [[line for line in ax.lines if line.get_marker() == "*"] for ax in figure.axes]
    assert [len(found) for found in stars] == [1] * 4
    dots = [[line for line in ax.lines if line.get_marker() in ("*", "o")] for ax in figure.axes]
    assert [len(found) for found in dots] == [15, 14, 15, 14]  # all but DP-SGLD at 1


def test_data_sets_without_runs_are_left_out(compare_runs: pd.DataFrame) -> None:
    one = compare_runs[compare_runs.dataset.eq("adult")]
    names = {"abalone": "Abalone", "adult": "Adult"}
    figure = compare.dots(one, epsilons=[1.0], datasets=names)
    assert [ax.get_title() for ax in figure.axes] == ["Adult, audited ε = 1"]
    page = compare.page(one, epsilons=[1.0], datasets=names)
    assert "## Adult" in page
    assert "## Abalone" not in page
