"""Output of the commands: tables (by rich on a terminal, aligned text in a pipe) and JSON."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


class Column(NamedTuple):
    """Format of a column.

    Attributes
    ----------
    title : str
        Heading.
    number : bool
        Whether the text is right-aligned and never wrapped.
    whole : bool
        Whether the text is never wrapped.
    style : str
        Style of rich, used on a terminal.
    """

    title: str
    number: bool = False
    whole: bool = False
    style: str = ""


def terminal() -> bool:
    """Return whether the output goes to a terminal."""
    return Console().is_terminal


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], indent: int = 0) -> None:
    """Print rows of text under titles; in a pipe each row is one line."""
    console, cells = Console(), [[*row] for row in rows]
    if not console.is_terminal:
        lines = [[column.title for column in columns], *([" ".join(c.split()) for c in row] for row in cells)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
        for line in lines:
            padded = [
                cell.rjust(width) if column.number else cell.ljust(width)
                for cell, width, column in zip(line, widths, columns, strict=True)
            ]
            print((" " * indent + "  ".join(padded)).rstrip())
        return
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(
            Text(column.title),
            justify="right" if column.number else "left",
            style=column.style,
            no_wrap=column.number or column.whole,
            overflow="fold",
        )
    for row in cells:
        shown.add_row(*(Text(cell) for cell in row))
    console.print(shown)


def line(text: str = "", style: str = "", indent: int = 0) -> None:
    """Print a paragraph; on a terminal it is wrapped, and `indent` shifts all lines except the first."""
    console = Console()
    if not console.is_terminal:
        print(text)
        return
    width = max(console.width - indent, 20)
    wrapped = Text(text, style=style).wrap(console, width)
    for i, part in enumerate(wrapped):
        console.print(Text(" " * (indent if i else 0)).append_text(part), highlight=False)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 fit" or "2 fits"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def document(value: Any) -> None:
    """Print one JSON document, with nan as null and infinity as the text "inf"."""
    print(json.dumps(_plain(value), indent=1, allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
