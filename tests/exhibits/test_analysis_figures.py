"""The figures of li2019's Propositions 5 and 6 and of wang2015's Propositions 2 and 4 and Figure 2, from short runs."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate
from matplotlib.figure import Figure
from omegaconf import DictConfig, OmegaConf

from dplangevin.exhibits import efficiency, trajectories

CONF = Path(__file__).parents[2] / "conf"


def run(name: str, **short: object) -> pd.DataFrame:
    """A short run of an analysis as it stands in conf."""
    analysis = instantiate(OmegaConf.load(CONF / f"analysis/{name}.yaml"), _convert_="all", **short)
    return pd.DataFrame([row for unit in analysis.units() for row in analysis.rows(unit, 1)])


def drawn(name: str, frame: pd.DataFrame) -> Figure:
    """The exhibit as it stands in conf."""
    exhibit = OmegaConf.load(CONF / f"exhibit/{name}.yaml")
    assert isinstance(exhibit, DictConfig)
    return instantiate(exhibit.draw, _partial_=True, _convert_="all", title=exhibit.title)(frame)


def points(figure: Figure, panel: int) -> set[tuple[float, float]]:
    """Every vertex of the lines of one panel."""
    lines = [np.column_stack(line.get_data()) for line in figure.axes[panel].lines]
    return {tuple(point) for line in lines for point in line.tolist()}


def test_errors() -> None:
    short = {"steps": [40, 80], "budgets": [1.0, 2.0], "budget_steps": 50, "optimum_steps": [50, 100]}
    frame = run("li2019_mse", chains=30, grid=21, **short)
    figure = drawn("li2019_mse", frame.replace({"steps": {40: 2000, 80: 4000}}))  # past the first fitted T
    assert len(figure.axes) == 6
    steps = frame[frame.panel.eq("steps")].replace({"steps": {40: 2000, 80: 4000}})
    for panel, heat, function in (
        (0, "proper", "theta"),
        (1, "proper", "theta squared"),
        (3, "printed", "theta"),
        (4, "printed", "theta squared"),
    ):
        rows = steps[steps.temperature.eq(heat) & steps.function.eq(function)]
        assert set(zip(rows.steps, rows.value, strict=True)) <= points(figure, panel)
    assert "fitted exponents" in figure.axes[0].texts[0].get_text()
    assert figure.axes[0].texts[0].get_text().count("±") == 2


def test_efficiency() -> None:
    frame = pd.DataFrame(
        [
            {"kind": kind, "records": n, "epsilon": e, "rho": e / 10, "tempered": n * e / 10, "repeats": 5}
            | {"value": value, "low": value - 0.1, "high": value + 0.1}
            for e in (0.1, 1.0)
            for n, value in ((100, 0.5), (1000, 1.2), (10000, 1.01))
            for kind in ("exact", "sample", "hmc", "mean", "spread")
        ]
    )
    figure = drawn("wang2015_are", frame)
    rows = frame[frame.kind.eq("sample")]
    assert set(zip(rows.records, rows.value, strict=True)) <= points(figure, 0)
    assert "0.1: 100, 1: 1000" in figure.texts[0].get_text()
    assert math.isnan(efficiency.reached(frame[frame.epsilon.eq(0.1)], 1e-3))


def test_trajectories() -> None:
    frame = run("wang2015_fig2", records=400, threshold=2.0, chains=4, samples=50, shown=20)
    figure = drawn("wang2015_fig2", frame)
    titles = [ax.get_title() for ax in figure.axes[:4]]
    assert titles == ["SGLD", "DP-SGLD, ε = 10", "SGNHT", "DP-SGNHT, ε = 10"]
    path = frame[frame.variant.eq("sgnht") & np.isfinite(frame.epsilon) & frame.kind.eq("path")]
    assert set(zip(path.theta_1, path.theta_2, strict=True)) <= points(figure, 3)


def test_an_ellipse_is_where_the_normal_law_is_that_far() -> None:
    mean, covariance = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 0.5]])
    ax = Figure().subplots()
    trajectories.ellipse(ax, mean, covariance, 2.0)
    away = np.column_stack(ax.lines[0].get_data()) - mean
    assert np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away) == pytest.approx(4.0)
