"""Stages prepare, weights, pretrain, features, reference: `python pipelines/data.py KIND KEY` states a manifest."""

from omegaconf import DictConfig
from stage import stage

from dplangevin.pipeline import manifest
from dplangevin.pipeline.config import one_of


@stage
def main(cfg: DictConfig, kind: str, key: str) -> None:
    """Write data/manifest/KIND/KEY.json, unless it states the current inputs and no other file is there."""
    one_of(manifest.known(cfg, one_of(manifest.PLACES, kind, "kind")), key, kind)
    manifest.state(cfg, kind, key)
