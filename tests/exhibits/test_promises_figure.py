"""The figure and the page of privacy promises."""

import math

import numpy as np
import pandas as pd
import pytest

from dplangevin.exhibits import promises

NAN = math.nan


def row(**other: object) -> dict[str, object]:
    said = {"paper": "li2019", "where": "Table 1", "statement": "s", "published": "x", "label": "MNIST"}
    prices = {
        "epsilon_formula": 0.4,
        "epsilon_add_remove": 0.2,
        "epsilon_replace_one": 5e6,
        "audit_epsilon": 0.1,
    }
    rest = {
        "mechanism": "m",
        "chosen": NAN,
        "solved": NAN,
        "note": NAN,
        "formula": "f",
        "audit_runs": 5,
        "rescued": 0,
    }
    return {"id": "a", **said, "epsilon_claimed": 0.99, "delta": 1e-5, **prices, **rest, **other}


@pytest.fixture
def frame() -> pd.DataFrame:
    missing = dict.fromkeys(["mechanism", *promises.MARKERS, "audit_epsilon"], NAN) | {"note": "no settings"}
    drawn = row(**{**missing, "id": "b", "label": "GAN", "epsilon_claimed": 0.2})
    other = row(**{**missing, "id": "c", "label": "no epsilon", "paper": "wang2015", "epsilon_claimed": NAN})
    return pd.DataFrame([row(), drawn, other])


def test_chart_has_a_row_per_promise_with_an_epsilon(frame: pd.DataFrame) -> None:
    (ax,) = promises.chart(frame, title="t").axes
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["Li et al. 2019", "MNIST", "reproduced under stated choices", "GAN", "not testable"]
    beyond = [line for line in ax.lines if line.get_marker() == "o"]
    assert [np.asarray(line.get_xdata()).tolist() for line in beyond] == [[promises.LARGEST]]
    assert beyond[0].get_markerfacecolor() == "white"


def test_attack_bar_ends_at_its_bound(frame: pd.DataFrame) -> None:
    (ax,) = promises.chart(frame, title="t").axes
    bars = [line for line in ax.lines if line.get_color() == promises.AUDIT[1]]
    assert [np.asarray(line.get_xdata()).tolist()[1] for line in bars] == [0.1]


def test_table_lists_numbers_and_reasons(frame: pd.DataFrame) -> None:
    page = promises.table(frame, title="Promises")
    assert page.startswith("# Promises\n")
    assert (
        "| MNIST | Table 1 | 0.99 | 1e-5 | 0.4 | 0.2 | 5e6 | 0.1 | **reproduced under stated choices** |"
        in page
    )
    assert "| GAN | Table 1 | 0.2 | 1e-5 |  |  |  |  | **not testable** |" in page
    assert "- GAN: no settings." in page
    assert "## Wang et al. 2015" in page
