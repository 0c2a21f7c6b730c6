"""The kinds of figure and the page that conf draws: what is drawn where, hollow, left out, in the legend."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from drawing import captions, legend_texts
from matplotlib.axes import Axes

from dplangevin.papers.exhibits.figures import dots, lines
from dplangevin.reporting import style, words

FRAME = pd.DataFrame(
    {
        "kind": ["a", "a", "a", "b", "b"],
        "epsilon": [10.0, 1.0, math.inf, 1.0, 10.0],
        "epsilon_proven": [4.0, 0.5, math.inf, 0.25, 0.0],
        "value": [0.3, 0.2, 0.9, 0.1, 0.4],
        "low": [0.2, 0.1, 0.8, 0.05, 0.3],
        "high": [0.4, 0.3, 1.0, 0.15, 0.5],
        "violated": ["", "a condition", "", "", ""],
    }
)
MARKS: list[dict[str, Any]] = [
    {"where": {"kind": "a"}, "label": "A", "price": "attack", "line": "-", "low": "low", "high": "high"},
    {"query": "kind == 'b'", "label": "B", "method": "dp_sgd"},
]
PANEL = {"x": "epsilon", "y": "value", "xscale": "log", "xlabel": "ε", "title": "t"}


def points(ax: Axes, hollow: bool = False) -> list[tuple[float, float]]:
    """Positions of the markers of a panel."""
    marked = [line for line in ax.lines if line.get_marker() not in ("", "None")]
    chosen = [line for line in marked if (line.get_markerfacecolor() == "white") == hollow]
    return [(float(x), float(y)) for line in chosen for x, y in np.asarray(line.get_xydata())]


@pytest.mark.parametrize(("proven", "x"), [(False, [10.0, 1.0, 1.0, 10.0]), (True, [4.0, 0.5, 0.25])])
def test_lines_draw_the_rows_that_an_axis_can_show(proven: bool, x: list[float]) -> None:
    figure = lines(FRAME, marks=MARKS, panels=[PANEL], text="{value:span} of {kind}", proven=proven)
    (ax,) = figure.axes
    filled, hollow = points(ax), points(ax, hollow=True)
    assert sorted(filled + hollow) == sorted(zip(x, [0.3, 0.2, 0.1, 0.4], strict=False))
    assert hollow == [(x[1], 0.2)]
    assert legend_texts(figure) == ["A", "B", style.HOLLOW]
    assert captions(figure).startswith("0.1 to 0.9 of a")
    assert ax.get_xlabel() == ("proven ε" if proven else "ε")
    curves = [np.asarray(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "-"]
    assert all((np.diff(each) > 0).all() for each in curves)
    assert ax.lines[0].get_color() == words.PRICES["attack"].colour
    named = lines(FRAME, marks=[{**MARKS[0], "end": [1, 1]}], panels=[PANEL], text="")
    assert [text.get_text() for text in named.axes[0].texts] == ["A"]
    assert legend_texts(named) == [style.HOLLOW]


def test_dashes_panels_guides_levels_and_written_values() -> None:
    panels: list[dict[str, Any]] = [
        {**PANEL, "where": {"kind": "a"}, "marks": [{"level": True, "label": "level"}]},
        {**PANEL, "yscale": "log", "where": {"kind": "b"}, "guides": [{"power": 2, "at": [1, 0.1], "label": "square"}]},
        {**PANEL, "where": {"kind": "b"}, "guides": [{"x": 3}],
         "marks": [{"write": [1, 1], "hollow": True, "marker": "o"}]},
    ]  # fmt: skip
    dashes = [{"line": "--", "label": "once"}, {"y": "twice", "line": ":", "label": "twice"}]
    figure = lines(
        FRAME, marks=MARKS[1:], panels=panels, dashes=dashes, text="", assign={"twice": "2 * value"}
    )
    first, second, third = figure.axes[:3]
    assert {float(np.ravel(line.get_ydata())[0]) for line in first.lines} == {
        0.3, 0.2, 0.9, 0.6, 0.4, 1.8
    }  # fmt: skip
    assert {(1.0, 0.2), (10.0, 0.8)} <= set(points(second))
    guide = second.lines[-1]
    x, y = (np.asarray(of, float) for of in guide.get_data())
    assert y == pytest.approx(0.1 * x**2)
    assert [text.get_text() for text in third.texts] == ["0.1", "0.4", "0.2", "0.8"]
    assert points(third) == []
    assert any(np.asarray(line.get_xdata()).tolist() == [3, 3] for line in third.lines)
    assert {"level", "B", "square", "once", "twice"} <= set(legend_texts(figure))


def test_a_mark_without_rows_is_an_error() -> None:
    for kind, given in ((lines, {}), (dots, {"label": ""})):
        marks = [
            *MARKS,
            {"where": {"kind": "c"}, "label": "C"},
            {"query": "value > 9", "label": "D", "optional": True},
        ]
        with pytest.raises(ValueError, match=r"no row for the marks \['C'\].*conf/exhibit"):
            kind(
                FRAME,
                text="",
                panels=[{**PANEL, "x": "value", "marks": marks}],
                **({"marks": ()} if kind is lines else given),
            )


def test_dots_stand_in_the_rows_of_their_groups() -> None:
    panel = {"x": "value", "marks": MARKS, "guides": [{"x": 0.2, "label": "limit"}]}
    names: Any = {"kind": {"b": "second"}}
    low = dots(FRAME, label="", panels=[{**panel, "marks": [{"marker": "o", "shift": 0.2}]}], text="")
    assert {y for _, y in points(low.axes[0])} == {0.2, 2.2, 3.2, 4.2}
    figure = dots(
        FRAME,
        label="{kind}",
        by=["kind"],
        panels=[{**panel, "marks": [{"marker": "o"}]}],
        text="",
        names=names,
    )
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "second"]
    assert sorted(points(ax)) == [(0.1, 1.0), (0.3, 0.0), (0.4, 1.0), (0.9, 0.0)]
    assert points(ax, hollow=True) == [(0.2, 0.0)]
    each = dots(FRAME, label="{value:.1f}", sort={"value": []}, panels=[panel], text="")
    assert [text.get_text() for text in each.axes[0].get_yticklabels()] == ["0.1", "0.2", "0.3", "0.4", "0.9"]
    assert {"A", "B", "limit"} <= set(legend_texts(each))
