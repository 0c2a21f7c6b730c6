"""A table of text: either its rows with their line numbers, or a one-line error with file, line, column and value.

The standard library's `csv` splits the rows, because it counts lines and refuses a line that it cannot split. In
contrast, pandas and polars silently fill a short row, drop the end of a long row, or take a first column for an
index.
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
from typing import NamedTuple

import numpy as np

from dplangevin.data.files import DataError, raw_file

LARGEST = float(np.finfo(np.float32).max)
NO_NAME = "(no name)"  # end of the name that is given to a column without one
SHOWN = 10  # at most this many names in a message
LONGEST = 500  # at most this many characters in a name
SAMPLE = 2**16  # bytes from which an encoding is guessed
DELIMITERS = (",", ";", "\t", "|")
SEPARATED = r"[\s,;|]"
SPACES = re.compile(r"[\s\u00a0\u202f\u2009]")
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:([\s\u00a0\u202f\u2009'’.,_])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
POINT_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+")
UNITS = re.compile(r"[€$£¥]?\s*[-+]?\d[\d.,' ]*\s*(?:[%€$£¥°]|[^\W\d_]{1,3})|[€$£¥]\s*[-+]?\d[\d.,' ]*")
COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?|[-+]?\d+,")
NOT_TEXT = {  # first bytes of files that are not text
    b"PK\x03\x04": "an Excel workbook or another zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x1f\x8b": "a gzip archive",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "a SQLite database",
}
MARKED = {  # first bytes (byte order marks) that identify an encoding
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
USUAL = (  # the only encodings that a message suggests
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r"),
    *("cp932", "euc_jp", "gb18030", "big5", "euc_kr"),
)
NOT_ROWS = {  # a part of an error of `csv` -> what is wrong
    "unexpected end": "a quote opens here that nothing closes before the end of the file: double it, or remove it",
    "expected after": "a value in quotes is followed by more text: double the quotes inside it",
    "field limit": "a value of more than {:,} characters: is a quote not closed?",
}
NO_ENCODINGS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}


class Format(NamedTuple):
    """How a file writes a table.

    `thousands` is the mark between groups of three digits; "" for none; " " stands for all kinds of blanks.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""

    def check(self) -> "Format":
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n' or self.delimiter.isalnum():
            raise ValueError(f"delimiter = {self.delimiter!r} must be one character, such as ; or a tab")
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal = {self.decimal!r} must be . or ,")
        if len(self.thousands) > 1 or self.thousands == self.decimal or self.thousands.isalnum():
            raise ValueError(
                f"thousands = {self.thousands!r} must be one of , . ' or a blank, and not the decimal mark"
            )
        encoded(self.encoding)
        return self

    def number(self, text: str) -> float:
        """Return a finite number that float32 can hold; raise ValueError for any other text."""
        if self.thousands:
            text = SPACES.sub(" ", text)
            if self.thousands in text:
                mark, point = re.escape(self.thousands), re.escape(self.decimal)
                if not re.fullmatch(rf"[-+]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{point}\d*)?", text):
                    raise ValueError(text)
                text = text.replace(self.thousands, "")
        if self.decimal == ",":
            if "." in text:
                raise ValueError(text)
            text = text.replace(",", ".")
        value = float(text)
        if not abs(value) <= LARGEST or "_" in text:  # because float accepts nan and 1_000
            raise ValueError(text)
        return value


PLAIN = Format()


def no_number(text: str, form: Format) -> str:
    """Return why a text is not a number, and what to do."""
    with suppress(ValueError):
        if "_" not in text and abs(float(text)) > LARGEST:
            return "it is infinite, or too large for single precision: correct it, or name it as missing"
    grouped = GROUPED.fullmatch(text)
    if grouped and grouped[1] not in (form.decimal, form.thousands, "_"):
        mark = " " if SPACES.fullmatch(grouped[1]) else grouped[1]
        also = " (or is the comma a decimal mark? then --decimal ,)" if COMMA.fullmatch(text) else ""
        return f'its digits are in groups: give --thousands "{mark}"{also}, or write it without'
    if form.decimal == "." and COMMA.fullmatch(text):
        return "the comma seems to be a decimal mark: give --decimal , or write a point"
    if form.decimal == "," and "." in text:
        return "with --decimal , a point is no decimal mark: write numbers one way"
    return f"if it stands for a missing value give --na {quoted(text)}, else correct it"


def quoted(text: str) -> str:
    """Return a text in the form that a shell reads as one word."""
    return text if re.fullmatch(r"[\w./-]+", text) else "'" + text.replace("'", "'\"'\"'") + "'"


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


# Bytes to text


def encoded(name: str) -> str:
    """Return the name of a text encoding; raise ValueError for any other name."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        codec = None
    if codec is None or not getattr(codec, "_is_text_encoding", True) or codec.name in NO_ENCODINGS:
        raise ValueError(
            f"encoding = {name!r} is not known: give one such as utf-8, cp1252, latin-1 or utf-16"
        )
    return codec.name


def decoded(path: Path, encoding: str) -> str:
    """Return the text of a file without a byte order mark; raise DataError if a byte is not valid in the encoding."""
    codec = encoded(encoding)
    wide = codec.startswith(("utf-16", "utf-32"))
    try:
        content = raw_file(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    for first, what in NOT_TEXT.items():
        if content.startswith(first):
            raise DataError(f"{path} is {what}: save the table as CSV")
    for mark, name in MARKED.items():
        if content.startswith(mark) and not wide:
            raise DataError(
                f"{path}, line 1: its first bytes ({mark.hex(' ')}) mean {name.upper()}: give --encoding {name}, or "
                "save it as UTF-8"
            )
    if not wide and b"\0" in content:
        line = content.partition(b"\0")[0].count(b"\n") + 1
        raise DataError(
            f"{path}, line {line}: a byte is 0, which no text has: is it UTF-16? Then give --encoding utf-16-le"
        )
    try:
        text = codecs.getincrementaldecoder(codec)().decode(content, final=True)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, {_undecoded(content, error.start, codec)}") from None
    except UnicodeError as error:  # a wide encoding without its first bytes
        raise DataError(f"{path} is not {codec}: {error}: give another --encoding") from None
    return text.removeprefix("\ufeff") if codec == "utf-8" else text


def _undecoded(content: bytes, at: int, codec: str) -> str:
    """Say that the byte `at` is not valid, and in which encoding it probably is."""
    from charset_normalizer import from_bytes

    guesses = [*from_bytes(content[max(0, at - SAMPLE // 2) : at + SAMPLE // 2], cp_isolation=[*USUAL])]
    likely = [each.encoding for each in guesses if each.chaos == guesses[0].chaos]  # few bytes: many guesses
    name = "cp1252" if "cp1252" in likely or not likely else likely[0]
    try:
        before = content[content.rfind(b"\n", 0, at) + 1 : at].decode(name)
        after = content[at : at + 40].decode(name, errors="ignore")
        read = f", where it would read {re.split(SEPARATED, before)[-1] + re.split(SEPARATED, after)[0]!r}"
    except (UnicodeDecodeError, LookupError):
        read = ""
    line, known = content.count(b"\n", 0, at) + 1, "UTF-8" if codec == "utf-8" else codec
    return (
        f"line {line}, byte {at}: {content[at]:#04x} is not {known}: give the encoding of the file (perhaps "
        f"--encoding {name}{read}), or save it as UTF-8"
    )


# Text to rows


def delimiter_of(text: str) -> str:
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
        return cls.parsed(Path(path), decoded(Path(path), form.encoding), form, names, skip, limit)

    @classmethod
    def parsed(
        cls,
        path: Path,
        text: str,
        form: Format,
        names: Sequence[str] | None = None,
        skip: int = 0,
        limit: int | None = None,
    ) -> "Table":
        """Return the table of a text, as `read` does."""
        lines: list[int] = []
        rows: list[list[str]] = []
        for line, row in _rows(path, text, form, skip):
            cells = [cell.strip() for cell in row]
            if len(rows) == limit:
                break
            if not row or (cells == [""] and (names is None or len(names) > 1)):
                continue
            if names is None:
                names = _header(cells, f"{path}, line {line}")
                continue
            if len(cells) != len(names):
                raise DataError(_wrong_width(f"{path}, line {line}", cells, names, form, not rows))
            lines.append(line)
            rows.append(cells)
        if names is None or not rows:
            raise DataError(f"{path} has no rows")
        return cls(path, lines, dict(zip(names, zip(*rows, strict=True), strict=True)), form)

    def of(self, which: np.ndarray) -> "Table":
        """Return the rows where the mask (n,) is True."""
        columns = {name: [*compress(values, which)] for name, values in self.columns.items()}
        return Table(self.path, [*compress(self.lines, which)], columns, self.form)

    def at(self, line: int, column: str) -> str:
        return f"{self.path}, line {line}, column {shown(column)}"

    def require(self, names: Sequence[str]) -> None:
        """Raise DataError, suggesting another name, for the first of `names` that is not a column."""
        for name in names:
            if name not in self.columns:
                raise DataError(no_column(self.path, name, [*self.columns]))

    def convert(
        self, column: str, function: Callable[[str], float], wrong: Callable[[str], str]
    ) -> np.ndarray:
        """Return `function` of every value, (n,) float64; where it fails, a DataError says what is `wrong`."""
        values, known = self.columns[column], dict[str, float]()
        for text in dict.fromkeys(values):
            try:
                known[text] = function(text)
            except (KeyError, ValueError):
                where = self.at(self.lines[values.index(text)], column)
                raise DataError(f"{where}: {text!r} {wrong(text)}") from None
        return np.fromiter(map(known.__getitem__, values), float, len(values))

    def numbers(self, column: str) -> np.ndarray:
        return self.convert(
            column, self.form.number, lambda text: f"is not a number: {no_number(text, self.form)}"
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


def _rows(path: Path, text: str, form: Format, skip: int) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and values of every row after `skip` lines; errors of `csv` become DataError."""
    lines = islice(io.StringIO(text, newline=""), skip, None)
    reader = csv.reader(lines, delimiter=form.delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + skip + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            why = next((why for part, why in NOT_ROWS.items() if part in str(error)), str(error))
            raise DataError(f"{path}, line {line}: {why.format(csv.field_size_limit())}") from error
        if row is None:
            return
        yield line, row


def repeated(names: Sequence[str]) -> list[str]:
    """Return what occurs more than once."""
    return sorted(name for name, n in Counter(names).items() if n > 1)


def _header(cells: Sequence[str], where: str) -> list[str]:
    if re.fullmatch(r"sep=.?", cells[0].lower()) and not any(cells[1:]) and len(cells) < 3:
        raise DataError(
            f"{where} is 'sep=', a note to Excel: remove that line, the separator is found without it"
        )
    if long := [name for name in cells if len(name) > LONGEST]:
        raise DataError(
            f"{where}: a name of {len(long[0])} characters: is a quote not closed, or the header missing?"
        )
    names = [name or f"column {k} {NO_NAME}" for k, name in enumerate(cells, 1)]
    if twice := repeated(names):
        raise DataError(
            f"{where}: the header has {', '.join(map(repr, twice))} twice: give each column its own name"
        )
    return names


def _wrong_width(where: str, cells: Sequence[str], names: Sequence[str], form: Format, first: bool) -> str:
    mark, more, alone = form.delimiter, len(cells) - len(names), len(names) == 1
    fixes = {
        "is the first line a title? Remove it, so that the header is the first line": alone and more > 0,
        f"are the values separated by another character than {mark!r}? Give --delimiter": alone,
        f"remove the {mark!r} at the end of the row": more > 0 and not any(cells[len(names) :]),
        "if the first column has names of rows, give it a name in the header, too": more == 1 and first,
        "put values that have a comma in quotes, or separate values by another character": more > 0
        and mark == ",",
        f"put values that have {mark!r} in quotes": more > 0,
        "complete the row, or remove it": True,
    }
    fix = next(text for text, holds in fixes.items() if holds)
    return f"{where}: {len(cells)} values, expected {len(names)}: {fix}"


def no_column(path: Path, name: str, names: Sequence[str]) -> str:
    """Return the message for a column that is not among the `names` in the header of a table."""
    if len(names) == 1:
        how = "put commas" if " " in names[0] else "give the character"
        by = "" if " " in names[0] else " by --delimiter"
        return f"{path}: no column {name!r}: the header is {names[0]!r}: {how} between its names{by}"
    text = f"{path}: no column {name!r} in the header{meant(name, names)}"
    if sum(each.endswith(NO_NAME) for each in names) > len(names) / 2:
        text += " (is the first line a title? Remove it, so that the header is the first line)"
    if numbers(names):
        text += " (its first line has numbers alone: add a line with the names of the columns)"
    return text


def numbers(names: Sequence[str]) -> list[float]:
    """Return the numbers that all names are; none if one of them is not a number."""
    with suppress(ValueError):
        return [*map(PLAIN.number, names)]
    return []
