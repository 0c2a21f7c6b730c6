"""One entry of conf/heads: every run priced, then trained with all seeds, to rows with the columns `heads.COLUMNS`.

A run's price is one piece of work and so is the training of all runs of one random stream; finished ones are kept on
disk, see `units`.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from tqdm import tqdm

from dplangevin import noise
from dplangevin.data import sha256
from dplangevin.features import FeatureSet
from dplangevin.heads import COLUMNS, NAN, Found, Head, Setting
from dplangevin.heads.inputs import features_notes, scaled, setting_of
from dplangevin.heads.softmax import accuracy_and_loss, problem_of
from dplangevin.plan import merged, plain
from dplangevin.units import code_hash, kept


class Run(NamedTuple):
    """One run at one epsilon (nan: none was asked for).  method: its entry of conf/head with the run's settings."""

    name: str
    entry: dict[str, Any]
    method: dict[str, Any]
    epsilon: float

    @property
    def head(self) -> Head:
        found: Head = instantiate(self.method)
        return found


def sweep(cfg: DictConfig, experiment: str, data: Path, units: Path) -> pd.DataFrame:
    """All rows of `cfg.heads[experiment]`, run by run.

    data: the file of the `FeatureSet`; units: the folder of finished pieces.
    """
    spec = plain(cfg.heads, experiment)
    features = scaled(FeatureSet.load(data), spec)
    setting = setting_of(features, spec)
    runs = runs_of(cfg, spec)
    base = {
        "code": code_hash(),
        "data": sha256(data),
        "seed": cfg.seed,
        "experiment": {name: value for name, value in spec.items() if name != "runs"},
    }
    prices = []
    for run in tqdm(runs, unit="price", disable=None):
        done = kept(units, [base, "price", run], partial(price, experiment, run, setting, cfg.seed))
        (found,) = read(done).to_dict("records")
        prices.append({str(name): value for name, value in found.items()})
    groups: dict[tuple[str, int], list[int]] = {}
    for i, run in enumerate(runs):
        seeds = int(run.entry.get("seeds", spec["seeds"]))
        groups.setdefault((run.head.stream(setting), seeds), []).append(i)
    frames: dict[int, pd.DataFrame] = {}
    for (stream, seeds), members in tqdm(groups.items(), unit="stream", disable=None):
        together = [(runs[i], prices[i]) for i in members]
        work = partial(train, together, setting, features, seeds, cfg.seed, stream, spec["features"])
        frame = read(kept(units, [base, "trained", stream, seeds, together], work))
        frames |= {i: frame[frame["of"] == at] for at, i in enumerate(members)}
    notes = [*features_notes(features, spec), *spec.get("assumptions", [])]
    table = [
        row
        for i, run in enumerate(runs)
        for row in rows(experiment, spec["features"], run, setting, prices[i], frames[i], notes)
    ]
    return pd.DataFrame(table, columns=COLUMNS)


def runs_of(cfg: DictConfig, spec: Mapping[str, Any]) -> list[Run]:
    """Every run of an entry at every epsilon; its settings are the method's, changed by the entry's, by its own."""
    found = []
    for name, entry in spec["runs"].items():
        method = merged(plain(cfg.head, entry["head"]), {**spec["settings"], **entry["settings"]})
        for epsilon in entry["epsilons"] or [NAN]:
            found.append(Run(name, entry, method, float(epsilon)))
    return found


def price(experiment: str, run: Run, setting: Setting, seed: int) -> pd.DataFrame:
    rng = noise.generator(seed, f"{experiment}/{run.name}/{run.epsilon}")
    return pd.DataFrame([run.head.price(setting, run.epsilon, rng)])


def train(
    runs: list[tuple[Run, Found]],
    setting: Setting,
    features: FeatureSet,
    seeds: int,
    seed: int,
    stream: str,
    name: str,
) -> pd.DataFrame:
    """Accuracy and log loss of the last iterates on the test rows, by run (`of`) and seed."""
    problem = problem_of(features.x_train, features.y_train, features.classes, seeds, setting.row_bound)
    # the same stream in every experiment on these features: they are compared on the same noise
    rng = noise.generator(seed, f"{name}/{stream}")
    methods = [(run.head, found) for run, found in runs]
    trained = methods[0][0].trained(problem, setting, methods, rng)
    test = torch.as_tensor(features.x_test), torch.as_tensor(features.y_test)
    accuracy, loss = accuracy_and_loss(trained.theta.float(), *test)
    return pd.DataFrame(
        {"of": of, "seed": s, "accuracy": a, "log_loss": b, "note": note}
        for of, note in enumerate(trained.violated)
        for s, (a, b) in enumerate(zip(accuracy[:, of].tolist(), loss[:, of].tolist(), strict=True))
    )


def rows(
    experiment: str,
    features: str,
    run: Run,
    setting: Setting,
    price: Found,
    frame: pd.DataFrame,
    notes: list[str],
) -> list[dict[str, Any]]:
    head, entry = run.head, run.entry
    diverged = int(frame["accuracy"].isna().sum())
    more = f"{diverged} of {len(frame)} chains diverged" if diverged else ""
    claimed = entry.get("claimed")
    fixed = {
        **setting.columns(),
        **price,
        "experiment": experiment,
        "features": features,
        "run": run.name,
        "block": entry["block"],
        "method": head.name,
        "schedule": head.schedule,
        "calibration": head.calibration,
        "epsilon": run.epsilon,
        "epsilon_paper": NAN if claimed is None else float(claimed),
    }
    texts = [price["assumptions"], *notes, *entry.get("assumptions", [])]
    return [
        {
            **fixed,
            "seed": int(found["seed"]),
            "accuracy": found["accuracy"],
            "log_loss": found["log_loss"],
            "violated": "; ".join(text for text in (price["violated"], found["note"], more) if text),
            "assumptions": "; ".join(text for text in texts if text),
        }
        for found in frame.to_dict("records")
    ]


def read(path: Path) -> pd.DataFrame:
    """A finished piece; the texts may be empty."""
    frame = pd.read_csv(path)
    for name in ("violated", "assumptions", "note", "accountant_tight", "adjacency_tight", "audit_pair"):
        if name in frame:
            frame[name] = frame[name].astype(object).where(frame[name].notna(), "")
    return frame
