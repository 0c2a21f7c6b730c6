"""The rows of a user's table as `dplangevin compare` learns from them."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dplangevin.data.loaders import table as loader
from dplangevin.data.splits import Split
from dplangevin.data.table_schema import Schema, read


class Encoded(NamedTuple):
    """Features X (n, d), labels y (n,), and the public bound on the norm of a row of X."""

    X: np.ndarray
    y: np.ndarray
    row_bound: float


def encode(table: str | Path, schema: str | Path | Mapping[str, Any] | Schema) -> Encoded:
    r"""Return all rows of a table as `dplangevin compare` scales them, by the schema alone.

    Parameters
    ----------
    table : str or Path, a file with a header and one record in each row.
    schema : str, Path, mapping or Schema
        The public facts about its columns, or their file, such as the `schema.yaml` that `compare` writes.

    Returns
    -------
    X : ndarray (n, d)
        Features in the order of the columns. The last one is constant: fit with ``bias=False``.
    y : ndarray (n,)
        Labels: the texts of the classes, or for regression numbers in [-1, 1], to which the range is mapped.
    row_bound : float
        Public bound on the norm of a row of X.

    Warns
    -----
    UserWarning
        One for each assumption of the schema, such as ranges read off the data. The guarantee of a fit does not list
        it.

    Raises
    ------
    DataError
        A value does not fit the schema. The message names file, line and column.
    ValueError
        The schema is open or outside its domain.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "mine.csv"
    >>> _ = path.write_text("age,ward,ill\n30,A,no\n90,B,yes\n")
    >>> columns = {"age": {"low": 0, "high": 120}, "ward": {"values": ["A", "B"]}}
    >>> X, y, row_bound = encode(path, {"target": "ill", "classes": ["no", "yes"], "columns": columns})
    >>> X.shape, y.tolist(), row_bound
    ((2, 4), ['no', 'yes'], 1.0)
    """
    if isinstance(schema, Mapping):
        schema = Schema.of(schema, "schema")
    elif not isinstance(schema, Schema):
        schema = Schema.of(read(Path(schema)), str(schema))
    path = Path(table)
    every = loader.load(path.parent, path.stem, path.name, schema, Split(test_file=path.name))
    data = every.scaled("global")
    for text in schema.assumptions:
        warnings.warn(f"{path.name}: {text}; say so beside every ε of a fit", stacklevel=2)
    y = data.y_train[0]
    if schema.classes is not None:
        y = np.array(schema.classes)[(y > 0).astype(int) if len(schema.classes) == 2 else y]
    return Encoded(data.x_train[0], y, 1.0)
