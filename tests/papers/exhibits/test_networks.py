"""Figures of the training runs: what is drawn where, the axes, pooled bins."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from drawing import call, exhibit, legend_texts
from fake_results import BUDGETS, INF, final, finals, write_runs
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import networks, read, style

NETWORKS = {"tanh": "Small", "li2019": "Paper's"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    write_runs(path, finals(), trained=True)
    return path


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return read.by_seed(finals())


def drawn(ax: Axes, colour: str, marker: str) -> list[tuple[float, float]]:
    """Points with a marker and a colour."""
    lines = [line for line in ax.lines if line.get_color() == colour and line.get_marker() == marker]
    return [(float(x), float(y)) for line in lines for x, y in np.asarray(line.get_xydata())]


def hollow(figure: Figure) -> set[str]:
    lines = [
        line for ax in figure.axes for line in ax.lines if line.get_markerfacecolor() in ("white", "none")
    ]
    return {str(line.get_marker()) for line in lines}


def test_svhn_exhibit_draws() -> None:
    """Also with one seed, with accuracies of 0 and 1, and with budgets that the paper does not have."""
    cfg = exhibit("li2019_tab1_svhn")
    names = {"dataset": "svhn", "problem": "li2019_svhn", "seeds": 1}
    frames = [
        final("svhn_sgd", [1.0], [INF], block="nonprivate", epsilon_add_remove=INF, **names),
        final("svhn_dp_sgld_printed", [0.2], [2.97], block="printed", epsilon_add_remove=1700.0, **names),
        final("svhn_dp_sgld", [0.0], [2.97], **names),
        final("svhn_pate", [0.5], [1.0], **names),
    ]
    rows = read.by_seed(pd.concat(frames, ignore_index=True))
    figure = call(cfg, "draw", rows)
    (ax,) = figure.axes
    assert style.image_bytes(figure, "png")
    assert "Larger network" in legend_texts(figure)
    assert ax.get_xlim() == pytest.approx(networks.LOGIT)
    page = call(cfg, "table", rows)
    assert "1.7e3" in page or "1700" in page


def test_accuracy_against_the_tight_price(frame: pd.DataFrame) -> None:
    figure = networks.training(frame, published=[], networks=NETWORKS, chance=0.1, title="t")
    small, paper = figure.axes
    assert [ax.get_title() for ax in figure.axes] == ["Small", "Paper's"]
    assert small.get_xscale() == "log"
    look = style.look("dp_sgd")
    rows = frame[frame.run.eq("tanh_dp_sgd")].groupby("epsilon").accuracy.mean()
    expected = [(0.99 * epsilon, rows[epsilon]) for epsilon in BUDGETS]
    assert drawn(small, look.colour, look.marker) == [pytest.approx(point) for point in expected]
    assert drawn(paper, look.colour, look.marker) == [pytest.approx(p) for p in [(0.495, 0.94), (7.92, 0.97)]]
    bars = [
        np.array(bar) for c in small.collections if isinstance(c, LineCollection) for bar in c.get_segments()
    ]
    assert any(np.allclose(bar, [[0.495, 0.949], [0.495, 0.951]]) for bar in bars)
    lines = [np.asarray(line.get_ydata()) for line in paper.lines if line.get_marker() == "None"]
    heights = sorted(float(y) for line in lines for y in np.unique(line))
    # chance; DP-SGD, DP-SGLD, PATE; SGLD and SGD not private
    assert heights == pytest.approx([0.1, 0.94, 0.95, 0.955, 0.97, 0.99, 0.9931])
    assert not hollow(figure)


def test_stars_at_the_published_budget(frame: pd.DataFrame) -> None:
    half = {"where": {"block": "equal", "method": "dp_sgd", "epsilon": 0.5}, "epsilon": 0.5, "accuracy": 0.9}
    moments = frame.assign(block=frame.block.replace("printed", "moments"))
    where = {"method": "dp_sgld_li2019", "block": "moments", "run": "tanh_dp_sgld_printed"}
    printed = {"where": where, "epsilon": 0.99, "accuracy": 0.9921}
    figure = networks.training(moments, published=[half, printed], networks=NETWORKS, chance=0.1)
    small, paper = figure.axes
    sgd, sgld = (style.look(name, "network").colour for name in ("dp_sgd", "dp_sgld_li2019"))
    assert drawn(small, sgd, "*") == drawn(paper, sgd, "*") == [(0.5, 0.9)]  # also where we have no such run
    assert drawn(small, sgld, "*") == [(0.99, 0.9921), (0.22, 0.9921)]
    assert drawn(small, sgld, "^") == [pytest.approx((0.22, accuracy)) for accuracy in (0.902, 0.88)]
    assert drawn(paper, sgld, "*") == [(0.99, 0.9921)]
    assert hollow(figure) == {"*"}
    dotted = [np.asarray(line.get_xdata()).tolist() for line in small.lines if line.get_linestyle() == ":"]
    assert dotted == [[0.22, 0.99]]
    assert "printed, in the method's colour" in legend_texts(figure)


def test_a_dumbbell_goes_from_printed_to_ours(frame: pd.DataFrame) -> None:
    half = {"where": {"block": "equal", "method": "dp_sgd", "epsilon": 0.5}, "epsilon": 0.5, "accuracy": 0.9}
    printed = {"where": {"run": ["tanh_dp_sgld_printed"]}, "epsilon": 0.99, "accuracy": 0.9921}
    figure = networks.printed_and_ours(frame, published=[half, printed], networks=NETWORKS, title="t")
    (ax,) = figure.axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    row = labels.index("DP-SGD, ε = 0.495")
    assert any("(printed: 0.99)" in label for label in labels)
    assert (0.9, row) in drawn(ax, "#000000", "*")
    rows = frame[frame.run.eq("tanh_dp_sgd") & frame.epsilon.eq(0.5)]
    (small, paper) = (look for look in networks.NETWORK_LOOKS[:2])
    assert (pytest.approx(rows.accuracy.mean()), row) in drawn(ax, *small)
    assert (pytest.approx(0.94), row) in drawn(ax, *paper)
    assert "+4.0" in {text.get_text() for text in ax.texts}


def test_chance_is_a_line_in_every_panel(frame: pd.DataFrame) -> None:
    figure = networks.training(frame, published=[], networks=NETWORKS, chance=0.1)
    assert "chance: 10 %" in legend_texts(figure)
    for ax in figure.axes:
        assert any(np.allclose(np.asarray(line.get_ydata(), dtype=float), 0.1) for line in ax.lines)
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_failed_condition_is_hollow(frame: pd.DataFrame) -> None:
    failed = frame.assign(violated=frame.method.eq("pate").map({True: "x", False: ""}))
    figure = networks.training(failed, published=[], networks=NETWORKS, chance=0.1)
    assert hollow(figure) == {style.look("pate", "network").marker}


def curves_of(folder: Path, curves: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = read.read_curve(["li2019_tab1/mnist"], [curve["run"] for curve in curves], folder)
    return rows, networks.learning_curve_summary(rows, curves=curves)


def test_learning_curves(folder: Path) -> None:
    curves: list[dict[str, Any]] = [
        {"run": "tanh_sgd", "label": "SGD"},
        {"run": "tanh_dp_sgd", "label": "ε = {epsilon}", "epsilon": 1.1},
    ]
    rows, table = curves_of(folder, curves)
    assert list(table.label.unique()) == ["SGD", "ε = 0.99"]
    one = rows[rows.run.eq("tanh_dp_sgd") & rows.epsilon.eq(0.99) & rows.epoch.eq(7)]
    found = table[table.label.eq("ε = 0.99") & table.epoch.eq(7)].iloc[0]
    assert (found.accuracy, found.sd) == pytest.approx((one.accuracy.mean(), one.accuracy.std(ddof=1)))
    assert found.epsilon_add_remove == pytest.approx(0.99 * 0.99 * np.sqrt(7 / 20))
    figure = networks.learning_curves(rows, curves=curves, title="t")
    top, bottom = figure.axes
    assert len(top.lines) == 2
    assert len(bottom.lines) == 2  # both neighbours of the private run; none of the other
    assert [line.get_linestyle() for line in bottom.lines] == ["-", "--"]
    assert bottom.get_xlabel() == "epoch"
    assert top.get_ylim()[1] <= 100.2


def test_budget_of_a_curve(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"tanh_dp_sgd has budgets .*say which"):
        curves_of(folder, [{"run": "tanh_dp_sgd", "label": "x"}])
    with pytest.raises(ValueError, match=r"tanh_sgd has no finite budget"):
        curves_of(folder, [{"run": "tanh_sgd", "label": "x", "epsilon": 1.0}])


def test_reliability_pools_seeds_by_count(folder: Path) -> None:
    panels: list[dict[str, Any]] = [{"run": "tanh_dp_sgld_printed", "title": "printed"}]
    panels += [{"run": "tanh_dp_sgld", "title": "ε = {epsilon}", "epsilon": e} for e in (0.9, 9.0)]
    rows = read.read_reliability(["li2019_tab1/mnist"], ["tanh_dp_sgld_printed", "tanh_dp_sgld"], folder)
    rows.loc[rows.seed.eq(0), "accuracy"] = 0.0
    table = networks.reliability_summary(rows, panels=panels)
    assert list(table.title.unique()) == ["printed", "ε = 0.99", "ε = 8"]
    part = rows[
        rows.run.eq("tanh_dp_sgld") & rows.epsilon.eq(8.0) & rows.predictor.eq("single") & rows.bin.eq(4)
    ]
    found = table[table.panel.eq(2) & table.predictor.eq("single") & table.bin.eq(4)].iloc[0]
    assert found.accuracy == pytest.approx(np.average(part.accuracy, weights=part["count"]))
    assert found["count"] == part["count"].sum()
    assert table.groupby(["panel", "predictor"]).share.sum().tolist() == pytest.approx([1.0] * 6)
    assert table.groupby("predictor")[["ece", "log_loss"]].mean().to_numpy().tolist() == [
        pytest.approx([0.01, 0.1]),
        pytest.approx([0.03, 0.2]),
    ]


def test_rare_bins_are_not_drawn(folder: Path) -> None:
    panels = [{"run": "tanh_dp_sgld_printed", "title": "printed"}]
    rows = read.read_reliability(["li2019_tab1/mnist"], ["tanh_dp_sgld_printed"], folder)
    rows.loc[rows.bin.le(5), "count"] = 1
    figure = networks.reliability(rows, panels=panels)
    top, bottom = figure.axes
    for look in networks.PREDICTORS.values():
        assert len(drawn(top, look.colour, look.marker)) == 10  # bins 6 to 15
    assert len(bottom.patches) == 2 * 13  # shares of all
    assert "posterior average: ECE 0.0100, log loss 0.100" in top.get_title()
