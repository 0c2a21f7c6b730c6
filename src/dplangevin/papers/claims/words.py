"""Names of methods, settings and data as they appear in the sentences of a verdict's reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from dplangevin.text import epsilon, number, short

PAPERS = {"wang2015": "Wang et al. 2015", "li2019": "Li et al. 2019", "ryffel2022": "Ryffel et al. 2022"}
# These are the labels of `papers.exhibits.style.LOOKS`, shortened where the sentence gives the context.
METHODS = {
    "nonprivate": "the non-private fit",
    "majority": "the majority class",
    "ops": "OPS",
    "ops_gdp": "OPS with GDP accounting",
    "objpert": "objective perturbation",
    "objpert_tight": "objective perturbation, calibrated by the proven price",
    "objpert_pure": "pure objective perturbation",
    "outpert": "output perturbation",
    "hybrid": "the hybrid with DP-SGNHT",
    "hybrid_sgld": "the hybrid with DP-SGLD",
    "dp_sgld": "DP-SGLD",
    "dp_sgld_li2019": "DP-SGLD",
    "dp_sgld_ryffel2022": "DP-Langevin",
    "dp_sgnht": "DP-SGNHT",
    "dp_sghmc": "DP-SGHMC",
    "dp_sghmc_li2019": "DP-SGHMC",
    "dp_sgfs": "DP-SGFS",
    "dp_sgd": "DP-SGD",
    "dp_gd": "DP-GD",
    "dpvi": "DPVI",
    "pate": "Confident-GNMax",
    "sgd": "SGD without privacy",
    "sgld": "SGLD without privacy",
    "sghmc": "SGHMC without privacy",
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
NEIGHBOURS = {"replace_one": "replace-one", "add_remove": "add/remove", "zero_out": "zero-out"}
SCALINGS = {"unit": "rows of norm 1", "global": "rows scaled by one constant", "raw": "rows not scaled"}
VALUES = {
    ("bound", "paper"): "the bound 4B",
    ("bound", "range"): "the exact range of the loss",
    ("schedule", "phase"): "the steps of the α-phase",
    ("schedule", "constant"): "constant steps",
    ("schedule", "harmonic"): "steps 1/(t + 1)",
    ("labels", "private"): "labelled images that are records",
    ("labels", "public"): "public labels",
    ("temperature", "printed"): "the printed noise",
    ("temperature", "proper"): "the noise that targets the posterior",
    **{("adjacency", kind): f"{name} neighbours" for kind, name in NEIGHBOURS.items()},
}
CURVES = {
    "tight": "the proven ε, add/remove",
    "tight_replace_one": "the proven ε, replace-one",
    "moments_32": "the moments accountant with 32 orders",
    "moments_256": "the moments accountant with 256 orders",
    "printed": "Remark 1 as printed",
    "proof": "the constant of the proof",
    "wang2015": "wang2015's formula",
    "wang2015, no 2.5": "wang2015's formula without the 2.5",
}
BLOCKS = {
    "printed": "at the printed settings",
    "moments": "by the moments accountant",
    "published": "at the authors' settings",
    "code": "as the authors ran it",
}
CALIBRATIONS = {"tight": "at a proven ε of {}", "formula": "at ε {} by their formula with K = steps"}
COLUMNS = {
    "step_size": "step size", "epsilon": "ε", "constant": "constant", "records": "number of records", "eta": "η̃_0",
    "steps": "number of steps", "setting": "", "step": "step", "function": "function", "n": "n", "batch": "batch",
    "value": "", "ratio": "", "exact": "", "x": "", "r_hat": "R-hat", "ess": "effective sample size",
    "rows": "records", "rows_train": "training records", "features": "features", "curve": "",
}  # fmt: skip


def method(name: str) -> str:
    """Return the name of a method for a sentence.

    A method that METHODS lacks, such as one of another package, keeps its own name.
    """
    return METHODS.get(name, name)


def relations(text: str) -> str:
    """Return the text with neighbour relations as they are read.

    >>> relations("replace_one or add_remove")
    'replace-one or add/remove'
    """
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
    """Return one setting in words."""
    if known := VALUES.get((key, value)):
        return known
    try:
        return f"{column(key)} {number(float(value))}"
    except ValueError:
        return f"{column(key)} {value}"


def named(row: Mapping[str, object], names: Iterable[str]) -> str:
    """Return a row in words by some of its columns, such as "curve b, n 100"."""
    parts = []
    for name in names:
        value = row[name]
        if isinstance(value, float | int):
            text = "" if math.isnan(value) else short(float(value))
        else:
            text = features(value) if name == "setting" else CURVES.get(str(value), str(value))
        label = "x" if name == "x" else column(name)
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
