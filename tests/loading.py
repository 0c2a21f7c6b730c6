"""Loaders and analyses as their configuration has them, and the raw files that they read."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from dplangevin.data import Arrays, Dataset
from dplangevin.data.fetch import DataUnavailable, fetch, mirrors

ROOT = Path(__file__).parents[1]


def config(key: str, **change: Any) -> Any:
    """conf/dataset/KEY.yaml at the project's seed, with ten repeats."""
    node = OmegaConf.load(ROOT / f"conf/dataset/{key}.yaml")
    cfg = OmegaConf.create({"seed": 20150706, "repeats": 10, "dataset": {key: node}})
    return OmegaConf.merge(cfg, {"dataset": {key: change}}).dataset[key]


def load(key: str, folder: Path, **change: Any) -> Dataset:
    return instantiate(config(key, **change).loader, _partial_=True)(folder=folder)


def analysis(key: str, **change: Any) -> Any:
    """conf/analysis/KEY.yaml, changed."""
    shared = OmegaConf.load(ROOT / "conf/config.yaml")
    node = OmegaConf.load(ROOT / f"conf/analysis/{key}.yaml")
    return instantiate(
        OmegaConf.merge(shared, {"analysis": node}, {"analysis": change}).analysis, _convert_="all"
    )


def arrays(key: str, folder: Path, **change: Any) -> Arrays:
    """Of a data set that all repeats share."""
    return load(key, folder, **change).arrays()


def entry(name: str, content: bytes, **more: Any) -> dict[str, Any]:
    """A file as the configuration states it."""
    stated = {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return {**stated, "bundled": None, "urls": [], **more}


def real(key: str, folder: Path) -> None:
    """Fetch the official files into `folder`; without a folder of DATA_MIRROR that has them the test is skipped."""
    sources = [source for source in mirrors(os.environ.get("DATA_MIRROR", "")) if "://" not in source]
    node = config(key)
    files: Any = OmegaConf.to_container(node.files, resolve=True)
    for stated in [*files, *(file["archive"] for file in files if "archive" in file)]:
        stated["urls"] = []
    try:
        fetch(key, files, folder, sources)
    except DataUnavailable:
        pytest.skip(f"no folder in DATA_MIRROR has {key}")
