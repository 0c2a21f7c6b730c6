"""One run of a training experiment: a learner on an image set, over its budgets, to tidy rows.

A budget is one unit of work.  Finished ones are kept and an unfinished one has its checkpoint, so that an interrupted
run goes on where it stopped; see `cache`.
"""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from hydra.utils import instantiate
from joblib import Parallel, cpu_count, delayed
from omegaconf import DictConfig

from dplangevin import noise
from dplangevin.cache import File, Store, code_hash, key, targets, workers
from dplangevin.data import Dataset
from dplangevin.device import pick
from dplangevin.plan import merged, plain
from dplangevin.privacy import Budget
from dplangevin.problems.network import NetworkProblem
from dplangevin.training import Learner, Task
from dplangevin.training.tables import tables


def sweep(cfg: DictConfig, experiment: str, run: str, data: File, store: Store) -> list[str]:
    """Finish the budgets of one run, the units of its three tables; their keys, in order.

    data: the prepared image set; store: of `TABLES`, whose folder also has the unfinished pieces.  Budgets run on as
    many processes as DPL_WORKERS says, or as there are cores, each with its share of the threads, which decide a
    result's last bits; on one where a GPU is used, or where the budgets share work.
    """
    budgets = budgets_of(cfg, experiment, run)
    keys = keys_of(cfg, experiment, run, data.sha256)
    missing = [pair for pair in zip(keys, budgets, strict=True) if not store.find(pair[0])]
    if missing:
        piece = Piece(cfg, experiment, run, store)
        learner: Learner = instantiate(piece.learner)
        jobs = 1 if learner.shares or pick().type == "cuda" else min(workers(), len(budgets))
        threads = max(1, min(torch.get_num_threads(), cpu_count()) // jobs)
        path = data.get()
        Parallel(n_jobs=min(jobs, len(missing)))(
            delayed(piece.finish)(*pair, path, threads) for pair in missing
        )
    return keys


def learner_of(cfg: DictConfig, experiment: str, run: str) -> dict[str, Any]:
    """The config of a run's learner, with the run's settings."""
    entry = cfg.training[experiment].runs[run]
    return merged(plain(cfg.learner, entry.learner), plain(entry, "settings"))


def budgets_of(cfg: DictConfig, experiment: str, run: str) -> list[float]:
    learner: Learner = instantiate(learner_of(cfg, experiment, run))
    given = cfg.training[experiment].runs[run].epsilons
    return [float(epsilon) for epsilon in given] if learner.budgeted else [math.inf]


def keys_of(cfg: DictConfig, experiment: str, run: str, data: str) -> list[str]:
    """The keys of the budgets of a run: all that decides their rows.  data: sha256."""
    learner, budgets = learner_of(cfg, experiment, run), budgets_of(cfg, experiment, run)
    spec, entry = plain(cfg.training, experiment), plain(cfg.training[experiment].runs, run)
    network = plain(cfg.network, entry["network"])
    inputs = {
        "code": code_hash(__name__, *targets(learner, network, spec["formula"])),
        "data": data,
        "seed": cfg.seed,
        "experiment": {name: value for name, value in spec.items() if name != "runs"},
        "run": run,
        "entry": {name: value for name, value in entry.items() if name != "epsilons"},
        "learner": learner,
        "network": network,
        "assumptions": list(cfg.dataset[spec["dataset"]].assumptions),
    }
    return [key([inputs, epsilon]) for epsilon in budgets]


class Piece:
    """One budget of a run."""

    def __init__(self, cfg: DictConfig, experiment: str, run: str, store: Store) -> None:
        self.cfg, self.experiment, self.run, self.store = cfg, experiment, run, store
        self.spec = cfg.training[experiment]
        self.entry = self.spec.runs[run]
        self.learner = learner_of(cfg, experiment, run)

    def finish(self, name: str, epsilon: float, data: Path, threads: int) -> None:
        """Compute its tables and keep them."""
        torch.set_num_threads(threads)
        found = self.compute(name, epsilon, data)
        self.store.keep(name, *(found[path.stem] for path in self.store.paths))

    def compute(self, name: str, epsilon: float, data: Path) -> dict[str, pd.DataFrame]:
        """Train and test."""
        spec, entry, images = self.spec, self.entry, Dataset.load(data)
        setting = {
            "experiment": self.experiment,
            "run": self.run,
            "dataset": spec.dataset,
            "network": entry.network,
            "method": entry.learner,
            "epsilon": epsilon,
        }
        network = instantiate(self.cfg.network[entry.network], _convert_="all")
        task = Task(
            problem=NetworkProblem.of_images(network, images, pick()),
            budget=Budget(epsilon, spec.delta),
            seeds=entry.seeds,
            # the same stream for all runs of a method: budgets and settings are compared on the same noise
            rng=noise.generator(self.cfg.seed, f"{spec.dataset}/{entry.network}/{entry.learner}"),
            folder=self.store.folder,
            key=name,
        )
        trained = instantiate(self.learner)(task)
        assumptions = [*self.cfg.dataset[spec.dataset].assumptions, *entry.get("assumptions", [])]
        more = {"block": entry.block, **self.learner.get("minibatches", {})}
        return tables({**setting, **more}, trained, images, instantiate(spec.formula), assumptions)
