"""Results as tidy frames: the only reading behind the exhibits and the claims.

A folder results/runs/EXPERIMENT/DATASET has `runs.csv`, a row for every run, variant, scaling and epsilon with its
settings and prices, and `scores.csv`, what each seed of these came to; networks trained from scratch also have
`curve.csv` and `reliability.csv`. Empty text stays "", numbers that do not apply are nan. A file that is missing raises
FileNotFoundError naming it and the stage that makes it; columns other than the agreed ones raise ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import DictConfig

from dplangevin.plan import KEYS, RUN_COLUMNS, TABLES

RUNS = Path("results/runs")
ANALYSES = Path("results/analyses")
MANIFESTS = Path("data/manifest/weights")
COLUMNS = [*RUN_COLUMNS, "seed", "metric", "value"]  # of both together
TEXT = {
    "experiment", "dataset", "problem", "run", "method", "variant", "scaling", "block", "accountant_paper",
    "accountant_tight", "adjacency", "adjacency_tight", "audit_pair", "released", "sampling", "schedule", "calibration",
    "violated", "assumptions", "metric", "predictor", "pixels",
}  # fmt: skip
WHOLE = {"seed", "bin", "count", "image"}


def existing(path: Path, stage: str) -> Path:
    """The path. Raises FileNotFoundError, naming the stage that makes it, where nothing is there."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: make it with `dvc repro {stage}`")
    return path


def folders(exhibit: Mapping[str, Any], cfg: DictConfig) -> list[str]:
    """The folders "experiment/dataset" that an exhibit shows: its `folders` under `source`, else the source."""
    source = Path(exhibit["source"]).relative_to(RUNS)
    names = [(source / name).as_posix() for name in exhibit.get("folders", [""])]
    return [folder for name in names for folder in of_experiment(name, cfg)]


def of_experiment(name: str, cfg: DictConfig) -> list[str]:
    """The folder itself, or those of all data sets of an experiment that is named alone."""
    return [name] if "/" in name else [f"{name}/{dataset}" for dataset in cfg.experiment[name].datasets]


def read_runs(names: Iterable[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """The runs in the folders "experiment/dataset" as one long frame (columns COLUMNS), a row per seed and metric.

    runs: those wanted of every folder, in this order; all where none is named.
    """
    return _each(names, lambda name: _long(root, name, runs))


def read_seeds(names: Iterable[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """As `read_runs`, a row per seed and a column per metric."""
    return by_seed(read_runs(names, runs, root))


def read_curve(names: Iterable[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """The learning curves in the folders, with the column method."""

    def curve(name: str) -> pd.DataFrame:
        methods = _read(root, name, "runs", runs)[["run", "epsilon", "method"]]
        return methods.merge(_read(root, name, "curve"), validate="one_to_many")

    return _each(names, curve)


def read_reliability(names: Iterable[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """The bins of confidence in the folders, with the log loss and the ECE of their predictor."""

    def bins(name: str) -> pd.DataFrame:
        seeds = by_seed(_long(root, name, runs))
        suffixes = {"average": "", "single": "_single"}
        scores = [
            seeds[["run", "epsilon", "seed"]].assign(
                predictor=predictor, log_loss=seeds[f"log_loss{suffix}"], ece=seeds[f"ece{suffix}"]
            )
            for predictor, suffix in suffixes.items()
        ]
        return pd.concat(scores).merge(_read(root, name, "reliability"), validate="one_to_many")

    return _each(names, bins)


def read_samples(names: Iterable[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """The generated images in the folders, with the columns problem, block and method, and the means over seeds of what
    was made of them."""

    def samples(name: str) -> pd.DataFrame:
        seeds = by_seed(_long(root, name, runs))
        keys = [*KEYS, "problem", "block", "method"]
        scores = seeds.groupby(keys, sort=False)[["recognised", "digits_covered", "digit_entropy"]].mean()
        return scores.reset_index().merge(_read(root, name, "samples", runs), on=KEYS, validate="one_to_many")

    return _each(names, samples)


def by_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """A long frame with a row per seed and a column per metric."""
    keys = ["experiment", "dataset", *KEYS, "seed"]
    values = frame.pivot(index=keys, columns="metric", values="value").reset_index()
    return frame.drop(columns=["metric", "value"]).drop_duplicates(keys).merge(values, on=keys)


def _each(names: Iterable[str], read: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([read(name) for name in names], ignore_index=True)


def _long(root: Path, name: str, runs: Sequence[str]) -> pd.DataFrame:
    settings, scores = _read(root, name, "runs", runs), _read(root, name, "scores")
    found = settings.merge(scores, on=KEYS, validate="one_to_many")
    if not runs and len(found) < len(scores):
        raise ValueError(f"{root / name} has scores of runs that it lacks: make it again")
    return found


def _read(root: Path, name: str, part: str, runs: Sequence[str] = ()) -> pd.DataFrame:
    """A file of a folder, the rows of `runs` in this order."""
    path, columns, stage = root / name / f"{part}.csv", TABLES[part], f"run@{name.replace('/', '-')}"
    types = {c: str if c in TEXT else int if c in WHOLE else float for c in columns}
    absent = {column: ["", "nan"] for column, kind in types.items() if kind is float}
    found = list(pd.read_csv(existing(path, stage), nrows=0).columns)
    if found != columns:
        raise ValueError(
            f"{path} has columns {found}, expected {columns}: make it again with `dvc repro -f {stage}`"
        )
    frame = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=absent)
    if lacking := [run for run in runs if run not in set(frame.run)]:
        raise FileNotFoundError(f"{path} has no run {', '.join(lacking)}: make it with `dvc repro {stage}`")
    return pd.concat([frame[frame.run.eq(run)] for run in runs]) if runs else frame


def read_analysis(name: str, root: Path = ANALYSES) -> pd.DataFrame:
    """The rows of an analysis."""
    return pd.read_csv(existing(root / f"{name}.csv", f"analysis@{name}"))


def read_training(names: Iterable[str], folder: Path = MANIFESTS) -> pd.DataFrame:
    """Curves of networks that were trained here, from the manifests of their weights: columns network, epoch, loss and
    accuracy on the training images, accuracy on the test images, and accuracy_kept, of the weights as they are kept."""
    frames = []
    for name in names:
        of = json.loads(existing(folder / f"{name}.json", f"pretrain@{name}").read_bytes())["training"]
        curve = pd.DataFrame(of["curve"]).rename(columns={"train": "accuracy_training", "test": "accuracy"})
        curve.insert(0, "epoch", range(1, len(curve) + 1))
        curve.insert(0, "network", name)
        frames.append(curve.assign(accuracy_kept=of["accuracy"]))
    return pd.concat(frames, ignore_index=True)


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
