"""Paired differences of accuracy."""

import numpy as np
import pytest
from drawing import CONF

from dplangevin.papers.exhibits import accuracy
from dplangevin.reporting.read import read_runs


def test_differences_to_the_best_variant_for_the_same_neighbours() -> None:
    runs = read_runs(["wang2015_sensitivity/adult"], ["ops", "objpert"], CONF.parent / "results/runs")
    runs = runs[runs.epsilon.eq(1.0) & runs.scaling.eq("unit")]
    found = accuracy.gaps(runs, first="ops", second="objpert", best=True).set_index("variant")
    mean = 100 * runs[runs.metric.eq("accuracy")].groupby("variant").value.mean()
    best = mean[mean.index.str.startswith("adjacency=replace_one")].max()
    assert found.value.to_dict() == pytest.approx((mean[mean.index.str.startswith("bound")] - best).to_dict())
    assert (found.low < found.value).all()
    failed = runs.assign(violated=np.where(runs.method.eq("objpert"), "no", ""))
    assert accuracy.gaps(failed, first="ops", second="objpert", best=True).empty
