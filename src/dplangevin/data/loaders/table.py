"""The loader of any table with a header: `load` takes all its arguments from conf/dataset/NAME.yaml."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from dplangevin.data import DataError, Dataset, cross_validation, generator, split
from dplangevin.data.table import NO_NAME, Format, Table, listed, meant

Unlabelled = Literal["error", "drop"]
Filling = Literal["error", "category", "midpoint"]
NO_LABEL = (
    "is a missing label: remove the row; if it is a class of its own, take it out of the marks of missing values in a "
    "schema"
)


def load(
    folder: str | Path,
    name: str,
    file: str | Sequence[str],
    label: str,
    row_norm_bound: float | None = None,
    classes: Sequence[str | int | float] | None = None,
    positive: str | int | float | None = None,
    target: Mapping[str, float] | None = None,
    columns: Sequence[str] | None = None,
    scale: Mapping[str, Mapping[str, float]] | None = None,
    categories: Mapping[str, Sequence[str | int | float]] | None = None,
    missing: Sequence[str] = (),
    missing_as: Filling | Mapping[str, Filling] = "error",
    unlabelled: Unlabelled = "error",
    bias: bool = True,
    test_file: str | Sequence[str] | None = None,
    train_share: float | None = None,
    folds: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    delimiter: str = ",",
    encoding: str = "utf-8",
    decimal: str = ".",
    thousands: str = "",
    limit: int | None = None,
) -> Dataset:
    """Load a table with a header: one row is one record, and x is (R, n, d) float32.

    The d features come from the columns and the bias. Nothing is computed from the rows. If you computed a
    constant from them, say so in `assumptions`. Blanks around names and values do not count.

    Parameters
    ----------
    folder : str or Path
        data/raw/<key>/, which holds the files.
    name : str
        <key>, the name of the data set.
    file : str or sequence of str
        The table. Several files must have the same columns (in any order); they are read one after the other.
    label : str
        The column of the labels. Give exactly one of `classes`, `positive` and `target`.
    classes : sequence or None
        The values of the label in order, as the file writes them. A value that is not listed is an error.
        Two values: the first is -1, the second +1. K > 2 values: they are 0, ..., K - 1 (y int64).
    positive : str, int, float or None
        The value that is +1; any other value is -1.
    target : mapping or None
        Regression: {low, high} with low < high, public constants. Labels are numbers, which are clipped to
        [low, high]. The label is then 2 (y - low)/(high - low) - 1, in [-1, 1].
    columns : sequence of str or None
        The columns to use, in this order. None: all except the label.
    scale : mapping or None
        Column -> public constants. {mean, sd} with sd > 0 gives (value - mean)/sd. {low, high} with low <
        high clips the value to [low, high] and gives 2 (value - low)/(high - low) - 1, in [-1, 1]. Other
        columns are used as they are.
    categories : mapping or None
        Column -> its public values, as the file writes them. Each value gives an indicator, 0 or 1. A value
        that is not listed is an error.
    missing : sequence of str
        The texts that stand for a missing value, such as "", "NA" or "?".
    missing_as : str or mapping
        What a missing value becomes: a word for all columns, or column -> word ("error" for other columns).
        "error": an error.
        "category": an extra feature, 1 where the value is missing. The column's other features are then 0.
        "midpoint" for a column of `scale`: 0, which stands for the middle of low and high, or for the mean.
        "midpoint" for a column of K categories: 1/K for each.
    unlabelled : {"error", "drop"}
        "error": a missing label is an error. "drop": the row is left out.
    bias : bool
        Whether a last feature is added that is 1 in every row.
    row_norm_bound : float > 0 or None
        B of `Dataset.scaled`: a public constant for the norm of a row of scaled columns. None: the largest
        norm that ranges and categories allow, which is the square root of the number of columns and the bias.
    test_file : str, sequence of str or None
        The test rows, like `file`. Then R = 1. Give exactly one of `test_file`, `train_share` and `folds`.
    train_share : float in (0, 1) or None
        Share of rows to train on, drawn at random. The others are test rows.
    folds : int >= 2 or None
        R, the number of folds of a cross-validation, see `data.cross_validation`.
    repeats : int
        R, the number of random splits by `train_share`.
    seed : int
        Seed of the random stream (seed, "<name>/split").
    delimiter, encoding, decimal, thousands : str
        See `data.table.Format`.
    limit : int or None
        Rows of each file to keep, from the top. None: all.

    Returns
    -------
    Dataset
        If values were outside their range, meta has `clipped`: column -> number of these values.

    Raises
    ------
    DataError
        A value is not a finite number, a class or category is not listed, or a row is too short or too long.
        The message names file, line and column.
        Or a column or a positive value does not exist. The message names the file and suggests another name.
    ValueError
        Arguments are outside their domain.
    """
    if sum(given is not None for given in (classes, positive, target)) != 1:
        raise ValueError(
            "give one of classes, the values of the label in order, positive, the value for +1, and target, its range"
        )
    if sum(given is not None for given in (test_file, train_share, folds)) != 1:
        raise ValueError(
            "give one of test_file, train_share, the share of rows to train on, and folds of a cross-validation"
        )
    if row_norm_bound is not None and not row_norm_bound > 0:
        raise ValueError(f"row_norm_bound = {row_norm_bound} must be positive")
    scalings = {column: _Scaling.of(column, constants) for column, constants in (scale or {}).items()}
    outcome = None if target is None else _Scaling.of(label, target, target=True)
    codes = None if classes is None else _codes([_text(value) for value in classes])
    plus = None if positive is None else _text(positive)
    kind = np.int64 if codes and len(codes) > 2 else np.float32
    form = Format(delimiter, encoding, decimal, thousands).check()
    of_text = {column: _values(column, values) for column, values in (categories or {}).items()}
    used, values, outside = list(columns or []), set[str](), Counter[str]()
    stated = [*scalings, *of_text, *(missing_as if isinstance(missing_as, Mapping) else ())]
    if label in (*used, *stated):
        raise ValueError(f"{label} is the label: no other argument may name it")
    if both := sorted(set(scalings) & set(of_text)):
        raise ValueError(f"{listed(both)}: give a column scale or categories, not both")
    marks = frozenset(mark.strip() for mark in missing)
    known, gone = {*(codes or ()), plus}, marks | {""}
    coders: dict[str, _Coder] = {}

    def prepare(table: Table) -> None:
        table.require([label, *used, *stated])
        if not used:
            used.extend(column for column in table.columns if column != label)
            if nameless := [column for column in used if column.endswith(NO_NAME)]:
                raise DataError(
                    f"{table.path}: {nameless[0]}: name it in the header, or list the columns to use"
                )
        for column in used:
            how = missing_as if isinstance(missing_as, str) else missing_as.get(column, "error")
            coders[column] = _Coder(column, scalings.get(column), of_text.get(column), marks, how)

    def labels(table: Table) -> np.ndarray:
        table.convert(label, lambda text: 0.0 if text in known else _present(text, gone), NO_LABEL)
        if outcome is not None:
            y, clipped = outcome.of_numbers(table.numbers(label))
            outside[label] += clipped
            return y
        values.update(table.columns[label])
        if codes is not None:
            return table.code(label, codes)
        return np.array([1.0 if text == plus else -1.0 for text in table.columns[label]])

    def arrays(files: str | Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        parts = []
        for each in [files] if isinstance(files, str) else files:
            for table in Table.chunks(Path(folder) / each, limit=limit, form=form):
                if not coders:
                    prepare(table)
                table.require([label, *used])
                if unlabelled == "drop":
                    table = table.of(
                        np.array([text in known or text not in gone for text in table.columns[label]])
                    )
                    if not table.lines:
                        continue
                blocks = []
                for column, coder in coders.items():
                    block, clipped = coder.features(table)
                    outside[column] += clipped
                    blocks.append(block)
                blocks += [np.ones((len(table.lines), 1), np.float32)] if bias else []
                parts.append((np.hstack(blocks), labels(table).astype(kind)))
        if not parts:
            raise DataError(f"{name}, column {label}: no row has a label")
        x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        return x, y

    x, y = arrays(file)
    held_out = None if test_file is None else arrays(test_file)
    if plus is not None and plus not in values:
        raise DataError(f"{name}, column {label}: no row has {plus!r}{meant(plus, sorted(values))}")
    if unused := [column for column in stated if column not in used]:
        raise DataError(f"{name}: scale names {listed(unused)}, which is not among the columns to use")
    if row_norm_bound is None:
        if free := [column for column, coder in coders.items() if not coder.bounded]:
            raise ValueError(f"row_norm_bound: give it, or low and high, or categories, for {listed(free)}")
        row_norm_bound = math.sqrt(len(used) + bias)
    meta = {
        "name": name,
        "features": [each for coder in coders.values() for each in coder.names] + (["bias"] if bias else []),
        "row_norm_bound": float(row_norm_bound),
        **({"clipped": {column: n for column, n in outside.items() if n}} if outside.total() else {}),
    }
    if target is not None:
        meta |= {"target": {"low": float(target["low"]), "high": float(target["high"])}}
    else:
        meta |= {"labels": [f"not {plus}", plus] if codes is None else list(codes)}
        meta |= {"classes": len(codes)} if codes and len(codes) > 2 else {}
    if held_out is not None:
        return Dataset.from_arrays(x, y, *held_out, meta)
    rng = generator(seed, f"{name}/split")
    if folds is not None:
        train, test = cross_validation(len(x), folds, rng)
    else:
        assert train_share is not None
        train, test = split(len(x), repeats, train_share, rng)
    return Dataset(x[train], y[train], x[test], y[test], meta)


class _Scaling(NamedTuple):
    """``(value - centre)/half`` for values clipped to [low, high]."""

    centre: float
    half: float
    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def of(cls, column: str, constants: Mapping[str, float], target: bool = False) -> "_Scaling":
        """Return the scaling of one column; raise ValueError for constants outside their domain."""
        if set(constants) == {"mean", "sd"} and not target:
            mean, sd = constants["mean"], constants["sd"]
            if not sd > 0:
                raise ValueError(f"scale of {column}: sd = {sd} must be positive")
            return cls(mean, sd)
        if set(constants) == {"low", "high"}:
            low, high = constants["low"], constants["high"]
            if not low < high:
                raise ValueError(f"scale of {column}: low = {low} must be below high = {high}")
            return cls(low + (high - low) / 2, (high - low) / 2, low, high)
        asked = "low and high" if target else "mean and sd, or low and high"
        raise ValueError(f"scale of {column} has {', '.join(constants)}: give {asked}")

    @property
    def bounded(self) -> bool:
        return self.high < math.inf

    def of_numbers(self, values: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the scaled values, and how many were clipped."""
        if not self.bounded:
            return (values - self.centre) / self.half, 0
        inside = np.clip(values, self.low, self.high)
        return 2 * (inside - self.low) / (self.high - self.low) - 1, int((inside != values).sum())


class _Coder:
    """The map from the values of one column to its features."""

    def __init__(
        self,
        column: str,
        scaling: _Scaling | None,
        values: Sequence[str] | None,
        marks: frozenset[str],
        missing_as: str,
    ) -> None:
        if filling(column, missing_as) == "midpoint" and scaling is None and values is None:
            raise ValueError(f"missing_as of {column}: midpoint needs its scale, or its categories")
        self.column, self.scaling, self.values = column, scaling, values
        self.marks, self.missing_as = marks, missing_as
        self.names = [column] if values is None else [f"{column}={value}" for value in values]
        if missing_as == "category":
            self.names.append(f"{column} missing")

    @property
    def bounded(self) -> bool:
        """Whether the features have a norm of at most 1."""
        return self.values is not None or (self.scaling is not None and self.scaling.bounded)

    def features(self, table: "Table") -> tuple[np.ndarray, int]:
        """Return the features ``(n, k)`` float32, and how many values were clipped."""
        texts = table.columns[self.column]
        gone = np.array([text in self.marks for text in texts]) if self.marks else np.zeros(len(texts), bool)
        if gone.any() and self.missing_as == "error":
            row = int(gone.argmax())
            raise DataError(
                f"{table.at(row, self.column)}: {texts[row]!r} is a missing value: say what is made of it, in a schema "
                "missing: {as: category} or midpoint"
            )
        there, clipped = table.of(~gone) if gone.any() else table, 0
        block = np.zeros((len(texts), len(self.names)), np.float32)
        if self.values is not None:
            block[~gone, : len(self.values)] = there.one_hot(self.column, self.values)
        else:
            numbers = there.numbers(self.column)
            if self.scaling is not None:
                numbers, clipped = self.scaling.of_numbers(numbers)
            block[~gone, 0] = numbers
        if self.missing_as == "category":
            block[gone, -1] = 1
        elif self.values is not None:
            block[gone] = 1 / len(self.values)
        return block, clipped


def filling(column: str, word: Any) -> Filling:
    """Return what a missing value becomes; raise ValueError for an unknown word."""
    if word not in get_args(Filling):
        raise ValueError(f"missing values of {column}: {word!r} must be error, category or midpoint")
    found: Filling = word
    return found


def _values(column: str, values: Sequence[str | int | float]) -> list[str]:
    """Return the categories of a column; raise ValueError if there are none or one is named twice."""
    texts = [_text(value) for value in values]
    if not texts or len(set(texts)) < len(texts):
        raise ValueError(f"categories of {column}: {texts} must be one or more different values")
    return texts


def _present(text: str, marks: frozenset[str]) -> float:
    """Return 0; raise ValueError for a mark of a missing value and for an empty text."""
    if text in marks or text.lower() in ("", "nan"):
        raise ValueError(text)
    return 0.0


def _text(value: str | int | float) -> str:
    """Return a value as the file writes it; raise ValueError for truth values, as YAML reads yes and no."""
    if isinstance(value, bool):
        raise ValueError(f"label {value}: put it in quotes, as it is written in the file")
    return str(value).strip()


def _codes(classes: Sequence[str]) -> dict[str, float]:
    """Return the number of each class; raise ValueError for fewer than two classes or a repeated class."""
    numbers = [-1.0, 1.0] if len(classes) == 2 else map(float, range(len(classes)))
    codes = dict(zip(classes, numbers, strict=True))
    if len(codes) < max(2, len(classes)):
        raise ValueError(f"classes = {list(classes)}: need two or more different values")
    return codes
