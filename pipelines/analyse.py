"""Run one analysis of conf/analysis: python pipelines/analyse.py ID."""

import argparse
import sys
from pathlib import Path

from dplangevin import outputs
from dplangevin.analyses import run
from dplangevin.config import load


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("id", help="a key of conf/analysis")
    name = parser.parse_args().id
    cfg = load()
    if name not in cfg.analysis:
        print(f"no analysis {name!r}: conf/analysis has {', '.join(cfg.analysis)}", file=sys.stderr)
        return 1
    units = Path("data/units/analysis") / name
    frame = run(cfg.analysis[name], cfg.seed, units)
    outputs.write(Path("results/analyses"), {f"{name}.csv": outputs.csv_bytes(frame)})
    for unit in units.glob("*.csv"):  # the result holds them now
        unit.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
