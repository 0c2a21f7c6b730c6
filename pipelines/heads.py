"""Run one entry of conf/heads: python pipelines/heads.py KEY, to results/heads/KEY.csv."""

import sys
from pathlib import Path

from dplangevin import outputs
from dplangevin.config import load
from dplangevin.data import DataError
from dplangevin.heads.sweep import sweep


def main(key: str) -> None:
    cfg = load()
    if key not in cfg.heads:
        raise ValueError(f"no such entry: conf/heads has {', '.join(cfg.heads)}")
    units = Path("data/units/heads") / key
    frame = sweep(cfg, key, Path(f"data/features/{cfg.heads[key].features}.npz"), units)
    outputs.write(Path("results/heads"), {f"{key}.csv": outputs.csv_bytes(frame)})
    for piece in units.iterdir():  # the result holds them now
        piece.unlink()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (ValueError, DataError) as error:
        sys.exit(f"{' '.join(sys.argv[1:])}: {error}")
