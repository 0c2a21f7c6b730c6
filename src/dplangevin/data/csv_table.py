"""A table of text: either its rows with their line numbers, or a one-line error with file, line, column and value.

The standard library's `csv` splits the rows, because it counts lines and refuses a line that it cannot split. In
contrast, pandas and polars silently fill a short row or drop the end of a long row.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import compress, islice
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import numpy as np

from dplangevin.checks import require
from dplangevin.data.archives import DataError, raw_file

LARGEST = float(np.finfo(np.float32).max)
NO_NAME = "(no name)"  # end of the name that is given to a column without one
SHOWN = 10  # at most this many names in a message
DELIMITERS = ",;\t|"
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:([\s'’.,_])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?|[-+]?\d+,")
AS_UTF8 = "mean UTF-16: give --encoding utf-16, or save it as UTF-8"
NO_TABLE = {  # first bytes of files that are no text, or no UTF-8
    b"PK\x03\x04": " is an Excel workbook or another zip archive: save the table as CSV",
    b"\x1f\x8b": " is a gzip archive: save the table as CSV",
    codecs.BOM_UTF16_LE: f", line 1: its first bytes (ff fe) {AS_UTF8}",
    codecs.BOM_UTF16_BE: f", line 1: its first bytes (fe ff) {AS_UTF8}",
}
NO_ROW = {  # a part of an error of `csv` -> what is wrong
    "unexpected end": "a quote opens here that nothing closes before the end of the file: double it, or remove it",
    "field limit": "a value of more than 131,072 characters: is a quote not closed?",
    "expected after": "a value in quotes is followed by more text: double the quotes inside it",
}


class Format(NamedTuple):
    """How a file writes a table; `delimiter`: "" for the one that splits the first lines best.

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
        fixes = {
            "must be one character, such as ; or a tab": ("delimiter", _is_mark(self.delimiter)),
            "must be . or ,": ("decimal", self.decimal in (".", ",")),
            "must be one of , . ' or a blank, and not the decimal mark": (
                "thousands",
                _is_mark(self.thousands) and self.thousands != self.decimal,
            ),
            "is not known: give one such as utf-8, cp1252, latin-1 or utf-16": ("encoding", known),
        }
        for fix, (name, right) in fixes.items():
            require(right, f"{name} = {getattr(self, name)!r} {fix}")
        return self

    def plain(self, text: str) -> str:
        """Return a number with a decimal point and without marks between thousands, or raise ValueError."""
        if self.thousands and self.thousands in (text := re.sub(r"\s", " ", text)):
            mark, point = re.escape(self.thousands), re.escape(self.decimal)
            if not re.fullmatch(rf"[-+]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{point}\d*)?", text):
                raise ValueError(text)
            text = text.replace(self.thousands, "")
        if "_" in text or (self.decimal == "," and "." in text):  # float accepts 1_000
            raise ValueError(text)
        return text.replace(self.decimal, ".")

    def number(self, text: str) -> float:
        """Return a finite number that float32 can hold; raise ValueError for any other text."""
        value = float(self.plain(text))
        if not abs(value) <= LARGEST:
            raise ValueError(text)
        return value

    def why_not(self, text: str) -> str:
        """Return why a text is not a number, and what to do."""
        with suppress(ValueError):
            if abs(float(text)) > LARGEST:
                return "it is infinite, or too large for single precision: correct it, or name it as missing"
        grouped = GROUPED.fullmatch(text)
        if grouped and grouped[1] not in (self.decimal, self.thousands, "_"):
            mark = " " if grouped[1].isspace() else grouped[1]
            return f'its digits are in groups: give --thousands "{mark}", or write it without'
        if self.decimal == "." and COMMA.fullmatch(text):
            return "the comma seems to be a decimal mark: give --decimal , or write a point"
        return f"if it stands for a missing value give --na {quote(text)}, else correct it"


PLAIN = Format()


def _is_mark(text: str) -> bool:
    return len(text) < 2 and text not in ('"', "\r", "\n") and not text.isalnum()


def shown(name: str) -> str:
    """Return a name for a message; quoted, with escapes, if the reader could not see it as it is."""
    return name if name.isprintable() and name == name.strip() and name else repr(name)


def listed(names: Sequence[str]) -> str:
    """Return at most SHOWN names and the number of the others."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(map(shown, names[:SHOWN]))}{more}"


def meant(name: str, known: Sequence[str]) -> str:
    """Return ": did you mean ...?" with the nearest known name, or else ": there are" and the known names."""
    same = [each for each in known if each.casefold() == name.casefold()]
    if close := same or get_close_matches(name, known, 1):
        return f": did you mean {close[0]!r}?"
    return f": there are {listed(known)}"


def repeated(names: Sequence[str]) -> list[str]:
    """Return what occurs more than once."""
    return sorted(name for name, n in Counter(names).items() if n > 1)


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
        """Read at most `limit` rows after `skip` lines; without names, the first row contains them.

        A DataError: the file is missing or has no rows, bytes are not text, a row does not have one value per name,
        or a header has a name twice.
        """
        path = Path(path)
        text = _decoded(path, form.encoding)
        form = form._replace(delimiter=form.delimiter or _delimiter(text))
        found = _rows(path, text, form.delimiter, skip)
        if names is None:
            names = next((_header(cells, f"{path}, line {line}") for line, cells in found), [])
        rows = [*islice(found, limit)]
        for line, cells in rows:
            if len(cells) != len(names):
                fix = _fix(cells, names, form.delimiter)
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

    def convert(
        self, column: str, function: Callable[[str], float], wrong: Callable[[str], str]
    ) -> np.ndarray:
        """Return `function` of every value, (n,) float64; where it fails, a DataError says what is `wrong`."""
        values, known = self.columns[column], dict[str, float]()
        for text in dict.fromkeys(values):
            try:
                known[text] = function(text)
            except (KeyError, ValueError):
                raise DataError(f"{self.at(column, text)}: {text!r} {wrong(text)}") from None
        return np.fromiter(map(known.__getitem__, values), float, len(values))

    def numbers(self, column: str) -> np.ndarray:
        return self.convert(
            column, self.form.number, lambda text: f"is not a number: {self.form.why_not(text)}"
        )

    def zscore(self, column: str, mean: float, sd: float) -> np.ndarray:
        """Return (value - mean) / sd, (n, 1)."""
        return ((self.numbers(column) - mean) / sd)[:, None]

    def code(self, column: str, codes: Mapping[str, float]) -> np.ndarray:
        """Return the code of each value, shape (n,); raise DataError for a value without a code."""
        unknown = f"is not one of {listed([*codes])}: correct it, or add it"
        return self.convert(column, codes.__getitem__, lambda text: unknown)

    def one_hot(self, column: str, categories: Sequence[str]) -> np.ndarray:
        """Return indicators of the k categories, shape (n, k); raise DataError for an unknown category."""
        position = {category: float(k) for k, category in enumerate(categories)}
        return np.eye(len(categories))[self.code(column, position).astype(int)]


def _decoded(path: Path, encoding: str) -> str:
    """Return the text of a file without a byte order mark; raise DataError if a byte is not valid in the encoding."""
    try:
        content = raw_file(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    if not codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
        for first, what in NO_TABLE.items():
            if content.startswith(first):
                raise DataError(f"{path}{what}")
        if b"\0" in content:
            line = content.partition(b"\0")[0].count(b"\n") + 1
            raise DataError(
                f"{path}, line {line}: a byte is 0, which no text has: save the table as CSV, or is it UTF-16? Then "
                "give --encoding utf-16-le"
            )
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        at = error.start
        before, after = content[max(0, at - 40) : at], content[at : at + 40]
        word = re.split(rb"[\s,;|]", before)[-1] + re.split(rb"[\s,;|]", after)[0]
        line, other = content.count(b"\n", 0, at) + 1, "utf-8" if encoding == "cp1252" else "cp1252"
        raise DataError(
            f"{path}, line {line}, byte {at}: {content[at]:#04x} is not {encoding.replace('utf-8', 'UTF-8')}: give the "
            f"encoding of the file (perhaps --encoding {other}, which reads {word.decode(other, 'replace')!r}), or "
            "save it as UTF-8"
        ) from None


def _delimiter(text: str) -> str:
    """Return the character that splits the first 50 lines into the most values.

    One that splits all of them, except perhaps the last, into equally many values goes before.
    """
    lines = [*islice(io.StringIO(text, newline=""), 50)]

    def values(mark: str) -> tuple[bool, int]:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=mark, skipinitialspace=True) if row]
        except csv.Error:
            return False, 0
        return max(widths, default=0) > 1 and len({*widths[:-1]}) < 2, widths[0] if widths else 0

    return max(DELIMITERS, key=values)


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
        why = next((why for part, why in NO_ROW.items() if part in str(error)), str(error))
        raise DataError(f"{path}, line {line}: {why}") from error


def _header(cells: Sequence[str], where: str) -> list[str]:
    if cells[0].lower().startswith("sep=") and not any(cells[1:]):
        raise DataError(
            f"{where} is 'sep=', a note to Excel: remove that line, the separator is found without it"
        )
    names = [name or f"column {k} {NO_NAME}" for k, name in enumerate(cells, 1)]
    if twice := repeated(names):
        raise DataError(
            f"{where}: the header has {', '.join(map(repr, twice))} twice: give each column its own name"
        )
    return names


def _fix(cells: Sequence[str], names: Sequence[str], mark: str) -> str:
    """Return what to do about a row with too few or too many values."""
    if len(cells) < len(names):
        return "complete the row, or remove it"
    if not any(cells[len(names) :]):
        return f"remove the {mark!r} at the end of the row"
    return f"put values that have {'a comma' if mark == ',' else repr(mark)} in quotes, or give --delimiter"


def no_column(path: Path, name: str, names: Sequence[str]) -> str:
    """Return the message for a column that is not among the `names` in the header of a table."""
    text = f"{path}: no column {name!r}"
    if len(names) == 1:
        return f"{text}: the header is {names[0]!r}: give the character between its names by --delimiter"
    text += f" in the header{meant(name, names)}"
    with suppress(ValueError):
        if [*map(float, names)]:
            text += " (its first line has numbers alone: add a line with the names of the columns)"
    return text
