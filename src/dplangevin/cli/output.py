"""Output of the commands: tables and paragraphs of at most 80 columns in a pipe, and JSON."""

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE = 80  # columns of output that does not go to a terminal
GAP = 2  # spaces between two columns of a table
LEAST = 12  # columns of a terminal that a foldable column keeps


class Column(NamedTuple):
    """Format of a column."""

    title: str
    number: bool = False  # right-aligned, and never folded
    whole: bool = False  # never folded
    style: str = ""  # of rich, used on a terminal


def width() -> int:
    """Return how many columns the output may have."""
    console = Console()
    return console.width if console.is_terminal else PIPE


def sizes(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of each column if nothing is folded."""
    return [max(map(len, cells)) for cells in zip([each.title for each in columns], *rows, strict=True)]


def fits(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> bool:
    """Return whether no cell of a table must be folded."""
    return sum(sizes(columns, rows)) + GAP * (len(columns) - 1) <= width()


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text under titles; fold long texts so that the table fits the width."""
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    shown, least = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0)), GAP * (len(columns) - 1)
    for column, size in zip(columns, sizes(columns, cells), strict=True):
        whole = column.whole or column.number
        justify: Literal["left", "right"] = "right" if column.number else "left"
        narrow = size if whole else min(size, LEAST)
        least += narrow
        shown.add_column(
            column.title,
            justify=justify,
            style=column.style,
            no_wrap=whole,
            overflow="fold",
            min_width=narrow,
        )
    for row in cells:
        shown.add_row(*map(Text, row))
    with (console := Console(width=max(width(), least))).capture() as captured:  # no number is cut
        console.print(shown)
    for printed in captured.get().splitlines():
        print(printed.rstrip())


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
        Console().print(Text(part, style=style), highlight=False, soft_wrap=True)


def title(text: str) -> None:
    """Print a blank line and a heading."""
    line()
    line(text, "bold")


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
