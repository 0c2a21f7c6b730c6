"""The learner that `recommend` names, from results of the leaderboard to its words."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from dplangevin import leaderboard
from dplangevin.leaderboard import SIMPLEST, recommend, size_of
from dplangevin.papers.standings import standings
from dplangevin.pipeline.cache import csv_bytes

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results/exhibits/leaderboard/leaderboard.csv"
# six held-out tables of the same size at epsilon 1, the last with three classes; one more table for development
TABLES = {name: 2 + (name == "f") for name in "abcdefg"}
AHEAD = [0.02, 0.021, 0.019, 0.02, 0.022]  # dp_precond is this much ahead of dp_gd


def results(ahead: list[float] = AHEAD) -> pd.DataFrame:
    """Rows of the exhibit; `ahead` of dp_precond at epsilon 1, by table of two classes."""
    rows = []
    for k, (name, classes) in enumerate(TABLES.items()):
        of: dict[str, Any] = {"dataset": name, "split_group": "development" if name == "g" else "held_out"}
        of |= {"n": 5000, "d": 10 + k, "classes": classes, "violated": math.nan}
        lead = ahead[k] if k < len(ahead) else 0.5
        rows.append({**of, "method": "nonprivate", "epsilon": math.inf, "accuracy": 0.9})
        for epsilon in (0.1, 1.0, 1.5):
            base = 0.8 + 0.01 * k + 0.01 * (epsilon > 1)
            rows.append({**of, "method": SIMPLEST, "epsilon": epsilon, "accuracy": base})
            rows.append({**of, "method": "dp_precond", "epsilon": epsilon, "accuracy": base + lead})
            if name != "b":  # it has no result on one table
                rows.append({**of, "method": "ops_gdp", "epsilon": epsilon, "accuracy": base + 0.09})
    return pd.DataFrame(rows)


def test_a_learner_that_is_ahead_by_more_than_chance_is_chosen() -> None:
    found = standings(results())
    assert set(found["size"]) == {"small", "middle"}
    middle = found.query("kind == 'two' and size == 'middle'").set_index("method")
    assert middle.tables.to_dict() == {SIMPLEST: 5, "dp_precond": 5, "ops_gdp": 4}
    assert middle.index[middle.chosen].tolist() == ["dp_precond"]
    # over tables, of the mean of the two budgets
    mine = np.array([0.9 - (0.805 + 0.01 * k + AHEAD[k]) for k in range(5)])
    row = middle.loc["dp_precond"]
    assert row.distance == pytest.approx(mine.mean())
    low, high = ttest_1samp(mine, 0).confidence_interval(0.95)
    assert (row.low, row.high) == (pytest.approx(low), pytest.approx(high))
    small = standings(results()).query("kind == 'two' and size == 'small'")
    assert small.tables.max() == 5


@pytest.mark.parametrize(
    ("ahead", "chosen"),
    [
        ([0.0] * 5, SIMPLEST),
        ([0.05, -0.03, 0.02, -0.01, 0.03], SIMPLEST),  # the mean is ahead, and not by more than chance
        ([-0.02] * 5, SIMPLEST),
        (AHEAD, "dp_precond"),
    ],
)
def test_ties_go_to_the_simplest(ahead: list[float], chosen: str) -> None:
    found = standings(results(ahead))
    of = found[found.kind.eq("two") & found["size"].eq("middle") & found.chosen]
    assert of.method.tolist() == [chosen]


def test_the_choice_counts_how_many_learners_compete() -> None:
    """More learners give chance more occasions to put one ahead."""
    ahead = [0.02, 0.001, 0.015, 0.003, 0.02]
    p = ttest_rel(ahead, [0.0] * 5).pvalue
    assert 0.05 / 3 < p < 0.05
    frame = results(ahead)
    assert standings(frame).query("chosen and kind == 'two'").method.unique().tolist() == ["dp_precond"]
    more = [frame[frame.method.eq(SIMPLEST)].assign(method=name) for name in ("outpert", "objpert")]
    found = standings(pd.concat([frame, *more]))
    assert found.query("chosen and kind == 'two'").method.unique().tolist() == [SIMPLEST]


def test_a_single_table_chooses_the_simplest() -> None:
    """There is no interval over tables."""
    found = standings(results()).query("kind == 'more' and size == 'middle'").set_index("method")
    assert found.chosen.to_dict() == {SIMPLEST: True, "dp_precond": False, "ops_gdp": False}
    assert math.isnan(found.low[SIMPLEST])


def test_tables_for_development_do_not_count() -> None:
    frame = results()
    frame.loc[frame.dataset.eq("g"), "accuracy"] = 0.1
    assert standings(frame).equals(standings(results()))


def test_a_learner_without_its_guarantee_does_not_count() -> None:
    frame = results().astype({"violated": object})
    frame.loc[frame.dataset.eq("a") & frame.method.eq("dp_precond"), "violated"] = "a condition"
    found = standings(frame).query("kind == 'two' and size == 'middle'").set_index("method")
    assert (found.tables["dp_precond"], found.index[found.chosen].tolist()) == (4, [SIMPLEST])


@pytest.mark.parametrize(
    ("records", "size"), [(99, "small"), (100, "middle"), (999, "middle"), (1000, "large")]
)
def test_sizes(records: int, size: str) -> None:
    assert size_of(records, 1, 1.0) == size_of(records * 10, 1, 0.1) == size_of(records * 7, 7, 1.0) == size


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    text = csv_bytes(standings(results([0.05, -0.03, 0.02, -0.01, 0.03]))).decode()
    monkeypatch.setattr(leaderboard, "_rows", lambda: [*csv.DictReader(io.StringIO(text))])


@pytest.mark.usefixtures("stand_in")
def test_the_reason_states_the_group_and_its_numbers() -> None:
    found = recommend(5000, 10, 2, 1.0)
    assert found.method == SIMPLEST
    assert found.reason == (
        "On held-out tables of two classes with records × ε / columns from 100 to 1000 (yours: 500) its distance to no "
        "privacy is 7.50 points of accuracy (95 % interval 5.54 to 9.46, 5 tables). That of dp_precond is 6.30 points "
        "of accuracy (95 % interval 2.05 to 10.55, 5 tables). The two cannot be told apart, and dp_gd is simpler."
    )
    assert [each.method for each in found.standings] == ["dp_precond", SIMPLEST, "ops_gdp"]


@pytest.mark.usefixtures("stand_in")
def test_a_group_without_tables_gets_the_simplest_learner() -> None:
    found = recommend(10**6, 10, 2, 10.0)
    assert (found.method, found.standings) == (SIMPLEST, [])
    assert (
        "has no held-out tables of two classes with records × ε / columns of 1000 or more (yours: 1e6)"
        in found.reason
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"records": 0}, "records = 0 must be a whole number of at least 1"),
        ({"features": 2.5}, r"features = 2\.5 must be a whole number"),
        ({"classes": 1}, "classes = 1 must be a whole number of at least 2"),
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"epsilon": math.inf}, "epsilon must be positive and finite"),
    ],
)
def test_arguments_out_of_their_domains(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recommend(**{"records": 10, "features": 2, "classes": 2, "epsilon": 1.0} | wrong)  # type: ignore[arg-type]


@pytest.mark.skipif(not RESULTS.exists(), reason="the exhibit `leaderboard` is not made")
def test_the_packaged_file_follows_from_the_results() -> None:
    """Else: python pipelines/report.py recommend."""
    packaged = ROOT / "src/dplangevin/leaderboard.csv"
    assert packaged.read_bytes() == csv_bytes(standings(pd.read_csv(RESULTS)))
