"""Adult (Becker and Kohavi 1996): is a person's income above 50,000 dollars?

Features, in the order of the file: each numeric column as a z-score, each categorical one as indicators
(`?` is a category of its own), then a bias of 1: 6 + 102 + 1 = 109, the number of wang2015, Figure 1(c).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dplangevin.data import Dataset
from dplangevin.data.loaders.table import Table

COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
    "income",
)


def load(
    folder: str | Path,
    zscore: Mapping[str, Sequence[float]],
    categories: Mapping[str, Sequence[str]],
    row_norm_bound: float,
    limit: int | None = None,
) -> Dataset:
    """adult.data and adult.test as one shared split: x (1, n, 109), y = +1 for `>50K`.

    zscore: column -> (mean, sd); categories: column -> its values; together they name every column but the
    label. row_norm_bound: see `Dataset.scaled`. limit: rows of each file to keep, from the top (None = all).
    Raises DataError, naming file, line and value, for an unknown category, a bad number or a short row.
    """
    features = [
        name
        for column in COLUMNS[:-1]
        for name in ([column] if column in zscore else [f"{column}={value}" for value in categories[column]])
    ]

    def arrays(name: str, skip: int, end: str) -> tuple[np.ndarray, np.ndarray]:
        table = Table.read(Path(folder) / name, COLUMNS, skip, limit)
        blocks = [
            table.zscore(column, *zscore[column])
            if column in zscore
            else table.one_hot(column, categories[column])
            for column in COLUMNS[:-1]
        ]
        x = np.hstack([*blocks, np.ones((len(table.lines), 1))])
        y = table.code("income", {f">50K{end}": 1.0, f"<=50K{end}": -1.0})
        return x[None].astype(np.float32), y[None].astype(np.float32)

    meta = {"name": "adult", "features": [*features, "bias"], "row_norm_bound": row_norm_bound}
    return Dataset(*arrays("adult.data", skip=0, end=""), *arrays("adult.test", skip=1, end="."), meta)
