"""Run an experiment on a data set: python pipelines/run.py compare-adult, an entry of conf/pipeline.

The results are tables in results/runs/EXPERIMENT/DATASET/ and, with `metrics: true`, a short form for `dvc metrics`.
If a method fails, the finished tasks of the others are kept, and the results stay as they were.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig
from stage import finish, stage

from dplangevin import files
from dplangevin.pipeline import manifest
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.config import ConfigError, one_of
from dplangevin.pipeline.environment import pinned
from dplangevin.pipeline.plan import runs
from dplangevin.pipeline.sweep import Inputs, SweepTasks, sweep, tables
from dplangevin.reporting import read

RUNS = Path("results/runs")


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
    means = means[means.accuracy.notna()]
    priced = means[means.epsilon_proven.between(0, math.inf, inclusive="neither")]
    if priced.empty:
        return {"accuracy": round(float(means.accuracy.iloc[0]), 6)} if len(means) else {}
    logs = np.log(priced.epsilon_proven)
    nearest = {f"at_{price:g}": priced.loc[(logs - math.log(price)).abs().idxmin()] for price in prices}
    return {at: {name: round(value, 6) for name, value in row.items()} for at, row in nearest.items()}


@stage
def main(cfg: DictConfig, name: str) -> None:
    """Run an entry of conf/pipeline."""
    run = cfg.pipeline.runs[one_of(cfg.pipeline.runs, name, "run")]
    folder, spec = Path(run.experiment, run.dataset), cfg.experiment[run.experiment]
    paths = [RUNS / folder / f"{table}.csv" for table in tables(spec)]
    store = Store(paths, Path("data/units/runs") / folder)
    with pinned():
        read_files = inputs(cfg, run.experiment, run.dataset)
        finish(store, sweep(SweepTasks(cfg, run.experiment, run.dataset, read_files, store.folder), store))
    for path in (RUNS / folder).iterdir():
        if path.name.partition(".")[0] not in tables(spec):
            files.remove(path)
    rows_of = read.read_runs([folder.as_posix()]).groupby("run") if spec.get("metrics") else ()
    text = json.dumps({str(run): at_prices(rows) for run, rows in rows_of}, indent=2, allow_nan=False) + "\n"
    files.write(Path("results/metrics"), {f"{name}.json": text.encode()})
