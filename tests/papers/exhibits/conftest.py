"""Fake runs for figures, in the columns of the run files: shapes and magnitudes, no result of anything."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake_results import TOP, figure1, run_at

Case = tuple[str, str, float, float, dict[str, Any]]  # method, data set, ε, mean, other columns


def made_up(experiment: str, seed: int, cases: list[Case], noise: float = 0.005, **same: Any) -> pd.DataFrame:
    """Ten repeats around the mean of every case."""
    rng = np.random.default_rng(seed)
    frames = [
        run_at(
            method, dataset, e, mean + rng.normal(0, noise, 10), experiment=experiment, **{**same, **other}
        )
        for method, dataset, e, mean, other in cases
    ]
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="session")
def sensitivity_runs() -> pd.DataFrame:
    """The sensitivity experiment of wang2015."""
    places = list(product(("abalone", "adult"), (1.0, 10.0)))
    bounds = (("paper", 0.01), ("range", 0.005))
    cases: list[Case] = [
        (
            "ops",
            d,
            e,
            TOP[d] - slope * radius / (1 + e) - 0.02 / radius,
            {"variant": f"bound={bound};radius={radius}"},
        )
        for (d, e), (bound, slope), radius in product(places, bounds, (1.0, 3.0, 30.0))
    ]
    cases += [
        ("objpert", d, e, TOP[d] - 0.05 / (0.3 + e) - 0.0005 * ridge,
         {"variant": f"adjacency={adjacency};ridge={ridge}", "adjacency": adjacency})
        for (d, e), adjacency, ridge in product(places, ("replace_one", "add_remove"), (1.0, 100.0))
    ]  # fmt: skip
    return made_up("wang2015_sensitivity", 2, cases, scaling="unit")


@pytest.fixture(scope="session")
def runs() -> pd.DataFrame:
    """Runs of figure 1 and the plain samplers, in which OPS is best and the plain samplers are worst."""
    return figure1()


SCORES = {"accuracy": 0.85, "log_loss": 0.32, "brier": 0.1, "ece": 0.01}


@pytest.fixture(scope="session")
def compare_runs() -> pd.DataFrame:
    """Every method of `compare`: OPS is best; DP-SGLD ends at a tight epsilon of .5."""
    half = {
        "ops": 0.05, "ops_gdp": 0.1, "objpert": 0.08, "objpert_pure": 0.2, "outpert": 0.3, "hybrid": 0.4,
        "hybrid_sgld": 0.3, "dp_sgld": 3.0, "dp_sgld_li2019": 0.06, "dp_sgd": 0.05, "dp_sghmc": 2.0, "dp_sgnht": 2.0,
        "dp_sgfs": 2.5, "dpvi": 0.15, "pate": 0.6,
    }  # fmt: skip
    cases: list[Case] = []
    for dataset, metric in product(("synthetic", "adult"), SCORES):
        best, sign = (TOP[dataset], -1) if metric == "accuracy" else (SCORES[metric], 1)
        cases += [(method, dataset, np.inf, best, {"metric": metric}) for method in ("nonprivate", "sgld")]
        for (method, h), e in product(half.items(), (0.05, 0.2, 0.5, 2.0, 5.0, 20.0)):
            tight = min(e, 0.5) if method == "dp_sgld" else e
            mean = best + sign * 0.3 * h / (h + e)
            cases.append((method, dataset, e, mean, {"metric": metric, "epsilon_proven": tight}))
    return made_up("compare", 6, cases, 0.002)
