"""Run one entry of conf/finetune: python pipelines/finetune.py RUN, to results/finetune/RUN.csv."""

import argparse
import sys
from pathlib import Path

import pandas as pd

from dplangevin import outputs
from dplangevin.config import load
from dplangevin.data import DataError
from dplangevin.finetune.run import rows

UNITS = Path("data/units/finetune")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", help="a key of conf/finetune")
    name = parser.parse_args().run
    cfg = load()
    if name not in cfg.finetune:
        print(f"no run {name!r}: conf/finetune has {', '.join(cfg.finetune)}", file=sys.stderr)
        return 1
    try:
        found = rows(cfg, name, Path(f"data/processed/{cfg.finetune[name].dataset}.npz"), UNITS)
    except (ValueError, DataError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    content = outputs.csv_bytes(pd.read_csv(found))
    outputs.write(Path("results/finetune"), {f"{name}.csv": content})
    for piece in (
        UNITS / name
    ).iterdir():  # the results hold them now; the activations stay for the other runs
        piece.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
