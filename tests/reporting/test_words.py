"""Methods and settings in words."""

import math
import re

from checkout import ROOT

from dplangevin.reporting import words


def test_settings() -> None:
    assert words.variant({"bound": "range", "radius": "5.0"}) == "the exact range of the loss, radius 5"
    assert words.variant({}, "unit") == "the default settings, rows of norm 1"
    assert words.variant({"start": "warm"}, "other") == "start warm, rows scaled other"


def test_rows_and_data() -> None:
    row = {"curve": "tight", "n": 100, "x": 2.0, "setting": "cifar10_resnet18", "batch": math.nan}
    named = "the proven ε, add/remove, n 100, x 2, ResNet-18 features of CIFAR-10"
    assert words.named(row, row) == named
    assert words.features("adult") == "Adult"
    assert words.features("li2019") == "the larger network"
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"


def test_the_proven_epsilon_has_one_name() -> None:
    """A reader who looks for it finds it under the name of its column, `epsilon_proven`."""
    other = re.compile(r"\btight\s+(ε|epsilon|price)", re.IGNORECASE)
    assert other.search("## The tight price")
    places = ("src/**/*.py", "docs/**/*.md", "conf/claim/*.yaml", "conf/report/*.yaml", "README.md")
    texts = [path for place in places for path in ROOT.glob(place)]
    assert len(texts) > 200
    assert [path for path in texts if other.search(path.read_text("utf-8"))] == []
