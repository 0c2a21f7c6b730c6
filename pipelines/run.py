"""Run one method of an experiment on one data set: python pipelines/run.py EXPERIMENT DATASET METHOD."""

import json
import sys
import time
from pathlib import Path

from dplangevin.config import load
from dplangevin.data import atomic_path
from dplangevin.experiment import sweep


def main(experiment: str, dataset: str, method: str) -> None:
    start = time.perf_counter()
    units = Path("data/units") / experiment / dataset / method
    cfg = load()
    compared = cfg.experiment[experiment].get("compared", False)
    posterior = Path(f"data/reference/{dataset}.npz") if compared else None
    frame = sweep(cfg, experiment, dataset, method, Path(f"data/processed/{dataset}.npz"), units, posterior)
    with atomic_path(Path("results/runs") / experiment / dataset / f"{method}.csv") as part:
        frame.to_csv(part, index=False, float_format="%.8g")
    for unit in units.glob("*.csv"):  # the result holds them now
        unit.unlink()
    timing = Path("data/timings") / experiment / dataset / f"{method}.json"
    with atomic_path(timing) as part:
        part.write_text(json.dumps({"seconds": round(time.perf_counter() - start, 2)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
