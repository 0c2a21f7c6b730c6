"""Reading of the runs on features (`results/heads`) and of fine-tuning (`results/finetune`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

HEADS = Path("results/heads")
FINETUNE = Path("results/finetune")
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
    "experiment", "features", "run", "block", "method", "schedule", "calibration", "accountant_tight",
    "adjacency_tight", "audit_pair", "trained", "violated", "assumptions",
]  # fmt: skip


def read_heads(names: Iterable[str], root: Path = HEADS) -> pd.DataFrame:
    """The rows of the named experiments on features, one frame; empty text stays "", numbers that do not apply are nan.

    Raises FileNotFoundError naming the file and the stage that makes it, ValueError for columns that are missing.
    """
    return _read("heads", names, root, HEAD_COLUMNS)


def read_finetune(names: Iterable[str], root: Path = FINETUNE) -> pd.DataFrame:
    """The rows of the named fine-tuning runs; errors as those of `read_heads`."""
    return _read("finetune", names, root, FINETUNE_COLUMNS)


def _read(stage: str, names: Iterable[str], root: Path, columns: Sequence[str]) -> pd.DataFrame:
    frames = []
    for name in names:
        path = root / f"{name}.csv"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing: make it with `dvc repro {stage}@{name}`")
        text = [column for column in TEXT if column in columns]
        frame = pd.read_csv(path, dtype=dict.fromkeys(text, str))
        if absent := [column for column in columns if column not in frame]:
            raise ValueError(
                f"{path} has no column {absent}: make it again with `dvc repro -f {stage}@{name}`"
            )
        floats = [column for column in columns if column not in text and column != "seed"]
        frame = frame.astype(dict.fromkeys(floats, float))
        frames.append(frame.assign(**{column: frame[column].fillna("") for column in text}))
    return pd.concat(frames, ignore_index=True)
