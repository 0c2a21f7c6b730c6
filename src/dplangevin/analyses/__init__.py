"""Computations that need no data set: what a theorem charges, what a sampler targets, what an attack sees.

One module per analysis, a frozen dataclass whose fields are the numbers of `conf/analysis/<id>.yaml`. Its work is cut
into units, each kept when it is finished.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
from hydra.utils import instantiate
from joblib import Parallel, cpu_count, delayed
from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from dplangevin.units import code_hash, kept


class Analysis(Protocol):
    """units: names of independent pieces of work, in order. rows: the tidy rows of one piece."""

    def units(self) -> Sequence[str]: ...

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]: ...


def run(spec: DictConfig, seed: int, folder: Path) -> pd.DataFrame:
    """All rows of the analysis that `spec` (`_target_` and arguments) describes, units in order.

    folder: of finished units. Units run on as many processes as the environment variable DPL_WORKERS says, or as there
    are cores; the rows do not depend on it.
    """
    analysis: Analysis = instantiate(spec, _convert_="all")
    inputs = {"code": code_hash(), "seed": seed, "analysis": OmegaConf.to_container(spec, resolve=True)}
    units = list(analysis.units())
    pool = Parallel(n_jobs=min(workers(), len(units)), return_as="generator")
    paths = pool(delayed(_unit)(analysis, unit, seed, folder, inputs) for unit in units)
    frames = [pd.read_csv(path) for path in tqdm(paths, total=len(units), unit="unit", disable=None)]
    return pd.concat(frames, ignore_index=True)


def workers() -> int:
    """DPL_WORKERS, or the cores of this process. Raises ValueError for anything but a positive integer."""
    given = os.environ.get("DPL_WORKERS", "")
    if given and not (given.isdecimal() and int(given) > 0):
        raise ValueError(f"DPL_WORKERS = {given!r} must be a positive integer; unset it to use every core")
    return int(given) if given else cpu_count()


def _unit(analysis: Analysis, unit: str, seed: int, folder: Path, inputs: dict[str, Any]) -> Path:
    return kept(folder, [inputs, unit], partial(_frame, analysis, unit, seed))


def _frame(analysis: Analysis, unit: str, seed: int) -> pd.DataFrame:
    return pd.DataFrame(analysis.rows(unit, seed))
