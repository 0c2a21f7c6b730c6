"""A made-up run frame in the run files' own columns: shapes and orders of magnitude of wang2015, no result of
anything."""

import numpy as np
import pandas as pd
import pytest

from dplangevin.exhibits.files import COLUMNS

EPSILONS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
TOP = {"synthetic": 0.72, "abalone": 0.78, "adult": 0.85}
HALF = {"ops": 0.2, "objpert": 0.1, "outpert": 0.3, "hybrid": 0.4, "dp_sgld": 3.0, "dp_sgnht": 2.0}
BILL = {"ops": 0.95, "objpert": 0.7, "outpert": 1.0, "hybrid": 0.5, "dp_sgld": 0.05, "dp_sgnht": 0.06}


def rows(method: str, dataset: str, epsilon: float, accuracy: np.ndarray, **other: object) -> pd.DataFrame:
    """One budget of one method: a row per repeat."""
    tight = epsilon * BILL.get(method, 1.0)
    fixed: dict[str, object] = {
        "experiment": "wang2015", "dataset": dataset, "model": "logistic", "method": method, "variant": "",
        "scaling": "unit", "epsilon": epsilon, "delta": 1e-5, "epsilon_paper": epsilon,
        "epsilon_tight": tight, "accountant_tight": "pld", "adjacency": "replace_one", "released": "final",
        "sampling": "full", "metric": "accuracy", "violated": "", "assumptions": "made up",
    }  # fmt: skip
    return pd.DataFrame([{**fixed, **other, "repeat": r, "value": a} for r, a in enumerate(accuracy)])[
        COLUMNS
    ]


def _figure1(rng: np.random.Generator) -> list[pd.DataFrame]:
    frames = []
    for dataset, top in TOP.items():
        noise = rng.normal(0, 0.004, 10)
        frames.append(rows("nonprivate", dataset, np.inf, top + noise))
        share = np.full(10, 0.5 + 0.4 * (top - 0.6))
        frames.append(rows("nonprivate", dataset, np.inf, share, metric="majority_accuracy"))
        for method, half in HALF.items():
            for e in EPSILONS:
                mean = top - (top - 0.45) * half / (half + e)
                value = mean + noise + rng.normal(0, 0.02 / (1 + e), 10)
                short = method.startswith("dp_") and e > 3
                tight = {"epsilon_tight": 0.0} if method == "dp_sgld" and e < 0.02 else {}
                violated = f"T = 180 < eps^2 N/(32 tau ln(2/delta)) = {40 * e:.0f}" if short else ""
                frames.append(rows(method, dataset, e, value, violated=violated, **tight))
    return frames


def _sensitivity(rng: np.random.Generator) -> list[pd.DataFrame]:
    frames = []
    for dataset in ("abalone", "adult"):
        for scaling, less in (("unit", 0.0), ("global", 0.03)):
            kind = {"experiment": "wang2015_sensitivity", "scaling": scaling}
            for e in (0.1, 1.0, 10.0):
                for factor, bound in ((1.0, "paper"), (0.5, "range")):
                    for radius in (1.0, 3.0, 10.0, 30.0):
                        mean = TOP[dataset] - less - 0.3 * factor * radius / 30 / (1 + e) - 0.02 / radius
                        variant = f"bound={bound};radius={radius}"
                        value = mean + rng.normal(0, 0.01, 10)
                        frames.append(rows("ops", dataset, e, value, variant=variant, **kind))
                for adjacency, gift in (("replace_one", 0.0), ("add_remove", 0.01)):
                    for ridge in (0.01, 1.0, 10.0, 100.0):
                        value = TOP[dataset] - 0.05 / (0.3 + e) - ridge * 0.0005 + rng.normal(gift, 0.005, 10)
                        setting = {"variant": f"adjacency={adjacency};ridge={ridge}", "adjacency": adjacency}
                        frames.append(rows("objpert", dataset, e, value, **setting, **kind))
                for schedule in ("phase", "constant", "harmonic"):
                    value = 0.6 + rng.normal(0, 0.005, 10)
                    frames.append(rows("dp_sgld", dataset, e, value, variant=f"schedule={schedule}", **kind))
    return frames


@pytest.fixture(scope="session")
def runs() -> pd.DataFrame:
    """Runs of figure 1 and the plain samplers, in which OPS is best and the plain samplers are worst."""
    return pd.concat(_figure1(np.random.default_rng(1)), ignore_index=True)


@pytest.fixture(scope="session")
def sensitivity_runs() -> pd.DataFrame:
    """Runs of the sensitivity experiment."""
    return pd.concat(_sensitivity(np.random.default_rng(2)), ignore_index=True)
