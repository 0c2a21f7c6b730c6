"""Output of the commands: tables and paragraphs of at most 80 columns in a pipe, and JSON."""

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

PIPE = 80  # columns of output that does not go to a terminal
GAP = 2  # spaces between two columns of a table
LEAST = 12  # columns of a terminal that a foldable column keeps


class Column(NamedTuple):
    """Format of a column."""

    title: str
    number: bool = False  # right-aligned, and folded only if no other column can be
    whole: bool = False  # never folded
    style: str = ""  # of rich, used on a terminal


def width() -> int:
    """Return how many columns the output may have."""
    console = Console()
    return console.width if console.is_terminal else PIPE


def fits(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> bool:
    """Return whether no cell of a table must be folded."""
    sizes = [max(map(len, cells)) for cells in zip([each.title for each in columns], *rows, strict=True)]
    return sum(sizes) + GAP * (len(sizes) - 1) <= width()


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text under titles; fold long cells so that the table fits the width."""
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    titles = [column.title for column in columns]
    sizes = _sizes(columns, [titles, *cells], width())
    for row in [titles, *cells]:
        folded = [_folded(cell, size) for cell, size in zip(row, sizes, strict=True)]
        for i in range(max(map(len, folded))):
            parts = [part[i] if i < len(part) else "" for part in folded]
            printed = Text()
            for j, (part, size, column) in enumerate(zip(parts, sizes, columns, strict=True)):
                padded = part.rjust(size) if column.number else part.ljust(size)
                printed.append(padded, "bold" if row is titles else column.style)
                printed.append(" " * GAP if j < len(columns) - 1 else "")
            printed.rstrip()
            _print(printed)


def _sizes(columns: Sequence[Column], rows: Sequence[Sequence[str]], most: int) -> list[int]:
    """Return the width of each column: the widest that can be folded become narrower until all fit."""
    sizes = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    excess = sum(sizes) + GAP * (len(columns) - 1) - most
    for numbers in (False, True):
        able = [i for i, column in enumerate(columns) if not column.whole and column.number <= numbers]
        while excess > 0 and (able := [i for i in able if sizes[i] > LEAST]):
            sizes[max(able, key=sizes.__getitem__)] -= 1
            excess -= 1
    return sizes


def _folded(cell: str, size: int) -> list[str]:
    return textwrap.wrap(cell, max(size, 1), break_on_hyphens=False) or [""]


def line(text: str = "", style: str = "", indent: int = 0) -> None:
    """Print a paragraph that is wrapped at the width; `indent` shifts all lines except the first."""
    wrapped = textwrap.wrap(
        text,
        max(width(), indent + LEAST),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for part in wrapped or [""]:
        _print(Text(part, style=style))


def title(text: str) -> None:
    """Print a blank line and a heading."""
    line()
    line(text, "bold")


def reason(error: ValueError) -> str:
    """Return why something was refused, without the part before "; " that names the code."""
    return str(error).partition("; ")[2] or str(error)


def _print(text: Text) -> None:
    Console().print(text, highlight=False, soft_wrap=True)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 fit" or "2 fits"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def document(value: Any) -> None:
    """Print one JSON document, with nan as null and infinity as the text "inf"."""
    ascii_only = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    print(json.dumps(_plain(value), indent=1, allow_nan=False, ensure_ascii=ascii_only))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
