"""The rows that an experiment uses: fewer training rows, some of them held out as test rows."""

from dataclasses import replace
from typing import Any

import numpy as np

from dplangevin.data import ARRAYS, Dataset


def part(data: Dataset, train_rows: int | None, held_out: float | None, rng: np.random.Generator) -> Dataset:
    """Return a random subset of the training rows; with `held_out`, take the test rows from them, too.

    If repeats have rows of their own, rows are drawn in each repeat. A smaller subset is contained in a
    larger one. The held-out rows do not depend on `train_rows`.

    Parameters
    ----------
    train_rows : int or None
        Number of training rows. None: all.
    held_out : float in (0, 1) or None
        Share of the training rows that replace the test rows. The original test rows are then not used.

    Raises
    ------
    ValueError
        `train_rows` exceeds the number of available rows, or a part would be empty.
    """
    if train_rows is None and held_out is None:
        return data
    order = np.argsort(rng.random((len(data.y_train), data.n)), axis=1, kind="stable")
    kept = data.n - int((held_out or 0) * data.n)
    if held_out is not None and not 0 < kept < data.n:
        raise ValueError(f"held_out = {held_out} of {data.n} training rows leaves an empty part")
    if train_rows is not None and not 0 < train_rows <= kept:
        raise ValueError(
            f"train_rows = {train_rows} must be in 1 to {kept}, the training rows that there are"
        )

    def take(name: str, which: np.ndarray) -> np.ndarray:
        return np.stack([rows[chosen] for rows, chosen in zip(getattr(data, name), which, strict=True)])

    found: dict[str, Any] = {name: take(name, order[:, : train_rows or kept]) for name in ARRAYS[:2]}
    if held_out is not None:
        own = zip(ARRAYS[2:], ARRAYS[:2], strict=True)
        found |= {name: take(source, order[:, kept:]) for name, source in own}
    return replace(data, **found)
