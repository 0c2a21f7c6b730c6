"""A table of text: either its rows with their line numbers, or a one-line error with file, line, column and value.

The standard library's `csv` splits the rows, because pandas and polars silently fill or cut a row that does not fit.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dplangevin.checks import require
from dplangevin.data.archives import DataError, raw_file
from dplangevin.text import meant

LARGEST = float(np.finfo(np.float32).max)
NO_NAME = "(no name)"  # end of the name that is given to a column without one
DELIMITERS = ",;\t|"
NO_NUMBER = "is not a number: correct it, or give --decimal, --thousands, or --na for a missing value"


class Format(NamedTuple):
    """How a file writes a table; `delimiter`: "" for the one that splits the first row into the most values.

    `thousands` is the mark between groups of three digits; "" for none; " " stands for all kinds of blanks.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""

    def check(self) -> "Format":
        try:
            known = b"\n" in "\n".encode(self.encoding)  # unicode_escape writes another text
        except (LookupError, ValueError):
            known = False
        require(known, f"encoding = {self.encoding!r} is not known: give one such as utf-8, cp1252 or utf-16")
        for name in ("delimiter", "thousands"):
            mark = getattr(self, name)
            one = len(mark) < 2 and mark not in ('"', "\r", "\n") and not mark.isalnum()
            require(one, f"{name} = {mark!r} must be one character, such as ; or a tab")
        right = self.decimal in (".", ",") and self.decimal != self.thousands
        require(right, f"decimal = {self.decimal!r} must be . or , and not the mark between thousands")
        return self

    def number(self, text: str) -> float:
        """Return a finite number that float32 can hold; raise ValueError for any other text."""
        if self.thousands and self.thousands in (text := re.sub(r"\s", " ", text)):
            mark, point = re.escape(self.thousands), re.escape(self.decimal)
            if not re.fullmatch(rf"[-+]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{point}\d*)?", text):
                raise ValueError(text)
            text = text.replace(self.thousands, "")
        value = float(text.replace(self.decimal, "."))  # which accepts 1_000
        if "_" in text or (self.decimal == "," and "." in text) or not abs(value) <= LARGEST:
            raise ValueError(text)
        return value


PLAIN = Format()


def shown(name: str) -> str:
    """Return a name for a message; quoted, with escapes, if the reader could not see it as it is."""
    return name if name.isprintable() and name == name.strip() and name else repr(name)


def listed(names: Sequence[str]) -> str:
    """Return at most ten names and the number of the others."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"{', '.join(map(shown, names[:10]))}{more}"


def no_column(path: Path, name: str, names: Sequence[str]) -> str:
    """Return the message for a column that is not among the `names` in the header of a table."""
    fix = ": give the character between its names by --delimiter" if len(names) == 1 else ""
    near = meant(name, names) or f": there are {listed(names)}"
    return f"{path}: no column {name!r} in the header{near}{fix}"


@dataclass(frozen=True)
class Table:
    """The n rows of a table as text.

    - `lines`: length n. Line in the file (from 1) at which each row begins.
    - `columns`: Name -> n values, without blanks around them. A column without a name is called "column 3 (no name)",
      after its position.
    """

    path: Path
    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]
    form: Format = PLAIN

    @classmethod
    def read(
        cls,
        path: str | Path,
        names: Sequence[str] | None = None,
        skip: int = 0,
        limit: int | None = None,
        form: Format = PLAIN,
    ) -> "Table":
        """Read at most `limit` rows after `skip` lines; without names, the first row contains them."""
        path = Path(path)
        text = _decoded(path, form.encoding)
        form = form._replace(delimiter=form.delimiter or _delimiter(text))
        found = _rows(path, text, form.delimiter, skip)
        if names is None:
            _, header = next(found, (0, []))
            names = [name or f"column {k} {NO_NAME}" for k, name in enumerate(header, 1)]
            if twice := [name for name, n in Counter(names).items() if n > 1]:
                raise DataError(f"{path}: the header has {twice[0]!r} twice: give each column its own name")
        rows = [*islice(found, limit)]
        for line, cells in rows:
            if len(cells) != len(names):
                fix = f"complete it, or put values that have {form.delimiter!r} in quotes"
                raise DataError(f"{path}, line {line}: {len(cells)} values, expected {len(names)}: {fix}")
        if not rows:
            raise DataError(f"{path} has no rows")
        lines, values = zip(*rows, strict=True)
        return cls(path, lines, dict(zip(names, zip(*values, strict=True), strict=True)), form)

    def of(self, which: np.ndarray) -> "Table":
        """Return the rows where the mask (n,) is True."""
        columns = {name: [*compress(values, which)] for name, values in self.columns.items()}
        return Table(self.path, [*compress(self.lines, which)], columns, self.form)

    def at(self, column: str, text: str) -> str:
        line = self.lines[self.columns[column].index(text)]
        return f"{self.path}, line {line}, column {shown(column)}"

    def convert(self, column: str, function: Callable[[str], float], wrong: str) -> np.ndarray:
        """Return `function` of every value, (n,) float64; where it fails, a DataError says what is `wrong`."""
        values, known = self.columns[column], dict[str, float]()
        for text in dict.fromkeys(values):
            try:
                known[text] = function(text)
            except (KeyError, ValueError):
                raise DataError(f"{self.at(column, text)}: {text!r} {wrong}") from None
        return np.fromiter(map(known.__getitem__, values), float, len(values))

    def numbers(self, column: str) -> np.ndarray:
        return self.convert(column, self.form.number, NO_NUMBER)

    def zscore(self, column: str, mean: float, sd: float) -> np.ndarray:
        """Return (value - mean) / sd, (n, 1)."""
        return ((self.numbers(column) - mean) / sd)[:, None]

    def code(self, column: str, codes: Mapping[str, float]) -> np.ndarray:
        """Return the code of each value, shape (n,); raise DataError for a value without a code."""
        wrong = f"is not one of {listed([*codes])}: correct it, or add it"
        return self.convert(column, codes.__getitem__, wrong)

    def one_hot(self, column: str, categories: Sequence[str]) -> np.ndarray:
        """Return indicators of the k categories, shape (n, k); raise DataError for an unknown category."""
        position = {category: float(k) for k, category in enumerate(categories)}
        return np.eye(len(categories))[self.code(column, position).astype(int)]


def _decoded(path: Path, encoding: str) -> str:
    """Return the text of a file without a byte order mark; raise DataError if its bytes are no text."""
    content = raw_file(path).read_bytes()
    fix = "save the table as CSV in UTF-8, or give its --encoding, such as cp1252 or utf-16"
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        where = f"{path}, line {line}, byte {error.start}"
        raise DataError(f"{where}: {byte:#04x} is not {encoding}: {fix}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{path}, line {line}: a character is 0, which no text has: {fix}")
    return text


def _delimiter(text: str) -> str:
    """Return the character that splits the first row into the most values."""
    first = next(filter(str.strip, io.StringIO(text, newline="")), "")[:99_999]
    return max(DELIMITERS, key=lambda mark: len(next(csv.reader([first], delimiter=mark), [])))


def _rows(path: Path, text: str, delimiter: str, skip: int) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and values of every row after `skip` lines that is not blank."""
    lines = islice(io.StringIO(text, newline=""), skip, None)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    line = skip + 1
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if cells not in ([], [""]):
                yield line, cells
            line = reader.line_num + skip + 1
    except csv.Error as error:
        fix = "is a quote never closed, or one inside quotes not doubled?"
        raise DataError(f"{path}, line {line}: {error}: {fix}") from error
