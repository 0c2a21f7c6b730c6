"""A ResNet-20 with random weights and statistics, and noise images with a visible class."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from dplangevin.backbones.resnet20 import ResNet20, build
from dplangevin.data import Dataset

STEPS = {"_target_": "dplangevin.training.loop.Steps", "batch": 20, "epochs": 1, "measured": 2}
PLAIN: dict[str, Any] = {"schedule": "fixed", "momentum": 0.0, "precision": 0.0, "minibatches": STEPS}
SGD: dict[str, Any] = {"_target_": "dplangevin.training.sgd.Sgd", "step": 0.01, **PLAIN}
CLIP = 2.5  # not 1, or noise that ignores it would look right
DP_SGD: dict[str, Any] = {
    "_target_": "dplangevin.training.dp_sgd.DpSgd", "step": 0.01, "clip": CLIP, **PLAIN,
    "accountant": {"_target_": "dplangevin.privacy.accountants.rdp.Rdp"}, "adjacency": "add_remove",
}  # fmt: skip
PARTS = {"block": "LastBlock", "head": "Head"}


@pytest.fixture
def backbone() -> ResNet20:
    return filled(build(7, 32, [0.5, 0.5, 0.5], [0.25, 0.25, 0.25]), 0)


def filled(network: ResNet20, seed: int) -> ResNet20:
    """Random weights that keep the size of activations, random statistics."""
    rng = torch.Generator().manual_seed(seed)
    for name, value in network.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        if value.ndim > 1:
            value.copy_(torch.randn(value.shape, generator=rng) / value[0].numel() ** 0.5)
        elif name.endswith(("var", "weight")):
            value.copy_(0.5 + torch.rand(value.shape, generator=rng))
        else:
            value.copy_(torch.randn(value.shape, generator=rng) / 4)
    return network.eval()


@pytest.fixture(scope="session")
def images() -> Dataset:
    rng = np.random.default_rng(0)

    def part(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 3, n)
        x = rng.integers(0, 100, (n, 3, 32, 32))
        x[np.arange(n), y] += 120  # a colour says the class
        return x.astype(np.uint8), y

    return Dataset.from_arrays(*part(100), *part(40), {"name": "colours", "classes": 3})


@pytest.fixture
def data(images: Dataset, tmp_path: Path) -> Path:
    images.save(tmp_path / "colours.npz")
    return tmp_path / "colours.npz"


@pytest.fixture
def cfg(backbone: ResNet20, tmp_path: Path) -> DictConfig:
    """Four runs on the images, with the weights in a file."""
    arrays = {name: value.numpy() for name, value in backbone.state_dict().items()}
    np.savez(tmp_path / "weights.npz", **arrays)
    runs = {
        f"{part}_{learner}": {
            "dataset": "colours", "backbone": "small", "limit": None, "seeds": 2,
            "delta": 1e-3, "assumptions": ["ours"],
            "trained": {"_target_": f"dplangevin.finetune.parts.{target}"},
            "epsilon": None if learner == "none" else 1.0, "method": learner,
            "learner": SGD if learner == "none" else DP_SGD,
        }
        for part, target in PARTS.items()
        for learner in ("none", "dp_sgd")
    }  # fmt: skip
    public = {
        "_target_": "dplangevin.backbones.resnet20.build", "classes": 7, "size": 32, "mean": [0.5] * 3,
        "std": [0.25] * 3, "weights": "weights.npz", "made_by": "weights@small",
    }  # fmt: skip
    made = {
        "seed": 3,
        "dataset": {"colours": {"assumptions": ["drawn at random"]}},
        "backbone": {"small": public},
    }
    return OmegaConf.create({**made, "finetune": runs})
