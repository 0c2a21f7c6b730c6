"""Problems with known answers, shared by the tests."""

import numpy as np
import torch

from dplangevin.losses import LOGISTIC, SQUARED, huber, softmax
from dplangevin.problem import Problem


def rows(repeats: int, n: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows of norm at most 1, correlated and of unequal scales, (repeats, n, d)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(repeats, n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / d**0.5)
    return x / np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))


def logistic(
    repeats: int = 3, n: int = 400, d: int = 5, shared: bool = False, answers: int | None = None
) -> Problem:
    """Logistic regression with labels drawn from a fixed theta."""
    x = rows(1 if shared else repeats, n, d)
    theta = np.linspace(-2, 3, d)
    rng = np.random.default_rng(1)
    y = np.where(rng.random(x.shape[:2]) < 1 / (1 + np.exp(-x @ theta)), 1.0, -1.0)
    tensors = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Problem(*tensors, LOGISTIC, answers or repeats)


def multinomial(
    repeats: int = 3, n: int = 400, features: int = 4, classes: int = 3, shared: bool = False
) -> Problem:
    """Softmax regression with labels drawn from a fixed theta; row_bound is 1."""
    x = rows(1 if shared else repeats, n, features)
    theta = np.random.default_rng(5).normal(size=(classes, features)) * 2
    gumbel = np.random.default_rng(1).gumbel(size=(*x.shape[:2], classes))
    y = (x @ theta.T + gumbel).argmax(-1)
    tensors = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Problem(*tensors, softmax(classes), repeats)


def linear(repeats: int = 3, n: int = 400, d: int = 5, shared: bool = False) -> Problem:
    """Linear regression with labels in [-2, 2] and the Huber loss at threshold 1/2, which clips many residuals."""
    x = rows(1 if shared else repeats, n, d)
    noise = np.random.default_rng(1).standard_t(3, size=x.shape[:2]) / 2
    y = np.clip(x @ np.linspace(-1, 2, d) + noise, -2, 2)
    tensors = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Problem(*tensors, huber(0.5, 2.0), repeats)


def gaussian(repeats: int = 8, n: int = 300, d: int = 4) -> tuple[Problem, torch.Tensor, torch.Tensor]:
    """Linear regression with unit noise and flat prior: its posterior is N(mean, covariance), returned too."""
    x = rows(1, n, d, seed=2)
    y = x @ np.linspace(1, -1, d) + np.random.default_rng(3).normal(size=(1, n))
    covariance = np.linalg.inv(x[0].T @ x[0])
    mean = covariance @ x[0].T @ y[0]
    tensors = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Problem(*tensors, SQUARED, repeats), torch.tensor(mean), torch.tensor(covariance)
