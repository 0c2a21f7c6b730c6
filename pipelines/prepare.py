"""Stage prepare@<dataset>: data/raw/<dataset>/ to data/processed/<dataset>.npz.

A raw file that is missing or not the one of the config is an error; an earlier processed file then stays as
it is.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hydra.utils import instantiate

from dplangevin.config import load
from dplangevin.data import DataError, verify


def main(argv: Sequence[str] | None = None) -> int:
    datasets = load().dataset
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("key", choices=list(datasets), help="a data set of conf/dataset/")
    key = parser.parse_args(argv).key
    raw = Path("data/raw") / key
    try:
        verify(raw, datasets[key].files, key)
        dataset = instantiate(datasets[key].loader, _partial_=True)(folder=raw)
        dataset.save(f"data/processed/{key}.npz")
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
