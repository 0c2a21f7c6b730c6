"""One run of conf/finetune/ to the rows of its table."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from dplangevin import noise
from dplangevin.backbones import load
from dplangevin.backbones.resnet20 import ResNet20
from dplangevin.cache import File, Store, code_hash, key, targets
from dplangevin.data import Dataset
from dplangevin.device import pick
from dplangevin.finetune.activations import activations
from dplangevin.finetune.parts import Part
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems.network import NetworkProblem
from dplangevin.scores import scores
from dplangevin.training import Learner, Task, Trained
from dplangevin.training.loop import Steps

SLACK = 1e-6  # relative; rounding when a claimed epsilon is recomputed from its event


def finish(cfg: DictConfig, name: str, data: File, weights: File, trunks: Path, store: Store) -> list[str]:
    """Finish a run, a single unit with one row a seed; its key in a list.

    data: the prepared image set; weights: of the backbone.  trunks: the folder of the activations of the layers that
    stay as they are, shared by the runs.
    """
    trunk, unit = keys(cfg, name, data.sha256, weights.sha256)
    if not store.find(unit):
        network, _ = load(_plain(cfg.backbone[cfg.finetune[name].backbone]), weights.get())
        store.keep(unit, _computed(cfg, name, data.get(), trunks, network, trunk, unit, store.folder))
    return [unit]


def keys(cfg: DictConfig, name: str, data: str, weights: str) -> tuple[str, str]:
    """The keys of the shared activations and of a run.  data, weights: sha256."""
    entry = _plain(cfg.finetune[name])
    backbone = _plain(cfg.backbone[entry["backbone"]])
    shared = {"data": data, "weights": weights, "backbone": backbone, "limit": entry["limit"]}
    decides = {
        **shared,
        "code": code_hash(__name__, *targets(backbone, entry)),
        "run": name,
        "entry": entry,
        "seed": cfg.seed,
        "assumptions": list(cfg.dataset[entry["dataset"]].assumptions),
    }
    return key([code_hash(__name__, *targets(backbone)), shared]), key(decides)


def _computed(
    cfg: DictConfig, name: str, data: Path, trunks: Path, backbone: Any, trunk: str, unit: str, folder: Path
) -> pd.DataFrame:
    entry = cfg.finetune[name]
    if not isinstance(backbone, ResNet20):
        raise ValueError(
            f"backbone {entry.backbone} is no ResNet20, whose last block can be trained: name one"
        )
    part: Part = instantiate(entry.trained)
    learner: Learner = instantiate(entry.learner)
    minibatches: Steps = learner.minibatches  # type: ignore[attr-defined]
    images, device = Dataset.load(data).limited(entry.limit), pick()
    entering = part.inputs(backbone, activations(backbone, images, device, trunks, trunk))
    n, arrays = images.n, images.arrays()
    network = part.network(backbone, images.classes)
    network.module.to(device)  # its constants
    x, y = entering[:n].to(device), torch.as_tensor(arrays.y_train, device=device)
    task = Task(
        problem=NetworkProblem(network, x, y, entering[n:], torch.as_tensor(arrays.y_test), pretrained=True),
        budget=Budget(math.inf if entry.epsilon is None else entry.epsilon, entry.delta),
        seeds=entry.seeds,
        # the same stream with and without privacy: they are compared on the same minibatches
        rng=noise.generator(cfg.seed, f"finetune/{entry.dataset}/{entry.backbone}/{part.name}"),
        folder=folder,
        key=unit,
    )
    trained = learner(task)
    assumptions = [
        *trained.guarantee.assumptions,
        *cfg.dataset[entry.dataset].assumptions,
        *entry.assumptions,
    ]
    names = {"run": name, "method": entry.method, "trained": part.name}
    return _table(task, trained, minibatches, names, assumptions)


def _table(
    task: Task, trained: Trained, minibatches: Steps, names: dict[str, str], assumptions: list[str]
) -> pd.DataFrame:
    """epsilon: asked for.  epsilon_paper: what the learner's accountant, the paper's, charges; nan without privacy.
    epsilon_tight: of all iterates, whose neighbours adjacency_tight names; epsilon_tight_add_remove: for the others."""
    n, (guarantee, asked) = task.problem.facts.n, (trained.guarantee, task.budget.epsilon)
    steps = minibatches.count(n)
    charged = guarantee.epsilon
    over_budget = charged > asked * (1 + SLACK)
    found = scores(trained.predicted["single"], task.problem.y_test)
    common = {
        "epoch": steps * minibatches.batch / n,
        "epsilon": asked,
        "delta": task.budget.delta,
        "epsilon_paper": charged if math.isfinite(asked) else math.nan,
        "epsilon_tight": Tight().epsilon(guarantee.event, guarantee.delta, "replace_one"),
        "adjacency_tight": "replace_one",
        "epsilon_tight_add_remove": Tight().epsilon(guarantee.event, guarantee.delta, "add_remove"),
        "step_size": trained.settings["step"],
        "clip": trained.settings.get("clip", math.inf),
        "noise_multiplier": trained.settings.get("noise_multiplier", 0.0),
        "batch": minibatches.batch,
        "epochs": minibatches.epochs,
        "steps": steps,
        "parameters": task.problem.facts.d,
        "violated": f"costs {charged:.4g}, more than the {asked:g} asked" if over_budget else "",
        "assumptions": "; ".join(dict.fromkeys(assumptions)),
    }
    made = []
    for seed in range(task.seeds):
        measured = {score: float(found[score][seed]) for score in ("accuracy", "log_loss")}
        row = {**names, "seed": seed, "epoch": common["epoch"], **measured}
        made.append(row | {column: value for column, value in common.items() if column != "epoch"})
    return pd.DataFrame(made)


def _plain(node: Any) -> dict[str, Any]:
    found = OmegaConf.to_container(node, resolve=True)
    assert isinstance(found, dict)
    return {str(name): value for name, value in found.items()}
