"""Figures and pages about samplers: errors, trajectories, temperatures, distances to the exact posterior."""

import numpy as np
import pandas as pd
import pytest
from drawing import CONF
from hydra.utils import instantiate
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from dplangevin.papers.exhibits import samplers


def run(name: str, **short: object) -> pd.DataFrame:
    """A short run of an analysis as it stands in conf."""
    analysis = instantiate(OmegaConf.load(CONF / f"analysis/{name}.yaml"), _convert_="all", **short)
    return pd.DataFrame([row for unit in analysis.units() for row in analysis.rows(unit, 1)])


def points(figure: Figure, panel: int) -> set[tuple[float, float]]:
    """Every vertex of the lines of one panel."""
    lines = [np.column_stack(line.get_data()) for line in figure.axes[panel].lines]
    return {tuple(point) for line in lines for point in line.tolist()}


def test_an_ellipse_is_where_the_normal_law_is_that_far() -> None:
    mean, covariance = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 0.5]])
    ax = Figure().subplots()
    samplers.ellipse(ax, mean, covariance, 2.0)
    away = np.column_stack(ax.lines[0].get_data()) - mean
    assert np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away) == pytest.approx(4.0)


LABELS = {"sgld": "SGLD", "sghmc": "SGHMC, {last:g}", "sgnht_fixed": "SGNHT, {setting}"}


@pytest.fixture(scope="module")
def temperature_rows() -> pd.DataFrame:
    """A short run of the analysis as it stands in conf."""
    return run("temperature", chains=20, settle=1, keep=1)


def measured(rows: pd.DataFrame, sampler: str) -> pd.Series:
    """Temperatures of a sampler on N(0, 1), that of the smallest step first."""
    kept = rows[rows.sampler.eq(sampler) & rows.problem.eq("1-d") & rows.kind.eq("simulated")]
    return kept.sort_values("step").value


@pytest.mark.slow
def test_every_sampler_has_a_row_and_a_density(temperature_rows: pd.DataFrame) -> None:
    figure = samplers.temperatures(temperature_rows, labels=LABELS, densities={"sgld": "eq. 4.1"})
    left, right = figure.axes
    assert [text.get_text() for text in right.get_yticklabels()] == [
        "SGLD",
        "SGHMC, 0.0001",
        "SGNHT, a = 0.1",
    ]
    drawn = points(figure, 1)
    for y, sampler in enumerate(LABELS):
        assert {(value, float(y)) for value in measured(temperature_rows, sampler)} <= drawn
    assert {0.25, 0.5, 1.0} <= {x for x, _ in drawn}  # the levels of the three targets
    variance = measured(temperature_rows, "sgld").iloc[0]  # at the smallest step
    assert np.max(left.lines[-1].get_ydata()) == pytest.approx(1 / np.sqrt(2 * np.pi * variance))
    assert any("exp(−2U)\neq. 4.1" in text.get_text() for text in left.texts)


METHODS = ["dp_sgld", "dp_sgfs"]


@pytest.mark.slow
def test_scores_leave_diverged_chains_out_and_count_them(family_runs: pd.DataFrame) -> None:
    table = samplers.posterior_summary(family_runs)
    at = table.method.eq("dp_sgfs") & table.variant.eq("temperature=proper") & table.epsilon.eq(0.1)
    row = table[at & table.metric.eq("brier")].iloc[0]
    assert (row.repeats, row.diverged, row.temperature) == (8, 2, "proper")
    kept = family_runs[family_runs.method.eq("dp_sgfs") & family_runs.epsilon.eq(0.1)]
    kept = kept[kept.variant.eq("temperature=proper") & kept.metric.eq("brier")]
    assert row["mean"] == pytest.approx(np.nanmean(kept.value))
    assert table[table.method.eq("dp_sghmc")].temperature.eq("printed").all()
    with pytest.raises(ValueError, match="conf/exhibit"):
        samplers.posterior_summary(family_runs.assign(metric="seconds"))
