from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from dplangevin.exhibits.temperature import temperatures

CONF = Path(__file__).parents[2] / "conf"
LABELS = {"sgld": "SGLD", "sghmc": "SGHMC, {last:g}", "sgnht_fixed": "SGNHT, {setting}"}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """A short run of the analysis as it stands in conf."""
    spec = OmegaConf.load(CONF / "analysis/temperature.yaml")
    short = instantiate(spec, _convert_="all", chains=20, settle=1, keep=1)
    return pd.DataFrame([row for unit in short.units() for row in short.rows(unit, 1)])


def test_every_sampler_is_a_row_at_its_temperature(frame: pd.DataFrame) -> None:
    figure = temperatures(frame, labels=LABELS, densities={"sgld": "eq. 4.1"})
    _, ax = figure.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["SGLD", "SGHMC, 0.0001", "SGNHT, a = 0.1"]
    points = {tuple(point) for line in ax.lines for point in np.column_stack(line.get_data()).tolist()}
    for y, sampler in enumerate(LABELS):
        rows = frame[frame.sampler.eq(sampler) & frame.problem.eq("1-d") & frame.kind.eq("simulated")]
        assert {(value, float(y)) for value in rows.value} <= points
    assert {0.25, 0.5, 1.0} <= {x for x, _ in points}  # the levels of the three targets


def test_the_density_is_that_of_the_smallest_step(frame: pd.DataFrame) -> None:
    figure = temperatures(frame, labels=LABELS, densities={"sgld": "eq. 4.1"})
    curve = np.asarray(figure.axes[0].lines[-1].get_ydata())
    rows = frame[frame.sampler.eq("sgld") & frame.problem.eq("1-d") & frame.kind.eq("simulated")]
    variance = rows.sort_values("step").value.iloc[0]
    assert curve.max() == pytest.approx(1 / np.sqrt(2 * np.pi * variance))
    assert any("exp(−2U)\neq. 4.1" in text.get_text() for text in figure.axes[0].texts)


def test_the_exhibit_in_conf_names_samplers_of_the_analysis(frame: pd.DataFrame) -> None:
    exhibit = OmegaConf.load(CONF / "exhibit/temperature.yaml")
    draw = instantiate(exhibit.draw, _partial_=True, _convert_="all")
    assert set(exhibit.draw.labels) == set(frame.sampler)
    draw(frame, title=exhibit.title)


def test_absent_samplers_are_named(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"no temperature rows for \['sgd'\]"):
        temperatures(frame, labels={"sgd": "SGD"}, densities={})
