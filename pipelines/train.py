"""Run all entries of a training experiment: python pipelines/train.py li2019_tab1."""

import argparse
import sys
from pathlib import Path

from stage import finish_each

from dplangevin import manifest
from dplangevin.cache import Store
from dplangevin.config import load
from dplangevin.training.sweep import sweep
from dplangevin.training.tables import TABLES

TRAINING = Path("results/training")
UNITS = Path("data/units/training")


def main() -> int:
    cfg = load()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("experiment", choices=list(cfg.training))
    experiment = parser.parse_args().experiment
    spec = cfg.training[experiment]

    def work(run: str) -> None:
        paths = [TRAINING / experiment / run / f"{table}.csv" for table in TABLES]
        store = Store(paths, UNITS / experiment / run)
        store.write(sweep(cfg, experiment, run, manifest.file(cfg, "dataset", spec.dataset), store))

    return finish_each(spec.runs, work)


if __name__ == "__main__":
    sys.exit(main())
