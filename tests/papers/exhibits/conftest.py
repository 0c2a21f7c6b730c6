"""Fake runs for figures, in the columns of the run files: shapes and magnitudes, no result of anything."""

from pathlib import Path

import fake_results
import numpy as np
import pandas as pd
import pytest
from fake_results import TOP, figure1
from fake_results import run_at as rows


@pytest.fixture(scope="session")
def sensitivity_runs() -> pd.DataFrame:
    """The sensitivity experiment of wang2015."""
    rng = np.random.default_rng(2)
    frames = []
    for dataset, scaling in (("abalone", "unit"), ("adult", "unit")):
        kind = {"experiment": "wang2015_sensitivity", "scaling": scaling}
        for e in (1.0, 10.0):
            for factor, bound in ((1.0, "paper"), (0.5, "range")):
                for radius in (1.0, 3.0, 30.0):
                    mean = TOP[dataset] - 0.3 * factor * radius / 30 / (1 + e) - 0.02 / radius
                    variant = f"bound={bound};radius={radius}"
                    frames.append(
                        rows("ops", dataset, e, mean + rng.normal(0, 0.01, 10), variant=variant, **kind)
                    )
            for adjacency, gift in (("replace_one", 0.0), ("add_remove", 0.01)):
                for ridge in (1.0, 100.0):
                    value = TOP[dataset] - 0.05 / (0.3 + e) - ridge * 0.0005 + rng.normal(gift, 0.005, 10)
                    setting = {"variant": f"adjacency={adjacency};ridge={ridge}", "adjacency": adjacency}
                    frames.append(rows("objpert", dataset, e, value, **setting, **kind))
            for schedule in ("phase", "constant", "harmonic"):
                value = 0.6 + rng.normal(0, 0.005, 10)
                frames.append(rows("dp_sgld", dataset, e, value, variant=f"schedule={schedule}", **kind))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="session")
def runs() -> pd.DataFrame:
    """Runs of figure 1 and the plain samplers, in which OPS is best and the plain samplers are worst."""
    return figure1()


@pytest.fixture(scope="session")
def baseline_runs() -> pd.DataFrame:
    """Figure 3 of li2019: DP-SGLD is SGLD from .1 on, where it costs .09; PATE is worst."""
    rng = np.random.default_rng(3)
    kind = {"experiment": "li2019_fig3", "delta": 1e-4}
    half = {
        "dp_sgld_li2019": 0.02, "dp_sgd": 0.015, "ops": 0.3, "ops_gdp": 0.05, "objpert": 0.1, "dpvi": 0.08,
        "pate": 0.9, "hybrid_sgld": 0.6,
    }  # fmt: skip
    frames = [rows("nonprivate", "adult", np.inf, np.full(10, 0.8525), **kind)]
    frames.append(rows("nonprivate", "adult", np.inf, np.full(10, 0.76), metric="majority_accuracy", **kind))
    frames.append(rows("sgld", "adult", np.inf, 0.85 + rng.normal(0, 0.001, 10), **kind))
    for method, h in half.items():
        for e in (0.01, 0.08, 0.1, 2.0):
            capped = method == "dp_sgld_li2019" and e >= 0.1
            cost = {"epsilon_promised": 0.09, "epsilon_proven": 0.05} if capped else {}
            value = (0.85 if capped else 0.85 - 0.35 * h / (h + e)) + rng.normal(0, 0.002, 10)
            frames.append(rows(method, "adult", e, value, **cost, **kind))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="session")
def clipping_runs() -> pd.DataFrame:
    """The sensitivity experiment of li2019."""
    rng = np.random.default_rng(4)
    frames = []
    for scaling in ("unit", "global", "raw"):
        for method in ("dp_sgld_li2019", "dp_sgd"):
            for clip in (0.1, 1.0):
                for adjacency in ("replace_one", "add_remove"):
                    for e in (0.05, 2.0):
                        kind = {"experiment": "li2019_sensitivity", "delta": 1e-4, "scaling": scaling}
                        kind |= {"variant": f"clip={clip};adjacency={adjacency}", "adjacency": adjacency}
                        value = 0.84 - 0.02 / e**0.5 + rng.normal(0, 0.003, 10)
                        frames.append(rows(method, "adult", e, value, **kind))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="session")
def step_runs() -> pd.DataFrame:
    """SGLD, DP-SGLD and DP-SGD under three standard step sizes."""
    rng = np.random.default_rng(7)
    frames = []
    for step in ("0.5", "0.05", "0.002"):
        for method in ("sgld", "dp_sgld_li2019", "dp_sgd"):
            for e in [np.inf] if method == "sgld" else [0.1, 0.5, 2.0]:
                kind = {"experiment": "li2019_steps", "delta": 1e-4, "variant": f"step={step}"}
                value = 0.85 - 0.02 / e**0.5 + rng.normal(0, 0.003, 10)
                frames.append(rows(method, "adult", e, value, **kind))
    return pd.concat(frames, ignore_index=True)


SCORES = {"accuracy": 0.85, "log_loss": 0.32, "brier": 0.1, "ece": 0.01}
POSTERIOR = {
    "mean_distance": 1.0, "covariance_distance": 0.5, "predictive_gap": 0.01, "r_hat": 1.01, "ess": 200.0,
}  # fmt: skip


@pytest.fixture(scope="session")
def family_runs() -> pd.DataFrame:
    """The samplers of wang2015 beside the posterior: two chains of DP-SGFS diverge at the smallest budget."""
    rng = np.random.default_rng(5)
    frames = []
    for method in ("sgld", "dp_sgld", "dp_sghmc", "dp_sgnht", "dp_sgfs"):
        one_temperature = method in ("dp_sghmc", "dp_sgnht")
        for variant in [""] if one_temperature else ["temperature=printed", "temperature=proper"]:
            for e in [np.inf] if method == "sgld" else [0.1, 1.0, 10.0, 100.0]:
                for metric, best in {**SCORES, **POSTERIOR}.items():
                    level = best * (0.6 if metric == "accuracy" else 1 + 10 / e)
                    value = level * (1 + 0.01 * rng.normal(size=10))
                    lost = method == "dp_sgfs" and e == 0.1
                    value[: 2 if lost else 0] = np.nan
                    kind = {"experiment": "wang2015_family", "variant": variant, "metric": metric}
                    note = {"violated": "2 of 10 chains diverged"} if lost else {}
                    frames.append(rows(method, "adult", e, value, epsilon_proven=e / 20, **kind, **note))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="session")
def compare_runs() -> pd.DataFrame:
    """Every method of `compare`: OPS is best; DP-SGLD ends at a tight epsilon of .5."""
    rng = np.random.default_rng(6)
    half = {
        "ops": 0.05, "ops_gdp": 0.1, "objpert": 0.08, "objpert_pure": 0.2, "outpert": 0.3, "hybrid": 0.4,
        "hybrid_sgld": 0.3, "dp_sgld": 3.0, "dp_sgld_li2019": 0.06, "dp_sgd": 0.05, "dp_sghmc": 2.0, "dp_sgnht": 2.0,
        "dp_sgfs": 2.5, "dpvi": 0.15, "pate": 0.6,
    }  # fmt: skip
    frames = []
    for dataset, top in (("synthetic", TOP["synthetic"]), ("adult", TOP["adult"])):
        for metric, best in {**SCORES, "accuracy": top}.items():
            kind = {"experiment": "compare", "metric": metric}
            for method in ("nonprivate", "sgld"):
                frames.append(rows(method, dataset, np.inf, best + rng.normal(0, 0.001, 10), **kind))
            for method, h in half.items():
                for e in (0.05, 0.2, 0.5, 2.0, 5.0, 20.0):
                    sign = -1 if metric == "accuracy" else 1
                    value = best + sign * 0.3 * h / (h + e) + rng.normal(0, 0.002, 10)
                    tight = min(e, 0.5) if method == "dp_sgld" else e
                    frames.append(rows(method, dataset, e, value, epsilon_proven=tight, **kind))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """results/runs of the heads on features and of fine-tuning, with made-up rows."""
    folder = tmp_path_factory.mktemp("tree") / "results"
    networks = "cifar10_resnet18", "cifar10_alexnet"
    both = pd.concat([fake_results.heads(), fake_results.pneumonia()])
    public = both[both.calibration.isin(["", "tight"])].assign(
        experiment=lambda rows: rows.experiment + "_public", block="public"
    )
    tuned = [fake_results.finetune(network) for network in ("resnet18", "resnet20")]
    frames = [
        both,
        *map(fake_results.heads, networks),
        fake_results.code(),
        fake_results.records(),
        public,
        fake_results.head_curve(),
        *tuned,
    ]
    fake_results.write_runs(folder / "runs", pd.concat(frames, ignore_index=True))
    return folder
