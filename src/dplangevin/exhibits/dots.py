"""A chart of rows: the accuracy of each with its interval and, beside it, its epsilons on a log axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as put_frame

ENDS = (1e-2, 1e4)  # of the axis of epsilon
CLAIM = style.Look("the paper's ε", "#CC79A7", "", "--")
EPSILONS = {
    "epsilon_formula_epochs": style.Look("their formula, K = epochs", "#E69F00", "s", "", 5.0),
    "epsilon_formula_steps": style.Look("their formula, K = steps", "#D55E00", "D", "", 5.0),
    "epsilon_tight": style.Look("all iterates, replace-one (upper bound)", "#0072B2", "o", "", 7.0),
    "epsilon_tight_add_remove": style.Look("all iterates, add/remove (upper bound)", "#56B4E9", "<", "", 5.5),
    "epsilon_last": style.Look("last iterate (upper bound)", "#009E73", "x", "", 5.5),
    "epsilon_audit": style.Look("attack on this row (lower bound)", "#000000", "^", "", 5.5),
}
MARKS = {
    "paper_resnet18": style.Look("the paper, ResNet-18", "#555555", "*", "", 10.0),
    "paper_alexnet": style.Look("the paper, AlexNet", "#555555", "P", "", 6.5),
}


HOLLOW = "hollow: a condition is not met"  # of the paper's theorem or of the price


class Panel(NamedTuple):
    """One panel. table: one row each with label, group (rows of one group stand under its name), method, accuracy, low,
    high (shares), violated, and the columns of EPSILONS and MARKS that there are."""

    title: str
    table: pd.DataFrame
    delta: float


def chart(panels: Sequence[Panel], *, title: str, text: str) -> Figure:
    """Panels below each other, accuracy on the left and epsilon on the right of each; text: the caption."""
    sizes = [len(panel.table) + panel.table.group.nunique() for panel in panels]
    drawn = [column for column in EPSILONS if any(_finite(panel.table, column).size for panel in panels)]
    marks = [column for column in MARKS if any(_finite(panel.table, column).size for panel in panels)]
    with matplotlib.rc_context(style.RC):
        height = 0.27 * sum(sizes) + 0.85 * len(panels) + 1.5
        figure = Figure(figsize=(10.2, height), layout="constrained")
        axes = figure.subplots(
            len(panels), 2, squeeze=False, sharey="row", height_ratios=sizes, width_ratios=[1, 1.15]
        )
        for (left, right), panel in zip(axes, panels, strict=True):
            table, groups = _placed(panel.table)
            _names(left, table, groups)
            _accuracies(left, table, marks)
            _prices(right, table, drawn)
            left.set_title(panel.title, loc="left")
            right.set_xlim(_limits(panels, drawn))
            right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.number(value)))
            right.xaxis.set_minor_formatter(NullFormatter())
            left.set_xlabel("test accuracy (%)")
            right.set_xlabel(f"ε at δ = {style.number(panel.delta)}")
        handles = [_handle(MARKS[column], hollow=True) for column in marks]
        handles += [_handle(EPSILONS[column]) for column in drawn]
        if any(_finite(panel.table, "epsilon_paper").size for panel in panels):
            handles.append(Line2D([], [], color=CLAIM.colour, ls=CLAIM.line, label=CLAIM.label))
        if any(panel.table.violated.ne("").any() for panel in panels):
            handles.append(Line2D([], [], marker="o", mfc="white", color="#555555", ls="", label=HOLLOW))
        put_frame(figure, title, text, handles)
    return figure


def _limits(panels: Sequence[Panel], drawn: Sequence[str]) -> tuple[float, float]:
    """The ends of the axis of epsilon, the same in all panels: at least from .1 to 10, at most ENDS."""
    values = np.concatenate(
        [[0.1, 10.0], *(_finite(panel.table, column) for panel in panels for column in drawn)]
    )
    values = values.clip(*ENDS)
    return float(values.min()) / 1.6, float(values.max()) * 1.6


def _finite(table: pd.DataFrame, column: str) -> np.ndarray:
    values = table[column].to_numpy(float) if column in table else np.empty(0)
    return values[np.isfinite(values)]


def _placed(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[int, str]]:
    """The rows in the order of their groups with their place `y`, and the place of each group's name."""
    parts, names, y = [], {}, 0
    for group, rows in table.groupby("group", sort=False):
        names[y] = str(group)
        parts.append(rows.assign(y=range(y + 1, y + 1 + len(rows))))
        y += 1 + len(rows)
    return pd.concat(parts), names


def _names(ax: Axes, table: pd.DataFrame, groups: Mapping[int, str]) -> None:
    for y, group in groups.items():
        ax.text(
            -0.02,
            y,
            group,
            transform=ax.get_yaxis_transform(),
            ha="right",
            va="center",
            weight="bold",
            size=8,
        )
    ax.set_yticks(table.y, table.label)
    ax.set_ylim(table.y.max() + 0.6, -0.6)


def _accuracies(ax: Axes, table: pd.DataFrame, marks: Sequence[str]) -> None:
    for _, row in table.iterrows():
        look = style.look(row.method)
        ax.hlines(row.y, 100 * row.low, 100 * row.high, color=look.colour, lw=2.0, zorder=2)
        face = "white" if row.violated else look.colour
        kind: dict[str, Any] = {"ls": "", "marker": look.marker, "color": look.colour, "mfc": face}
        ax.plot(100 * row.accuracy, row.y, ms=6, zorder=3, **kind)
        for column in marks:
            mark = MARKS[column]
            shape: dict[str, Any] = {"ls": "", "marker": mark.marker, "ms": mark.size, "mfc": "none"}
            ax.plot(100 * row[column], row.y, color=mark.colour, zorder=4, **shape)


def _prices(ax: Axes, table: pd.DataFrame, drawn: Sequence[str]) -> None:
    ax.set(xscale="log")
    for claim in np.unique(_finite(table, "epsilon_paper")):
        ax.axvline(claim, color=CLAIM.colour, ls=CLAIM.line, lw=1.2, zorder=1)
    for column in drawn:
        look, rows = EPSILONS[column], table[table[column].notna() & table.method.ne("none")]
        inside = rows[column].between(*ENDS)
        at = rows[column].clip(*ENDS)
        kind: dict[str, Any] = {
            "ls": "",
            "marker": look.marker,
            "ms": look.size,
            "color": look.colour,
            "zorder": 3,
        }
        ax.plot(at[inside], rows.y[inside], **kind)
        for side, beyond in (("<", rows[column].lt(ENDS[0])), (">", rows[column].gt(ENDS[1]))):
            for x, y in zip(at[beyond], rows.y[beyond], strict=True):
                ax.annotate(side, (x, y), color=look.colour, ha="center", va="center", weight="bold", size=9)


def _handle(look: style.Look, hollow: bool = False) -> Line2D:
    kind: dict[str, Any] = {"mfc": "none"} if hollow else {}
    return Line2D(
        [], [], ls="", marker=look.marker, ms=look.size, color=look.colour, label=look.label, **kind
    )
