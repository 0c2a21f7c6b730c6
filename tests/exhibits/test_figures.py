"""Figures: what is drawn hollow, what is left out and said so, the axes, and that drawing has no side
effects."""

import builtins
import os
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from omegaconf import OmegaConf

from dplangevin.exhibits import figures, files, style
from dplangevin.exhibits.sensitivity import sensitivity

CONF = Path(__file__).parents[2] / "conf" / "exhibit"
FIGURE1 = ["ops", "objpert", "outpert", "hybrid"]
PLAIN = ["dp_sgld", "dp_sgnht", "outpert"]
PANELS = {"synthetic": "Two normals", "abalone": "Abalone", "adult": "Adult"}


def adult(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[runs.dataset.eq("adult")]


def hollow_x(figure: Figure) -> list[float]:
    marked = [line for ax in figure.axes for line in ax.lines if line.get_linestyle() == "None"]
    return [
        x for line in marked if line.get_markerfacecolor() == "white" for x in np.atleast_1d(line.get_xdata())
    ]


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def captions(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.texts)


@pytest.fixture(scope="module")
def everything(
    runs: pd.DataFrame,
    sensitivity_runs: pd.DataFrame,
    baseline_runs: pd.DataFrame,
    clipping_runs: pd.DataFrame,
    step_runs: pd.DataFrame,
    family_runs: pd.DataFrame,
    compare_runs: pd.DataFrame,
) -> pd.DataFrame:
    others = [clipping_runs, step_runs, family_runs, compare_runs]
    return pd.concat([runs, sensitivity_runs, baseline_runs, *others])


def test_every_exhibit_of_runs_in_the_configuration_draws(everything: pd.DataFrame) -> None:
    names = everything.experiment + "/" + everything.dataset + "/" + everything.method
    for path in sorted(CONF.glob("*.yaml")):
        exhibit = OmegaConf.load(path)
        if "files" not in exhibit:
            continue
        wanted = files.run_names(exhibit)  # type: ignore[arg-type]
        assert set(wanted) <= set(names)
        draw = instantiate(exhibit.draw, _partial_=True, _convert_="all", title=exhibit.title)
        frame = everything[names.isin(wanted)]
        for audited in (False, True) if exhibit.audited else (False,):
            figure = draw(frame, audited=True) if audited else draw(frame)
            assert figure._suptitle.get_text() == exhibit.title
            files.image_bytes(figure, "png")  # no warning from the layout
            if exhibit.draw._target_.endswith(("accuracy_vs_epsilon", "plain", "family", "against_baseline")):
                assert f"δ = {style.number(frame.delta.iloc[0])}" in captions(figure)
                assert "replace-one" in captions(figure)
        if "table" in exhibit:
            page = instantiate(exhibit.table, _partial_=True, _convert_="all", title=exhibit.title)(frame)
            assert page.startswith(f"# {exhibit.title}\n")
            assert "nan" not in page


def test_violating_points_are_hollow_and_the_legend_says_so(runs: pd.DataFrame) -> None:
    figure = figures.plain(runs, panels=PANELS, methods=PLAIN)
    expected = np.log([5.0, 10.0, 20.0] * 6)
    assert sorted(hollow_x(figure)) == pytest.approx(sorted(expected))
    assert style.HOLLOW_LABEL in legend_texts(figure)
    clean = figures.accuracy_vs_epsilon(adult(runs), methods=FIGURE1)
    assert hollow_x(clean) == []
    assert style.HOLLOW_LABEL not in legend_texts(clean)


def test_axis_is_natural_log_with_epsilon_on_top(runs: pd.DataFrame) -> None:
    figure = figures.accuracy_vs_epsilon(adult(runs), methods=FIGURE1)
    ax = figure.axes[0]
    assert ax.get_xlabel() == "privacy loss: ln ε"
    assert ax.get_ylabel() == "test accuracy"
    (top,) = ax.child_axes
    labels = {
        text.get_text(): tick for tick, text in zip(top.get_xticks(), top.get_xticklabels(), strict=True)
    }
    assert labels["0.1"] == pytest.approx(np.log(0.1))
    assert {"Non-private", "Majority class"} <= set(legend_texts(figure))


def test_audited_axis_uses_the_tight_epsilon_and_names_what_is_missing(runs: pd.DataFrame) -> None:
    figure = figures.plain(runs, panels=PANELS, methods=PLAIN, audited=True)
    ax = figure.axes[2]
    label = "audited privacy loss: ln ε\n(tight accountant, replace-one, δ = 1e-5)"
    assert ax.get_xlabel() == label
    orange = [line for line in ax.lines if line.get_color() == style.look("dp_sgld").colour]
    furthest = max(np.max(x) for x in (np.asarray(line.get_xdata()) for line in orange) if x.size)
    assert furthest == pytest.approx(np.log(20.0 * 0.05))
    assert "not drawn: DP-SGLD 3." in captions(figure)
    infinite = runs.assign(epsilon_tight=runs.epsilon_tight.where(runs.method.ne("dp_sgnht"), np.inf))
    assert "DP-SGNHT 33" in captions(figures.plain(infinite, panels=PANELS, methods=PLAIN, audited=True))


def test_one_repeat_draws_without_intervals(runs: pd.DataFrame) -> None:
    figures.accuracy_vs_epsilon(adult(runs[runs.repeat.eq(0)]), methods=FIGURE1)


def test_errors_name_the_fix(runs: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="use `plain`"):
        figures.accuracy_vs_epsilon(runs, methods=FIGURE1)
    with pytest.raises(ValueError, match=r"objpert_pure.*conf/exhibit"):
        figures.accuracy_vs_epsilon(adult(runs), methods=["objpert_pure"])
    with pytest.raises(KeyError, match=r"style\.py"):
        style.look("new_method")
    two = pd.concat([adult(runs), adult(runs).assign(variant="radius=3.0")])
    with pytest.raises(ValueError, match="several variants"):
        figures.accuracy_vs_epsilon(two, methods=FIGURE1)


def test_looks_differ_in_colour_and_marker() -> None:
    """Within every panel of the configuration; over all methods, in one of the two."""
    private = [
        look for name, look in style.LOOKS.items() if name not in figures.REFERENCES and ":" not in name
    ]
    assert len({(look.colour, look.marker) for look in private}) == len(private)
    drawn = [OmegaConf.load(path).draw for path in CONF.glob("*.yaml")]
    panels = [draw.methods for draw in drawn if "methods" in draw]
    panels += OmegaConf.load(CONF / "li2019_fig3.yaml").draw.panels.values()
    for panel in panels:
        looks = [style.look(method) for method in panel]
        assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == len(panel)


def _triangles(figure: Figure) -> list[Line2D]:
    return [line for ax in figure.axes for line in ax.lines if line.get_marker() == "^"]


def test_sensitivity_grid_and_marks(sensitivity_runs: pd.DataFrame) -> None:
    settings = {
        "bounds": ["paper", "range"],
        "adjacency": "replace_one",
        "datasets": {"abalone": "Abalone", "adult": "Adult"},
    }
    figure = sensitivity(sensitivity_runs, **settings)  # type: ignore[arg-type]
    assert len(figure.axes) == 12
    assert figure.axes[0].get_title() == "Abalone, rows scaled “unit”, ε = 0.1"
    marks = _triangles(figure)
    assert {line.get_markerfacecolor() for line in marks} == {"black", "white"}
    losing = sensitivity_runs.assign(
        value=sensitivity_runs.value.where(sensitivity_runs.method.ne("ops"), sensitivity_runs.value - 0.5)
    )
    assert _triangles(sensitivity(losing, **settings)) == []  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no sensitivity rows of objpert"):
        sensitivity(sensitivity_runs[sensitivity_runs.method.eq("ops")], **settings)  # type: ignore[arg-type]


def test_drawing_reads_and_writes_nothing_and_leaves_settings_alone(
    runs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures.accuracy_vs_epsilon(adult(runs), methods=FIGURE1)  # fonts are loaded once
    before, copy = dict(matplotlib.rcParams), runs.copy()

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"a figure function touched a file: {args}")

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", refuse)
        patch.setattr(os, "open", refuse)
        figures.plain(runs, panels=PANELS, methods=PLAIN)
    assert dict(matplotlib.rcParams) == before
    pd.testing.assert_frame_equal(runs, copy)


def test_one_budget_and_one_setting_still_draw(runs: pd.DataFrame, sensitivity_runs: pd.DataFrame) -> None:
    figures.plain(runs[runs.epsilon.isin([1.0, np.inf])], panels=PANELS, methods=PLAIN, audited=True)
    kept = ["bound=paper;radius=3.0", "adjacency=replace_one;ridge=1.0"]
    few = sensitivity_runs[sensitivity_runs.variant.isin(kept) & sensitivity_runs.epsilon.eq(1.0)]
    drawn = sensitivity(few, bounds=["paper", "range"], adjacency="replace_one", datasets={"adult": "Adult"})
    files.image_bytes(drawn, "png")
