import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from dplangevin.exhibits.variants import by_setting, panel_by_setting


def test_one_curve_for_each_value_of_the_setting(sensitivity_runs: pd.DataFrame) -> None:
    runs = sensitivity_runs[sensitivity_runs.method.eq("dp_sgld")]
    panels = {"adult": "Adult"}

    def draw(values: list[str]) -> Figure:
        return by_setting(
            runs, method="dp_sgld", setting="schedule", values=values, scaling="unit", panels=panels
        )

    figure = draw(["phase", "constant"])
    (ax,) = [ax for ax in figure.axes if ax.get_title() == "Adult"]
    curves = [line for line in ax.lines if line.get_linestyle() in ("-", "--")]
    here = runs[runs.dataset.eq("adult") & runs.scaling.eq("unit") & runs.metric.eq("accuracy")]
    for curve, value in zip(curves, ("phase", "constant"), strict=True):
        means = here[here.variant.eq(f"schedule={value}")].groupby("epsilon").value.mean()
        assert np.allclose(np.asarray(curve.get_ydata()), means.sort_index())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "DP-SGLD, α-phase",
        "DP-SGLD, constant step",
    ]
    with pytest.raises(ValueError, match="no accuracy rows for"):
        draw(["linear"])


def test_one_panel_for_each_value_of_the_setting(step_runs: pd.DataFrame) -> None:
    figure = panel_by_setting(
        step_runs,
        setting="step",
        methods=["dp_sgld_li2019", "dp_sgd"],
        panels={"0.5": "large", "0.002": "small"},
    )
    assert [ax.get_title() for ax in figure.axes[:2]] == ["large", "small"]
    wanted = step_runs[step_runs.variant.eq("step=0.002") & step_runs.method.eq("dp_sgd")]
    means = wanted.groupby("epsilon").value.mean().tolist()
    drawn = [line.get_ydata() for line in figure.axes[1].get_lines()]
    assert any(np.shape(y) == (3,) and np.allclose(y, means) for y in drawn)
