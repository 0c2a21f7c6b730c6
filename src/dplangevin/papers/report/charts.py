"""The data of the chart that a reader chooses on the page `compare.html`, and the colours of the site.

`templates/site.js` describes the chart itself. Methods have the looks of `papers.exhibits.style`. Colours are CSS
variables, so that a page can replace them on a dark ground or on paper. `palette` has their values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex, to_rgb

from dplangevin.papers.exhibits.style import FALLBACK_COLOURS, LOOKS, look

DARK_GROUND = "#16181d"
CONTRAST = 3.0  # smallest contrast of a mark with its ground, by WCAG 1.4.11
SHAPES = {  # marker of matplotlib -> shape of Vega; others are circles
    "s": "square", "D": "diamond", "P": "cross",
    "^": "triangle-up", "v": "triangle-down", "<": "triangle-left", ">": "triangle-right",
    "*": "M0,-1L.24,-.33L.95,-.31L.38,.13L.59,.81L0,.4L-.59,.81L-.38,.13L-.95,-.31L-.24,-.33Z",
    "h": "M0,-1L.87,-.5L.87,.5L0,1L-.87,.5L-.87,-.5Z",
    "p": "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z",
    "|": "M0,-1.3L0,1.3",
    "d": "M0,-1.2L.6,0L0,1.2L-.6,0Z",
    "X": "M0,-.45L.55,-1L1,-.55L.45,0L1,.55L.55,1L0,.45L-.55,1L-1,.55L-.45,0L-1,-.55L-.55,-1Z",
}  # fmt: skip
DASHES = {"-": [1, 0], "-.": [6, 2, 1, 2], ":": [2, 2], "": [1, 0]}  # line of matplotlib; others are [6, 3]
REFERENCES = ("nonprivate", "sgld", "sgd", "majority")  # methods without a budget: horizontal lines


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, in [1, 21], as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def on_dark(colour: str) -> str:
    """Return the colour mixed with just enough white for a contrast of 3 with the dark ground."""
    for white in np.linspace(0, 1, 21):
        red, green, blue = ((1 - white) * channel + white for channel in to_rgb(colour))
        mixed = to_hex((red, green, blue))
        if contrast(mixed, DARK_GROUND) >= CONTRAST:
            break
    return mixed


def palette() -> dict[str, tuple[str, str]]:
    """Return the value of every colour of the site on a white ground and on a dark ground."""
    colours = sorted({*(of.colour for of in LOOKS.values()), *FALLBACK_COLOURS})
    return {colour: (colour, "#f2f2f2" if colour == "#000000" else on_dark(colour)) for colour in colours}


def over_epsilon(table: pd.DataFrame, *, proven: bool) -> dict[str, Any]:
    """Return the data of a chart of the mean of a score against epsilon.

    - `table`: Rows of `papers.statistics.summary` for one data set.
    - `proven`: Whether x is the proven ε instead of the promised ε.
    - returns: "points" of the private methods, "levels" of the methods without a budget, and the "methods" with their
      looks. A point is hollow if a condition of the guarantee fails or a chain has diverged.
    """
    hollow = table.violated.ne("") | table.diverged.gt(0)
    table = table.assign(
        label=[look(method).label for method in table.method],
        eps=table["epsilon_proven" if proven else "epsilon"],
        state=np.where(hollow, "hollow", "full"),
    )[table["mean"].notna()]
    private = table[table.eps.gt(0) & np.isfinite(table.eps)]
    levels = table[table.method.isin(REFERENCES) & ~np.isfinite(table.epsilon)].drop_duplicates("method")
    looks = [look(method) for method in dict.fromkeys([*private.method, *levels.method])]
    return {
        "points": _records(private[["label", "eps", "mean", "low", "high", "state"]]),
        "levels": _records(levels[["label", "mean"]]),
        "methods": [
            {
                "label": of.label,
                "color": f"var(--c{of.colour.lstrip('#').lower()}, {of.colour})",
                "shape": SHAPES.get(of.marker, "circle"),
                "dash": DASHES.get(of.line, [6, 3]) if isinstance(of.line, str) else [6, 3],
            }
            for of in looks
        ],
    }


def _records(frame: pd.DataFrame) -> list[dict[str, str | float | None]]:
    """Return the rows with five digits, because the page contains them; what is not finite is None, null in JSON."""

    def plain(value: Any) -> str | float | None:
        if isinstance(value, str):
            return value
        return float(f"{value:.5g}") if math.isfinite(value) else None

    return [{str(name): plain(value) for name, value in row.items()} for row in frame.to_dict("records")]
