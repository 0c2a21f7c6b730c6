"""Output of the commands: tables, paragraphs of at most 80 columns in a pipe, and JSON."""

import json
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import typer

PIPE = 80  # columns of output that does not go to a terminal
NO_JSON = {"NaN": None, "Infinity": "inf", "-Infinity": "-inf"}


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> None:
    """Print rows of text under titles; the columns `left` are left-aligned, others right-aligned."""
    lines = [[" ".join(cell.split()) for cell in row] for row in (titles, *rows)]
    sizes = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for row in lines:
        cells = [f"{cell:{'<' if k in left else '>'}{sizes[k]}}" for k, cell in enumerate(row)]
        print("  ".join(cells).rstrip())


def line(text: str = "", bold: bool = False, indent: int = 0) -> None:
    """Print a paragraph that is wrapped at the width; `indent` shifts all lines except the first."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE
    shift = " " * indent
    whole = {"break_long_words": False, "break_on_hyphens": False}
    for part in textwrap.wrap(text, width, subsequent_indent=shift, **whole) or [""]:  # type: ignore[arg-type]
        typer.secho(part, bold=bold)


def title(text: str) -> None:
    """Print a blank line and a heading."""
    line()
    line(text, bold=True)


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
