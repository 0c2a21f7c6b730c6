"""Run all methods of an experiment on a data set: python pipelines/run.py compare-adult, an entry of conf/pipeline.

Each method has its results, results/runs/EXPERIMENT/DATASET/METHOD.csv; one that fails leaves those of the others
alone. An experiment with `metrics: true` has its numbers in short in results/metrics/, for `dvc metrics`.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from stage import finish_each

from dplangevin import cache, manifest
from dplangevin.cache import Store
from dplangevin.config import load
from dplangevin.experiment import sweep

RUNS = Path("results/runs")
METRICS = Path("results/metrics")
UNITS = Path("data/units/runs")


def main() -> int:
    cfg = load()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", choices=list(cfg.pipeline.runs), metavar="RUN")
    run = cfg.pipeline.runs[parser.parse_args().run]
    place, spec = Path(run.experiment, run.dataset), cfg.experiment[run.experiment]
    methods = [*spec.methods, *spec.get("composites", [])]

    def work(method: str) -> None:
        data = manifest.file(cfg, "dataset", run.dataset)
        posterior = manifest.file(cfg, "reference", run.dataset) if spec.get("compared", False) else None
        store = Store(RUNS / place / f"{method}.csv", UNITS / place / method, digits=8)
        store.write(sweep(cfg, run.experiment, run.dataset, method, data, store, posterior))

    status = finish_each(methods, work)
    for path in (RUNS / place).glob("*"):
        if path.name.partition(".")[0] not in methods:
            path.unlink()
    texts = {path.stem: path for path in sorted((RUNS / place).glob("*.csv"))} if spec.get("metrics") else {}
    found = {method: at_prices(read(path)) for method, path in texts.items()}
    text = json.dumps(found, indent=2, allow_nan=False) + "\n"
    cache.write(METRICS, {f"{run.experiment}-{run.dataset}.json": text.encode()})
    return status


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False, na_values={"value": [""], "epsilon_tight": [""]})


def at_prices(rows: pd.DataFrame, prices: Sequence[float] = (0.1, 1.0, 10.0)) -> dict[str, Any]:
    """What `dvc metrics` shows of a method: mean accuracy and tight price of the budgets priced nearest to these, on a
    log scale; just the accuracy of one without a price."""
    accuracy = rows[rows.metric.eq("accuracy")]
    means = accuracy.groupby("epsilon").agg(
        accuracy=("value", "mean"), epsilon_tight=("epsilon_tight", "max")
    )
    means = means[means.accuracy.notna()]
    priced = means[means.epsilon_tight.between(0, math.inf, inclusive="neither")]
    if priced.empty:
        return {"accuracy": round(float(means.accuracy.iloc[0]), 6)} if len(means) else {}
    found = {}
    for price in prices:
        nearest = priced.loc[(np.log(priced.epsilon_tight) - math.log(price)).abs().idxmin()]
        found[f"at_{price:g}"] = {name: round(float(nearest[name]), 6) for name in priced.columns}
    return found


if __name__ == "__main__":
    sys.exit(main())
