"""Run one entry of conf/heads: python pipelines/heads.py KEY, to results/heads/KEY.csv."""

import argparse
import sys
from pathlib import Path

from stage import finish

from dplangevin import manifest
from dplangevin.cache import Store
from dplangevin.config import load
from dplangevin.heads.sweep import sweep


def main() -> int:
    cfg = load()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("key", choices=list(cfg.heads), metavar="KEY")
    name = parser.parse_args().key

    def work() -> None:
        store = Store(Path("results/heads") / f"{name}.csv", Path("data/units/heads") / name)
        store.write(sweep(cfg, name, manifest.file(cfg, "features", cfg.heads[name].features), store))

    return finish(work, name)


if __name__ == "__main__":
    sys.exit(main())
