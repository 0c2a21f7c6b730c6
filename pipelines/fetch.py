"""Stage fetch@<dataset>: the raw files of one data set, to data/raw/<dataset>/.

Exit status 69 when no source has them: the message is then also in data/raw/.unavailable/<dataset>.txt,
which the summary of a run reads and which a later success removes.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dplangevin.config import load
from dplangevin.download import DataUnavailable, fetch, mirrors

RAW = Path("data/raw")
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h


def main(argv: Sequence[str] | None = None) -> int:
    datasets = load().dataset
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("key", choices=list(datasets), help="a data set of conf/dataset/")
    key = parser.parse_args(argv).key
    marker = RAW / ".unavailable" / f"{key}.txt"
    try:
        fetch(key, datasets[key].files, RAW / key, mirrors(os.environ.get("DATA_MIRROR", "")))
    except DataUnavailable as error:
        print(error, file=sys.stderr)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(f"{error}\n", encoding="utf-8")
        return UNAVAILABLE
    marker.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
