"""Figures and pages about samplers: errors, trajectories, temperatures, distances to the exact posterior."""

import numpy as np
import pandas as pd
import pytest

from dplangevin.papers.exhibits import samplers


def test_an_ellipse_is_where_the_normal_law_is_that_far() -> None:
    mean, covariance = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 0.5]])
    away = samplers.ellipse(mean, covariance, 2.0)[samplers.AT].to_numpy() - mean
    assert np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away) == pytest.approx(4.0)


@pytest.mark.slow
def test_scores_leave_diverged_chains_out_and_count_them(family_runs: pd.DataFrame) -> None:
    table = samplers.posterior_summary(family_runs)
    at = table.method.eq("dp_sgfs") & table.variant.eq("temperature=proper") & table.epsilon.eq(0.1)
    row = table[at & table.metric.eq("brier")].iloc[0]
    assert (row.repeats, row.diverged, row.temperature) == (8, 2, "proper")
    kept = family_runs[family_runs.method.eq("dp_sgfs") & family_runs.epsilon.eq(0.1)]
    kept = kept[kept.variant.eq("temperature=proper") & kept.metric.eq("brier")]
    assert row["mean"] == pytest.approx(np.nanmean(kept.value))
    assert table[table.method.eq("dp_sghmc")].temperature.eq("printed").all()
    wide = samplers.posterior_table(family_runs).set_index(["method", "temperature", "epsilon"])
    assert wide.diverged["dp_sgfs", "proper", 0.1] == 2
    own = family_runs[family_runs.method.eq("dp_sghmc") & family_runs.epsilon.eq(1.0)]
    assert wide.ess["dp_sghmc", "printed", 1.0] == own[own.metric.eq("ess")].value.min()
    with pytest.raises(ValueError, match="conf/exhibit"):
        samplers.posterior_summary(family_runs.assign(metric="seconds"))
