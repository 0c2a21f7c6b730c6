"""One run of a training experiment: a learner on an image set, over its budgets, to tidy rows.

A budget is one piece of work.  Finished ones are kept on disk and an unfinished one has its checkpoint there, so that
an interrupted run goes on where it stopped; see `units` and `checkpoint`.
"""

import hashlib
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from hydra.utils import instantiate
from joblib import Parallel, cpu_count, delayed
from omegaconf import DictConfig, OmegaConf

from dplangevin import noise
from dplangevin.analyses import workers
from dplangevin.data import sha256
from dplangevin.device import pick
from dplangevin.images import ImageSet
from dplangevin.plan import merged
from dplangevin.privacy import Budget
from dplangevin.training import Learner, Task
from dplangevin.training.tables import TABLES, tables
from dplangevin.units import code_hash, kept


def sweep(cfg: DictConfig, experiment: str, run: str, data: Path, units: Path) -> dict[str, pd.DataFrame]:
    """The tables of one run (see `tables`), its budgets one after the other.

    data: the prepared image set; units: the folder of finished and unfinished pieces.  Budgets run on as many processes
    as DPL_WORKERS says, or as there are cores, each with its share of the threads, which decide a result's last bits;
    on one where a GPU is used, or where the budgets share work.
    """
    spec, entry = cfg.training[experiment], cfg.training[experiment].runs[run]
    piece = Piece(cfg, experiment, run, data, units)
    learner: Learner = instantiate(piece.learner)
    budgets = [float(epsilon) for epsilon in entry.epsilons] if learner.budgeted else [math.inf]
    inputs = {
        "code": code_hash(),
        "data": sha256(data),
        "seed": cfg.seed,
        "experiment": {name: value for name, value in plain(spec).items() if name != "runs"},
        "entry": plain(entry),
        "learner": piece.learner,
        "network": plain(cfg.network[entry.network]),
    }
    keys = [
        hashlib.sha256(json.dumps([inputs, epsilon], sort_keys=True).encode()).hexdigest()[:32]
        for epsilon in budgets
    ]
    jobs = 1 if learner.shares or pick().type == "cuda" else min(workers(), len(budgets))
    threads = max(1, min(torch.get_num_threads(), cpu_count()) // jobs)
    pool = Parallel(n_jobs=jobs)
    done = pool(delayed(piece.files)(*pair, threads) for pair in zip(keys, budgets, strict=True))
    return {
        name: pd.concat([pd.read_csv(files[name]) for files in done], ignore_index=True) for name in TABLES
    }


class Piece:
    """One budget of a run."""

    def __init__(self, cfg: DictConfig, experiment: str, run: str, data: Path, units: Path) -> None:
        self.cfg, self.experiment, self.run, self.data, self.units = cfg, experiment, run, data, units
        self.spec = cfg.training[experiment]
        self.entry = self.spec.runs[run]
        self.learner = merged(plain(cfg.learner[self.entry.learner]), plain(self.entry.get("settings", {})))

    def files(self, key: str, epsilon: float, threads: int) -> dict[str, Path]:
        """The files of its tables, computed unless they are there."""
        torch.set_num_threads(threads)
        computed: dict[str, pd.DataFrame] = {}

        def compute(table: str) -> pd.DataFrame:
            if not computed:
                computed.update(self.compute(key, epsilon))
            return computed[table]

        return {table: kept(self.units, [key, table], partial(compute, table)) for table in TABLES}

    def compute(self, key: str, epsilon: float) -> dict[str, pd.DataFrame]:
        """Train and test."""
        spec, entry, images = self.spec, self.entry, ImageSet.load(self.data)
        setting = {
            "experiment": self.experiment,
            "run": self.run,
            "dataset": spec.dataset,
            "network": entry.network,
            "method": entry.learner,
            "epsilon": epsilon,
        }
        task = Task(
            network=instantiate(self.cfg.network[entry.network], _convert_="all"),
            images=images,
            budget=Budget(epsilon, spec.delta),
            seeds=entry.seeds,
            # the same stream for all runs of a method: budgets and settings are compared on the same noise
            rng=noise.generator(self.cfg.seed, f"{spec.dataset}/{entry.network}/{entry.learner}"),
            device=pick(),
            folder=self.units,
            key=key,
        )
        trained = instantiate(self.learner)(task)
        assumptions = [*self.cfg.dataset[spec.dataset].assumptions, *entry.get("assumptions", [])]
        more = {"block": entry.block, **plain(self.learner.get("minibatches", {}))}
        return tables({**setting, **more}, trained, images, instantiate(spec.formula), assumptions)


def plain(node: Any) -> dict[str, Any]:
    """A config node as a dict."""
    found = OmegaConf.to_container(node, resolve=True) if isinstance(node, DictConfig) else node
    assert isinstance(found, dict)
    return {str(name): value for name, value in found.items()}
