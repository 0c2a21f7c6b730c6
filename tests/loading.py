"""Loaders as their configuration has them."""

from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf

from dplangevin.data import Arrays, Dataset

ROOT = Path(__file__).parents[1]


def config(key: str, **change: Any) -> Any:
    """conf/dataset/KEY.yaml at the project's seed, with ten repeats."""
    node = OmegaConf.load(ROOT / f"conf/dataset/{key}.yaml")
    cfg = OmegaConf.create({"seed": 20150706, "repeats": 10, "dataset": {key: node}})
    return OmegaConf.merge(cfg, {"dataset": {key: change}}).dataset[key]


def load(key: str, folder: Path, **change: Any) -> Dataset:
    return instantiate(config(key, **change).loader, _partial_=True)(folder=folder)


def arrays(key: str, folder: Path, **change: Any) -> Arrays:
    """Of a data set that all repeats share."""
    return load(key, folder, **change).arrays()
