"""Stage fetch@<dataset>: the raw files of one data set, to data/raw/<dataset>/.

Stage weights@<key> (--weights <key>): the files of published weights, to data/weights/. Exit status 69 when
no source has them: the message is then also in data/raw/.unavailable/<dataset>.txt or weights_<key>.txt, which
the summary of a run reads and which a later success removes.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dplangevin.config import load
from dplangevin.download import DataUnavailable, fetch, mirrors

RAW = Path("data/raw")
WEIGHTS = Path("data/weights")  # beside those that `pretrain` makes
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h


def main(argv: Sequence[str] | None = None) -> int:
    cfg = load()
    datasets, weights = cfg.dataset, cfg.get("weights", {})
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("key", nargs="?", choices=list(datasets), help="a data set of conf/dataset/")
    what.add_argument("--weights", choices=list(weights), help="weights of conf/weights/")
    args = parser.parse_args(argv)
    if args.weights:
        group, folder, stage = "weights", WEIGHTS, f"weights@{args.weights}"
        files = weights[args.weights].files
    else:
        group, folder, stage = args.key, RAW / args.key, f"fetch@{args.key}"
        files = datasets[args.key].files
    marker = RAW / ".unavailable" / f"{f'weights_{args.weights}' if args.weights else args.key}.txt"
    try:
        fetch(group, files, folder, mirrors(os.environ.get("DATA_MIRROR", "")), stage)
    except DataUnavailable as error:
        print(error, file=sys.stderr)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(f"{error}\n", encoding="utf-8")
        return UNAVAILABLE
    marker.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
