"""Made-up rows of results/heads and results/finetune: shapes and orders of magnitude, no result."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from dplangevin.exhibits.head_files import FINETUNE_COLUMNS, HEAD_COLUMNS

NAN, INF = float("nan"), float("inf")
SEEDS = 4
FREE = dict.fromkeys(
    ["epsilon_formula_epochs", "epsilon_formula_steps", "epsilon_tight_add_remove", "epsilon_last"], NAN
)
PRICED = ["epsilon_paper", "epsilon_tight", "epsilon_tight_add_remove", "epsilon_last", "epsilon_audit"]


def run(features: str, name: str, mean: float, **other: Any) -> pd.DataFrame:
    """SEEDS seeds of one run, .001 apart around `mean`; `other` replaces columns."""
    schedule = "decreasing" if "decreasing" in name else "constant"
    method, _, rest = name.partition(f"_{schedule}")
    calibration = rest.removeprefix("_")
    block = "equal" if calibration in ("formula", "tight") else "published"
    dataset = features.split("_")[0]
    base: dict[str, Any] = dict.fromkeys(HEAD_COLUMNS, NAN)
    base |= {"experiment": f"ryffel2022_{dataset}", "features": features, "run": name, "block": block}
    base |= {"method": method, "schedule": schedule, "calibration": calibration, "log_loss": 1.0}
    base |= {"epsilon": 1.0 if block == "equal" else NAN, "delta": 1e-5, "accountant_tight": "pld"}
    base |= {
        "adjacency_tight": "replace_one",
        "audit_confidence": 0.95,
        "audit_pair": "x to -x",
        "step_size": 0.018,
        "precision": 0.001,
    }
    base |= {"beta": 20.0, "clip": 15.0, "batch": 128.0, "epochs": 30.0, "steps": 11719.0, "row_bound": 10.0}
    base |= {
        "records": 50000.0,
        "features_dim": 64.0,
        "classes": 10.0,
        "violated": "",
        "assumptions": "made up",
    }
    match method, block:
        case "none", _:
            base |= {"epsilon_tight": INF, "clip": NAN, "block": "published", "epsilon": NAN, "delta": NAN}
        case "dp_langevin", "published":
            base |= {"epsilon_paper": 1.0, "epsilon_formula_epochs": 0.98, "epsilon_formula_steps": 26.0}
            base |= {"epsilon_tight": 11.0, "epsilon_last": 10.5, "epsilon_audit": 3.0, "noise_std": 0.0022}
        case "dp_langevin", _:
            base |= {"epsilon_formula_epochs": 0.05, "epsilon_formula_steps": 1.0, "noise_std": 0.1}
            base |= {"epsilon_tight": 0.25 if calibration == "formula" else 1.0, "epsilon_audit": 0.1}
            base |= {"epsilon_last": 0.2}
        case _, "published":
            base |= {"epsilon_paper": 1.0, "epsilon_tight": 1.9, "epsilon_tight_add_remove": 1.0}
            base |= {"epsilon_audit": 0.4, "noise_multiplier": 1.33}
        case _:
            base |= {"epsilon_tight": 1.0, "epsilon_audit": 0.2, "noise_multiplier": 2.0}
            base |= {"epsilon_tight_add_remove": 0.6}
    base |= other
    offsets = [0.001 * (seed - (SEEDS - 1) / 2) for seed in range(SEEDS)]
    rows = [{**base, "seed": seed, "accuracy": mean + offset} for seed, offset in enumerate(offsets)]
    return pd.DataFrame(rows, columns=HEAD_COLUMNS)


MEANS = {
    "none": 0.66, "dp_langevin_published": 0.65, "dp_sgd_published": 0.64, "dp_langevin_formula": 0.58,
    "dp_langevin_tight": 0.62, "dp_sgd_tight": 0.63,
}  # fmt: skip


def heads(features: str = "cifar10_resnet20", shift: float = 0.0, **other: Any) -> pd.DataFrame:
    """Every run of one experiment on features, both schedules; DP-Langevin above DP-SGD in the authors' settings and
    below it at equal epsilon."""
    frames = []
    for schedule in ("constant", "decreasing"):
        for kind, mean in MEANS.items():
            method, _, calibration = kind.rpartition("_") if kind != "none" else ("none", "", "")
            name = "_".join(part for part in (method, schedule, calibration) if part)
            frames.append(run(features, name, mean + shift, **other))
    return pd.concat(frames, ignore_index=True)


def pneumonia(**other: Any) -> pd.DataFrame:
    """As `heads`, on the X-rays."""
    kind: dict[str, Any] = {
        "records": 5216.0,
        "classes": 3.0,
        "precision": 0.005,
        "epochs": 50.0,
        "beta": 90.0,
    }
    frame = heads("pneumonia_resnet20", 0.1, **kind, **other)
    return frame.assign(delta=frame.delta.where(frame.delta.isna(), 1e-4))


def curve() -> pd.DataFrame:
    """The runs of the figure: DP-SGD best, OPS without a finite price at the smallest budget."""
    frames = []
    for method, half in {"dp_langevin": 0.1, "dp_sgd": 0.05, "objpert": 0.15, "ops": 2.0}.items():
        for epsilon in (0.1, 0.5, 1.0, 10.0):
            tight = INF if method == "ops" and epsilon == 0.1 else 0.99 * epsilon
            prices = {**FREE, "epsilon": epsilon, "epsilon_tight": tight, "epsilon_audit": NAN, "delta": 1e-5}
            kind = {"experiment": "ryffel2022_curve", "block": "figure", "method": method, "schedule": ""}
            calibration = {"calibration": "tight"}
            mean = 0.66 - 0.4 * half / (half + epsilon)
            frames.append(run("cifar10_resnet20", method, mean, **kind, **calibration, **prices))
    return pd.concat(frames, ignore_index=True)


def finetune() -> pd.DataFrame:
    """The four runs: the block helps without privacy and not with it."""
    means = {"head_none": 0.66, "head_dp_sgd": 0.64, "block_none": 0.72, "block_dp_sgd": 0.63}
    rows = []
    for name, mean in means.items():
        trained, _, method = name.partition("_")
        base: dict[str, Any] = dict.fromkeys(FINETUNE_COLUMNS, NAN)
        base |= {
            "run": name,
            "method": method,
            "trained": trained,
            "epoch": 30.0,
            "log_loss": 1.0,
            "violated": "",
        }
        base |= {
            "assumptions": "made up",
            "adjacency_tight": "replace_one",
            "step_size": 0.018,
            "batch": 128.0,
        }
        base |= {"epochs": 30.0, "steps": 11719.0, "parameters": 650.0 if trained == "head" else 74000.0}
        if method == "dp_sgd":
            base |= {
                "delta": 1e-5,
                "epsilon_paper": 1.0,
                "epsilon_tight": 1.9,
                "epsilon_tight_add_remove": 1.0,
            }
            base |= {"clip": 5.0, "noise_multiplier": 1.33}
        rows += [{**base, "seed": s, "accuracy": mean + 0.001 * s} for s in range(SEEDS)]
    return pd.DataFrame(rows, columns=FINETUNE_COLUMNS)


def write(folder: Path, frame: pd.DataFrame, names: Iterable[str]) -> None:
    """The rows of every experiment or run named, as folder/<name>.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    column = "experiment" if "experiment" in frame else "run"
    for name in names:
        frame[frame[column].eq(name)].to_csv(folder / f"{name}.csv", index=False, float_format="%.10g")
