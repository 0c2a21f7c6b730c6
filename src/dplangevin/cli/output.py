"""Tables by rich on a terminal, aligned text in a pipe, and JSON."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


class Column(NamedTuple):
    """number: right-aligned.  whole: never wrapped, as numbers are not.  style: of rich, on a terminal."""

    title: str
    number: bool = False
    whole: bool = False
    style: str = ""


def terminal() -> bool:
    """Whether a person looks at the output."""
    return Console().is_terminal


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], indent: int = 0) -> None:
    """Rows of text under titles; in a pipe each row is one line."""
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
    """A paragraph, wrapped on a terminal alone; lines after the first are `indent` further in."""
    console = Console()
    if not console.is_terminal:
        print(text)
        return
    width = max(console.width - indent, 20)
    wrapped = Text(text, style=style).wrap(console, width)
    for i, part in enumerate(wrapped):
        console.print(Text(" " * (indent if i else 0)).append_text(part), highlight=False)


def counted(count: int, noun: str) -> str:
    """ "1 fit", "2 fits"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def document(value: Any) -> None:
    """One JSON document. What is not a number is null, infinity the text "inf"."""
    print(json.dumps(_plain(value), indent=1, allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
