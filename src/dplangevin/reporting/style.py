"""The style that all figures share: settings, layout and export. The looks are in `words`."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

HOLLOW = "hollow: a condition of the promise fails, or chains diverged"
GREY = "#888888"
CAPTION_LETTERS = 18  # of a caption in an inch
BELOW = 0.45  # share of a figure's height, at most, for its legend and caption
RC: Any = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9,
    "axes.spines.right": False, "axes.spines.top": False, "axes.grid": True, "grid.color": "#dddddd",
    "grid.linewidth": 0.5, "axes.axisbelow": True, "legend.fontsize": 8, "legend.frameon": False,
    "xtick.labelsize": 8, "ytick.labelsize": 8, "lines.linewidth": 1.3, "pdf.fonttype": 42, "savefig.dpi": 200,
}  # fmt: skip


def settings() -> Any:
    """Return the context in which every figure is made and saved."""
    return matplotlib.rc_context(RC)


def image_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as a "png" or "pdf", the same bytes each time; the first file computes the layout."""
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}}[kind]
    buffer = io.BytesIO()
    with settings():
        figure.savefig(buffer, format=kind, metadata=metadata)
    figure.set_layout_engine("none")
    return buffer.getvalue()


def _legend_columns(figure: Figure, handles: Sequence[Line2D]) -> int:
    """Return how many columns of a legend, at most four, fit into the width of the figure."""
    for columns in (4, 3, 2):
        legend = figure.legend(handles=handles, ncols=columns)
        width = legend.get_window_extent().width / figure.dpi
        legend.remove()
        if width <= figure.get_figwidth() + 0.1:  # a legend has an empty margin
            return columns
    return 1


def lay_out(figure: Figure, title: str, text: str, handles: Sequence[Line2D]) -> Figure:
    """Return the figure with title, legend and caption; it becomes taller if these would fill more than `BELOW`."""
    columns = _legend_columns(figure, handles)
    width = int(CAPTION_LETTERS * figure.get_figwidth())
    text = "\n".join(textwrap.fill(line, width) for line in re.split(r"(?<=\.)\n", text))
    caption = 0.10 + 0.14 * (text.count("\n") + 1)  # inches
    legend = 0.14 + 0.17 * -(-len(handles) // columns)
    height = max(figure.get_figheight(), (caption + legend) / BELOW)
    figure.set_figheight(height)
    room = caption / height
    figure.text(0.01, 0.05 / height, text, va="bottom", ha="left", fontsize=7.5, color="#444444")
    figure.suptitle(title, fontsize=11, wrap=True)
    figure.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, room), ncols=columns)
    room += legend / height
    figure.set_layout_engine("constrained", rect=(0, room, 1, 1 - room))
    return figure
