"""The project's config with every file of conf/method, mounted in config.yaml or not."""

from functools import lru_cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from dplangevin.config import load

FOLDER = Path(__file__).parent.parent / "conf" / "method"


@lru_cache
def config() -> DictConfig:
    files = {path.stem: OmegaConf.load(path) for path in FOLDER.glob("*.yaml")}
    merged = OmegaConf.merge(load(), {"method": files})
    assert isinstance(merged, DictConfig)
    return merged
