import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dplangevin.analyses.li2019_fig1 import Budgets
from dplangevin.analyses.li2019_fig2 import Sizes
from dplangevin.analyses.stepsize import Curve, Setting
from dplangevin.exhibits.stepsize import LOOKS, SCHEDULES, STYLES, budgets, sizes
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.stepsize import Schedule

FEW, MANY = (Curve(Li2019(orders, "printed"), "add_remove") for orders in (32, 256))
CURVES = {"moments_32": FEW, "moments_256": MANY, "tight": MANY, "tight_replace_one": MANY}


def rows_of(analysis: Budgets | Sizes) -> pd.DataFrame:
    """All rows of an analysis."""
    return pd.DataFrame([line for unit in analysis.units() for line in analysis.rows(unit, 0)])


@pytest.fixture(scope="module")
def budget_rows() -> pd.DataFrame:
    published = {"decreasing": 0.103, "wang2015": 1.54e-6}
    both: dict[str, list[Schedule]] = {name: ["decreasing", "fixed"] for name in CURVES}
    panels = {"budget": both, "records": both, "batch": both}
    setting = Setting(5000, 50, 1000, 1.0, 1e-5)
    return rows_of(
        Budgets(CURVES, panels, setting, [0.1, 0.4, 1.0], 0.1, published, [1000, 2000], [0.1, 1.0], [32, 64])
    )


@pytest.fixture(scope="module")
def size_rows() -> pd.DataFrame:
    curves = {name: CURVES[name] for name in STYLES}
    return rows_of(Sizes(curves, [0.1, 0.5, 1.0], [1000, 2000], 1000, [0.1, 1.0], 50))


def drawn(ax: Axes, colour: str, line: str) -> np.ndarray:
    """(2, K) the points of the one curve of this look."""
    (curve,) = [
        c
        for c in ax.lines
        if c.get_color() == colour and c.get_linestyle() == line and np.size(c.get_xdata()) > 0
    ]
    return np.array(curve.get_data())


def legend_is_clear_of_the_panels(figure: Figure) -> bool:
    """Whether no legend overlaps the data area of any panel."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    legends = [*figure.legends, *(legend for ax in figure.axes if (legend := ax.get_legend()))]
    boxes = [legend.get_window_extent(canvas.get_renderer()) for legend in legends]
    return bool(boxes) and not any(
        box.overlaps(ax.get_window_extent()) for box in boxes for ax in figure.axes
    )


def test_curves_are_the_rows(budget_rows: pd.DataFrame) -> None:
    ax = budgets(budget_rows).axes[0]
    for schedule, line in SCHEDULES.items():
        rows = budget_rows[
            budget_rows.panel.eq("budget") & budget_rows.curve.eq("tight") & budget_rows.schedule.eq(schedule)
        ]
        assert np.array_equal(drawn(ax, LOOKS["tight"].colour, line), rows[["epsilon", "step_size"]].T)


def test_curves_end_where_the_accountant_does(budget_rows: pd.DataFrame) -> None:
    ax = budgets(budget_rows).axes[0]
    assert drawn(ax, LOOKS["moments_32"].colour, "-")[0].min() > math.log(1e5) / 32
    (shade,) = ax.patches
    assert shade.get_extents().transformed(ax.transData.inverted()).x1 == pytest.approx(math.log(1e5) / 32)


def test_both_printed_numbers_are_marked(budget_rows: pd.DataFrame) -> None:
    ax = budgets(budget_rows).axes[0]
    (stars,) = [line for line in ax.lines if line.get_marker() == "*"]
    assert np.array(stars.get_data()).T.tolist() == [[0.1, 0.103], [0.1, 1.54e-6]]
    assert {text.get_text() for text in ax.texts} == {"0.103", "1.54e-6"}


def test_labels_and_legends(budget_rows: pd.DataFrame, size_rows: pd.DataFrame) -> None:
    first, second = budgets(budget_rows, title="one"), sizes(size_rows, title="two")
    assert [figure.get_suptitle() for figure in (first, second)] == ["one", "two"]
    assert all(ax.get_xlabel() for ax in first.axes)
    assert all(ax.get_xlabel() for ax in second.axes[2:])
    assert all("step size" in ax.get_ylabel() for ax in (first.axes[0], second.axes[0], second.axes[2]))
    assert all(ax.get_xscale() == ax.get_yscale() == "log" for ax in [*first.axes, *second.axes])
    assert legend_is_clear_of_the_panels(first)
    assert legend_is_clear_of_the_panels(second)


def test_one_curve_for_each_size(size_rows: pd.DataFrame) -> None:
    figure = sizes(size_rows)
    for ax, column in zip(figure.axes[::2], ("records", "lipschitz"), strict=True):
        solid = [line for line in ax.lines if line.get_linestyle() == "-"]
        assert len(solid) == 2
        rows = size_rows[
            size_rows.panel.eq(column) & size_rows.curve.eq("tight") & size_rows.schedule.eq("decreasing")
        ]
        for line, (_, here) in zip(solid, rows.groupby(column), strict=True):
            assert np.array_equal(np.asarray(line.get_ydata()), here.step_size[here.reachable.eq(1)])
