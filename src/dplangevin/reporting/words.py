"""Names of methods, settings and data in sentences and figures, and the looks of methods and prices in figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from dplangevin.text import epsilon, number, short


class Look(NamedTuple):
    """Label, colour, marker, line style, marker size in points and name in a sentence; "" draws no marker or line."""

    label: str
    colour: str
    marker: Any
    line: Any = "-"
    size: float = 5.0
    words: str = ""

    @property
    def shape(self) -> dict[str, Any]:
        """Keyword arguments of `Axes.plot` and `Line2D`."""
        bar = 2.0 if self.marker == "|" else 1.0  # points
        return {
            "color": self.colour, "ls": self.line or "none", "marker": self.marker, "ms": self.size, "mew": bar
        }  # fmt: skip


# A method has the same colour, marker, line and label in every figure. Variants of a method share its colour. The
# colours are those of Okabe and Ito (2008), then those of Paul Tol.
LOOKS: dict[str, Look] = {
    "nonprivate": Look("Non-private", "#000000", "", "-", words="the non-private fit"),
    "majority": Look("Majority class", "#555555", "", ":", words="the majority class"),
    "ops": Look("One-posterior sample (OPS)", "#0072B2", "o", "-", 6.5, words="OPS"),
    "objpert": Look("Objective perturbation", "#D55E00", "s", "-", words="objective perturbation"),
    "outpert": Look("Output perturbation", "#009E73", "^", "-", words="output perturbation"),
    "hybrid": Look("Hybrid + DP-SGNHT", "#CC79A7", "D", "--", 4.0, words="the hybrid with DP-SGNHT"),
    "dp_sgld": Look("DP-SGLD (wang2015)", "#E69F00", "v", "-", 6.0),
    "dp_sgnht": Look("DP-SGNHT", "#56B4E9", "P", "--", 4.5),
    "objpert_pure": Look("Objective perturbation, pure", "#8C510A", "X", "-.", words="pure objective perturbation"),
    "objpert_tight": Look("Objective perturbation (Redberg)", "#D55E00", "d", "--",
                          words="objective perturbation, calibrated by the proven price"),
    "sgld": Look("SGLD, not private", "#000000", "", (0, (6, 2)), words="SGLD without privacy"),
    "dp_sgld_li2019": Look("DP-SGLD (li2019)", "#E69F00", "<", "-", 6.0),
    "dp_sgd": Look("DP-SGD", "#882255", "h", "--", 5.5),
    "dp_gd": Look("DP-GD, all rows", "#999900", "o", "-", 5.0, words="DP-GD"),
    "ops_gdp": Look("OPS, GDP accounting", "#0072B2", "p", "-.", 5.5, words="OPS with GDP accounting"),
    "ops_gdp:hmc": Look("OPS by HMC", "#D55E00", "s", "--", 5.5),
    "ops_gdp:proximal": Look("OPS by the proximal sampler", "#0072B2", "p", "-", 5.5),
    "dpvi": Look("DPVI", "#009E73", ">", "--", 5.0),
    "pate": Look("Confident-GNMax (PATE)", "#661100", "*", "-.", 7.0, words="Confident-GNMax"),
    "hybrid_sgld": Look("Hybrid + DP-SGLD (wang2015)", "#CC79A7", "d", "--", 5.0, words="the hybrid with DP-SGLD"),
    "dp_sghmc": Look("DP-SGHMC", "#332288", "s", "-", 4.5),
    "dp_sghmc_li2019": Look("DP-SGHMC (li2019)", "#332288", "o", "-", 4.5, words="DP-SGHMC"),
    "sghmc": Look("SGHMC, not private", "#555555", "", (0, (3, 1, 1, 1)), words="SGHMC without privacy"),
    "dp_sgfs": Look("DP-SGFS", "#117733", "D", "-.", 4.0),
    "sgd": Look("SGD, not private", "#000000", "", "-", words="SGD without privacy"),
    "dp_sgld_ryffel2022": Look("DP-Langevin (ryffel2022)", "#E69F00", "d", "-", 6.5),
    # Networks trained from scratch. They have no star, because a star marks a published number.
    "dp_sgld_li2019:network": Look("DP-SGLD (li2019)", "#E69F00", "v", "-", 6.0),
    "dp_sghmc_li2019:network": Look("DP-SGHMC", "#332288", "o", "-", 5.0),
    "pate:network": Look("Confident-GNMax (PATE)", "#661100", "s", "-.", 5.0),
    "sgd:features": Look("No privacy", "#000000", "o", "-"),  # also in figures of fine-tuning
}  # fmt: skip
# The marks of an ε in figures. The triangle of a bound points to where the true ε is.
PRICES = {
    "promised": Look("promised ε", "#000000", "|", "", 13.0),
    "formula": Look("ε by the paper's formula", "#E69F00", "s", "", 4.0),
    "add_remove": Look("proven ε (upper bound), add/remove", "#56B4E9", "<", "", 5.5),
    "replace_one": Look("proven ε (upper bound), replace-one", "#0072B2", "<", "", 5.5),
    "attack": Look("attack ε (lower bound)", "#B2182B", ">", "", 5.5),
    "exact": Look("exact ε of one pair", "#B2182B", "d", "", 5.5),
}
DATASETS = {
    "synthetic": "the synthetic data", "abalone": "Abalone", "abalone_12": "Abalone (rings > 12)",
    "abalone_15": "Abalone (rings > 15)", "adult": "Adult", "mnist": "MNIST", "svhn": "SVHN",
    "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "pneumonia": "Pneumonia",
}  # fmt: skip
NETWORKS = {
    "tanh": "the small network", "li2019": "the larger network", "li2019_svhn": "the larger network for SVHN",
    "gan": "the GAN", "gan_labels": "the labels alone",
    "resnet18": "ResNet-18", "resnet20": "ResNet-20", "alexnet": "AlexNet",
}  # fmt: skip
NEIGHBOURS = {"replace_one": "replace-one", "add_remove": "add/remove"}
SCALINGS = {"unit": "rows of norm 1", "global": "rows scaled by one constant", "raw": "rows not scaled"}
VALUES = {
    ("bound", "paper"): "the bound 4B", ("bound", "range"): "the exact range of the loss",
    ("schedule", "phase"): "the steps of the α-phase", ("schedule", "constant"): "constant steps",
    ("schedule", "fixed"): "constant steps", ("schedule", "harmonic"): "steps 1/(t + 1)",
    ("schedule", "decreasing"): "decreasing steps", ("block", "printed"): "the printed settings",
    ("block", "moments"): "by the moments accountant", ("block", "published"): "the authors' settings",
    ("block", "code"): "as the authors ran it", ("block", "equal"): "at equal proven ε",
    **{("problem", name): "the head alone" for name in ("head", "head_resnet18")},
    **{("problem", name): "the last block" for name in ("block", "fourth_stage")},
    ("calibration", "tight"): "calibrated by the proven ε",
    ("calibration", "formula"): "calibrated by their formula with K = steps",
    ("calibration", "published"): "the authors' settings", ("labels", "private"): "labelled images that are records",
    ("labels", "public"): "public labels", ("temperature", "printed"): "the printed noise",
    ("temperature", "proper"): "the noise that targets the posterior",
    **{("adjacency", kind): f"{name} neighbours" for kind, name in NEIGHBOURS.items()},
}  # fmt: skip
CURVES = {
    "tight": "the proven ε, add/remove", "tight_replace_one": "the proven ε, replace-one",
    "moments_32": "the moments accountant with 32 orders", "moments_256": "the moments accountant with 256 orders",
    "printed": "Remark 1 as printed", "proof": "the constant of the proof", "wang2015": "wang2015's formula",
    "wang2015, no 2.5": "wang2015's formula without the 2.5",
}  # fmt: skip
COLUMNS = {
    "epsilon": "ε", "records": "number of records", "eta": "η̃_0", "steps": "number of steps", "r_hat": "R-hat",
    "ess": "effective sample size", "rows": "records", "rows_train": "training records",
    **dict.fromkeys(("setting", "value", "ratio", "exact", "x", "curve"), ""),
}  # fmt: skip


def look(method: str, on: str = "") -> Look:
    """Return the entry "method:on" of LOOKS, or else "method"; one look for names that it lacks."""
    return LOOKS.get(f"{method}:{on}") or LOOKS.get(method) or Look(method, "#AA4499", "H")


def method(name: str) -> str:
    """Return the name of a method in a sentence; a method that LOOKS lacks keeps its own name."""
    return look(name).words or look(name).label


def relations(text: str) -> str:
    """Return the text with neighbour relations as they are read, such as "replace-one or add/remove"."""
    for name, words in NEIGHBOURS.items():
        text = text.replace(name, words)
    return text


def features(of: object) -> str:
    """Return the name of a data set, of a network, or of features such as "cifar10_resnet20"."""
    name = str(of)
    if known := (NETWORKS | DATASETS).get(name):
        return known
    dataset, _, network = name.partition("_")
    whole = DATASETS.get(dataset, dataset)
    return f"{NETWORKS.get(network, network)} features of {whole}" if network else whole


def column(name: str) -> str:
    """Return the name of a column for a sentence, or "" for a column whose name tells nothing."""
    return COLUMNS.get(name, name.replace("_", " "))


def variant(settings: Mapping[str, object], scaling: str = "") -> str:
    """Return the settings of a variant, such as {bound: range, radius: 5.0}, and the row scaling in words."""
    parts = [_setting(key, str(value)) for key, value in settings.items()] or ["the default settings"]
    return ", ".join([*parts, *([SCALINGS.get(scaling, f"rows scaled {scaling}")] if scaling else [])])


def _setting(key: str, value: str) -> str:
    if known := VALUES.get((key, value)):
        return known
    try:
        return f"{column(key)} {number(float(value))}"
    except ValueError:
        return f"{column(key)} {value}"


def named(
    row: Mapping[str, object], names: Iterable[str], labels: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return a row in words by some of its columns, such as "curve b, n 100"; `labels` replaces names of columns."""
    parts = []
    for name in names:
        value = row[name]
        if isinstance(value, float | int):
            text = "" if math.isnan(value) else short(float(value))
        else:
            text = features(value) if name == "setting" else CURVES.get(str(value), str(value))
        label = labels.get(name, "x" if name == "x" else column(name))
        parts += [f"{label} {text}".strip()] if text else []
    return ", ".join(parts)


def listed(texts: Sequence[str]) -> str:
    """Return the texts joined as "a, b and c"."""
    return ", ".join(texts[:-1]) + f" and {texts[-1]}" if len(texts) > 1 else "".join(texts)


def at_least(value: float) -> str:
    """Return a lower bound >= 0 with three significant digits, rounded down."""
    return _outward(value, math.floor)


def at_most(value: float) -> str:
    """Return an upper bound >= 0 with three significant digits, rounded up; "∞" for inf, "" for nan."""
    return _outward(value, math.ceil)


def _outward(value: float, end: Callable[[float], int]) -> str:
    """Return a number >= 0 with three digits rounded by `end`; what 1e-9 of it changes is rounding error."""
    if not math.isfinite(value) or value == 0:
        return epsilon(value)
    power = 2 - math.floor(math.log10(value))
    scaled = value * 10.0**power
    nearest = round(scaled)
    whole = nearest if abs(scaled - nearest) <= 1e-9 * scaled else end(scaled)
    return number(float(f"{whole}e{-power}"))
