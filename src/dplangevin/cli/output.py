"""Output of the commands: tables and paragraphs of at most 80 columns in a pipe, and JSON."""

import json
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE = 80  # columns of output that does not go to a terminal
GAP = 2  # spaces between two columns of a table
LEAST = 12  # columns of a terminal that a foldable column keeps
NO_JSON = {"NaN": None, "Infinity": "inf", "-Infinity": "-inf"}


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


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text under titles; fold long texts so that the table fits the width."""
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    shown, least = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0)), GAP * (len(columns) - 1)
    for column, *texts in zip(columns, *cells, strict=True):
        size, whole = max(map(len, [column.title, *texts])), column.whole or column.number
        narrow = size if whole else min(size, LEAST)
        least += narrow
        shown.add_column(
            column.title,
            justify="right" if column.number else "left",
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


def section(text: str, *lines: str) -> None:
    """Print paragraphs below a heading, if there are any."""
    if any(lines):
        title(text)
        for each in lines:
            line(f"  {each}", indent=4)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 fit" or "2 fits"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def document(value: Any) -> None:
    """Print one JSON document, with nan as null and infinity as the text "inf"."""
    print(json.dumps(json.loads(json.dumps(value), parse_constant=NO_JSON.get), indent=1))
