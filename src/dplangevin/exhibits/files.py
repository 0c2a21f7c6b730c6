"""The only reading behind the exhibits, and figures as bytes that do not change."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from dplangevin.data import Dataset
from dplangevin.exhibits.style import RC

RUNS = Path("results/runs")
ANALYSES = Path("results/analyses")
TRAINING = Path("results/training")
DATA = Path("data/processed")
NUMBERS = ["epsilon", "delta", "epsilon_paper", "epsilon_tight", "repeat", "value"]
COLUMNS = [
    "experiment", "dataset", "model", "method", "variant", "scaling", "epsilon", "delta", "epsilon_paper",
    "epsilon_tight", "accountant_tight", "adjacency", "adjacency_tight", "released", "sampling", "repeat",
    "metric", "value", "violated", "assumptions",
]  # fmt: skip
TRAINED = [
    "experiment",
    "run",
    "dataset",
    "network",
    "method",
    "epsilon",
    "seed",
]  # in every file of a training run
PARTS = {
    "final": [
        *TRAINED, "block", "delta", "epsilon_formula", "epsilon_add_remove", "epsilon_replace_one", "accountant",
        "step", "batch", "epochs", "clip", "noise_multiplier", "accuracy", "log_loss", "ece", "log_loss_single",
        "ece_single", "violated",
    ],
    "curve": [*TRAINED, "epoch", "accuracy", "epsilon_add_remove", "epsilon_replace_one"],
    "reliability": [*TRAINED, "predictor", "bin", "confidence", "accuracy", "count"],
}  # fmt: skip
TEXT = [
    "experiment",
    "run",
    "block",
    "dataset",
    "network",
    "method",
    "sampling",
    "released",
    "accountant",
    "predictor",
]
TEXT += ["violated", "assumptions"]


def run_names(exhibit: Mapping[str, Any]) -> list[str]:
    """The runs an exhibit is drawn from: `files` (such as "ops" or "adult/ops") under the folder `source`."""
    folder = Path(exhibit["source"]).relative_to(RUNS).as_posix()
    return [f"{folder}/{file}" for file in exhibit["files"]]


def composites(experiments: Mapping[str, Any]) -> set[str]:
    """Names of the methods that some experiment builds from other methods: their DVC stages have a group of
    their own."""
    return {name for experiment in experiments.values() for name in experiment.get("composites", ())}


def stage_of(name: str, composite: Iterable[str] = ()) -> str:
    """The DVC stage that makes a run: "wang2015/adult/ops" -> "wang2015@adult-ops"; composite methods have
    their own group."""
    experiment, dataset, method = name.split("/")
    return f"{experiment}{'_composite' if method in set(composite) else ''}@{dataset}-{method}"


def read_runs(names: Iterable[str], composite: Iterable[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """Read runs named "experiment/dataset/method" into one long frame; empty text stays "".

    Raises FileNotFoundError naming the file and the stage that makes it, ValueError for columns other than
    the agreed ones.
    """
    frames = []
    for name in names:
        path = root / f"{name}.csv"
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing: make it with `dvc repro {stage_of(name, composite)}`"
            )
        frame = pd.read_csv(
            path, keep_default_na=False, na_values={column: ["", "nan"] for column in NUMBERS}
        )
        if list(frame.columns) != COLUMNS:
            raise ValueError(
                f"{path} has columns {list(frame.columns)}, expected {COLUMNS}: "
                f"make it again with `dvc repro -f {stage_of(name, composite)}`"
            )
        frames.append(frame.astype({column: float for column in NUMBERS if column != "repeat"}))
    return pd.concat(frames, ignore_index=True)


def read_analysis(name: str, root: Path = ANALYSES) -> pd.DataFrame:
    """The rows of an analysis. Raises FileNotFoundError naming the file and the stage that makes it."""
    path = root / f"{name}.csv"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: make it with `dvc repro analysis@{name}`")
    return pd.read_csv(path)


def training_stage(experiment: str, run: str) -> str:
    """The DVC stage that makes a training run."""
    return f"{experiment}@{run}"


def read_training(
    experiment: str, runs: Iterable[str], part: str = "final", root: Path = TRAINING
) -> pd.DataFrame:
    """One part (final, curve or reliability) of the named training runs of an experiment, in one frame; empty text
    stays "". Rows of reliability also have the log loss and the ECE of their predictor, from final.

    Raises FileNotFoundError naming the file and the stage that makes it, ValueError for columns that are missing.
    """
    frames = []
    for run in runs:
        path, stage = root / experiment / run / f"{part}.csv", training_stage(experiment, run)
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing: make it with `dvc repro {stage}`")
        frame = pd.read_csv(path, dtype={**dict.fromkeys(TEXT, str), "epsilon": float})
        if absent := [column for column in PARTS[part] if column not in frame]:
            raise ValueError(f"{path} has no column {absent}: make it again with `dvc repro -f {stage}`")
        text = [column for column in TEXT if column in frame]
        frames.append(frame.assign(**{column: frame[column].fillna("") for column in text}))
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


def read_claims(path: Path) -> pd.DataFrame:
    """The claims table. Raises FileNotFoundError naming the stage that makes it."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: make it with `dvc repro claims`")
    return pd.read_csv(path)


def image_bytes(figure: Figure, kind: str) -> bytes:
    """A figure as png or pdf with nothing in the file that depends on the time, so that the same input gives
    the same bytes."""
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}}[kind]
    buffer = io.BytesIO()
    with rc_context(RC):
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def read_facts(datasets: Iterable[str], root: Path = DATA) -> pd.DataFrame:
    """What the prepared data sets are, as rows like those of a run: metrics features, rows_train and rows
    (train and test).

    The rows have experiment and method "data". Raises DataError naming the file and the stage that makes it.
    """
    rows = []
    for name in datasets:
        data = Dataset.load(root / f"{name}.npz")
        train, features = data.x_train.shape[1:]
        counts = {"features": features, "rows_train": train, "rows": train + data.x_test.shape[1]}
        fixed = {"experiment": "data", "dataset": name, "method": "data", "variant": "", "repeat": 0}
        rows += [{**fixed, "metric": metric, "value": float(value)} for metric, value in counts.items()]
    return pd.DataFrame(rows)


def read_timings(path: Path) -> pd.DataFrame:
    """Seconds that each method takes (`benchmarks/methods.py`), as rows like those of a run: experiment "benchmark",
    metric "seconds". No rows where nothing has been measured."""
    columns = ["experiment", "dataset", "method", "metric", "value"]
    if not path.is_file():
        return pd.DataFrame(columns=columns).astype({"value": float})
    table = pd.read_csv(path).rename(columns={"seconds": "value"})
    return table.assign(experiment="benchmark", metric="seconds")[columns]
