"""The style that all figures share: looks of methods, settings, markers, layout and export.

A method has the same colour, marker, line and label in every figure. Variants of a method share its colour.
The colours are those of Okabe and Ito (2008), then those of Paul Tol. They are readable with every common
colour-vision deficiency. With the markers and line styles they are readable in black and white too.

A hollow marker has one meaning: at this point a condition of the theorem behind the guarantee fails, or
chains have diverged.
"""

from __future__ import annotations

import io
import re
import textwrap
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D


class Look(NamedTuple):
    """Label, colour, matplotlib marker and line style, and marker size in points; "" draws no marker or line."""

    label: str
    colour: str
    marker: Any
    line: Any = "-"
    size: float = 5.0

    @property
    def shape(self) -> dict[str, Any]:
        """Keyword arguments of `Axes.plot` and `Line2D`."""
        return {"color": self.colour, "ls": self.line or "none", "marker": self.marker, "ms": self.size}


LOOKS: dict[str, Look] = {
    "nonprivate": Look("Non-private", "#000000", "", "-"),
    "majority": Look("Majority class", "#555555", "", ":"),
    "ops": Look("One-posterior sample (OPS)", "#0072B2", "o", "-", 6.5),
    "objpert": Look("Objective perturbation", "#D55E00", "s", "-"),
    "outpert": Look("Output perturbation", "#009E73", "^", "-"),
    "hybrid": Look("Hybrid + DP-SGNHT", "#CC79A7", "D", "--", 4.0),
    "dp_sgld": Look("DP-SGLD", "#E69F00", "v", "-", 6.0),
    "dp_sgld:phase": Look("DP-SGLD, α-phase", "#E69F00", "v", "-", 6.0),
    "dp_sgld:constant": Look("DP-SGLD, constant step", "#0072B2", "o", "--"),
    "dp_sgld:harmonic": Look("DP-SGLD, step 1/(t + 1)", "#009E73", "s", "-."),
    "dp_sgnht": Look("DP-SGNHT", "#56B4E9", "P", "--", 4.5),
    "objpert_pure": Look("Objective perturbation, pure", "#8C510A", "X", "-."),
    "objpert_tight": Look("Objective perturbation (Redberg)", "#D55E00", "d", "--", 5.0),
    "sgld": Look("SGLD, not private", "#000000", "", (0, (6, 2))),
    "dp_sgld_li2019": Look("DP-SGLD (li2019)", "#E69F00", "<", "-", 6.0),
    "dp_sgd": Look("DP-SGD", "#882255", "h", "--", 5.5),
    "dp_gd": Look("DP-GD, all rows", "#999900", "o", "-", 5.0),
    "ops_gdp": Look("OPS, GDP accounting", "#0072B2", "p", "-.", 5.5),
    "ops_gdp:hmc": Look("OPS by HMC", "#D55E00", "s", "--", 5.5),
    "ops_gdp:proximal": Look("OPS by the proximal sampler", "#0072B2", "p", "-", 5.5),
    "dpvi": Look("DPVI", "#009E73", ">", "--", 5.0),
    "pate": Look("Confident-GNMax (PATE)", "#661100", "*", "-.", 7.0),
    "hybrid_sgld": Look("Hybrid + DP-SGLD", "#CC79A7", "d", "--", 5.0),
    "dp_sghmc": Look("DP-SGHMC", "#332288", "s", "-", 4.5),
    "dp_sghmc_li2019": Look("DP-SGHMC (li2019)", "#332288", "o", "-", 4.5),
    "sghmc": Look("SGHMC, not private", "#555555", "", (0, (3, 1, 1, 1))),
    "dp_sgfs": Look("DP-SGFS", "#117733", "D", "-.", 4.0),
    "sgd": Look("SGD, not private", "#000000", "", "-"),
    "dp_sgld_ryffel2022": Look("DP-Langevin", "#E69F00", "d", "-", 6.5),
    # Networks trained from scratch. They have no star, because a star marks a published number.
    "dp_sgld_li2019:network": Look("DP-SGLD", "#E69F00", "v", "-", 6.0),
    "dp_sghmc_li2019:network": Look("DP-SGHMC", "#332288", "o", "-", 5.0),
    "pate:network": Look("Confident-GNMax (PATE)", "#661100", "s", "-.", 5.0),
    "sgd:features": Look("No privacy", "#000000", "o", "-"),  # also in figures of fine-tuning
}
# For methods that are not in LOOKS, such as those of another package. LOOKS uses none of these.
FALLBACK_COLOURS = ("#AA4499", "#44AA99", "#999933", "#CC6677", "#6699CC", "#994455", "#997700")
FALLBACK_MARKERS = ("H", "8", (4, 1, 45), (3, 1, 0), (8, 1, 0))
# One colour for each kind of epsilon, the same in every figure of privacy prices.
PRICE_COLOURS = {
    "claimed": "#000000",
    "formula": "#E69F00",
    "add_remove": "#56B4E9",
    "replace_one": "#0072B2",
    "attack": "#CC79A7",
}
HOLLOW = "hollow: a condition of the guarantee fails, or chains diverged"
GREY = "#888888"
EPSILON_TICKS = [m * 10.0**k for k in range(-3, 5) for m in (1, 2, 5)]
CAPTION_LETTERS = 18  # of a caption in an inch
BELOW = 0.45  # share of a figure's height, at most, for its legend and caption
CAPTION: dict[str, Any] = {"fontsize": 7.5, "color": "#444444"}
RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.3,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


def look(method: str, on: str = "") -> Look:
    """Return the look of a method: the entry "method:on" of LOOKS, or else the entry "method".

    A method that is not in LOOKS has its name as label. Its colour and marker depend only on its name.
    """
    if known := LOOKS.get(f"{method}:{on}", LOOKS.get(method)):
        return known
    marker, colour = divmod(zlib.crc32(method.encode()), len(FALLBACK_COLOURS))
    return Look(method, FALLBACK_COLOURS[colour], FALLBACK_MARKERS[marker % len(FALLBACK_MARKERS)])


def tint(colour: str, strength: float = 0.55) -> tuple[float, float, float]:
    """Return `colour` mixed with white, opaque; `strength` in [0, 1] is its share in the mixture."""
    red, green, blue = (1 - strength + strength * channel for channel in to_rgb(colour))
    return red, green, blue


def settings() -> Any:
    """Return the context in which every figure is made and saved."""
    return matplotlib.rc_context(RC)


def image_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as the bytes of a file of the kind "png" or "pdf". The same figure gives the same bytes.

    The layout is computed once, for the first file.
    """
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}}[kind]
    buffer = io.BytesIO()
    with settings():
        figure.savefig(buffer, format=kind, metadata=metadata)
    figure.set_layout_engine("none")
    return buffer.getvalue()


# Legend entries


def entry(of: Look, **other: Any) -> Line2D:
    """Return the legend entry of a look; `other` replaces arguments of `Line2D`."""
    return Line2D([], [], **{**of.shape, "label": of.label, **other})


def hollow_entry(label: str = HOLLOW) -> Line2D:
    """Return the legend entry that explains hollow markers."""
    return Line2D([], [], color="#555555", marker="o", mfc="white", ls="", label=label)


def hollow_entries(violated: pd.Series) -> list[Line2D]:
    """Return a list with the legend entry for hollow markers, empty if all texts `violated` are empty."""
    return [hollow_entry()] if violated.ne("").any() else []


# Points and lines


def curve(ax: Axes, x: pd.Series, rows: pd.DataFrame, of: Look, width: float = 2.0) -> None:
    """Draw a line through means, with their intervals as bars and with markers (see `markers`).

    - `x`: Positions of the rows.
    - `rows`: Columns mean, low, high and violated.
    - `width`: Width of the bars in points.
    """
    ax.plot(x, rows["mean"], color=of.colour, ls=of.line, zorder=3)
    ax.vlines(x, rows.low, rows.high, color=tint(of.colour), lw=width, zorder=2)
    markers(ax, x, rows["mean"], rows.violated, of)


def markers(ax: Axes, x: pd.Series, y: pd.Series, violated: pd.Series, of: Look) -> None:
    """Draw markers without a line.

    - `x`, `y`: Positions.
    - `violated`: A marker is hollow where this text is not empty.
    """
    for hollow in sorted(set(violated.ne(""))):
        at = violated.ne("").eq(hollow)
        face = "white" if hollow else of.colour
        ax.plot(x[at], y[at], **(of.shape | {"ls": ""}), mfc=face, zorder=4)


def reference_line(ax: Axes, interval: Iterable[float], of: Look) -> None:
    """Draw a horizontal line at a mean, with a band for its interval if low < high.

    - `interval`: Mean, low and high. A low or high of nan draws no band.
    """
    mean, low, high = interval
    ax.axhline(mean, color=of.colour, ls=of.line, lw=1.1, zorder=1)
    if high > low:
        ax.axhspan(low, high, color=of.colour, alpha=0.1, lw=0, zorder=0)


def _legend_columns(figure: Figure, handles: Sequence[Line2D]) -> int:
    """Return how many columns of a legend, at most four, fit into the width of the figure."""
    for columns in (4, 3, 2):
        legend = figure.legend(handles=handles, ncols=columns)
        width = legend.get_window_extent().width / figure.dpi
        legend.remove()
        if width <= figure.get_figwidth() + 0.1:  # a legend has an empty margin
            return columns
    return 1


def lay_out(figure: Figure, title: str, text: str, handles: Sequence[Line2D], side: bool = False) -> Figure:
    """Return the figure with its title, caption and legend around panels in a constrained layout.

    Title and caption wrap at the figure's width. A figure that legend and caption would fill by more than
    `BELOW` becomes taller.

    - `text`: Caption. A line break in it starts a new line only after a full stop.
    - `side`: If True, the legend is to the right of the panels, otherwise below them.
    """
    columns = _legend_columns(figure, handles)
    width = int(CAPTION_LETTERS * figure.get_figwidth())
    text = "\n".join(textwrap.fill(line, width) for line in re.split(r"(?<=\.)\n", text))
    caption = 0.10 + 0.14 * (text.count("\n") + 1)  # inches
    legend = 0.0 if side else 0.14 + 0.17 * -(-len(handles) // columns)
    height = max(figure.get_figheight(), (caption + legend) / BELOW)
    figure.set_figheight(height)
    room = caption / height
    figure.text(0.01, 0.05 / height, text, va="bottom", ha="left", **CAPTION)
    figure.suptitle(title, fontsize=11, wrap=True)
    if side:
        figure.legend(handles=handles, loc="outside right center")
    else:
        figure.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, room), ncols=columns)
        room += legend / height
    figure.set_layout_engine("constrained", rect=(0, room, 1, 1 - room))
    return figure
