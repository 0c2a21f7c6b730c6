"""Figures of accuracy against epsilon and settings: what is drawn hollow, left out and said so, the axes, panels."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from drawing import captions, legend_texts
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import accuracy
from dplangevin.reporting import words

FIGURE1 = ["ops", "objpert", "outpert", "hybrid"]
PLAIN = ["dp_sgld", "dp_sgnht", "outpert"]
PANELS = {"synthetic": "Two normals", "abalone": "Abalone", "adult": "Adult"}


def adult(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[runs.dataset.eq("adult")]


def test_proven_axis_uses_the_proven_epsilon_and_names_what_is_missing(runs: pd.DataFrame) -> None:
    figure = accuracy.over_epsilon(runs, panels=PANELS, methods=PLAIN, proven=True)
    ax = figure.axes[2]
    label = "proven ε (replace-one, δ = 1e-5)"
    assert ax.get_xlabel() == label
    orange = [line for line in ax.lines if line.get_color() == words.look("dp_sgld").colour]
    furthest = max(np.max(x) for x in (np.asarray(line.get_xdata()) for line in orange) if x.size)
    assert furthest == pytest.approx(np.log(20.0 * 0.05))
    assert "not drawn: DP-SGLD (wang2015) 3." in captions(figure)
    infinite = runs.assign(epsilon_proven=runs.epsilon_proven.where(runs.method.ne("dp_sgnht"), np.inf))
    again = accuracy.over_epsilon(infinite, panels=PANELS, methods=PLAIN, proven=True)
    assert "DP-SGNHT 33" in captions(again)


def test_errors_name_the_fix(runs: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"objpert_pure.*conf/exhibit"):
        accuracy.over_epsilon(runs, panels=PANELS, methods=["objpert_pure"])
    two = pd.concat([adult(runs), adult(runs).assign(variant="radius=3.0")])
    with pytest.raises(ValueError, match="several variants"):
        accuracy.over_epsilon(two, panels={"adult": ""}, methods=FIGURE1)


def cells(ax: Axes) -> np.ndarray:
    """Differences in points, by row and column of a heat map; nan in a grey cell."""
    (image,) = ax.images
    return np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)


def sensitivity(runs: pd.DataFrame) -> Figure:
    datasets = {"abalone": "Abalone", "adult": "Adult"}
    shown = {dataset: name for dataset, name in datasets.items() if runs.dataset.eq(dataset).any()}
    return accuracy.sensitivity(
        runs, bounds=["paper", "range"], adjacency="replace_one", datasets=shown, text=""
    )


@pytest.mark.slow
def test_heat_maps_are_ops_minus_objpert(sensitivity_runs: pd.DataFrame) -> None:
    runs = adult(sensitivity_runs)
    top, _, bottom, _ = sensitivity(runs).axes[:4]
    assert [label.get_text() for label in top.get_xticklabels()] == ["D = 1", "D = 3", "D = 30"]
    assert [label.get_text() for label in bottom.get_xticklabels()] == [
        "λ = 1",
        "λ = 100",
        "best,\nadd/remove",
    ]
    assert "unit rows, paper bound" in top.get_yticklabels()[0].get_text()
    here = runs[runs.epsilon.eq(1.0) & runs.metric.eq("accuracy")]
    mean = 100 * here.groupby("variant").value.mean()
    ops = mean[[f"bound=paper;radius={radius}" for radius in (1.0, 3.0, 30.0)]]
    ridges = mean[[f"adjacency=replace_one;ridge={ridge}" for ridge in (1.0, 100.0)]]
    assert cells(top)[0] == pytest.approx(ops.to_numpy() - ridges.max())
    assert cells(bottom)[0][:2] == pytest.approx(ops.max() - ridges.to_numpy())
    same = runs.assign(value=0.5 + 0.01 * (runs.seed % 2))
    for drawn, weight in ((runs, "bold"), (same, "normal")):
        assert {str(text.get_fontweight()) for text in sensitivity(drawn).axes[0].texts} == {weight}


def test_settings_without_a_guarantee_are_grey(sensitivity_runs: pd.DataFrame) -> None:
    runs = adult(sensitivity_runs)
    for method in ("ops", "objpert"):
        figure = sensitivity(runs.assign(violated=np.where(runs.method.eq(method), "no", "")))
        assert all(np.isnan(cells(ax)).all() for ax in figure.axes[:4])
    with pytest.raises(ValueError, match="no sensitivity rows of objpert"):
        sensitivity(runs[runs.method.eq("ops")])


def test_one_curve_for_each_value_of_a_setting(sensitivity_runs: pd.DataFrame) -> None:
    runs = sensitivity_runs[sensitivity_runs.method.eq("dp_sgld")]
    given: dict[str, Any] = {"curve_setting": "schedule", "scaling": "unit", "panels": {"adult": "Adult"}}
    figure = accuracy.over_epsilon(runs, methods=["dp_sgld:phase", "dp_sgld:constant"], **given)
    (ax,) = figure.axes
    curves = [line for line in ax.lines if line.get_linestyle() in ("-", "--")]
    here = runs[runs.dataset.eq("adult") & runs.scaling.eq("unit") & runs.metric.eq("accuracy")]
    for curve, value in zip(curves, ("phase", "constant"), strict=True):
        means = here[here.variant.eq(f"schedule={value}")].groupby("epsilon").value.mean()
        assert np.allclose(np.asarray(curve.get_ydata()), means.sort_index())
    assert legend_texts(figure) == ["DP-SGLD (wang2015), α-phase", "DP-SGLD (wang2015), constant step"]
    with pytest.raises(ValueError, match="no rows for"):
        accuracy.over_epsilon(runs, methods=["dp_sgld:linear"], **given)
