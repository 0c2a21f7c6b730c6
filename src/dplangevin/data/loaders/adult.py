"""Adult (Becker and Kohavi 1996): predict whether a person's income is above 50,000 dollars (wang2015, Figure 1(c)).

There are 6 + 102 + 1 = 109 features in the order of the file: each numeric column as a z-score, each categorical
column as indicators (`?` is a category of its own), then a bias of 1.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dplangevin.data import Dataset
from dplangevin.data.csv_table import Table


def load(
    folder: str | Path,
    columns: Mapping[str, Sequence[Any]],
    row_norm_bound: float,
    limit: int | None = None,
) -> Dataset:
    """Load adult.data and adult.test as one split that all repeats share: x (1, n, 109), y = +1 for `>50K`.

    `columns` maps each column but the last, in the order of the files, to (mean, sd) or to its categories.  `limit`
    keeps the first rows of each file.
    """
    numbers = [name for name, entry in columns.items() if not isinstance(entry[0], str)]
    features = [
        name
        for column, entry in columns.items()
        for name in ([column] if column in numbers else [f"{column}={value}" for value in entry])
    ]

    def arrays(name: str, skip: int, end: str) -> tuple[np.ndarray, np.ndarray]:
        table = Table.read(Path(folder) / name, [*columns, "income"], skip, limit)
        blocks = [
            table.zscore(column, *entry) if column in numbers else table.one_hot(column, entry)
            for column, entry in columns.items()
        ]
        x = np.hstack([*blocks, np.ones((len(table.lines), 1))])
        y = table.code("income", {f">50K{end}": 1.0, f"<=50K{end}": -1.0})
        return x[None].astype(np.float32), y[None].astype(np.float32)

    meta = {"name": "adult", "features": [*features, "bias"], "row_norm_bound": row_norm_bound}
    return Dataset(*arrays("adult.data", skip=0, end=""), *arrays("adult.test", skip=1, end="."), meta)
