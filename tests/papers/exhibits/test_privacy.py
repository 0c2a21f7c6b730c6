"""The figure and the page of promises, from fake rows."""

import math

import numpy as np
import pandas as pd
import pytest
from drawing import captions
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from dplangevin.papers.exhibits import privacy
from dplangevin.reporting import words

NAN = math.nan


def row(**other: object) -> dict[str, object]:
    quote = {"paper": "li2019", "where": "Table 1", "statement": "s", "published": "x", "label": "MNIST"}
    prices = {"epsilon_formula": 0.4, "epsilon_add_remove": 0.2, "epsilon_replace_one": 5e6}
    rest = {"mechanism": "m", "chosen": NAN, "solved": NAN, "note": NAN, "formula": "f"}
    rest |= {"attack_runs": 5, "rescued": 0, "tight": 0, "epsilon_attack": 0.1, "epsilon_solved": 0.9}
    rest |= {"epsilon_attack_add_remove": NAN, "formula_adjacency": "add_remove"}
    return {"id": "a", **quote, "epsilon_claimed": 0.99, "delta": 1e-5, **prices, **rest, **other}


@pytest.fixture
def printed() -> pd.DataFrame:
    missing = dict.fromkeys(
        ["mechanism", "epsilon_formula", "epsilon_add_remove", "epsilon_replace_one", "epsilon_attack"], NAN
    ) | {"note": "no settings"}
    drawn = row(**{**missing, "id": "b", "label": "GAN", "epsilon_claimed": 0.2})
    other = row(**{**missing, "id": "c", "label": "no epsilon", "paper": "wang2015", "epsilon_claimed": NAN})
    return pd.DataFrame([row(), drawn, other])


def spans(ax: Axes) -> list[list[float]]:
    """Ends of the bars."""
    bars = [bar for bar in ax.collections if isinstance(bar, LineCollection)]
    return [[float(x) for x, _ in ends] for bar in bars for ends in bar.get_segments()]


def test_chart_has_a_row_per_priced_promise_and_a_span_from_the_attack(printed: pd.DataFrame) -> None:
    figure = privacy.guarantees(printed, shown=["a"], text="{shown} of {priced}.", title="t")
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["li2019: MNIST"]
    assert [text.get_text() for text in ax.texts] == ["holds in part: add/remove only"]
    assert captions(figure).startswith("1 of 1.")
    (attack,) = [line for line in ax.lines if line.get_marker() == words.PRICES["attack"].marker]
    assert np.asarray(attack.get_xdata()).tolist() == [0.1]
    assert spans(ax) == [[0.1, 5e6]]
    assert ax.get_xlim()[1] > 5e6


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ({"epsilon_replace_one": 0.5}, "holds"),
        ({"epsilon_add_remove": 2.0}, "open: too imprecise to tell"),
        ({"epsilon_add_remove": 2.0, "epsilon_attack": 1.0}, "fails"),
        ({"epsilon_add_remove": 2.0, "epsilon_attack": 1.0, "rescued": 1}, "holds in part: other settings"),
    ],
)
def test_chart_says_the_verdict_in_words(other: dict[str, float], verdict: str) -> None:
    (ax,) = privacy.guarantees(
        pd.DataFrame([row(**other)]), shown=["a"], text="{shown} of {priced}.", title="t"
    ).axes
    assert ax.texts[-1].get_text() == verdict


def test_a_span_without_an_attack_begins_at_the_left_edge() -> None:
    frame = pd.DataFrame([row(epsilon_attack=NAN)])
    (ax,) = privacy.guarantees(frame, shown=["a"], text="", title="t").axes
    assert spans(ax) == [[ax.get_xlim()[0], 5e6]]
