"""Run an experiment on a data set: python pipelines/run.py compare-adult, an entry of conf/pipeline.

The results are tables in results/runs/EXPERIMENT/DATASET/ and, with `metrics: true`, a short form for `dvc metrics`.
If a method fails, the finished tasks of the others are kept, and the results stay as they were.
"""

import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig
from stage import finish, stage

from dplangevin import files
from dplangevin.pipeline import manifest
from dplangevin.pipeline.config import ConfigError, one_of
from dplangevin.pipeline.plan import runs
from dplangevin.pipeline.sweep import Inputs, SweepTasks, sweep, tables
from dplangevin.reporting import read


def tasks_of(cfg: DictConfig, run: DictConfig, folder: Path) -> tuple[SweepTasks, list[Path]]:
    """Return the tasks of an entry of conf/pipeline, whose unfinished work is in `folder`, and its tables."""
    where = run.experiment, run.dataset
    paths = [Path("results/runs", *where, f"{table}.csv") for table in tables(cfg.experiment[run.experiment])]
    return SweepTasks(cfg, *where, inputs(cfg, *where), folder), paths


def inputs(cfg: DictConfig, experiment: str, dataset: str) -> Inputs:
    """Return the prepared files that an experiment on a data set reads."""
    data = manifest.file(cfg, "dataset" if dataset in cfg.dataset else "features", dataset)
    compared = cfg.experiment[experiment].get("compared")
    posterior = manifest.file(cfg, "reference", dataset) if compared else None
    names = {cfg.problem[run.problem].get("backbone") for run in runs(cfg, experiment, dataset)} - {None}
    if len(names) > 1:
        raise ConfigError(f"{experiment} has the backbones {', '.join(sorted(names))}: it can have one")
    return Inputs(data, posterior, manifest.file(cfg, "weights", names.pop()) if names else None)


def at_prices(rows: pd.DataFrame, prices: Sequence[float] = (0.1, 1.0, 10.0)) -> dict[str, Any]:
    """Return for `dvc metrics` mean accuracy and, of budgets with a price, the ε nearest to `prices` on a log scale."""
    by_budget = rows[rows.metric.eq("accuracy")].groupby("epsilon")
    means = by_budget.agg(accuracy=("value", "mean"), epsilon_proven=("epsilon_proven", "max"))
    means = means.dropna(subset="accuracy")
    priced = means[means.epsilon_proven.between(0, math.inf, inclusive="neither")]
    if priced.empty:
        return {"accuracy": round(float(means.accuracy.iloc[0]), 6)} if len(means) else {}
    away = {price: np.log(priced.epsilon_proven / price).abs() for price in prices}
    return {f"at_{price:g}": priced.loc[logs.idxmin()].round(6).to_dict() for price, logs in away.items()}


@stage
def main(cfg: DictConfig, name: str) -> None:
    """Run an entry of conf/pipeline."""
    run = cfg.pipeline.runs[one_of(cfg.pipeline.runs, name, "run")]
    folder = Path(run.experiment, run.dataset)
    work, paths = tasks_of(cfg, run, Path("data/units/runs") / folder)
    finish(paths, work.folder, partial(sweep, work))
    for path in paths[0].parent.iterdir():
        if path.name.partition(".")[0] not in tables(work.spec):
            files.remove(path)
    rows_of = read.read_runs([folder.as_posix()]).groupby("run") if work.spec.get("metrics") else ()
    text = json.dumps({str(run): at_prices(rows) for run, rows in rows_of}, indent=2, allow_nan=False) + "\n"
    files.write(Path("results/metrics"), {f"{name}.json": text.encode()})
