"""Comma-separated tables of text, whose errors name the file, the line and the column."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dplangevin.data import DataError


@dataclass(frozen=True)
class Table:
    """n rows as text. lines: the n line numbers in the file (from 1); columns: name -> n values."""

    path: Path
    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, path: str | Path, names: Sequence[str], skip: int = 0, limit: int | None = None) -> "Table":
        """At most `limit` rows after `skip` lines. Raises DataError unless each has one value per name."""
        path = Path(path)
        rows: list[list[str]] = []
        lines: list[int] = []
        if not path.is_file():
            fix = f"dvc repro -f fetch@{path.parent.name}"
            raise DataError(f"raw file {path} is missing. Fetch it again: {fix}")
        with open(path, newline="", encoding="utf-8", errors="replace") as handle:
            for _ in range(skip):
                handle.readline()
            reader = csv.reader(handle, skipinitialspace=True)
            for row in reader:
                if len(rows) == limit:
                    break
                if row and len(row) != len(names):
                    line = reader.line_num + skip
                    raise DataError(f"{path}, line {line}: {len(row)} values, expected {len(names)}")
                if row:
                    rows.append(row)
                    lines.append(reader.line_num + skip)
        if not rows:
            raise DataError(f"{path} has no rows")
        return cls(path, lines, dict(zip(names, zip(*rows, strict=True), strict=True)))

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
        return ((self.convert(column, float, "a number") - mean) / sd)[:, None]

    def code(self, column: str, codes: Mapping[str, float]) -> np.ndarray:
        """The number that stands for each value, shape (n,). Raises DataError for a value without a code."""
        return self.convert(column, lambda text: codes[text], f"one of {list(codes)}")

    def one_hot(self, column: str, categories: Sequence[str]) -> np.ndarray:
        """Indicator of each category, shape (n, k). Raises DataError for an unknown category."""
        position = {category: float(k) for k, category in enumerate(categories)}
        return np.eye(len(categories))[self.code(column, position).astype(int)]
