"""Made-up files of training runs, in the layout of results/training: shapes and orders of magnitude, no result."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

NAN, INF = float("nan"), float("inf")
SETTINGS = {"step": 0.3, "batch": 128.0, "epochs": 20.0, "clip": 0.3, "noise_multiplier": 3.18}
FREE: dict[str, Any] = {"accountant": "", "clip": INF, "noise_multiplier": NAN}
FREE |= dict.fromkeys(["epsilon_formula", "epsilon_add_remove", "epsilon_replace_one"], INF)
BUDGETS = (0.22, 0.5, 0.99, 1.97, 8.0)


def final(run: str, means: Sequence[float], epsilons: Sequence[float], **other: Any) -> pd.DataFrame:
    """final.csv: `seeds` (3) seeds at each budget, .001 apart around its mean; `other` replaces columns."""
    network, method = run.split("_", 1)
    method = "_".join(
        part for part in method.split("_") if part not in ("printed", "decreasing", "reference")
    )
    rows = []
    seeds = other.pop("seeds", 3)
    for mean, epsilon in zip(means, epsilons, strict=True):
        for seed in range(seeds):
            accuracy = mean + 0.001 * (seed - (seeds - 1) / 2)
            row: dict[str, Any] = {
                "experiment": "li2019_tab1",
                "run": run,
                "block": "equal",
                "dataset": "mnist",
            }
            row |= {"network": network, "method": method, "epsilon": epsilon, "delta": 1e-5}
            row |= {"epsilon_formula": 1.5 * epsilon, "epsilon_add_remove": 0.99 * epsilon}
            row |= {"epsilon_replace_one": 1.8 * epsilon, "sampling": "poisson", "released": "all"}
            row |= {"accountant": "rdp", **SETTINGS, "seed": seed, "accuracy": accuracy}
            row |= {"log_loss": 0.1, "brier": 0.05, "ece": 0.01, "accuracy_single": accuracy - 0.01}
            row |= {"log_loss_single": 0.2, "brier_single": 0.06, "ece_single": 0.03}
            rows.append({**row, "violated": "", "assumptions": "made up", **other})
    return pd.DataFrame(rows)


def finals() -> dict[str, pd.DataFrame]:
    """Every run of li2019_tab1: DP-SGLD below DP-SGD everywhere and above PATE at small ε."""
    sgld = [0.9, 0.94, 0.955, 0.967, 0.978]
    sgd = [0.92, 0.95, 0.962, 0.972, 0.983]
    pate = [0.3, 0.7, 0.93, 0.968, 0.97]
    queries = {**dict.fromkeys(SETTINGS, NAN), "answered": 250.0, "epsilon_data_dependent": 0.4}
    printed = {
        "block": "printed",
        "epsilon_formula": 0.36,
        "epsilon_add_remove": 0.22,
        "epsilon_replace_one": 0.41,
    }
    public: dict[str, Any] = {"block": "nonprivate", **FREE}
    one: dict[str, Any] = {"seeds": 1}
    return {
        "tanh_sgd": final("tanh_sgd", [0.9895], [INF], **public),
        "tanh_sgld": final("tanh_sgld", [0.9885], [INF], **public),
        "tanh_dp_sgld_printed": final("tanh_dp_sgld_printed", [0.902], [0.99], **printed),
        "tanh_dp_sgld_decreasing": final("tanh_dp_sgld_decreasing", [0.88], [0.22], **printed),
        "tanh_dp_sgld": final("tanh_dp_sgld", sgld, BUDGETS),
        "tanh_dp_sgd": final("tanh_dp_sgd", sgd, BUDGETS),
        "tanh_pate": final("tanh_pate", pate, BUDGETS, **queries),
        "tanh_dp_sgd_reference": final(
            "tanh_dp_sgd_reference", [0.967, 0.979], [1.0, 2.93], block="reference"
        ),
        "li2019_sgd": final("li2019_sgd", [0.9931], [INF], **public, **one),
        "li2019_sgld": final("li2019_sgld", [0.99], [INF], **public, **one),
        "li2019_dp_sgld_printed": final("li2019_dp_sgld_printed", [0.85], [0.99], **printed, **one),
        "li2019_dp_sgld": final("li2019_dp_sgld", [0.95], [0.99], **one),
        "li2019_dp_sgd": final("li2019_dp_sgd", [0.94, 0.97], [0.5, 8.0], **one),
        "li2019_pate": final("li2019_pate", [0.955], [1.97], **queries, **one),
    }


def curve(rows: pd.DataFrame, epochs: int = 20) -> pd.DataFrame:
    """curve.csv of a run: accuracies rising to those of final.csv, ε as the square root of the epoch."""
    columns = ["experiment", "run", "dataset", "network", "method", "epsilon", "seed"]
    frames = []
    for epoch in range(1, epochs + 1):
        spent = {
            name: rows[name] * np.sqrt(epoch / epochs)
            for name in ("epsilon_add_remove", "epsilon_replace_one")
        }
        accuracy = rows.accuracy - 0.3 * 0.5 ** (epoch / 2) * (1 + 0.1 * rows.seed)
        frames.append(rows[columns].assign(epoch=epoch, accuracy=accuracy, loss=0.2, **spent))
    return pd.concat(frames, ignore_index=True)


def reliability(rows: pd.DataFrame) -> pd.DataFrame:
    """reliability.csv of a run: the average is a little over-confident, a single sample more so."""
    columns = ["experiment", "run", "dataset", "network", "method", "epsilon", "seed"]
    frames = []
    for number in range(3, 16):
        for predictor, off in (("average", 0.02), ("single", 0.08)):
            confidence = (number - 0.5) / 15
            said: dict[str, Any] = {
                "predictor": predictor,
                "bin": number,
                "confidence": confidence,
                "accuracy": confidence - off,
            }
            frames.append(rows[columns].assign(**said, count=rows.seed + int(6e3 * 0.5 ** (15 - number)) + 5))
    return pd.concat(frames, ignore_index=True)


def write(folder: Path, runs: dict[str, pd.DataFrame]) -> None:
    """All three files of each run, under folder/<experiment>/<run>/."""
    for name, rows in runs.items():
        path = folder / rows.experiment.iloc[0] / name
        path.mkdir(parents=True)
        parts = {"final": rows, "curve": curve(rows), "reliability": reliability(rows)}
        for part, frame in parts.items():
            frame.to_csv(path / f"{part}.csv", index=False, float_format="%.10g")
