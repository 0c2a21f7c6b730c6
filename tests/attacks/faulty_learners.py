"""Learners with known faults, in the likeness of public reports, and what each of them claims.

Each takes a seed, and cuts rows to norm 1 where its claim needs a bound.
"""

import warnings
from typing import Any, Self

import numpy as np

CLIP = 5.0


def cut(X: np.ndarray, bound: float = 1.0) -> np.ndarray:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True) / bound, 1.0)


class Learner:
    """What all have in common: parameters, and predictions by the sign of a margin."""

    def __init__(self, epsilon: float = 1.0, random_state: int = 0) -> None:
        self.epsilon, self.random_state = epsilon, random_state

    def laplace(self, scale: float, size: Any = None) -> Any:
        return np.random.default_rng(self.random_state).laplace(0, scale, size)

    def noisy_sum(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        noise = self.laplace(2 * np.sqrt(X.shape[1]) / self.epsilon, X.shape[1])
        return np.asarray(cut(X).T @ (2 * y - 1) + noise)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (X @ self.coef_ > 0).astype(int)  # type: ignore[attr-defined]


class NoiseWithoutClip(Learner):
    """Rows are cut to norm 5; the noise is that for norm 1."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        total = np.abs(cut(X, CLIP)).sum(1) @ (2 * y - 1)
        self.coef_ = np.full(X.shape[1], total + self.laplace(2 * np.sqrt(X.shape[1]) / self.epsilon))
        return self


class ClassesOffLabels(Learner):
    """The classes are those of the labels."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.classes_ = np.unique(y)
        self.counts_ = np.bincount(y, minlength=2) + self.laplace(2 / self.epsilon, 2)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.classes_[0])


class SameNoise(Learner):
    """One draw of noise is added to the sums of both classes."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        sums = np.stack([cut(X)[y == k].sum(0) for k in (0, 1)])
        self.coef_ = sums + self.laplace(4 * np.sqrt(X.shape[1]) / self.epsilon, X.shape[1])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (X @ self.coef_[0] > 0).astype(int)


class SeedFixed(Learner):
    """The seed is a constant."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        noise = np.random.default_rng(0).laplace(0, 4 / self.epsilon, X.shape[1])
        self.coef_ = cut(X).T @ (2 * y - 1) + noise
        return self


class AverageOfFits(Learner):
    """The average of 25 noisy fits, each of which spends the whole budget."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        total = (cut(X)[:, 0] * (2 * y - 1)).sum()
        self.coef_ = np.full(X.shape[1], total + self.laplace(2 / self.epsilon, 25).mean())
        return self


class WarnsOfRows(Learner):
    """Coefficients have noise; a class that no record has makes the fit warn."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        if not (y == 1).any():
            warnings.warn("label 1 is absent", stacklevel=2)
        self.coef_ = self.noisy_sum(X, y)
        return self
