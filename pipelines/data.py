"""Stages prepare, weights, pretrain, features, reference: prepared data, stated in data/manifest/KIND/KEY.json.

Usage: python pipelines/data.py KIND KEY, with a kind of `dplangevin.pipeline.manifest`. The stage does nothing if the
manifest already has the current parameters, sources and code, and no file that differs from it exists. The
code that needs the data file makes it.
"""

import sys

from omegaconf import DictConfig
from stage import stage

from dplangevin.pipeline import manifest
from dplangevin.pipeline.config import one_of


@stage
def main(cfg: DictConfig, kind: str, key: str) -> None:
    """State a manifest."""
    one_of(manifest.known(cfg, one_of(manifest.PLACES, kind, "kind")), key, kind)
    manifest.state(cfg, kind, key)


if __name__ == "__main__":
    sys.exit(main())
