"""The look of every figure: one colour, marker, line and label per method, and the matplotlib settings.

Colours are those of Okabe and Ito (2008), then of Paul Tol, readable with every common colour-vision
deficiency and, with the markers and line styles, in black and white; variants of a method share its colour.
A hollow marker is reserved for points at which a condition of the theorem behind the guarantee fails, or
chains have diverged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.colors import to_rgb


class Look(NamedTuple):
    """How one method is drawn."""

    label: str
    colour: str
    marker: str
    line: Any = "-"
    size: float = 5.0


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
    "sgld": Look("SGLD, not private", "#000000", "", (0, (6, 2))),
    "dp_sgld_li2019": Look("DP-SGLD (li2019)", "#E69F00", "<", "-", 6.0),
    "dp_sgd": Look("DP-SGD", "#882255", "h", "--", 5.5),
    "ops_gdp": Look("OPS, GDP accounting", "#0072B2", "p", "-.", 5.5),
    "dpvi": Look("DPVI", "#009E73", ">", "--", 5.0),
    "pate": Look("Confident-GNMax (PATE)", "#661100", "*", "-.", 7.0),
    "hybrid_sgld": Look("Hybrid + DP-SGLD", "#CC79A7", "d", "--", 5.0),
    "dp_sghmc": Look("DP-SGHMC", "#332288", "s", "-", 4.5),
    "dp_sgfs": Look("DP-SGFS", "#117733", "D", "-.", 4.0),
    "sgd": Look("SGD, not private", "#000000", "", "-"),
    "none": Look("No privacy", "#000000", "o", "-"),  # on features and in fine-tuning
    "dp_langevin": Look("DP-Langevin", "#E69F00", "d", "-", 6.5),
    "pate:network": Look(
        "Confident-GNMax (PATE)", "#661100", "s", "-.", 5.0
    ),  # beside stars for published numbers
}

HOLLOW_LABEL = "hollow: a condition of the guarantee fails, or chains diverged"

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

CAPTION: dict[str, Any] = {"fontsize": 7.5, "color": "#444444"}
BAND_ALPHA = 0.18


def look(method: str) -> Look:
    """The Look of `method`. Raises KeyError naming the method and the file to add it to."""
    if method not in LOOKS:
        raise KeyError(
            f"method {method!r} has no look: add it to LOOKS in exhibits/style.py (known: {', '.join(LOOKS)})"
        )
    return LOOKS[method]


def tint(colour: str, strength: float = 0.55) -> tuple[float, float, float]:
    """`colour` mixed with white, opaque, so that what lies on top of it keeps its own colour. strength: in
    [0, 1]."""
    red, green, blue = (1 - strength + strength * part for part in to_rgb(colour))
    return red, green, blue


def number(value: float) -> str:
    """A short number for captions: 1e-05 becomes 1e-5, 0.0001 becomes 1e-4, 10.0 becomes 10."""
    text = f"{value:g}"
    if text.startswith("0.000"):
        digits, _, power = f"{value:.5e}".partition("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{power}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def short(value: float) -> str:
    """As `number`, to three significant digits."""
    return number(float(f"{value:.3g}"))
