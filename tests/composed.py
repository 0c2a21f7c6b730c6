"""The project's configuration, read or composed once for all tests of a process: composing takes three seconds."""

from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from dplangevin.pipeline.config import compose, load

ROOT = Path(__file__).parents[1]


@cache
def composed(*overrides: str) -> DictConfig:
    """Return `conf/` with these overrides; it is read-only, because tests share it."""
    cfg = compose(overrides, ROOT / "conf")
    OmegaConf.set_readonly(cfg, True)
    return cfg


@cache
def parameters() -> DictConfig:
    """Return `params.yaml` of this checkout; it is read-only, because tests share it."""
    cfg = load(ROOT / "params.yaml")
    OmegaConf.set_readonly(cfg, True)
    return cfg
