"""Figure 3 of li2019 and its sensitivity: what bars mean, the mark, and which panel has which curve."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dplangevin.exhibits import style
from dplangevin.exhibits.baseline import MARK, against_baseline
from dplangevin.exhibits.clipping import clipping

PANELS = {"theirs": ["dp_sgld_li2019", "pate"], "others": ["dp_sgld_li2019", "dp_sgd"]}


def figure3(runs: pd.DataFrame, audited: bool = False) -> Figure:
    return against_baseline(runs, panels=PANELS, mark=0.08, mark_label="the mark", audited=audited)


def colours(ax: Axes) -> set[str]:
    return {str(line.get_color()) for line in ax.lines}


def test_bars_are_one_standard_deviation(baseline_runs: pd.DataFrame) -> None:
    figure = figure3(baseline_runs)
    assert "standard deviation (not an interval) over 10 repeats" in figure.texts[0].get_text()
    mine = baseline_runs[baseline_runs.method.eq("pate") & baseline_runs.metric.eq("accuracy")]
    sd = mine.groupby("epsilon").value.std()
    paths = figure.axes[0].collections[1].get_paths()
    lengths = [float(np.ptp(np.asarray(path.vertices)[:, 1])) for path in paths]
    assert lengths == pytest.approx(2 * sd.to_numpy())


@pytest.mark.parametrize("audited", [False, True])
def test_panels_show_their_methods_and_the_mark(baseline_runs: pd.DataFrame, audited: bool) -> None:
    figure = figure3(baseline_runs, audited)
    left, right = figure.axes
    assert [ax.get_title() for ax in (left, right)] == ["theirs", "others"]
    pate, sgd = style.look("pate").colour, style.look("dp_sgd").colour
    assert pate in colours(left) - colours(right)
    assert sgd in colours(right) - colours(left)
    for ax in (left, right):
        (mark,) = [line for line in ax.lines if line.get_color() == MARK["color"]]
        assert np.asarray(mark.get_xdata()) == pytest.approx(np.log(0.08))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"the mark", "SGLD, not private"} <= set(labels)
    x = np.asarray(left.lines[0].get_xdata(), dtype=float)
    assert x.max() == pytest.approx(np.log(0.08 if audited else 2.0))  # the cap costs less: .05


def test_figure3_refuses_what_it_cannot_show(baseline_runs: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="one data set"):
        figure3(pd.concat([baseline_runs, baseline_runs.assign(dataset="abalone")]))
    with pytest.raises(ValueError, match=r"pate.*conf/exhibit"):
        figure3(baseline_runs[baseline_runs.method.ne("pate")])


def test_clipping_has_a_panel_per_scaling_and_budget(clipping_runs: pd.DataFrame) -> None:
    scalings = {"unit": "norm 1", "raw": "as they are"}
    methods = ["dp_sgld_li2019", "dp_sgd"]
    figure = clipping(clipping_runs, methods=methods, scalings=scalings)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == [f"{name}, ε = {e}" for name in scalings.values() for e in ("0.05", "0.1", "0.5", "2")]
    curves = [line for line in figure.axes[0].lines if line.get_linestyle() != "None"]
    assert {(line.get_color(), line.get_linestyle()) for line in curves} == {
        (style.look(method).colour, line) for method in methods for line in ("-", "--")
    }
    one = clipping_runs[clipping_runs.variant.eq("clip=1.0;adjacency=add_remove")]
    with pytest.raises(ValueError, match=r"clip and adjacency: \['clip=1'\]"):
        clipping(one.assign(variant="clip=1"), methods=["dp_sgd"], scalings=scalings)
