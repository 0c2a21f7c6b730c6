"""Fake results for the tests, in the columns of the result files: shapes and magnitudes, no result of anything."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.pipeline.plan import KEYS, RUN_COLUMNS, TABLES
from dplangevin.reporting.read import COLUMNS, TEXT

NAN, INF = float("nan"), float("inf")
EMPTY = {column: "" if column in TEXT else NAN for column in RUN_COLUMNS}


def scored(scores: Mapping[str, Sequence[float] | np.ndarray], **settings: Any) -> pd.DataFrame:
    """Rows of one run at one epsilon. scores: metric -> value by seed; settings: columns of runs.csv, others empty."""
    row = {**EMPTY, "assumptions": "made up", **settings}
    rows = [
        {**row, "seed": seed, "metric": metric, "value": value}
        for metric, values in scores.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def write_runs(root: Path, frame: pd.DataFrame) -> None:
    """The rows of every folder, as root/<experiment>/<dataset>/*.csv."""
    for (experiment, dataset), rows in frame.groupby(["experiment", "dataset"]):
        folder = root / str(experiment) / str(dataset)
        folder.mkdir(parents=True, exist_ok=True)
        parts = {"runs": rows.drop_duplicates(KEYS)[RUN_COLUMNS], "scores": rows[TABLES["scores"]]}
        for name, part in parts.items():
            part.to_csv(folder / f"{name}.csv", index=False, float_format="%.10g")


# Runs of convex problems

EPSILONS = [0.1, 1.0, 10.0]
WIGGLE = np.array([-0.01, 0.0, 0.01, 0.005, -0.005])


def accuracy_rows(
    method: str, values: Mapping[float, Sequence[float] | np.ndarray], bill: float = 1.0, **other: Any
) -> pd.DataFrame:
    """Rows of a run: budget -> value by seed; the tight epsilon is bill * epsilon. `other` replaces columns."""
    same: dict[str, Any] = {
        "experiment": "wang2015", "dataset": "adult", "problem": "logistic", "run": method, "method": method,
        "scaling": "unit", "delta": 1e-5, "accountant_proven": "pld", "adjacency": "replace_one",
        "adjacency_proven": "replace_one", "released": "final", "sampling": "full",
    }  # fmt: skip
    metric = other.pop("metric", "accuracy")
    frames = [
        scored(
            {metric: of}, **{**same, "epsilon": e, "epsilon_promised": e, "epsilon_proven": bill * e, **other}
        )
        for e, of in values.items()
    ]
    return pd.concat(frames, ignore_index=True)


def run_rows(method: str, means: Sequence[float], **other: Any) -> pd.DataFrame:
    """One method at EPSILONS: five repeats, with ups and downs shared between methods."""
    own = np.roll(WIGGLE, len(method)) * 0.1
    values = {e: mean + WIGGLE + own for e, mean in zip(EPSILONS, means, strict=True)}
    return accuracy_rows(method, values, bill=0.5, **other)


BUDGETS_OF_FIGURE1 = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
TOP = {"synthetic": 0.72, "abalone": 0.78, "adult": 0.85}
HALF = {"ops": 0.2, "objpert": 0.1, "outpert": 0.3, "hybrid": 0.4, "dp_sgld": 3.0, "dp_sgnht": 2.0}
BILL = {"ops": 0.95, "objpert": 0.7, "outpert": 1.0, "hybrid": 0.5, "dp_sgld": 0.05, "dp_sgnht": 0.06}


def run_at(method: str, dataset: str, epsilon: float, accuracy: np.ndarray, **other: Any) -> pd.DataFrame:
    """One budget of one method: a row per repeat."""
    return accuracy_rows(method, {epsilon: accuracy}, BILL.get(method, 1.0), dataset=dataset, **other)


def figure1() -> pd.DataFrame:
    """Figure 1 and the plain samplers, in which OPS is best and the plain samplers are worst."""
    rng = np.random.default_rng(1)
    frames = []
    for dataset, top in TOP.items():
        noise = rng.normal(0, 0.004, 10)
        frames.append(run_at("nonprivate", dataset, np.inf, top + noise))
        share = np.full(10, 0.5 + 0.4 * (top - 0.6))
        frames.append(run_at("nonprivate", dataset, np.inf, share, metric="majority_accuracy"))
        for method, half in HALF.items():
            for e in BUDGETS_OF_FIGURE1:
                mean = top - (top - 0.45) * half / (half + e)
                value = mean + noise + rng.normal(0, 0.02 / (1 + e), 10)
                short = method.startswith("dp_") and e > 3
                tight = {"epsilon_proven": 0.0} if method == "dp_sgld" and e < 0.02 else {}
                violated = f"T = 180 < eps^2 N/(32 tau ln(2/delta)) = {40 * e:.0f}" if short else ""
                frames.append(run_at(method, dataset, e, value, violated=violated, **tight))
    return pd.concat(frames, ignore_index=True)


# Heads on features, and fine-tuning

HEAD_SEEDS = 4
# by the names of runs
METHODS = {"none": "sgd", "dp_langevin": "dp_sgld_ryffel2022", "dp_sgld": "dp_sgld_li2019"}


def head_run(features: str, name: str, mean: float, **other: Any) -> pd.DataFrame:
    """HEAD_SEEDS seeds of one run, .001 apart around `mean`; `other` replaces columns."""
    schedule = "decreasing" if "decreasing" in name else "constant"
    method, _, rest = name.partition(f"_{schedule}")
    calibration = rest.removeprefix("_")
    block = "equal" if calibration == "tight" else "published"
    row: dict[str, Any] = {
        "experiment": f"ryffel2022_{features.split('_')[0]}", "dataset": features, "problem": "softmax", "run": name,
        "method": METHODS.get(method, method), "block": block, "schedule": schedule, "calibration": calibration,
        "epsilon": 1.0, "delta": 1e-5, "accountant_proven": "pld", "adjacency_proven": "replace_one",
        "attack_confidence": 0.95, "attack_pair": "x to -x", "step_size": 0.018, "l2": 0.001, "smoothness": 20.0,
        "clip": 15.0, "batch": 128.0, "epochs": 30.0, "steps": 11718.0, "row_bound": 10.0, "records": 50000.0,
        "parameters": 640.0, "classes": 10.0,
    }  # fmt: skip
    match method, block:
        case "none", _:
            row |= {"epsilon": INF, "epsilon_proven": INF, "clip": NAN, "delta": NAN}
        case "dp_langevin", "published":
            row |= {"epsilon_formula_epochs": 0.98, "epsilon_formula_steps": 26.0, "epsilon_proven": 11.0}
            row |= {"epsilon_last": 10.5, "epsilon_attack": 3.0, "noise_std": 0.0022}
        case "dp_langevin", _:
            row |= {"epsilon_formula_epochs": 0.05, "epsilon_formula_steps": 1.0, "noise_std": 0.1}
            row |= {"epsilon_proven": 1.0, "epsilon_attack": 0.1, "epsilon_last": 0.2}
        case _, "published":
            row |= {"epsilon_proven": 1.9, "epsilon_add_remove": 1.0, "epsilon_attack": 0.4}
        case _:
            row |= {"epsilon_proven": 1.0, "epsilon_add_remove": 0.6, "epsilon_attack": 0.2}
    accuracy = mean + 0.001 * (np.arange(HEAD_SEEDS) - (HEAD_SEEDS - 1) / 2)
    return scored({"accuracy": accuracy, "log_loss": np.ones(HEAD_SEEDS)}, **{**row, **other})


def heads() -> pd.DataFrame:
    """DP-Langevin in the authors' settings and in others, and without privacy."""
    names = "none_constant", "dp_langevin_decreasing_published", "dp_langevin_constant_tight"
    frames = [head_run("cifar10_resnet20", name, 0.65, l2=1.0) for name in names]
    return pd.concat([*frames, head_run("cifar10_resnet20", "dp_langevin_constant_published", 0.65)])


# Networks trained from scratch

TRAINING_SETTINGS = {"step_size": 0.3, "batch": 128.0, "epochs": 20.0, "clip": 0.3, "noise_multiplier": 3.18}
NONPRIVATE: dict[str, Any] = {"accountant_promised": "", "clip": INF, "noise_multiplier": NAN}
NONPRIVATE |= dict.fromkeys(["epsilon_promised", "epsilon_add_remove", "epsilon_replace_one"], INF)
BUDGETS = (0.22, 0.5, 0.99, 1.97, 8.0)


def final(run: str, means: Sequence[float], epsilons: Sequence[float], **other: Any) -> pd.DataFrame:
    """`seeds` (3) seeds at each budget, .001 apart around its mean; `other` replaces columns and adds scores."""
    network, method = run.split("_", 1)
    seeds = other.pop("seeds", 3)
    more = {name: other.pop(name) for name in [*other] if name not in RUN_COLUMNS}
    frames = []
    for mean, epsilon in zip(means, epsilons, strict=True):
        accuracy = mean + 0.001 * (np.arange(seeds) - (seeds - 1) / 2)
        row: dict[str, Any] = {
            "experiment": "li2019_tab1", "dataset": "mnist", "problem": network, "run": run, "block": "equal",
            "method": METHODS.get(method, method), "epsilon": epsilon, "delta": 1e-5,
            "epsilon_promised": 1.5 * epsilon,
            "accountant_promised": "rdp", "epsilon_add_remove": 0.99 * epsilon, "epsilon_replace_one": 1.8 * epsilon,
            "sampling": "poisson", "released": "all", **TRAINING_SETTINGS,
        }  # fmt: skip
        fixed = {"log_loss": 0.1, "brier": 0.05, "ece": 0.01, "log_loss_single": 0.2, "brier_single": 0.06}
        fixed |= {"ece_single": 0.03, **more}
        scores = {"accuracy": accuracy, "accuracy_single": accuracy - 0.01}
        scores |= {name: np.full(seeds, value) for name, value in fixed.items()}
        frames.append(scored(scores, **{**row, **other}))
    return pd.concat(frames, ignore_index=True)


def finals() -> pd.DataFrame:
    """Runs of li2019_tab1 on two networks: without privacy, DP-SGD, and PATE, which has queries."""
    queries = {**dict.fromkeys(TRAINING_SETTINGS, NAN), "answered": 250.0, "epsilon_data_dependent": 0.4}
    frames = [
        final("tanh_sgd", [0.9895], [INF], block="nonprivate", **NONPRIVATE),
        final("tanh_dp_sgd", [0.92, 0.95, 0.962, 0.972, 0.983], BUDGETS),
        final("tanh_pate", [0.3, 0.7, 0.93, 0.968, 0.97], BUDGETS, **queries),
        final("li2019_dp_sgd", [0.94, 0.97], [0.5, 8.0], seeds=1),
    ]
    return pd.concat(frames, ignore_index=True)
