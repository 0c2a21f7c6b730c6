"""Training rows and test rows, drawn at random."""

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dplangevin.checks import require
from dplangevin.data.dataset import Dataset


def generator(seed: int, name: str) -> np.random.Generator:
    """Return the random stream of a name: PCG64 seeded with SeedSequence([seed, crc32(name)])."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())])))


@dataclass(frozen=True)
class Split:
    """The split of a table, by the stream (seed, "<name of the data set>/split") or into files of their own."""

    train_share: float | None = None
    folds: int | None = None
    test_file: str | None = None
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        given = [each for each in (self.train_share, self.folds, self.test_file) if each is not None]
        require(len(given) == 1, "give one of train_share, folds (of a cross-validation), and test_file")

    def rows(self, n: int, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices (R, n_train) and (R, n_test) of n rows; not for a `test_file`.

        The first random splits do not depend on the number of later ones. Every row is a test row of one fold, except
        n mod folds rows that are always training rows.
        """
        rng = generator(self.seed, f"{name}/split")
        if self.folds is not None:
            fits = 2 <= self.folds <= n
            require(fits, f"folds = {self.folds} of {n} rows: need at least 2, and a row for each")
            order, m = rng.permutation(n), n // self.folds
            test = order[: self.folds * m].reshape(self.folds, m)
            return np.stack([np.delete(order, np.s_[k * m : (k + 1) * m]) for k in range(self.folds)]), test
        n_train = int((self.train_share or 0) * n)
        require(0 < n_train < n, f"train_share {self.train_share} of {n} rows leaves an empty part")
        order = np.argsort(rng.random((self.repeats, n)), axis=1, kind="stable")
        return order[:, :n_train], order[:, n_train:]


def subset(
    data: Dataset, train_rows: int | None, held_out: float | None, rng: np.random.Generator
) -> Dataset:
    """Return a random subset of the training rows; the share `held_out` of them replaces the test rows.

    If repeats have rows of their own, rows are drawn in each repeat. A smaller subset is contained in a
    larger one. The held-out rows do not depend on `train_rows`.
    """
    if train_rows is None and held_out is None:
        return data
    order = np.argsort(rng.random((len(data.y_train), data.n)), axis=1, kind="stable")
    left = data.n - int((held_out or 0) * data.n)
    if not 0 < (train_rows or left) <= left or (held_out and left == data.n):
        given = f"train_rows = {train_rows}, held_out = {held_out}"
        raise ValueError(f"{given}: need so many of the {data.n} training rows, and a row in each part")
    parts = {"train": order[:, : train_rows or left]} | ({"test": order[:, left:]} if held_out else {})
    values, repeat = {"x": data.x_train, "y": data.y_train}, np.arange(len(order))[:, None]
    drawn: dict[str, Any] = {
        f"{xy}_{part}": values[xy][repeat, rows] for part, rows in parts.items() for xy in values
    }
    return replace(data, **drawn)
