"""The figures of ryffel2022's privacy bound, drawn from made-up frames."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from dplangevin.exhibits.counterexample import counterexample
from dplangevin.exhibits.langevin import LOOKS, privacy

CONF = Path(__file__).parents[2] / "conf" / "exhibit"
STEPS = [1, 10, 100, 1000]
PANELS = {"cifar10_resnet18": "CIFAR-10, ResNet-18", "pneumonia_resnet18": "Pneumonia"}


@pytest.fixture(scope="module")
def prices() -> pd.DataFrame:
    """Two settings, batches 1 and 128 and full; with batches of one the proofs lie beyond the axis."""
    rows = []
    for setting in (*PANELS, "cifar10_alexnet"):
        fixed = {
            "setting": setting,
            "schedule": "constant",
            "records": 50000,
            "epochs": 30.0,
            "delta": 1e-5,
            "note": "9 runs",
        }
        for batch in (1, 128, 50000):
            for i, quantity in enumerate(LOOKS):
                for steps in STEPS:
                    price = (
                        1e5
                        if batch == 1 and quantity in ("all_iterates", "last_iterate")
                        else 0.1 * (i + 1) * steps**0.5
                    )
                    row = {
                        "kind": "curve",
                        "batch": batch,
                        "steps": steps,
                        "quantity": quantity,
                        "epsilon": price,
                    }
                    rows.append({**fixed, **row})
        rows.append(
            {**fixed, "kind": "published", "batch": 128, "steps": 700, "quantity": "theorem", "epsilon": 26.0}
        )
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def pair() -> pd.DataFrame:
    x = np.linspace(-1, 1, 50)
    rows = [("density", name, t, np.exp(-t * t), "K = 1") for name in ("first", "second") for t in x]
    rows += [
        ("renyi", name, k, f * k, "order 2")
        for name, f in (("claimed", 0.1), ("exact", 7.0))
        for k in (1, 10)
    ]
    rows += [("profile", "claimed", 1e-5, 2.25, "K = 1"), ("profile", "exact", 1e-5, 38.5, "K = 1")]
    rows += [("profile", "exact", 1e-2, 0.0, "K = 1"), ("profile", "audit", 1e-5, 8.125, "K = 1, 9 runs")]
    rows += [("hypotheses", "smooth", 1.0, 1.0, "holds"), ("hypotheses", "step size", 1.0, 2.0, "fails")]
    return pd.DataFrame(rows, columns=["kind", "quantity", "x", "value", "note"])


def captions(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.texts)


def test_exhibits_of_the_configuration_draw(prices: pd.DataFrame, pair: pd.DataFrame) -> None:
    for name, table in (("ryffel2022_privacy", prices), ("ryffel2022_counterexample", pair)):
        exhibit = OmegaConf.load(CONF / f"{name}.yaml")
        assert exhibit.source == f"results/analyses/{name}.csv"
        figure = instantiate(exhibit.draw, _partial_=True, _convert_="all", title=exhibit.title)(table)
        assert figure._suptitle.get_text() == exhibit.title


def test_a_panel_for_each_setting_and_batch(prices: pd.DataFrame) -> None:
    figure = privacy(prices, panels=PANELS)
    assert [ax.get_title() for ax in figure.axes] == [
        f"{label}, {size}" for label in PANELS.values() for size in ("batch 1", "batch 128", "full batch")
    ]
    assert "9 runs" in captions(figure)


def test_curves_show_the_rows_and_name_what_lies_beyond(prices: pd.DataFrame) -> None:
    one, main, _, *_ = privacy(prices, panels=PANELS).axes
    assert [text.get_text() for text in one.texts] == ["▲ beyond 1e4: all iterates,\nlast iterate"]
    assert not main.texts
    drawn = [tuple(np.atleast_1d(line.get_ydata())) for line in main.lines]
    assert tuple(0.1 * np.sqrt(STEPS)) in drawn
    assert len(one.lines) == len(LOOKS) - 2 + 1  # and their number of epochs


def test_published_epsilon_is_marked_at_the_authors_batch_only(prices: pd.DataFrame) -> None:
    axes = privacy(prices, panels=PANELS).axes
    stars = [
        [np.atleast_1d(line.get_xdata())[0] for line in ax.lines if line.get_marker() == "*"] for ax in axes
    ]
    assert stars == [[], [700], []] * 2


def test_pair_s_numbers_are_in_the_caption(pair: pd.DataFrame) -> None:
    text = captions(counterexample(pair))
    assert "R claimed 0.1, exact 7" in text
    assert "attack is on the theorem's hypotheses" in text
    assert "claimed 2.25, exact 38.5, attack at least 8.12 (K = 1, 9 runs)" in text
    assert "1 of 2" in text


def test_an_epsilon_of_zero_is_not_drawn(pair: pd.DataFrame) -> None:
    right = counterexample(pair).axes[2]
    assert sorted(y for line in right.lines for y in np.atleast_1d(line.get_ydata())) == [2.25, 8.125, 38.5]
