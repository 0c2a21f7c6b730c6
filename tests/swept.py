"""Sweeps to frames, without results in git: finished units lie in a folder of the test's."""

import io
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from dplangevin import analyses
from dplangevin import experiment as convex
from dplangevin.cache import File, Store
from dplangevin.finetune import run as tuned
from dplangevin.heads import sweep as on_features
from dplangevin.plan import plain
from dplangevin.training import sweep as networks
from dplangevin.training.tables import TABLES

EXACT = 17  # digits: every number comes back


def frames(store: Store, keys: list[str], **options: object) -> list[pd.DataFrame]:
    return [
        pd.read_csv(io.StringIO(text), **options)  # type: ignore[call-overload]
        for text in store.tables(keys)
    ]


def experiment(
    cfg: DictConfig,
    name: str,
    dataset: str,
    method: str,
    data: Path,
    units: Path,
    posterior: Path | None = None,
) -> pd.DataFrame:
    store = Store(units / "absent.csv", units, EXACT)
    exact = None if posterior is None else File.at(posterior)
    keys = convex.sweep(cfg, name, dataset, method, File.at(data), store, exact)
    return frames(store, keys, keep_default_na=False, na_values={"value": [""]})[0]


def training(cfg: DictConfig, name: str, run: str, data: Path, units: Path) -> dict[str, pd.DataFrame]:
    store = Store([units / f"absent/{table}.csv" for table in TABLES], units, EXACT)
    keys = networks.sweep(cfg, name, run, File.at(data), store)
    return dict(zip(TABLES, frames(store, keys), strict=True))


def heads(cfg: DictConfig, name: str, data: Path, units: Path) -> pd.DataFrame:
    store = Store(units / "absent.csv", units, EXACT)
    return on_features.read(
        on_features.Rows.of(store.tables(on_features.sweep(cfg, name, File.at(data), store))[0])
    )


def finetune(cfg: DictConfig, run: str, data: Path, units: Path) -> str:
    """The table as text."""
    store = Store(units / "absent.csv", units / run, EXACT)
    weights = File.at(data.parent / "weights.npz")
    return store.tables(tuned.finish(cfg, run, File.at(data), weights, units, store))[0]


def analysis(spec: DictConfig, seed: int, units: Path) -> pd.DataFrame:
    store = Store(units / "absent.csv", units, EXACT)
    return frames(store, analyses.run(plain(DictConfig({"it": spec}), "it"), seed, store))[0]
