"""Learners over many tables: distances, tests against the default, and what the page says of absent learners."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from composed import ROOT, parameters
from drawing import exhibit, outside
from fake_results import run_at
from scipy import stats

from dplangevin.estimator import PrivateClassifier
from dplangevin.papers.exhibits import leaderboard
from dplangevin.papers.statistics import holm, t_interval

NUMBERS = ROOT / "results/exhibits/leaderboard/leaderboard.csv"
EPSILONS = [0.1, 1.0, 10.0]
LOSS = {"dp_gd": 0.01, "dp_sgd": 0.03, "objpert": 0.06, "outpert": 0.2}  # of accuracy, at ε = 1
TABLES = [f"table{i}" for i in range(8)]
DEVELOPED = ["table0", "table1"]


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    """Eight tables of which two are for development; OPS runs on three; one learner is lost on one table."""
    rng, frames = np.random.default_rng(3), []
    for i, dataset in enumerate(TABLES):
        shared = rng.normal(0, 0.02, 5)  # of the splits
        same: dict[str, Any] = {
            "dataset": dataset,
            "records": 1000 + i,
            "parameters": 30,
            "classes": 3 if i % 2 else 2,
        }
        frames.append(run_at("nonprivate", epsilon=np.inf, accuracy=0.9 + shared, **same))
        frames.append(
            run_at("nonprivate", epsilon=np.inf, accuracy=np.full(5, 0.6), metric="majority_accuracy", **same)
        )
        methods = LOSS | ({"ops": 0.05} if i < 3 else {})
        for method, loss in methods.items():
            for e in EPSILONS:
                value = 0.9 + shared - loss / e**0.3 + rng.normal(0, 0.002, 5)
                if (method, i, e) == ("outpert", 7, 0.1):
                    value = np.full(5, np.nan)
                frames.append(run_at(method, epsilon=e, accuracy=value, epsilon_proven=e, **same))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def table(runs: pd.DataFrame) -> pd.DataFrame:
    return leaderboard.numbers(runs, development=DEVELOPED)


def test_distance_is_paired_by_split(runs: pd.DataFrame, table: pd.DataFrame) -> None:
    assert list(table.columns) == leaderboard.COLUMNS
    row = table[table.dataset.eq("table3") & table.method.eq("dp_sgd") & table.epsilon.eq(1.0)].iloc[0]
    here = runs[runs.dataset.eq("table3") & runs.metric.eq("accuracy")]
    values = {m: here[here.method.eq(m)] for m in ("nonprivate", "dp_sgd")}
    free, private = values["nonprivate"].value, values["dp_sgd"][values["dp_sgd"].epsilon.eq(1.0)].value
    gap = 100 * (free.to_numpy() - private.to_numpy())
    assert (row.distance, row.distance_low, row.distance_high) == pytest.approx(tuple(t_interval(gap)))
    assert row.distance_high - row.distance_low < 50 * (row.high - row.low)  # splits are shared
    assert (row.n, row.d, row.classes, row.majority, row.splits) == (1003, 10, 3, pytest.approx(0.6), 5)
    assert dict(table.groupby("dataset").split_group.first().value_counts()) == {
        "held_out": 6,
        "development": 2,
    }
    free_rows = table[table.method.eq("nonprivate")]
    assert free_rows.distance.eq(0).all()


def test_the_difference_to_the_default_is_over_tables(table: pd.DataFrame) -> None:
    gaps = leaderboard.behind(table, 1.0)
    wide = table[table.split_group.eq("held_out") & table.epsilon.eq(1.0)].pivot(
        index="dataset", columns="method", values="accuracy"
    )
    each = 100 * (wide.dp_gd - wide.objpert)
    assert tuple(gaps.loc["objpert", ["mean", "low", "high"]]) == pytest.approx(tuple(t_interval(each)))
    assert gaps.tables.to_dict() == {"dp_sgd": 6, "objpert": 6, "outpert": 6, "ops": 1}
    p = [stats.ttest_rel(wide.dp_gd, wide[name]).pvalue for name in ("dp_sgd", "objpert", "outpert")]
    assert gaps.p[["dp_sgd", "objpert", "outpert"]].tolist() == pytest.approx(holm(p))
    assert np.isnan(gaps.p["ops"])


def test_a_learner_without_its_guarantee_is_not_compared(table: pd.DataFrame) -> None:
    lost = table.dataset.eq("table3") & table.method.eq("dp_sgd")
    broken = table.assign(violated=table.violated.mask(lost, "a condition"))
    assert leaderboard.behind(broken, 1.0).tables["dp_sgd"] == 5
    assert leaderboard.behind(table, 0.1).tables["outpert"] == 5  # its chains diverged on one table


def test_development_tables_do_not_change_the_comparison(table: pd.DataFrame) -> None:
    worse = table.copy()
    worse.loc[worse.split_group.eq("development") & worse.method.eq("dp_gd"), ["accuracy", "distance"]] = (
        0.1,
        80.0,
    )
    assert leaderboard.advice(worse)[:-1] == leaderboard.advice(table)[:-1]


def test_the_development_tables_are_those_of_the_documentation() -> None:
    rows = [
        line.split("|") for line in (ROOT / "docs/data.md").read_text().splitlines() if line.startswith("| ")
    ]
    marked = {row[1].strip() for row in rows if row[-2].strip() == "development"}
    assert {*exhibit("leaderboard").draw.development} == marked | {"adult", "abalone", "synthetic"}


def test_private_learners_that_beat_no_privacy_are_counted(table: pd.DataFrame) -> None:
    assert "table5" not in leaderboard.advice(table)[-1]
    own = table.epsilon.eq(10.0) & table.method.eq("dp_gd") & table.dataset.eq("table5")
    beaten = table.assign(
        distance=table.distance.mask(own, -2.0),
        distance_high=table.distance_high.mask(own, -1.0),
    )
    assert "by more than the interval over splits on table5" in leaderboard.advice(beaten)[-1]


@pytest.mark.slow
def test_page_and_figure_show_all_learners_and_say_who_is_absent(
    runs: pd.DataFrame, table: pd.DataFrame
) -> None:
    extra = pd.DataFrame(
        {"experiment": "brackets", "dataset": "", "method": "dp_gd", "metric": "bracket", "value": [0.97]}
    )
    both = pd.concat([runs, extra], ignore_index=True)
    text = leaderboard.page(both, development=DEVELOPED, absent={"ops": "too slow."}, title="t")
    overview = text.split("## ")[2]
    first = next(line for line in overview.splitlines() if line.startswith("| DP-GD"))
    assert "| 97 % |" in first
    assert "- One-posterior sample (OPS): too slow." in overview
    assert "5 random splits" in text
    assert text.count("table7") == len(EPSILONS)
    figure = leaderboard.distances(runs, development=DEVELOPED, absent={}, title="t")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[0] == "DP-GD, all rows"
    assert len(labels) == len(LOSS) + 1
    figure.draw_without_rendering()
    assert outside(figure) == []


def test_the_development_tables_are_shown_if_no_other_is_there(runs: pd.DataFrame) -> None:
    few = runs[runs.dataset.isin(DEVELOPED)]
    table = leaderboard.numbers(few, development=DEVELOPED)
    assert leaderboard.medians(table).notna().all(axis=None)
    assert (
        "2 development tables"
        in leaderboard.distances(few, development=DEVELOPED, absent={}).texts[0].get_text()
    )


@pytest.mark.slow
def test_the_exhibit_names_the_learners_of_the_experiment() -> None:
    cfg = exhibit("leaderboard")
    assert [*cfg.methods] == [*parameters().experiment.leaderboard.methods]
    assert cfg.draw.development == cfg.numbers.development


def test_the_documentation_shows_the_advice_of_the_committed_numbers() -> None:
    page, numbers = (ROOT / "docs/leaderboard.md").read_text(), pd.read_csv(NUMBERS)
    assert leaderboard.in_docs(page, numbers) == page  # else: python pipelines/report.py readme
    assert exhibit("leaderboard").title.startswith("At equal proven ε, no learner significantly beats DP-GD ")
    groups = yaml.safe_load((ROOT / "conf/report/exhibits.yaml").read_text())["groups"]
    finding = next(group["leaderboard"]["finding"] for group in groups.values() if "leaderboard" in group)
    assert finding.endswith("no learner is ahead of gradient descent on all rows by more than chance.")
    text, centre = "\n".join(leaderboard.advice(numbers)), leaderboard.medians(numbers)
    assert text.count("by more than chance, and behind none.") == len(EPSILONS)
    assert "`dp_precond`) has a smaller median distance at ε = 1 and 10. The t-tests cannot tell it" in page
    nearer = centre.loc["dp_precond"].lt(centre.loc["dp_gd"])
    assert nearer[[1.0, 10.0]].all()
    assert all(leaderboard.behind(numbers, e).p["dp_precond"] > leaderboard.SIGNIFICANCE for e in EPSILONS)
    assert PrivateClassifier().method == leaderboard.DEFAULT
    with pytest.raises(ValueError, match="needs one line"):
        leaderboard.in_docs(page.replace(leaderboard.END, ""), numbers)


def test_the_advice_says_who_is_ahead_of_the_default(table: pd.DataFrame) -> None:
    better = table.assign(accuracy=table.accuracy + 0.05 * table.method.eq("ops"))
    wide = better.assign(dataset="again_" + better.dataset)  # so that OPS has two held-out tables
    text = "\n".join(leaderboard.advice(pd.concat([better, wide])))
    assert "on 12 held-out tables is, in points of accuracy: " in text
    assert (
        "At ε = 1 it is ahead of 3 of 4 other learners by more than chance, and behind One-posterior" in text
    )
    assert "behind none" in "\n".join(leaderboard.advice(table))


@pytest.mark.slow
def test_seconds_stand_at_the_tables_that_were_timed(runs: pd.DataFrame) -> None:
    timed = {
        "experiment": "benchmark",
        "dataset": "table2",
        "method": "dp_gd",
        "metric": "seconds",
        "value": 1.25,
    }
    both = pd.concat([runs, pd.DataFrame([timed])], ignore_index=True)
    of = leaderboard.numbers(both, development=DEVELOPED).set_index(["dataset", "method"]).seconds
    assert set(of["table2", "dp_gd"]) == {1.25}
    assert of.drop(("table2", "dp_gd")).isna().all()
    lines = leaderboard.page(both, development=DEVELOPED, absent={}).splitlines()
    (head,) = [line for line in lines if line.endswith("| seconds, table2 |")]
    at = lines.index(head)
    ends = [line.rsplit("|", 2)[1].strip() for line in lines[at + 2 : at + 7]]
    assert sorted(ends) == ["", "", "", "", "1.2"]
    assert "seconds" not in leaderboard.page(runs, development=DEVELOPED, absent={})
