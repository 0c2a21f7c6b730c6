"""A small experiment for tests of the sweep; run as a script, it sweeps in a process that can be killed.

python tests/toy.py DATA UNITS: objpert on the data of DATA, one unit for every budget.
"""

import sys
from pathlib import Path

import numpy as np
import swept
from omegaconf import DictConfig, OmegaConf

from dplangevin.config import load
from dplangevin.data import Dataset


def config() -> DictConfig:
    """The project's config with an experiment `toy` on a data set `toy`: 2 scalings, 2 ridges, 3 budgets, 3 repeats."""
    toy = {
        "model": "logistic",
        "scalings": ["unit", "global"],
        "vary": {"objpert": {"ridge": [0.1, 5.0]}},
        "budgets_per_unit": 2,
        "epsilons": {"toy": [0.5, 1.0, 4.0]},
    }
    data = {"toy": {"assumptions": ["made up"]}}
    merged = OmegaConf.merge(load(), {"repeats": 3, "dataset": data, "experiment": {"toy": toy}})
    assert isinstance(merged, DictConfig)
    return merged


def many_units() -> DictConfig:
    """As `config`, with 200 units."""
    cfg = config()
    cfg.experiment.toy.budgets_per_unit = 1
    cfg.experiment.toy.epsilons.toy = np.geomspace(0.5, 5, 50).tolist()
    return cfg


def write(path: Path) -> Path:
    """Prepared data of the data set `toy`."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 300, 4))
    y = np.where(x @ np.array([1.0, -1.0, 0.5, 0.0]) > 0, 1.0, -1.0)
    Dataset(x[:, :200], y[:, :200], x[:, 200:], y[:, 200:], {"name": "toy", "row_norm_bound": 3.0}).save(path)
    return path


if __name__ == "__main__":
    swept.experiment(many_units(), "toy", "toy", "objpert", Path(sys.argv[1]), Path(sys.argv[2]))
