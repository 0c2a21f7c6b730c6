"""Intervals against scipy, the summary behind the figures, metrics and the readable claims."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dplangevin.exhibits import tables


def test_summary_agrees_with_scipy(runs: pd.DataFrame) -> None:
    table = tables.summary(runs)
    assert list(table.columns) == tables.SUMMARY_COLUMNS
    row = table[table.dataset.eq("adult") & table.method.eq("ops") & table.epsilon.eq(1.0)].iloc[0]
    mine = runs[runs.dataset.eq("adult") & runs.method.eq("ops") & runs.epsilon.eq(1.0)].value
    low, high = stats.t.interval(0.95, len(mine) - 1, loc=mine.mean(), scale=stats.sem(mine))
    assert (row["mean"], row.low, row.high) == pytest.approx((mine.mean(), low, high), rel=1e-12)
    assert row.ln_epsilon == 0.0
    assert row.ln_epsilon_tight == pytest.approx(math.log(0.95))
    assert row.repeats == 10


def test_summary_keeps_majority_violations_and_zero_epsilon(runs: pd.DataFrame) -> None:
    table = tables.summary(runs)
    assert set(table[table.method.eq("majority")].dataset) == {"synthetic", "abalone", "adult"}
    bad = table[table.violated.ne("")]
    assert set(bad.method) == {"dp_sgld", "dp_sgnht"}
    assert bad.epsilon.min() > 3
    zero = table[table.epsilon_tight.eq(0.0)]
    assert np.isneginf(zero.ln_epsilon_tight).all()


def test_summary_of_one_repeat_has_no_interval(runs: pd.DataFrame) -> None:
    table = tables.summary(runs[runs.repeat.eq(0)])
    assert table.low.isna().all()
    assert table["mean"].notna().all()


def test_summary_refuses_a_run_listed_twice(runs: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="listed twice"):
        tables.summary(pd.concat([runs, runs.head(1)]))


def test_variant_settings() -> None:
    assert tables.variant_settings("bound=range;radius=10.0") == {"bound": "range", "radius": "10.0"}
    assert tables.variant_settings("") == {}
    with pytest.raises(ValueError, match="key=value"):
        tables.variant_settings("range")


def test_metrics_name_their_budget(runs: pd.DataFrame) -> None:
    nested = tables.metrics(runs)["wang2015"]["adult"]
    assert nested["ops"]["epsilon_tight"] == pytest.approx(0.95)
    assert 0.5 < nested["ops"]["accuracy_at_eps_1"] < 0.85
    assert set(nested["nonprivate"]) == {"accuracy"}
    others = tables.metrics(runs[~runs.epsilon.eq(1.0)])["wang2015"]["adult"]["ops"]
    assert {"accuracy_at_eps_0.5", "epsilon_tight"} == set(others)


def test_claims_page_shows_every_row() -> None:
    said = {"paper": "a", "where": "Figure 1", "statement": "A beats B", "published": "A above B"}
    found = {"verdict": "reproduced", "reason": "why", "evidence": "x.csv"}
    row = {"id": "a_b", **said, "ours": 0.02, "low": 0.01, "high": 0.03, **found}
    page = tables.claims_markdown(pd.DataFrame([row, {**row, "id": "a_c", "ours": 32561.0, "low": math.nan}]))
    assert "| a_b | A above B | 0.0200 (0.0100 to 0.0300) | **reproduced** |" in page
    assert "| a_c | A above B | 32561 | **reproduced** |" in page
    assert "- a_b: why. Numbers: `x.csv`." in page
    assert page.count("> A beats B") == 1


def test_every_non_private_method_may_name_the_majority_class(runs: pd.DataFrame) -> None:
    other = runs[runs.method.eq("nonprivate")].assign(method="sgld")
    both, alone = tables.summary(pd.concat([runs, other])), tables.summary(runs)
    assert (
        both[both.method.eq("majority")]
        .reset_index(drop=True)
        .equals(alone[alone.method.eq("majority")].reset_index(drop=True))
    )
