"""The loader of any table whose columns a schema describes."""

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dplangevin.data import DataError, Dataset
from dplangevin.data.csv_table import Table, no_column
from dplangevin.data.splits import Split
from dplangevin.data.table_schema import Schema


def load(
    folder: str | Path,
    name: str,
    file: str,
    schema: Schema,
    split: Split,
    limit: int | None = None,
    header: bool = True,
) -> Dataset:
    """Load a table: one row is one record, and x is (R, n, d) float32, whose last feature is always 1.

    Nothing is computed from the rows. If you computed a constant from them, say so in `assumptions`. A label is -1 or
    +1 for two classes, 0, ..., K - 1 (int64) for K > 2 classes, in [-1, 1] for a range.

    - `limit`: Rows of each file to keep, from the top. None: all.
    - `header`: False: a file has the columns of the schema, in its order, and then the target, without their names.

    meta has `row_norm_bound`, the largest norm that ranges and categories allow, and, if values were outside their
    range, `clipped`: column -> number of these values.
    """
    names = None if header else [*schema.columns, schema.target]
    clipped, features, classes = Counter[str](), list[str](), len(schema.classes or ())
    for column, entry in schema.used.items():
        features += [f"{column}={value}" for value in entry["values"]] if "values" in entry else [column]
        features += [f"{column} missing"] * (schema.missing["as"] == "category")

    def arrays(file: str) -> tuple[np.ndarray, np.ndarray]:
        table = _labelled(Table.read(Path(folder) / file, names, 0, limit, schema.form), schema)
        blocks = [_features(table, column, entry, schema, clipped) for column, entry in schema.used.items()]
        blocks.append(np.ones((len(table.lines), 1), np.float32))
        if schema.classes is None:
            y = _scaled(table, schema.target, schema.range or {}, clipped)
        else:
            codes = (-1.0, 1.0) if classes == 2 else map(float, range(classes))
            y = table.code(schema.target, dict(zip(schema.classes, codes, strict=True)))
        return np.hstack(blocks), y.astype(np.int64 if classes > 2 else np.float32)

    x, y = arrays(file)
    test = None if split.test_file is None else (x, y) if split.test_file == file else arrays(split.test_file)
    bound = math.sqrt(len(schema.used) + 1)
    meta: dict[str, Any] = {"name": name, "features": [*features, "bias"], "row_norm_bound": bound}
    meta |= {"clipped": {column: n for column, n in clipped.items() if n}} if clipped.total() else {}
    meta |= {"labels": [*schema.classes]} if schema.classes else {"target": schema.range}
    meta |= {"classes": classes} if classes > 2 else {}
    if test is not None:
        return Dataset.from_arrays(x, y, *test, meta)
    train_rows, test_rows = split.rows(len(x), name)
    return Dataset(x[train_rows], y[train_rows], x[test_rows], y[test_rows], meta)


def _labelled(table: Table, schema: Schema) -> Table:
    """Return the rows that have a label; raise DataError if others are an error."""
    for column in (schema.target, *schema.used):
        if column not in table.columns:
            raise DataError(no_column(table.path, column, [*table.columns]))
    labels = table.columns[schema.target]
    absent = {*schema.marks, ""} - {*(schema.classes or ())}
    present = np.array([text not in absent for text in labels])
    if schema.unlabelled == "error" and not present.all():
        text = labels[int(present.argmin())]
        found = f"a missing label ({text!r}), as in {(~present).sum():,} of {len(labels):,} rows"
        fix = "leave such rows out by --drop-unlabelled, in a schema by unlabelled: drop"
        raise DataError(f"{table.at(schema.target, text)}: {found}: {fix}")
    return table if present.all() else table.of(present)


def _features(
    table: Table, column: str, entry: Mapping[str, Any], schema: Schema, clipped: Counter[str]
) -> np.ndarray:
    """Return the features (n, k) float32 of a column."""
    texts, missing_as = table.columns[column], schema.missing["as"]
    absent = np.array([text in schema.marks for text in texts])
    if absent.any() and missing_as == "error":
        text = texts[int(absent.argmax())]
        fix = "say what is made of it, in a schema missing: {as: category} or midpoint"
        raise DataError(f"{table.at(column, text)}: {text!r} is a missing value: {fix}")
    present = table.of(~absent) if absent.any() else table
    values = entry.get("values", [])
    block = np.zeros((len(texts), (len(values) or 1) + (missing_as == "category")), np.float32)
    if values:
        block[~absent, : len(values)] = present.one_hot(column, values)
    else:
        block[~absent, 0] = _scaled(present, column, entry, clipped)
    if missing_as == "category":
        block[absent, -1] = 1
    elif values:
        block[absent] = 1 / len(values)
    return block


def _scaled(table: Table, column: str, limits: Mapping[str, float], clipped: Counter[str]) -> np.ndarray:
    """Return the range mapped to [-1, 1], and clipped to it, (n,)."""
    values, low, high = table.numbers(column), limits["low"], limits["high"]
    inside = np.clip(values, low, high)
    clipped[column] += int((inside != values).sum())
    return 2 * (inside - low) / (high - low) - 1
