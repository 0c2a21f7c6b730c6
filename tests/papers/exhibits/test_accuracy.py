"""Paired differences of accuracy."""

import numpy as np
import pandas as pd
import pytest

from dplangevin.papers.exhibits import accuracy


def test_differences_to_the_best_variant_for_the_same_neighbours(sensitivity_runs: pd.DataFrame) -> None:
    runs = sensitivity_runs[sensitivity_runs.dataset.eq("adult") & sensitivity_runs.epsilon.eq(1.0)]
    found = accuracy.gaps(runs, first="ops", second="objpert", best=True).set_index("variant")
    mean = 100 * runs[runs.metric.eq("accuracy")].groupby("variant").value.mean()
    best = max(mean[f"adjacency=replace_one;ridge={ridge}"] for ridge in (1.0, 100.0))
    assert found.value.to_dict() == pytest.approx((mean[found.index] - best).to_dict())
    assert (found.low < found.value).all()
    failed = runs.assign(violated=np.where(runs.method.eq("objpert"), "no", ""))
    assert accuracy.gaps(failed, first="ops", second="objpert", best=True).empty
