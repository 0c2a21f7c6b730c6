"""A small network on images of noise with a visible class, and a task on them."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dplangevin import noise
from dplangevin.data import Dataset
from dplangevin.networks import Network, build
from dplangevin.privacy import Budget
from dplangevin.problems.network import NetworkProblem
from dplangevin.training import Task


@pytest.fixture(scope="session")
def network() -> Network:
    layers: list[dict[str, Any]] = [
        {"conv": 4, "kernel": 3, "stride": 2},
        {"activation": "tanh"},
        {"linear": 3},
    ]
    return build(layers, [1, 8, 8], 3)


@pytest.fixture(scope="session")
def images() -> Dataset:
    rng = np.random.default_rng(0)

    def part(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 3, n)
        x = rng.integers(0, 100, (n, 1, 8, 8))
        x[np.arange(n), 0, 2 * y] += 120  # a bright row says the class
        return x.astype(np.uint8), y

    return Dataset.from_arrays(*part(400), *part(90), {"name": "rows", "classes": 3})


@pytest.fixture
def task(network: Network, images: Dataset, tmp_path: Path) -> Callable[..., Task]:
    def make(epsilon: float = math.inf, seeds: int = 2, folder: str = "units") -> Task:
        rng = noise.generator(1, "test")
        budget = Budget(epsilon, 1e-3)
        problem = NetworkProblem.of_images(network, images, torch.device("cpu"))
        return Task(problem, budget, seeds, rng, tmp_path / folder, "key")

    return make
