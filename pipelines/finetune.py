"""Run the entries of conf/finetune: python pipelines/finetune.py [RUN ...], to results/finetune/RUN.csv."""

import argparse
import sys
from pathlib import Path

from stage import finish_each

from dplangevin import manifest
from dplangevin.cache import Store
from dplangevin.config import load
from dplangevin.finetune.run import finish

UNITS = Path("data/units/finetune")


def main() -> int:
    cfg = load()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="*", metavar="RUN")
    runs = parser.parse_args().runs or list(cfg.finetune)
    if unknown := [run for run in runs if run not in cfg.finetune]:
        parser.error(f"no run {unknown[0]!r}: conf/finetune has {', '.join(cfg.finetune)}")

    def work(run: str) -> None:
        entry = cfg.finetune[run]
        data = manifest.file(cfg, "dataset", entry.dataset)
        weights = manifest.file(cfg, "weights", entry.backbone)
        store = Store(Path("results/finetune") / f"{run}.csv", UNITS / run)
        store.write(finish(cfg, run, data, weights, UNITS, store))

    return finish_each(runs, work)


if __name__ == "__main__":
    sys.exit(main())
