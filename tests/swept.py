"""Sweeps to frames, without results in git: finished units lie in a folder of the test's."""

import io
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from dplangevin.files import File
from dplangevin.papers import analyses
from dplangevin.pipeline import sweep as sweeps
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.plan import plain
from dplangevin.reporting.read import TEXT

EXACT = 17  # digits: every number comes back


def store(cfg: DictConfig, name: str, units: Path) -> Store:
    return Store(
        [units / f"absent/{table}.csv" for table in sweeps.tables(cfg.experiment[name])], units, EXACT
    )


def experiment(
    cfg: DictConfig,
    name: str,
    dataset: str,
    data: Path,
    units: Path,
    posterior: Path | None = None,
    weights: Path | None = None,
) -> dict[str, pd.DataFrame]:
    """The tables of an experiment by name; empty text stays ""."""
    kept = store(cfg, name, units)
    exact, public = (None if path is None else File.at(path) for path in (posterior, weights))
    given = sweeps.Inputs(File.at(data), exact, public)
    keys = sweeps.sweep(sweeps.SweepTasks(cfg, name, dataset, given, kept.folder), kept)
    return {name: frame(text) for name, text in texts(kept, keys).items()}


def texts(kept: Store, keys: list[str]) -> dict[str, str]:
    """The tables of finished units by name, without results."""
    tables = zip(*(kept.find(key) or () for key in keys), strict=True)
    joined = ("".join([f"{table[0].header}\n", *(rows.text for rows in table)]) for table in tables)
    return dict(zip((path.stem for path in kept.paths), joined, strict=True))


def frame(text: str) -> pd.DataFrame:
    names = text.partition("\n")[0].split(",")
    absent = {column: [""] for column in names if column not in TEXT}
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=absent)


def analysis(spec: DictConfig, seed: int, units: Path) -> pd.DataFrame:
    kept = Store(units / "absent.csv", units, EXACT)
    (text,) = texts(kept, analyses.run(plain(spec), seed, kept)).values()
    return pd.read_csv(io.StringIO(text))
