"""Loaders and analyses as their configuration has them, and the raw files that they read."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from dplangevin.data import Arrays, Dataset
from dplangevin.data.fetch import DataUnavailable, fetch, mirrors

ROOT = Path(__file__).parents[1]


def from_file(path: Path) -> Any:
    """A file of conf/, merged into those of its `defaults`."""
    node: Any = OmegaConf.load(path)
    for name in node.pop("defaults", []):
        node = node if name == "_self_" else OmegaConf.merge(from_file(path.with_stem(name)), node)
    return node


def entries(*groups: str) -> dict[str, dict[str, Any]]:
    """All files of these groups of conf/, by group and name."""
    return {
        of: {path.stem: from_file(path) for path in sorted((ROOT / "conf" / of).glob("*.yaml"))}
        for of in groups
    }


def config(key: str, **change: Any) -> Any:
    """conf/dataset/KEY.yaml at the project's seed, with ten splits."""
    node = from_file(ROOT / f"conf/dataset/{key}.yaml")
    cfg = OmegaConf.create({"seed": 20150706, "splits": 10, "dataset": {key: node}})
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


def pictures(n: int = 11, m: int = 4, shape: tuple[int, ...] = (3, 32, 32), classes: int = 3) -> Dataset:
    """Random images with random labels."""
    rng = np.random.default_rng(2)
    x = [rng.integers(0, 256, (rows, *shape), dtype=np.uint8) for rows in (n, m)]
    y = [rng.integers(0, classes, rows) for rows in (n, m)]
    return Dataset.from_arrays(x[0], y[0], x[1], y[1], {"name": "small", "classes": classes})


def entry(name: str, content: bytes, **more: Any) -> dict[str, Any]:
    """A file as the configuration states it."""
    stated = {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return {**stated, "bundled": None, "urls": [], **more}


def real(key: str, folder: Path) -> None:
    """Fetch the official files into `folder`; without a folder of DATA_MIRROR that has them the test is skipped."""
    sources = [source for source in mirrors(os.environ.get("DATA_MIRROR", "")) if "://" not in source]
    node: Any = OmegaConf.to_container(config(key), resolve=True)
    archive = node.get("archive") and {**node["archive"], "urls": []}
    try:
        fetch(key, [{**file, "urls": []} for file in node["files"]], folder, sources, archive)
    except DataUnavailable:
        pytest.skip(f"no folder in DATA_MIRROR has {key}")
