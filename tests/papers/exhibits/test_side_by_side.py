"""Methods at equal tight epsilon: what is read off, against what, and what the page and the figure say."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake_results import TOP, run_at
from scipy import stats

from dplangevin.papers.exhibits import side_by_side
from dplangevin.papers.statistics import curve, paired_p, read_off

EPSILONS = [0.1, 1.0]
DATASETS = {"synthetic": "Two normals", "adult": "Adult"}
SCORES = {"accuracy": 0.85, "log_loss": 0.32, "brier": 0.1, "ece": 0.01}


@pytest.fixture(scope="module")
def compare_runs() -> pd.DataFrame:
    """Every method of `compare`, ten repeats around each mean: OPS is best; DP-SGLD ends at a tight epsilon of .5."""
    half = {
        "ops": 0.05, "ops_gdp": 0.1, "objpert": 0.08, "objpert_pure": 0.2, "outpert": 0.3, "hybrid": 0.4,
        "hybrid_sgld": 0.3, "dp_sgld": 3.0, "dp_sgld_li2019": 0.06, "dp_sgd": 0.05, "dp_sghmc": 2.0, "dp_sgnht": 2.0,
        "dp_sgfs": 2.5, "dpvi": 0.15, "pate": 0.6,
    }  # fmt: skip
    rng, frames = np.random.default_rng(6), list[pd.DataFrame]()

    def add(method: str, dataset: str, epsilon: float, mean: float, **other: Any) -> None:
        values = mean + rng.normal(0, 0.002, 10)
        frames.append(run_at(method, dataset, epsilon, values, experiment="compare", **other))

    for dataset, metric in product(("synthetic", "adult"), SCORES):
        best, sign = (TOP[dataset], -1) if metric == "accuracy" else (SCORES[metric], 1)
        for method in ("nonprivate", "sgld"):
            add(method, dataset, np.inf, best, metric=metric)
        for (method, h), e in product(half.items(), (0.05, 0.2, 0.5, 2.0, 5.0, 20.0)):
            tight = min(e, 0.5) if method == "dp_sgld" else e
            add(method, dataset, e, best + sign * 0.3 * h / (h + e), metric=metric, epsilon_proven=tight)
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def table(compare_runs: pd.DataFrame) -> pd.DataFrame:
    return side_by_side.at_epsilon(compare_runs, epsilons=EPSILONS)


def accuracy(runs: pd.DataFrame, method: str, epsilon: float) -> np.ndarray:
    """By repeat, interpolated by hand between .05 and .2."""
    mine = runs[runs.method.eq(method) & runs.dataset.eq("adult") & runs.metric.eq("accuracy")]
    low, high = (mine[mine.epsilon.eq(e)].sort_values("seed").value.to_numpy() for e in (0.05, 0.2))
    share = np.log(epsilon / 0.05) / np.log(4)
    return np.asarray((1 - share) * low + share * high)


@pytest.mark.slow
def test_reads_every_repeat_off_in_ln_epsilon(table: pd.DataFrame, compare_runs: pd.DataFrame) -> None:
    assert list(table.columns) == side_by_side.CLASSES.columns
    here = table[table.dataset.eq("adult") & table.epsilon.eq(0.1)].set_index("method")
    ops, sgd = (accuracy(compare_runs, method, 0.1) for method in ("ops", "dp_sgd"))
    assert here.accuracy.ops == pytest.approx(ops.mean())
    best = here.index[here.best].tolist()
    assert best == [here[here.reach.eq(side_by_side.REACHED)].accuracy.idxmax()]
    rival, other = (ops, sgd) if best == ["ops"] else (sgd, ops)
    name = "dp_sgd" if best == ["ops"] else "ops"
    assert here.difference[name] == pytest.approx((other - rival).mean())
    low, high = stats.t.interval(0.95, 9, loc=(other - rival).mean(), scale=stats.sem(other - rival))
    assert (here.difference_low[name], here.difference_high[name]) == pytest.approx((low, high))
    pairs = here.reach.eq(side_by_side.REACHED).sum() * (here.reach.eq(side_by_side.REACHED).sum() - 1) / 2
    p = stats.ttest_rel(other, rival).pvalue
    assert p <= here.p_adjusted[name] <= min(1.0, pairs * p)
    assert here.significant.pate
    assert not here.significant[best[0]]


@pytest.mark.slow
def test_says_where_budgets_begin_above_and_where_all_chains_diverged(compare_runs: pd.DataFrame) -> None:
    """Budgets that end below are in the committed leaderboard."""
    later = compare_runs[compare_runs.method.eq("ops") & compare_runs.epsilon.gt(0.3)]
    above = side_by_side.at_epsilon(later, epsilons=[0.1])
    assert above.reach.eq(side_by_side.ABOVE).all()
    assert above.epsilon_end.to_numpy() == pytest.approx(0.5)
    lost = side_by_side.at_epsilon(later.assign(value=np.nan), epsilons=[1.0])
    assert lost.reach.eq(side_by_side.DIVERGED).all()


def test_a_failed_condition_counts_at_the_budgets_used(compare_runs: pd.DataFrame) -> None:
    ops = compare_runs[compare_runs.method.eq("ops") & compare_runs.dataset.eq("adult")]
    failed = ops.assign(violated=np.where(ops.epsilon.eq(5.0), "T too small", ""))
    table = side_by_side.at_epsilon(failed, epsilons=[1.0, 3.0, 5.0, 10.0]).groupby("epsilon").violated.any()
    assert table.to_dict() == {1.0: False, 3.0: True, 5.0: True, 10.0: True}


@pytest.mark.slow
def test_best_is_never_one_whose_guarantee_fails_or_whose_chains_diverged(compare_runs: pd.DataFrame) -> None:
    adult = compare_runs[compare_runs.dataset.eq("adult")]
    first = side_by_side.at_epsilon(adult, epsilons=[1.0]).set_index("method")
    winner = first.index[first.best][0]
    wins = adult.method.eq(winner)
    failed = adult.assign(violated=adult.violated.mask(wins, "T too small"))
    lost = adult.assign(value=adult.value.mask(wins & adult.seed.eq(3)))
    for runs in (failed, lost):
        table = side_by_side.at_epsilon(runs, epsilons=[1.0]).set_index("method")
        second = first[first.reach.eq(side_by_side.REACHED)].accuracy.drop(winner).idxmax()
        assert table.index[table.best].tolist() == [second]
        assert table.difference[winner] == pytest.approx(
            table.accuracy[winner] - table.accuracy[second], abs=2e-3
        )
        assert table.difference[second] == 0
    shown = side_by_side.marked(failed, epsilons=[1.0]).shown
    assert not (shown.str.contains("†") & shown.str.contains("**", regex=False)).any()

    nothing = adult.assign(violated="T too small")
    table = side_by_side.at_epsilon(nothing, epsilons=[1.0])
    assert not table.best.any()
    assert table[["difference", "p_adjusted"]].isna().all(axis=None)
    assert not side_by_side.marked(nothing, epsilons=[1.0]).shown.str.contains(r"\*\*|≈").any()
    (ax,) = side_by_side.dot_plot(table, side_by_side.CLASSES, constant=pd.Series([0.7])).axes
    assert "*" not in {line.get_marker() for line in ax.lines}


def test_the_heat_table_writes_points_below_no_privacy(compare_runs: pd.DataFrame) -> None:
    figure = side_by_side.heat(compare_runs, epsilons=EPSILONS, datasets=DATASETS, text="")
    table = side_by_side.at_epsilon(compare_runs, epsilons=EPSILONS)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    for ax, epsilon in zip(figure.axes, EPSILONS, strict=True):
        here = table[table.dataset.eq("adult") & table.epsilon.eq(epsilon)].set_index("method")
        below = 100 * (here.accuracy.nonprivate - here.accuracy.ops)
        texts = {(*map(round, text.get_position()),): text.get_text() for text in ax.texts}
        assert texts[1, names.index("One-posterior sample (OPS)")].startswith(f"{below:.1f}")
        assert ((1, names.index("DP-SGLD (wang2015)")) in texts) == (epsilon < 1)  # whose budgets end at .5
        assert len(ax.patches) == len(DATASETS)  # the best of each


def test_dots_leave_out_what_is_not_reached(compare_runs: pd.DataFrame) -> None:
    one = compare_runs[compare_runs.dataset.eq("adult")]
    table, constant = side_by_side.at_epsilon(one, epsilons=EPSILONS), pd.Series([0.7])
    figure = side_by_side.dot_plot(table, side_by_side.CLASSES, constant=constant)
    assert [ax.get_title() for ax in figure.axes] == ["adult, proven ε = 0.1", "adult, proven ε = 1"]
    for marks, counts in (("*", [1, 1]), ("*o", [15, 14])):  # all but DP-SGLD at 1
        lines = [[line for line in ax.lines if str(line.get_marker()) in marks] for ax in figure.axes]
        assert [sum(np.size(line.get_xdata()) for line in drawn) for drawn in lines] == counts


@pytest.mark.slow
def test_the_best_of_many_must_beat_a_constant_answer_for_all_of_them(compare_runs: pd.DataFrame) -> None:
    runs = compare_runs[compare_runs.dataset.eq("adult")]
    table = side_by_side.at_epsilon(runs, epsilons=[1.0]).set_index("method")
    (best,) = table.index[table.best]
    mine = runs[runs.method.eq(best) & runs.metric.eq("accuracy")]
    values = read_off(curve(mine, "proven"), 1.0)
    away = np.resize([0.0, 0.02], len(values))
    constant = values - away + 1e-4 * np.arange(len(values))  # p is about .01
    assert 0.003 < paired_p(values, constant) < 0.04
    for count, beaten in ((1, True), (20, False)):
        several = pd.concat([mine.assign(method=f"{best}{i}") for i in range(count)])
        table = side_by_side.at_epsilon(several, epsilons=[1.0])
        (sentence,) = side_by_side.sentences(several, table, constant=constant)
        assert ("not shown to beat a constant answer" not in sentence) is beaten
        assert beaten or f"over {len(values)} repeats, p = " in sentence
