"""Numbers of the training runs: budgets of curves, pooled bins."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake_results import finals, write_runs

from dplangevin.papers.exhibits import networks
from dplangevin.reporting import read


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    write_runs(path, finals(), trained=True)
    return path


def curves_of(folder: Path, curves: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows and summary of some curves."""
    rows = read.read_curve(["li2019_tab1/mnist"], [curve["run"] for curve in curves], folder)
    return rows, networks.learning_curve_summary(rows, curves=curves)


def test_budget_of_a_curve(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"tanh_dp_sgd has budgets .*say in the exhibit"):
        curves_of(folder, [{"run": "tanh_dp_sgd", "label": "x"}])
    with pytest.raises(ValueError, match="tanh_sgd has budgets"):
        curves_of(folder, [{"run": "tanh_sgd", "label": "x", "epsilon": 1.0}])


def test_reliability_pools_seeds_by_count(folder: Path) -> None:
    panels: list[dict[str, Any]] = [{"run": "tanh_dp_sgld_printed", "title": "printed"}]
    panels += [{"run": "tanh_dp_sgld", "title": "ε = {epsilon}", "epsilon": e} for e in (0.9, 9.0)]
    rows = read.read_reliability(["li2019_tab1/mnist"], ["tanh_dp_sgld_printed", "tanh_dp_sgld"], folder)
    rows.loc[rows.seed.eq(0), "accuracy"] = 0.0
    table = networks.reliability_summary(rows, panels=panels)
    assert list(table.title.unique()) == ["printed", "ε = 0.99", "ε = 8"]
    part = rows[
        rows.run.eq("tanh_dp_sgld") & rows.epsilon.eq(8.0) & rows.predictor.eq("single") & rows.bin.eq(4)
    ]
    found = table[table.panel.eq(2) & table.predictor.eq("single") & table.bin.eq(4)].iloc[0]
    assert found.accuracy == pytest.approx(np.average(part.accuracy, weights=part["count"]))
    assert found["count"] == part["count"].sum()
    assert table.groupby(["panel", "predictor"]).share.sum().tolist() == pytest.approx([1.0] * 6)
    assert table.groupby("predictor")[["ece", "log_loss"]].mean().to_numpy().tolist() == [
        pytest.approx([0.01, 0.1]),
        pytest.approx([0.03, 0.2]),
    ]
