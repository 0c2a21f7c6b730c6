"""Results as tidy frames: the only reading behind the exhibits and the claims.

Empty text stays "", numbers that do not apply are nan. A file that is missing raises FileNotFoundError naming it and
the stage that makes it; columns other than the agreed ones raise ValueError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dplangevin.plan import COLUMNS

RUNS = Path("results/runs")
ANALYSES = Path("results/analyses")
TRAINING = Path("results/training")
HEADS = Path("results/heads")
FINETUNE = Path("results/finetune")
NUMBERS = ["epsilon", "delta", "epsilon_paper", "epsilon_tight", "repeat", "value"]
TRAINED = [
    "experiment",
    "run",
    "dataset",
    "network",
    "method",
    "epsilon",
    "seed",
]  # in each file of a training run
PARTS = {
    "final": [
        *TRAINED, "block", "delta", "epsilon_formula", "epsilon_add_remove", "epsilon_replace_one", "accountant",
        "step", "batch", "epochs", "clip", "noise_multiplier", "accuracy", "log_loss", "ece", "log_loss_single",
        "ece_single", "violated",
    ],
    "curve": [*TRAINED, "epoch", "accuracy", "epsilon_add_remove", "epsilon_replace_one"],
    "reliability": [*TRAINED, "predictor", "bin", "confidence", "accuracy", "count"],
}  # fmt: skip
HEAD_COLUMNS = [
    "experiment", "features", "run", "block", "method", "schedule", "calibration", "seed", "accuracy", "log_loss",
    "epsilon", "delta", "epsilon_paper", "epsilon_formula_epochs", "epsilon_formula_steps", "epsilon_tight",
    "accountant_tight", "adjacency_tight", "epsilon_tight_add_remove", "epsilon_last", "epsilon_audit",
    "audit_confidence", "audit_pair", "step_size", "precision", "beta", "clip", "noise_std", "noise_multiplier",
    "batch", "epochs", "steps", "row_bound", "records", "features_dim", "classes", "violated", "assumptions",
]  # fmt: skip
FINETUNE_COLUMNS = [
    "run", "method", "trained", "seed", "epoch", "accuracy", "log_loss", "epsilon", "delta", "epsilon_paper",
    "epsilon_tight", "adjacency_tight", "epsilon_tight_add_remove", "step_size", "clip", "noise_multiplier", "batch",
    "epochs", "steps", "parameters", "violated", "assumptions",
]  # fmt: skip
TEXT = [
    "experiment", "run", "features", "block", "dataset", "network", "method", "trained", "schedule", "calibration",
    "sampling", "released", "accountant", "accountant_tight", "adjacency_tight", "audit_pair", "predictor", "violated",
    "assumptions",
]  # fmt: skip


def existing(path: Path, stage: str) -> Path:
    """The path. Raises FileNotFoundError, naming the stage that makes it, where nothing is there."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: make it with `dvc repro {stage}`")
    return path


def run_names(exhibit: Mapping[str, Any]) -> list[str]:
    """The runs an exhibit is drawn from: `files` (such as "ops" or "adult/ops") under the folder `source`."""
    folder = Path(exhibit["source"]).relative_to(RUNS).as_posix()
    return [f"{folder}/{file}" for file in exhibit["files"]]


def read_runs(names: Iterable[str], root: Path = RUNS) -> pd.DataFrame:
    """Runs named "experiment/dataset/method" as one long frame (columns COLUMNS), a row per repeat and metric."""
    frames = []
    for name in names:
        stage = "run@{}-{}".format(*name.split("/"))
        path = existing(root / f"{name}.csv", stage)
        absent = {column: ["", "nan"] for column in NUMBERS}
        frame = pd.read_csv(path, keep_default_na=False, na_values=absent)
        if list(frame.columns) != COLUMNS:
            raise ValueError(
                f"{path} has columns {list(frame.columns)}, expected {COLUMNS}: "
                f"make it again with `dvc repro -f {stage}`"
            )
        frames.append(frame.astype({column: float for column in NUMBERS if column != "repeat"}))
    return pd.concat(frames, ignore_index=True)


def read_analysis(name: str, root: Path = ANALYSES) -> pd.DataFrame:
    """The rows of an analysis."""
    return pd.read_csv(existing(root / f"{name}.csv", f"analysis@{name}"))


def read_training(
    experiment: str, runs: Iterable[str], part: str = "final", root: Path = TRAINING
) -> pd.DataFrame:
    """One part (final, curve or reliability) of the named training runs of an experiment, in one frame. Rows of
    reliability also have the log loss and the ECE of their predictor, from final."""
    frames = []
    for run in runs:
        path, stage = root / experiment / run / f"{part}.csv", f"training@{experiment}"
        frames.append(_read(path, stage, PARTS[part], {"epsilon": float}))
    if part == "reliability":
        scores = _by_predictor(read_training(experiment, runs, root=root))
        keys = [*TRAINED, "predictor"]
        frames = [frame.merge(scores, "left", keys, validate="many_to_one") for frame in frames]
    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled, ignore_index=True) if filled else frames[0]


def _by_predictor(final: pd.DataFrame) -> pd.DataFrame:
    """Log loss and ECE of the posterior average and of the single sample, one below the other."""
    average = final[[*TRAINED, "log_loss", "ece"]].assign(predictor="average")
    single = final[[*TRAINED, "log_loss_single", "ece_single"]].assign(predictor="single")
    single = single.rename(columns={"log_loss_single": "log_loss", "ece_single": "ece"})
    return pd.concat([average, single], ignore_index=True)


def read_heads(names: Iterable[str], root: Path = HEADS) -> pd.DataFrame:
    """The rows of the named experiments on features, in one frame."""
    return _read_seeds("heads", names, root, HEAD_COLUMNS)


def read_finetune(names: Iterable[str], root: Path = FINETUNE) -> pd.DataFrame:
    """The rows of the named fine-tuning runs, in one frame."""
    return _read_seeds("finetune", names, root, FINETUNE_COLUMNS)


def _read_seeds(stage: str, names: Iterable[str], root: Path, columns: Sequence[str]) -> pd.DataFrame:
    floats = dict.fromkeys([name for name in columns if name not in [*TEXT, "seed"]], float)
    stages = {name: "finetune" if stage == "finetune" else f"{stage}@{name}" for name in names}
    frames = [_read(root / f"{name}.csv", of, columns).astype(floats) for name, of in stages.items()]
    return pd.concat(frames, ignore_index=True)


def _read(
    path: Path, stage: str, columns: Sequence[str], types: Mapping[str, type] | None = None
) -> pd.DataFrame:
    """A file with at least `columns`."""
    frame = pd.read_csv(existing(path, stage), dtype={**dict.fromkeys(TEXT, str), **(types or {})})
    if absent := [column for column in columns if column not in frame]:
        raise ValueError(f"{path} has no column {absent}: make it again with `dvc repro -f {stage}`")
    return frame.assign(**{column: frame[column].fillna("") for column in TEXT if column in frame})


def read_timings(path: Path) -> pd.DataFrame:
    """Seconds that each method takes (`benchmarks/methods.py`), as rows like those of a run: experiment "benchmark",
    metric "seconds". No rows where nothing has been measured."""
    columns = ["experiment", "dataset", "method", "metric", "value"]
    if not path.is_file():
        return pd.DataFrame(columns=columns).astype({"value": float})
    table = pd.read_csv(path).rename(columns={"seconds": "value"})
    return table.assign(experiment="benchmark", metric="seconds")[columns]


def read_claims(path: Path) -> pd.DataFrame:
    """The claims table."""
    return pd.read_csv(existing(path, "claims"))
