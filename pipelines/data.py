"""Stages prepare, weights, pretrain, features, reference: prepared data, stated in data/manifest/KIND/KEY.json.

python pipelines/data.py KIND KEY, with a kind of `dplangevin.manifest`. Where the manifest is of the same parameters,
sources and code already, and no other file is there, nothing is done: who needs the file makes it.
"""

import argparse
import sys

from stage import stage

from dplangevin import manifest
from dplangevin.config import load


@stage
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kind", choices=list(manifest.PLACES))
    parser.add_argument("key")
    args = parser.parse_args()
    manifest.state(load(), args.kind, args.key)


if __name__ == "__main__":
    sys.exit(main())
