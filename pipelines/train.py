"""Run one entry of conf/training: python pipelines/train.py EXPERIMENT RUN, to results/training/EXPERIMENT/RUN/."""

import sys
from pathlib import Path

from dplangevin import outputs
from dplangevin.config import load
from dplangevin.training.sweep import sweep


def main(experiment: str, run: str) -> None:
    cfg = load()
    units = Path("data/units/training") / experiment / run
    dataset = cfg.training[experiment].dataset
    found = sweep(cfg, experiment, run, Path(f"data/processed/{dataset}.npz"), units)
    contents = {f"{name}.csv": outputs.csv_bytes(frame) for name, frame in found.items()}
    outputs.write(Path("results/training") / experiment / run, contents, only=True)
    for piece in units.iterdir():  # the results hold them now
        piece.unlink()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ValueError as error:
        sys.exit(f"{' '.join(sys.argv[1:])}: {error}")
