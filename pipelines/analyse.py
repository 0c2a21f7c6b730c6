"""Run one analysis of conf/analysis: python pipelines/analyse.py ID, to results/analyses/ID.csv."""

import sys
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from stage import finish, stage

from dplangevin.papers.analyses import run
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.config import content, one_of
from dplangevin.pipeline.environment import pinned
from dplangevin.pipeline.plan import plain


@stage
def main(cfg: DictConfig, name: str) -> None:
    """Run an analysis."""
    store = Store(Path("results/analyses") / f"{name}.csv", Path("data/units/analysis") / name)
    with pinned():
        finish(store, run(described(cfg, name), cfg.seed, store))


def described(cfg: DictConfig, name: str) -> dict[str, Any]:
    """Return the settings of an analysis, conf/analysis/<id>.yaml.

    With `content: <folder>`, further arguments come from conf/<folder>/<id>.yaml.
    """
    spec = plain(cfg.analysis[one_of(cfg.analysis, name, "analysis")])
    folder = spec.pop("content", None)
    return spec if folder is None else {**spec, **content(folder, name, cfg)}


if __name__ == "__main__":
    sys.exit(main())
