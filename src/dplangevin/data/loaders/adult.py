"""Adult (Becker and Kohavi 1996): predict whether a person's income is above 50,000 dollars (wang2015, Figure 1(c)).

There are 6 + 102 + 1 = 109 features in the order of the file: each numeric column as a z-score, each categorical
column as indicators (`?` is a category of its own), then a bias of 1.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dplangevin.data import Dataset
from dplangevin.data.csv_table import Table

COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
    "income",
)
# The categories that the documentation of the data set (adult.names) lists, in its order. Three columns also
# have "?" for unknown. This is public knowledge, not read from the rows.
CATEGORIES: dict[str, Sequence[str]] = {
    "workclass": (
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
        "Without-pay", "Never-worked", "?",
    ),
    "education": (
        "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc", "9th",
        "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool",
    ),
    "marital-status": (
        "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
        "Married-AF-spouse",
    ),
    "occupation": (
        "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
        "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
        "Priv-house-serv", "Protective-serv", "Armed-Forces", "?",
    ),
    "relationship": ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
    "sex": ("Female", "Male"),
    "native-country": (
        "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
        "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran",
        "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal",
        "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia",
        "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador",
        "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands", "?",
    ),
}  # fmt: skip


def load(
    folder: str | Path,
    zscore: Mapping[str, Sequence[float]],
    row_norm_bound: float,
    limit: int | None = None,
) -> Dataset:
    """Load adult.data and adult.test as one split that all repeats share: x (1, n, 109), y = +1 for `>50K`.

    `zscore` maps each column that is not in `CATEGORIES` to (mean, sd).  `limit` keeps the first rows of each file.
    """
    features = [
        name
        for column in COLUMNS[:-1]
        for name in ([column] if column in zscore else [f"{column}={value}" for value in CATEGORIES[column]])
    ]

    def arrays(name: str, skip: int, end: str) -> tuple[np.ndarray, np.ndarray]:
        table = Table.read(Path(folder) / name, COLUMNS, skip, limit)
        blocks = [
            table.zscore(column, *zscore[column])
            if column in zscore
            else table.one_hot(column, CATEGORIES[column])
            for column in COLUMNS[:-1]
        ]
        x = np.hstack([*blocks, np.ones((len(table.lines), 1))])
        y = table.code("income", {f">50K{end}": 1.0, f"<=50K{end}": -1.0})
        return x[None].astype(np.float32), y[None].astype(np.float32)

    meta = {"name": "adult", "features": [*features, "bias"], "row_norm_bound": row_norm_bound}
    return Dataset(*arrays("adult.data", skip=0, end=""), *arrays("adult.test", skip=1, end="."), meta)
