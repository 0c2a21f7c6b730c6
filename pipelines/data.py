"""Stages prepare, weights, pretrain, features, reference: prepared data, stated in data/manifest/KIND/KEY.json.

Usage: python pipelines/data.py KIND KEY, with a kind of `dplangevin.pipeline.manifest`. The stage does nothing if the
manifest already has the current parameters, sources and code, and no file that differs from it exists. The
code that needs the data file makes it.
"""

import argparse
import sys

from stage import stage

from dplangevin.pipeline import manifest
from dplangevin.pipeline.config import load


@stage
def main() -> None:
    """State the manifest that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kind", choices=list(manifest.PLACES))
    parser.add_argument("key")
    args = parser.parse_args()
    manifest.state(load(), args.kind, args.key)


if __name__ == "__main__":
    sys.exit(main())
