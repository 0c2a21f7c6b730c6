"""CIFAR's loaders as their configuration has them."""

from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf

from dplangevin.images import ImageSet

ROOT = Path(__file__).parents[1]


def config(key: str, **change: Any) -> Any:
    return OmegaConf.merge(OmegaConf.load(ROOT / f"conf/dataset/{key}.yaml"), change)


def load(folder: Path, **change: Any) -> ImageSet:
    return instantiate(config(folder.name, **change).loader, _partial_=True)(folder=folder)
