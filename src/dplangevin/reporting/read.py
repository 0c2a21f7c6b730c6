"""The only reader of result files, such as results/runs/EXPERIMENT/DATASET/runs.csv. It returns tidy frames.

Empty text stays "". Numbers that do not apply are nan. A missing file raises FileNotFoundError with its stage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import DictConfig

from dplangevin.pipeline.plan import KEYS, RUN_COLUMNS, TABLES

RUNS = Path("results/runs")
ANALYSES = Path("results/analyses")
MANIFESTS = Path("data/manifest/weights")
COLUMNS = [*RUN_COLUMNS, "seed", "metric", "value"]  # of runs.csv merged with scores.csv
TEXT = {
    "experiment", "dataset", "problem", "run", "method", "variant", "scaling", "block", "accountant_promised",
    "accountant_proven", "adjacency", "adjacency_proven", "attack_pair", "released", "sampling", "schedule",
    "calibration", "violated", "assumptions", "settings", "metric", "predictor", "pixels",
}  # fmt: skip
WHOLE = {"seed", "bin", "count", "image"}


def existing(path: Path, stage: str) -> Path:
    """Return the path of a file; if it is missing, FileNotFoundError names the stage that makes it."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: make it with `dvc repro {stage}`")
    return path


def folders(exhibit: Mapping[str, Any], cfg: DictConfig) -> list[str]:
    """Return the folders "experiment/dataset" that an exhibit shows: its `source`, or `folders` in it."""
    source = Path(exhibit["source"]).relative_to(RUNS)
    names = [(source / name).as_posix() for name in exhibit.get("folders", [""])]
    return [folder for name in names for folder in of_experiment(name, cfg)]


def of_experiment(name: str, cfg: DictConfig) -> list[str]:
    """Return the folders of "experiment/dataset", or of all data sets of "experiment"."""
    return [name] if "/" in name else [f"{name}/{dataset}" for dataset in cfg.experiment[name].datasets]


def read_runs(names: Iterable[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """Return runs (default: all) in folders "experiment/dataset", with a row for each seed and metric."""
    frames = []
    for name in names:
        settings, scores = _read(root, [name], "runs", runs), _read(root, [name], "scores")
        rows = settings.merge(scores, on=KEYS, validate="one_to_many")
        if not runs and len(rows) < len(scores):
            raise ValueError(f"{root / name} has scores of runs that it lacks: make it again")
        frames.append(rows)
    return pd.concat(frames, ignore_index=True)


def read_seeds(names: Iterable[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """Return the rows of `read_runs` as a frame with a row for each seed and a column for each metric."""
    return by_seed(read_runs(names, runs, root))


def read_curve(names: Sequence[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """Return the learning curves in the folders, with the method of each run (column `method`)."""
    methods = _read(root, names, "runs", runs)[["run", "epsilon", "method"]]
    return methods.merge(_read(root, names, "curve"), validate="one_to_many")


def read_reliability(names: Sequence[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """Return confidence bins with log loss and ECE of each predictor, the average or a single posterior sample."""
    seeds, scores = read_seeds(names, runs, root), []
    for predictor, end in (("average", ""), ("single", "_single")):
        own = {"log_loss": seeds[f"log_loss{end}"], "ece": seeds[f"ece{end}"]}
        scores.append(seeds[["run", "epsilon", "seed"]].assign(predictor=predictor, **own))
    return pd.concat(scores).merge(_read(root, names, "reliability"), validate="one_to_many")


def read_samples(names: Sequence[str], runs: Sequence[str] = (), root: Path = RUNS) -> pd.DataFrame:
    """Return the generated images with problem, block, method and scores of their run, which are means over seeds."""
    keys = ["experiment", "dataset", *KEYS, "problem", "block", "method"]
    seeds = read_seeds(names, runs, root).groupby(keys, sort=False)
    scores = seeds[["recognised", "digits_covered", "digit_entropy"]].mean().reset_index()
    return scores.merge(_read(root, names, "samples", runs), on=KEYS, validate="one_to_many")


def by_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a long frame as a frame with a row for each seed and a column for each metric."""
    keys = ["experiment", "dataset", *KEYS, "seed"]
    values = frame.pivot(index=keys, columns="metric", values="value").reset_index()
    return frame.drop(columns=["metric", "value"]).drop_duplicates(keys).merge(values, on=keys)


def _read(root: Path, names: Iterable[str], table: str, runs: Sequence[str] = ()) -> pd.DataFrame:
    """Return one file of each folder: the rows of `runs` in this order, or all rows."""
    columns, frames = TABLES[table], []
    types = {c: str if c in TEXT else int if c in WHOLE else float for c in columns}
    absent = {column: ["", "nan"] for column, kind in types.items() if kind is float}
    for name in names:
        path, stage = root / name / f"{table}.csv", f"run@{name.replace('/', '-')}"
        present = list(pd.read_csv(existing(path, stage), nrows=0).columns)
        if present != columns:
            again = f"make it again with `dvc repro -f {stage}`"
            raise ValueError(f"{path} has columns {present}, expected {columns}: {again}")
        frame = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=absent)
        if lacking := ", ".join(run for run in runs if run not in set(frame.run)):
            raise FileNotFoundError(f"{path} has no run {lacking}: make it with `dvc repro {stage}`")
        frames += [frame[frame.run.eq(run)] for run in runs] if runs else [frame]
    return pd.concat(frames, ignore_index=True)


def read_analysis(name: str, root: Path = ANALYSES) -> pd.DataFrame:
    """Return the rows of an analysis."""
    return pd.read_csv(existing(root / f"{name}.csv", f"analysis@{name}"))


def read_training(names: Iterable[str], folder: Path = MANIFESTS) -> pd.DataFrame:
    """Return the training curves of networks that this project trained; accuracy_kept is that of the saved weights."""
    frames = {}
    for name in names:
        of = json.loads(existing(folder / f"{name}.json", f"pretrain@{name}").read_bytes())["training"]
        curve = pd.DataFrame(of["curve"]).rename(columns={"train": "accuracy_training", "test": "accuracy"})
        frames[name] = curve.set_axis(range(1, len(curve) + 1)).assign(accuracy_kept=of["accuracy"])
    return pd.concat(frames, names=["network", "epoch"]).reset_index()


def read_claims(path: Path) -> pd.DataFrame:
    """Return the claims table."""
    return pd.read_csv(existing(path, "claims"))
