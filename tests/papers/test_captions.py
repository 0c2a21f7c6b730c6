"""Numbers that captions and claims type in words, against the settings and the manifests that have them."""

import math
import re

import pytest
from composed import ROOT, parameters
from drawing import exhibit
from omegaconf import OmegaConf

from dplangevin.pipeline import config, digit_classifier, manifest, plan
from dplangevin.reporting import words

FILES = sorted((ROOT / "conf/exhibit").glob("*.yaml"))
CHOICES = {"ridge": "ridge l2", "ball of radius": "radius", "Gaussian prior of precision": "precision"}
SETTINGS = [  # exhibit, what its caption says, the key of the number in its analysis
    ("brackets", r"has ([\d,]+) rows", "records"),
    ("li2019_fig1", r"add/remove, (\d+) orders", "curves.moments_256.accountant.max_order"),
    ("li2019_fig1", r"CSV has (\d+) orders", "curves.moments_32.accountant.max_order"),
    ("li2019_fig2", r"accountant has (\d+) orders", "curves.moments_256.accountant.max_order"),
    ("li2019_fig2", r"CSV has (\d+) orders", "curves.moments_32.accountant.max_order"),
    ("li2019_fig2", r"four L at N = ([\d,]+)", "size"),
    ("ryffel2022_counterexample", r"for (\d+) records", "records"),
    ("ryffel2022_privacy", r"(1e-\d) on CIFAR-10", "settings.cifar10_resnet18.delta"),
    ("ryffel2022_privacy", r"(1e-\d) on Pneumonia", "settings.pneumonia_resnet18.delta"),
    ("wang2015_are", r"HMC: (\d+)", "hmc_repeats"),
]
SIZES = {
    "wang2015_bounds.algorithm": "adult",
    "li2019_bounds.settings.mnist": "mnist",
    "li2019_gan_noise": "mnist",
    "ryffel2022_privacy.settings.cifar10_resnet18": "cifar10",
    "ryffel2022_privacy.settings.cifar10_alexnet": "cifar10",
}


def typed(name: str, pattern: str) -> float:
    """The number in the caption of an exhibit."""
    (number,) = re.findall(pattern, " ".join(exhibit(name).draw.text.split()))
    return float(number.replace(",", ""))


@pytest.mark.parametrize("name", [path.stem for path in FILES if "Our choices: " in path.read_text()])
def test_our_choices(name: str) -> None:
    """Such as "ridge 0.01 for Non-private and Output perturbation; rows of norm 1"."""
    cfg, shown = parameters(), exhibit(name)
    _, _, experiment, *dataset = shown.source.split("/")
    spec = cfg.experiment[experiment]
    runs = plan.runs(cfg, experiment, *dataset or spec.datasets[:1])
    labels = {words.look(run.method).label: run.config for run in runs if run.name in shown.runs}
    (line,) = re.findall(r"Our choices: (.*)\.$", shown.draw.text, re.MULTILINE)
    for clause in line.split("; "):
        ((what, number, names),) = re.findall(r"^(.+?) ([\d.]+)(?: for )?(.*)$", clause)
        if what == "rows of norm":
            assert (number, names, spec.scalings) == ("1", "", ["unit"])
            continue
        for label in names.split(" and "):
            given = labels[label] | labels[label].get("first", {})  # a hybrid begins with a posterior sample
            assert {given.get(key, 0.0) for key in CHOICES[what].split()} - {0.0} == {float(number)}, clause


@pytest.mark.parametrize(("name", "pattern", "key"), SETTINGS)
def test_settings(name: str, pattern: str, key: str) -> None:
    assert typed(name, pattern) == OmegaConf.select(parameters().analysis[name], key)


def test_generated_images() -> None:
    assert typed("li2019_gan_samples", r"share of ([\d,]+) images") == digit_classifier.IMAGES
    assert typed("li2019_gan_samples", r"is (\d+) % sure") == 100 * digit_classifier.SURE
    assert typed("li2019_gan_samples", r"at least (\d+) %") == 100 * digit_classifier.LEAST


@pytest.mark.parametrize("dataset", ["abalone", "adult"])
def test_the_constant_of_theorem_4(dataset: str) -> None:
    """N is that of the data, and no smaller δ of as many digits is within the limit."""
    claim = config.content("claim", "wang2015", parameters(), ROOT / "conf")["claims"]["size_of_constant"]
    row, n = claim["rows"][dataset]["test"], manifest.read("dataset", dataset)["rows"]["train"]
    assert (row["given"], f"N = {n} " in row["what"]) == ({"n": n}, True)
    ((label, formula),) = row["others"].items()
    (digits,) = re.findall(r"δ = 0\.(\d+) ", label)
    assert formula == claim["test"]["formulas"].replace("1e-5", f"0.{digits}")
    deltas = [(int(digits) - less) / 10 ** len(digits) for less in (0, 1)]
    now, smaller = (128 * math.log(2.5 * n / delta) * math.log(2 / delta) for delta in deltas)
    assert now <= claim["test"]["bounds"][1] < smaller


@pytest.mark.parametrize(("key", "dataset"), SIZES.items())
def test_sizes_of_data_sets(key: str, dataset: str) -> None:
    records = OmegaConf.select(parameters().analysis, f"{key}.records")
    assert records == manifest.read("dataset", dataset)["rows"]["train"]
