"""One entry of conf/heads: every run priced, then trained with all seeds, to rows with the columns `heads.COLUMNS`.

A run at one epsilon is a unit, see `cache`.  On the way to it its price is one piece of work, and so is the training
of all runs of one random stream; these are kept until the result is written.
"""

import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from tqdm import tqdm

from dplangevin import noise
from dplangevin.cache import File, Rows, Store, code_hash, kept, key, targets
from dplangevin.data import Dataset
from dplangevin.heads import COLUMNS, NAN, Head, Priced, Setting
from dplangevin.heads.inputs import features_notes, setting_of
from dplangevin.heads.softmax import accuracy_and_loss, problem_of
from dplangevin.plan import merged, plain


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


def sweep(cfg: DictConfig, experiment: str, data: File, store: Store) -> list[str]:
    """Finish every run of `cfg.heads[experiment]` at every epsilon; their keys, in order.

    data: the file of the features; store: its folder also has the prices and what was trained.  A run's rows do not
    depend on the runs that it is trained with, and so neither does its key.
    """
    spec = plain(cfg.heads, experiment)
    runs = runs_of(cfg, spec)
    keys = unit_keys(cfg, experiment, spec, data.sha256, runs)
    missing = [i for i, name in enumerate(keys) if not store.find(name)]
    if not missing:
        return keys
    features = Dataset.load(data.get()).clipped(spec["row_norm"], spec["row_bound"])
    setting = setting_of(features, spec)
    prices: dict[int, Priced] = {}
    for i in tqdm(missing, unit="price", disable=None):
        done = kept(store.folder, f"price-{keys[i]}", partial(price, experiment, runs[i], setting, cfg.seed))
        (found,) = read(done).to_dict("records")
        prices[i] = {str(name): value for name, value in found.items()}
    groups: dict[tuple[str, int], list[int]] = {}
    for i in missing:
        groups.setdefault((runs[i].head.stream(setting), seeds_of(runs[i], spec)), []).append(i)
    notes = [*features_notes(features, spec), *spec.get("assumptions", [])]
    for (stream, seeds), members in tqdm(groups.items(), unit="stream", disable=None):
        together = [(runs[i], prices[i]) for i in members]
        work = partial(train, together, setting, features, seeds, cfg.seed, stream, spec["features"])
        frame = read(kept(store.folder, f"trained-{key([keys[i] for i in members])}", work))
        for at, i in enumerate(members):
            of = frame[frame["of"] == at]
            table = rows(experiment, spec["features"], runs[i], setting, prices[i], of, notes)
            store.keep(keys[i], pd.DataFrame(table, columns=COLUMNS))
    return keys


def unit_keys(
    cfg: DictConfig, experiment: str, spec: Mapping[str, Any], data: str, runs: Sequence[Run]
) -> list[str]:
    """The keys of runs: all that decides their rows.  data: sha256."""
    base = {
        "name": experiment,
        "data": data,
        "seed": cfg.seed,
        "experiment": {name: value for name, value in spec.items() if name not in ("runs", "seeds")},
    }
    return [
        key(
            [
                base,
                code_hash(__name__, *targets(run.method)),
                run.name,
                {name: value for name, value in run.entry.items() if name not in ("epsilons", "seeds")},
                run.method,
                repr(run.epsilon),
                seeds_of(run, spec),
            ]
        )
        for run in runs
    ]


def seeds_of(run: Run, spec: Mapping[str, Any]) -> int:
    return int(run.entry.get("seeds", spec["seeds"]))


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
    runs: list[tuple[Run, Priced]],
    setting: Setting,
    features: Dataset,
    seeds: int,
    seed: int,
    stream: str,
    name: str,
) -> pd.DataFrame:
    """Accuracy and log loss of the last iterates on the test rows, by run (`of`) and seed."""
    arrays = features.arrays()
    problem = problem_of(arrays.x_train, arrays.y_train, features.classes, seeds, setting.row_bound)
    # the same stream in every experiment on these features: they are compared on the same noise
    rng = noise.generator(seed, f"{name}/{stream}")
    methods = [(run.head, found) for run, found in runs]
    trained = methods[0][0].trained(problem, setting, methods, rng)
    test = torch.as_tensor(arrays.x_test), torch.as_tensor(arrays.y_test)
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
    price: Priced,
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


def read(piece: Rows) -> pd.DataFrame:
    """A finished piece; the texts may be empty."""
    frame = pd.read_csv(io.StringIO(piece.content))
    for name in ("violated", "assumptions", "note", "accountant_tight", "adjacency_tight", "audit_pair"):
        if name in frame:
            frame[name] = frame[name].astype(object).where(frame[name].notna(), "")
    return frame
