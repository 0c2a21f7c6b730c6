"""Run one analysis of conf/analysis: python pipelines/analyse.py ID, to results/analyses/ID.csv."""

from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from stage import finish, stage

from dplangevin.papers.analyses import run
from dplangevin.pipeline.config import content, one_of
from dplangevin.pipeline.plan import plain


def described(cfg: DictConfig, name: str) -> dict[str, Any]:
    """Return the settings of an analysis; with `content: FOLDER`, also those of conf/FOLDER/ID.yaml."""
    spec = plain(cfg.analysis[one_of(cfg.analysis, name, "analysis")])
    folder = spec.pop("content", None)
    return spec if folder is None else {**spec, **content(folder, name, cfg)}


@stage
def main(cfg: DictConfig, name: str) -> None:
    """Run an analysis."""
    compute = partial(run, described(cfg, name), cfg.seed)
    finish([Path(f"results/analyses/{name}.csv")], Path("data/units/analysis", name), compute)
