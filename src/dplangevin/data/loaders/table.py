"""The loader of any table whose columns a schema describes."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dplangevin.data import DataError, Dataset
from dplangevin.data.csv_table import Table, listed, no_column
from dplangevin.data.schema import Schema, read
from dplangevin.data.splits import Split


def load(
    folder: str | Path,
    name: str,
    file: str | Sequence[str],
    schema: Schema | str,
    split: Split,
    row_norm_bound: float | None = None,
    bias: bool = True,
    limit: int | None = None,
    header: bool = True,
) -> Dataset:
    """Load a table: one row is one record, and x is (R, n, d) float32.

    Nothing is computed from the rows. If you computed a constant from them, say so in `assumptions`. A label is
    -1 or +1 for two classes, 0, ..., K - 1 (int64) for K > 2 classes, in [-1, 1] for a range.

    - `file`: The table. Several files must have the same columns (in any order); they are read one after the other.
    - `schema`: The columns, or the name of a schema's file in `folder`, data/raw/<name>/.
    - `row_norm_bound`: B of `Dataset.scaled`: a public constant for the norm of a row of scaled columns. None: the
      largest norm that ranges and categories allow, the square root of the number of columns and the bias.
    - `limit`: Rows of each file to keep, from the top. None: all.
    - `header`: Whether the first row of a file names the columns. False: a file has the columns of the schema, in its
      order, and then the target.

    If values were outside their range, meta has `clipped`: column -> number of these values.
    """
    if isinstance(schema, str):
        schema = Schema.of(read(Path(folder) / schema), schema)
    if row_norm_bound is None:
        if free := [column for column, entry in schema.used.items() if "mean" in entry]:
            raise ValueError(f"row_norm_bound: give it, or low and high, or categories, for {listed(free)}")
        row_norm_bound = math.sqrt(len(schema.used) + bias)
    if not row_norm_bound > 0:
        raise ValueError(f"row_norm_bound = {row_norm_bound} must be positive")
    names = None if header else [*schema.columns, schema.target]
    clipped = Counter[str]()

    def arrays(files: str | Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        paths = [Path(folder) / each for each in ([files] if isinstance(files, str) else files)]
        tables = [_labelled(Table.read(path, names, 0, limit, schema.form), schema) for path in paths]
        blocks = [_encoded(table, schema, bias, clipped) for table in tables if table.lines]
        if not blocks:
            raise DataError(f"{name}, column {schema.target}: no row has a label")
        x, y = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return x, y

    x, y = arrays(file)
    test = None if split.test_file is None else (x, y) if split.test_file == file else arrays(split.test_file)
    features = [each for column, entry in schema.used.items() for each in _names(column, entry)]
    meta = {"name": name, "features": features + ["bias"] * bias, "row_norm_bound": float(row_norm_bound)}
    meta |= {"clipped": {column: n for column, n in clipped.items() if n}} if clipped.total() else {}
    meta |= {"target": schema.range} if schema.classes is None else {"labels": [*schema.classes]}
    if schema.classes is not None and len(schema.classes) > 2:
        meta["classes"] = len(schema.classes)
    if test is not None:
        return Dataset.from_arrays(x, y, *test, meta)
    train_rows, test_rows = split.rows(len(x), name)
    return Dataset(x[train_rows], y[train_rows], x[test_rows], y[test_rows], meta)


def _labelled(table: Table, schema: Schema) -> Table:
    """Return the rows that have a label; raise DataError if others are an error."""
    for column in (schema.target, *schema.used):
        if column not in table.columns:
            raise DataError(no_column(table.path, column, [*table.columns]))
    absent = {*schema.marks, ""} - {*(schema.classes or ())}
    labels = table.columns[schema.target]
    present = np.array([text not in absent for text in labels])
    if schema.unlabelled == "error" and not present.all():
        text = labels[int(present.argmin())]
        raise DataError(
            f"{table.at(schema.target, text)}: a missing label ({text!r}), as in {(~present).sum():,} of "
            f"{len(labels):,} rows: leave such rows out by --drop-unlabelled, in a schema by unlabelled: drop, or "
            "remove them; if it is a class of its own, take it out of missing: {marks: ...} in a schema"
        )
    return table if present.all() else table.of(present)


def _encoded(
    table: Table, schema: Schema, bias: bool, clipped: Counter[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return features (n, d) and labels (n,); add to `clipped` how many values of a column were clipped."""
    blocks = [_features(table, column, entry, schema.marks, clipped) for column, entry in schema.used.items()]
    blocks += [np.ones((len(table.lines), 1), np.float32)] * bias
    target, classes = schema.target, schema.classes
    if classes is None:
        y = _scaled(table, target, schema.range or {}, clipped)
    else:
        codes = (-1.0, 1.0) if len(classes) == 2 else map(float, range(len(classes)))
        y = table.code(target, dict(zip(classes, codes, strict=True)))
    return np.hstack(blocks), y.astype(np.int64 if classes and len(classes) > 2 else np.float32)


def _names(column: str, entry: Mapping[str, Any]) -> list[str]:
    names = [f"{column}={value}" for value in entry["values"]] if "values" in entry else [column]
    return names + [f"{column} missing"] * (entry["missing"] == "category")


def _features(
    table: Table, column: str, entry: Mapping[str, Any], marks: Sequence[str], clipped: Counter[str]
) -> np.ndarray:
    """Return the features (n, k) float32 of a column."""
    texts = table.columns[column]
    absent = np.array([text in marks for text in texts])
    if absent.any() and entry["missing"] == "error":
        text = texts[int(absent.argmax())]
        raise DataError(
            f"{table.at(column, text)}: {text!r} is a missing value: say what is made of it, in a schema missing: "
            "{as: category} or midpoint"
        )
    present = table.of(~absent) if absent.any() else table
    values = entry.get("values", [])
    block = np.zeros((len(texts), len(_names(column, entry))), np.float32)
    if values:
        block[~absent, : len(values)] = present.one_hot(column, values)
    else:
        block[~absent, 0] = _scaled(present, column, entry, clipped)
    if entry["missing"] == "category":
        block[absent, -1] = 1
    elif values:
        block[absent] = 1 / len(values)
    return block


def _scaled(table: Table, column: str, constants: Mapping[str, float], clipped: Counter[str]) -> np.ndarray:
    """Return (value - mean)/sd, or the range mapped to [-1, 1] and clipped to it, (n,)."""
    values = table.numbers(column)
    if "mean" in constants:
        return (values - constants["mean"]) / constants["sd"]
    low, high = constants["low"], constants["high"]
    inside = np.clip(values, low, high)
    clipped[column] += int((inside != values).sum())
    return 2 * (inside - low) / (high - low) - 1
