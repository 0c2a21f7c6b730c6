"""One run of conf/finetune/ to the rows of its table."""

import hashlib
import json
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
from dplangevin.data import sha256
from dplangevin.device import pick
from dplangevin.finetune.activations import Inputs, activations, limited
from dplangevin.finetune.loop import Learner, Task, Tuned
from dplangevin.finetune.parts import Part
from dplangevin.images import ImageSet
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.scores import scores
from dplangevin.units import code_hash, kept

SLACK = 1e-6  # relative; rounding when a claimed epsilon is recomputed from its event
HASH = 32  # characters


def rows(cfg: DictConfig, name: str, data: Path, units: Path, root: str | Path = ".") -> Path:
    """The table of a run as a CSV file in `units`/`name`, one row a seed, computed unless it is there.

    data: the prepared image set.  units: the activations of the layers that stay as they are, shared by the runs, and
    below it a folder of each run.  root: the folder that weights are named from.
    """
    entry = cfg.finetune[name]
    backbone, weights = load(_plain(cfg.backbone[entry.backbone]), root)
    decides = {
        "code": code_hash(),
        "data": sha256(data),
        "weights": weights,
        "backbone": _plain(cfg.backbone[entry.backbone]),
        "limit": entry.limit,
    }
    trunk = _hash(decides)
    decides |= {"run": name, "entry": _plain(entry), "seed": cfg.seed}
    decides["assumptions"] = list(cfg.dataset[entry.dataset].assumptions)

    def compute() -> pd.DataFrame:
        return _computed(cfg, name, data, units, backbone, trunk, _hash(decides))

    return kept(units / name, decides, compute)


def _computed(
    cfg: DictConfig, name: str, data: Path, units: Path, backbone: Any, trunk: str, key: str
) -> pd.DataFrame:
    entry = cfg.finetune[name]
    if not isinstance(backbone, ResNet20):
        raise ValueError(
            f"backbone {entry.backbone} is no ResNet20, whose last block can be trained: name one"
        )
    part: Part = instantiate(entry.trained)
    learner: Learner = instantiate(entry.learner)
    images, device = limited(ImageSet.load(data), entry.limit), pick()
    entering = part.inputs(backbone, activations(backbone, images, device, units, trunk))
    n = len(images.x_train)
    tensors = (entering[:n], torch.as_tensor(images.y_train), entering[n:], torch.as_tensor(images.y_test))
    task = Task(
        network=part.network(backbone, images.classes),
        inputs=Inputs(*(t.to(device) for t in tensors)),
        budget=Budget(math.inf if entry.epsilon is None else entry.epsilon, entry.delta),
        seeds=entry.seeds,
        # the same stream with and without privacy: they are compared on the same minibatches
        rng=noise.generator(cfg.seed, f"finetune/{entry.dataset}/{entry.backbone}/{part.name}"),
        device=device,
        folder=units / name,
        key=key,
    )
    task.network.module.to(device)  # its constants
    tuned = learner(task)
    assumptions = [*tuned.guarantee.assumptions, *cfg.dataset[entry.dataset].assumptions, *entry.assumptions]
    return _table(
        task, tuned, learner, {"run": name, "method": learner.name, "trained": part.name}, assumptions
    )


def _table(
    task: Task, tuned: Tuned, learner: Learner, names: dict[str, str], assumptions: list[str]
) -> pd.DataFrame:
    """epsilon: asked for.  epsilon_paper: what the learner's accountant, the paper's, charges; nan without privacy.
    epsilon_tight: of all iterates, whose neighbours adjacency_tight names; epsilon_tight_add_remove: for the others."""
    n, (guarantee, asked) = len(task.inputs.x_train), (tuned.guarantee, task.budget.epsilon)
    steps = learner.minibatches.count(n)
    charged = guarantee.epsilon
    dear = charged > asked * (1 + SLACK)
    found = scores(tuned.probability, task.inputs.y_test.cpu())
    common = {
        "epoch": steps * learner.minibatches.batch / n,
        "epsilon": asked,
        "delta": task.budget.delta,
        "epsilon_paper": charged if math.isfinite(asked) else math.nan,
        "epsilon_tight": Tight().epsilon(guarantee.event, guarantee.delta, "replace_one"),
        "adjacency_tight": "replace_one",
        "epsilon_tight_add_remove": Tight().epsilon(guarantee.event, guarantee.delta, "add_remove"),
        "step_size": tuned.step_size,
        "clip": tuned.clip,
        "noise_multiplier": tuned.noise_multiplier,
        "batch": learner.minibatches.batch,
        "epochs": learner.minibatches.epochs,
        "steps": steps,
        "parameters": task.network.d,
        "violated": f"costs {charged:.4g}, more than the {asked:g} asked" if dear else "",
        "assumptions": "; ".join(dict.fromkeys(assumptions)),
    }
    made = []
    for seed in range(task.seeds):
        measured = {score: float(found[score][seed]) for score in ("accuracy", "log_loss")}
        row = {**names, "seed": seed, "epoch": common["epoch"], **measured}
        made.append(row | {column: value for column, value in common.items() if column != "epoch"})
    return pd.DataFrame(made)


def _hash(inputs: Any) -> str:
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:HASH]


def _plain(node: Any) -> dict[str, Any]:
    found = OmegaConf.to_container(node, resolve=True)
    assert isinstance(found, dict)
    return {str(name): value for name, value in found.items()}
