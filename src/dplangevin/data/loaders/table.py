"""Tables of text, whose errors name the file, the line and the column, and the loader of any table of numbers.

A table of numbers with a header needs no loader of its own: `load` takes everything from conf/dataset/NAME.yaml.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from dplangevin.data import DataError, Dataset, generator, raw_file, split

LARGEST = float(np.finfo(np.float32).max)
SHOWN = 10  # names in a message


def load(
    folder: str | Path,
    name: str,
    file: str | Sequence[str],
    label: str,
    row_norm_bound: float,
    classes: Sequence[str | int | float] | None = None,
    positive: str | int | float | None = None,
    columns: Sequence[str] | None = None,
    scale: Mapping[str, Mapping[str, float]] | None = None,
    bias: bool = True,
    test_file: str | Sequence[str] | None = None,
    train_share: float | None = None,
    repeats: int = 1,
    seed: int = 0,
    delimiter: str = ",",
    limit: int | None = None,
) -> Dataset:
    """A table of numbers with a header, one row a record: x (R, n, d) float32, d = columns and bias.

    folder: data/raw/<key>/, which holds the files. name: <key>, the data set's own.
    file: the table, or several with the same columns (in any order), which are read one after the other.
    label: the column of the labels. Give one of
        classes: its values in order, as they are written in the file. Of two the first is -1 and the second +1; of K
            more they are 0, ..., K - 1 (y int64). A value that is not listed is an error.
        positive: the value that is +1; any other is -1.
    columns: those to use, in this order (None = all but the label).
    scale: column -> public constants, {mean, sd} for (value - mean)/sd with sd > 0, or {low, high} with low < high,
        to which values are clipped before 2 (value - low)/(high - low) - 1, in [-1, 1], is taken of them. Other columns
        are used as they are. Nothing is computed from the rows; where you computed a constant from them, say so in
        `assumptions`.
    bias: whether a last feature is added, 1 in every row.
    row_norm_bound: > 0, the public constant B of `Dataset.scaled`, about the norm of a row of scaled columns.
    test_file: the test rows, like `file`; then R = 1, which all repeats share. Without it
        train_share: in (0, 1), the share of rows to train on, drawn at random, the others being tested on,
        repeats: R, the number of such splits, and
        seed: of their random stream (seed, "<name>/split").
    delimiter: the character between values. limit: rows of each file to keep, from the top (None = all).

    Raises DataError, naming file, line and column, for a value that is not a finite number, a class that is not listed
    and a row that is too short or long; naming the file and what may have been meant, for a column or a positive value
    that is not there. Raises ValueError for arguments out of their domain.
    """
    if (classes is None) == (positive is None):
        raise ValueError(
            "give one of classes, the values of the label in order, and positive, the value for +1"
        )
    if (test_file is None) == (train_share is None):
        raise ValueError("give one of test_file and train_share, the share of rows to train on")
    if not row_norm_bound > 0:
        raise ValueError(f"row_norm_bound = {row_norm_bound} must be positive")
    scalings = {column: _scaling(column, constants) for column, constants in (scale or {}).items()}
    codes = None if classes is None else _codes([_text(value) for value in classes])
    target = None if positive is None else _text(positive)
    kind = np.int64 if codes and len(codes) > 2 else np.float32
    used, values = list(columns or []), set[str]()
    if label in (*used, *scalings):
        raise ValueError(f"{label} is the label: neither columns nor scale may name it")

    def arrays(files: str | Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        parts = []
        for each in [files] if isinstance(files, str) else files:
            table = Table.read(Path(folder) / each, limit=limit, delimiter=delimiter)
            table.require([label, *used, *scalings])
            if not used:
                used.extend(column for column in table.columns if column != label)
            numbers = {column: table.convert(column, number, "a number") for column in used}
            features = [scalings[c](v) if c in scalings else v for c, v in numbers.items()]
            features += [np.ones(len(table.lines))] if bias else []
            values.update(text.rstrip() for text in table.columns[label])
            y = table.equals(label, target) if codes is None else table.code(label, codes)
            parts.append((np.stack(features, axis=1).astype(np.float32), y.astype(kind)))
        x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        return x, y

    x, y = arrays(file)
    held_out = None if test_file is None else arrays(test_file)
    if target is not None and target not in values:
        raise DataError(f"{name}, column {label}: no row has {target!r}{_meant(target, sorted(values))}")
    if unused := [column for column in scalings if column not in used]:
        raise DataError(f"{name}: scale names {', '.join(unused)}, which is not among the columns to use")
    meta = {
        "name": name,
        "features": [*used, "bias"] if bias else used,
        "labels": [f"not {target}", target] if codes is None else list(codes),
        "row_norm_bound": float(row_norm_bound),
        **({"classes": len(codes)} if codes and len(codes) > 2 else {}),
    }
    if held_out is not None:
        return Dataset.from_arrays(x, y, *held_out, meta)
    assert train_share is not None
    train, test = split(len(x), repeats, train_share, generator(seed, f"{name}/split"))
    return Dataset(x[train], y[train], x[test], y[test], meta)


def _scaling(column: str, constants: Mapping[str, float]) -> Callable[[np.ndarray], np.ndarray]:
    """What `scale` asks for one column. ValueError for other constants and for those out of their domain."""
    if set(constants) == {"mean", "sd"}:
        mean, sd = constants["mean"], constants["sd"]
        if not sd > 0:
            raise ValueError(f"scale of {column}: sd = {sd} must be positive")
        return lambda values: (values - mean) / sd
    if set(constants) == {"low", "high"}:
        low, high = constants["low"], constants["high"]
        if not low < high:
            raise ValueError(f"scale of {column}: low = {low} must be below high = {high}")
        return lambda values: 2 * (np.clip(values, low, high) - low) / (high - low) - 1
    raise ValueError(f"scale of {column} has {', '.join(constants)}: give mean and sd, or low and high")


def _text(value: str | int | float) -> str:
    """A value of the label as it is in the file. ValueError for yes and no, which YAML takes for truth values."""
    if isinstance(value, bool):
        raise ValueError(f"label {value}: put it in quotes, as it is written in the file")
    return str(value)


def _codes(classes: Sequence[str]) -> dict[str, float]:
    """The number of each class. ValueError for fewer than two and for a value that is named twice."""
    numbers = [-1.0, 1.0] if len(classes) == 2 else map(float, range(len(classes)))
    codes = dict(zip(classes, numbers, strict=True))
    if len(codes) < max(2, len(classes)):
        raise ValueError(f"classes = {list(classes)}: need two or more different values")
    return codes


@dataclass(frozen=True)
class Table:
    """n rows as text. lines: the n line numbers in the file (from 1); columns: name -> n values."""

    path: Path
    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]

    @classmethod
    def read(
        cls,
        path: str | Path,
        names: Sequence[str] | None = None,
        skip: int = 0,
        limit: int | None = None,
        delimiter: str = ",",
    ) -> "Table":
        """At most `limit` rows after `skip` lines. names: of the columns; None, the first row has them.

        Raises DataError for a missing file, one without rows, a row that has not one value per name, and a name that a
        header has twice.
        """
        path = raw_file(path)
        rows: list[list[str]] = []
        lines: list[int] = []
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as handle:
            for _ in range(skip):
                handle.readline()
            reader = csv.reader(handle, delimiter=delimiter, skipinitialspace=True)
            for row in reader:
                if len(rows) == limit:
                    break
                where = f"{path}, line {reader.line_num + skip}"
                if row and names is None:
                    names = [name.strip() for name in row]
                    if twice := sorted({name for name in names if names.count(name) > 1}):
                        raise DataError(f"{where}: the header has {', '.join(map(repr, twice))} twice")
                elif row and names is not None:
                    if len(row) != len(names):
                        raise DataError(f"{where}: {len(row)} values, expected {len(names)}")
                    rows.append(row)
                    lines.append(reader.line_num + skip)
        if not rows or names is None:
            raise DataError(f"{path} has no rows")
        return cls(path, lines, dict(zip(names, zip(*rows, strict=True), strict=True)))

    def require(self, names: Sequence[str]) -> None:
        """Raises DataError for the first of `names` that is no column, with the one that may be meant."""
        for name in names:
            if name not in self.columns:
                raise DataError(
                    f"{self.path}: no column {name!r} in the header{_meant(name, [*self.columns])}"
                )

    def convert(self, column: str, function: Callable[[str], float], expected: str) -> np.ndarray:
        """`function` of every value, (n,) float64. Its KeyError and ValueError become DataError."""
        out = np.empty(len(self.lines))
        for i, text in enumerate(self.columns[column]):
            try:
                out[i] = function(text)
            except (KeyError, ValueError):
                where = f"{self.path}, line {self.lines[i]}, column {column}"
                raise DataError(f"{where}: {text!r} is not {expected}") from None
        return out

    def zscore(self, column: str, mean: float, sd: float) -> np.ndarray:
        """(value - mean) / sd, shape (n, 1)."""
        return ((self.convert(column, number, "a number") - mean) / sd)[:, None]

    def code(self, column: str, codes: Mapping[str, float]) -> np.ndarray:
        """The number that stands for each value, shape (n,). Raises DataError for a value without a code."""
        return self.convert(column, lambda text: codes[text.rstrip()], f"one of {list(codes)}")

    def equals(self, column: str, value: str | None) -> np.ndarray:
        """+1 where the column has that value, -1 elsewhere, (n,)."""
        return np.array([1.0 if text.rstrip() == value else -1.0 for text in self.columns[column]])

    def one_hot(self, column: str, categories: Sequence[str]) -> np.ndarray:
        """Indicator of each category, shape (n, k). Raises DataError for an unknown category."""
        position = {category: float(k) for k, category in enumerate(categories)}
        return np.eye(len(categories))[self.code(column, position).astype(int)]


def number(text: str) -> float:
    """A finite number that float32 can hold. ValueError for any other text."""
    value = float(text)
    if not abs(value) <= LARGEST or "_" in text:  # as float takes nan and 1_000
        raise ValueError(text)
    return value


def _meant(name: str, known: Sequence[str]) -> str:
    if close := get_close_matches(name, known, 1):
        return f": did you mean {close[0]!r}?"
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f": there are {', '.join(known[:SHOWN])}{more}"
