"""Abalone (Nash et al. 1994): predict whether the shell has more than 9 rings, as in wang2015, Figure 1(b).

There are 9 features: sex as one number, seven measurements as z-scores, a bias of 1.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dplangevin.data import Dataset
from dplangevin.data.csv_table import Table
from dplangevin.data.splits import Split


def load(
    folder: str | Path,
    zscore: Mapping[str, Sequence[float]],
    sex: Mapping[str, float],
    rings_above: float,
    train_share: float,
    seed: int,
    repeats: int,
    row_norm_bound: float,
    limit: int | None = None,
) -> Dataset:
    """Load `repeats` random splits of abalone.data: x (R, n, 9), y = +1 for rings > `rings_above`, else -1.

    `zscore` maps each measurement, in the order of the file, to (mean, sd), `sex` a letter to a number.  The splits
    come from the random stream (seed, "abalone/split").  `limit` keeps the first rows, before they are split.
    """
    table = Table.read(Path(folder) / "abalone.data", ("sex", *zscore, "rings"), limit=limit)
    n = len(table.lines)
    blocks = [table.zscore(name, *constants) for name, constants in zscore.items()]
    x = np.hstack([table.code("sex", sex)[:, None], *blocks, np.ones((n, 1))]).astype(np.float32)
    y = np.where(table.numbers("rings") > rings_above, 1.0, -1.0).astype(np.float32)
    train, test = Split(train_share, repeats=repeats, seed=seed).rows(n, "abalone")
    meta = {"name": "abalone", "features": ["sex", *zscore, "bias"], "row_norm_bound": row_norm_bound}
    return Dataset(x[train], y[train], x[test], y[test], meta)
