"""Problems with known answers, shared by the tests."""

from typing import Any

import numpy as np
import torch
from composed import parameters
from hydra.utils import instantiate
from sklearn.datasets import load_breast_cancer, load_digits

from dplangevin import random
from dplangevin.backbones import resnet20
from dplangevin.backbones.resnet20 import ResNet20
from dplangevin.data import Dataset
from dplangevin.methods import Plan, Release, released
from dplangevin.pipeline.plan import merged, plain
from dplangevin.privacy import Budget
from dplangevin.problems import Problem
from dplangevin.problems.architectures import build
from dplangevin.problems.glm import Glm
from dplangevin.problems.last_block import last_block
from dplangevin.problems.losses import LOGISTIC, SQUARED, huber, softmax
from dplangevin.problems.network import NetworkProblem


def method(name: str, **overrides: Any) -> Any:
    """A method of conf/method with other settings."""
    return instantiate(merged(plain(parameters().method[name]), overrides))


def release(
    method: Any, of: Problem, *epsilons: float, seeds: int = 3, delta: float = 1e-5
) -> tuple[Release, list[Plan]]:
    """What a method gives out for these budgets, on the stream "test"."""
    return released(method, of, [Budget(e, delta) for e in epsilons], seeds, random.generator(0, "test"))


def rows(seeds: int, n: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows of norm at most 1, correlated and of unequal scales, (seeds, n, d)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(seeds, n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / d**0.5)
    return x / np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))


def logistic(seeds: int = 3, n: int = 400, d: int = 5, shared: bool = False) -> Glm:
    """Logistic regression with labels drawn from a fixed theta."""
    x = rows(1 if shared else seeds, n, d)
    theta = np.linspace(-2, 3, d)
    rng = np.random.default_rng(1)
    y = np.where(rng.random(x.shape[:2]) < 1 / (1 + np.exp(-x @ theta)), 1.0, -1.0)
    tensors = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Glm(*tensors, LOGISTIC)


def multinomial(
    seeds: int = 3, n: int = 400, features: int = 4, classes: int = 3, shared: bool = False
) -> Glm:
    """Softmax regression with labels drawn from a fixed theta; row_bound is 1."""
    x = rows(1 if shared else seeds, n, features)
    theta = np.random.default_rng(5).normal(size=(classes, features)) * 2
    gumbel = np.random.default_rng(1).gumbel(size=(*x.shape[:2], classes))
    y = (x @ theta.T + gumbel).argmax(-1)
    tensors = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Glm(*tensors, softmax(classes))


def linear(seeds: int = 3, n: int = 400, d: int = 5, shared: bool = False) -> Glm:
    """Linear regression with labels in [-2, 2] and the Huber loss at threshold 1/2, which clips many residuals."""
    x = rows(1 if shared else seeds, n, d)
    noise = np.random.default_rng(1).standard_t(3, size=x.shape[:2]) / 2
    y = np.clip(x @ np.linspace(-1, 2, d) + noise, -2, 2)
    tensors = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Glm(*tensors, huber(0.5, 2.0))


def gaussian(n: int = 300, d: int = 4) -> tuple[Glm, torch.Tensor, torch.Tensor]:
    """Linear regression with unit noise and flat prior: its posterior is N(mean, covariance), returned too."""
    x = rows(1, n, d, seed=2)
    y = x @ np.linspace(1, -1, d) + np.random.default_rng(3).normal(size=(1, n))
    covariance = np.linalg.inv(x[0].T @ x[0])
    mean = covariance @ x[0].T @ y[0]
    tensors = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Glm(*tensors, SQUARED), torch.tensor(mean), torch.tensor(covariance)


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    """400 patients, 30 standardised features: a hyperplane separates them, but barely."""
    x, y = load_breast_cancer(return_X_y=True)
    kept = np.random.default_rng(0).permutation(len(x))[:400]
    return ((x - x.mean(0)) / x.std(0))[kept], 2.0 * y[kept] - 1


def three_rows() -> tuple[np.ndarray, np.ndarray]:
    return np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), np.array([1.0, -1.0, 1.0])


SEPARABLE = {"breast_cancer": breast_cancer, "three_rows": three_rows}


def separable(name: str, loss: str = "logistic") -> Glm:
    """Shared rows of norm 1 that a hyperplane separates by their labels: without a ridge there is no best theta."""
    x, y = SEPARABLE[name]()
    x = x / np.linalg.norm(x, axis=1, keepdims=True) * (1 - 1e-6)
    used = {"logistic": LOGISTIC, "softmax": softmax(2)}[loss]
    labels = used.labels(torch.tensor(y[None], dtype=torch.float32))
    return Glm(torch.tensor(x[None], dtype=torch.float32), labels, used)


def digits(n: int = 60, tests: int = 40) -> Dataset:
    """Images of 8 x 8 with a visible class, of three."""
    x, y = load_digits(n_class=3, return_X_y=True)
    x = (x * 15).astype(np.uint8).reshape(-1, 1, 8, 8)
    meta = {"name": "digits", "classes": 3}
    return Dataset.from_arrays(x[:n], y[:n], x[n : n + tests], y[n : n + tests], meta)


LAYERS: list[dict[str, Any]] = [{"conv": 3, "kernel": 3, "stride": 2}, {"activation": "tanh"}, {"linear": 3}]


def network() -> NetworkProblem:
    """A small network on `digits`."""
    return NetworkProblem.of_images(digits(), 1, build(LAYERS, (1, 8, 8), 3))


def backbone(seed: int = 0) -> ResNet20:
    """See `drawn`."""
    return drawn(resnet20.build(7, 32, [0.5, 0.5, 0.5], [0.25, 0.25, 0.25]), seed)


def drawn(made: Any, seed: int = 0) -> Any:
    """Random weights that keep the size of activations, random statistics."""
    rng = torch.Generator().manual_seed(seed)
    for name, value in made.state_dict().items():
        if value.ndim > 1:
            value.copy_(torch.randn(value.shape, generator=rng) / value[0].numel() ** 0.5)
        elif name.endswith(("var", "weight")):
            value.copy_(0.5 + torch.rand(value.shape, generator=rng))
        elif not name.endswith("num_batches_tracked"):
            value.copy_(torch.randn(value.shape, generator=rng) / 4)
    return made.eval()


def last() -> NetworkProblem:
    """The last block of `backbone`, on what might enter it, whose mean says the class, of three."""
    rng = torch.Generator().manual_seed(1)
    y = torch.arange(100) % 3
    x = torch.randn(100, 64, 8, 8, generator=rng) + y[:, None, None, None] - 1
    return NetworkProblem(last_block(backbone(), 3), x[:60], y[:60], x[60:], y[None, 60:], pretrained=True)
