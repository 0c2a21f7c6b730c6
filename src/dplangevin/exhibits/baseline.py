"""Figure 3 of li2019: many private methods against a non-private baseline, in panels of a few methods each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import (
    REFERENCES,
    caption,
    draw_panel,
    frame,
    handle,
    hollow_handle,
    undrawn,
    xlabel,
)
from dplangevin.exhibits.tables import summary

MARK: dict[str, Any] = {"color": "#AAAAAA", "ls": "-", "lw": 3.0, "zorder": 0.5}


def against_baseline(
    runs: pd.DataFrame,
    *,
    panels: Mapping[str, Sequence[str]],
    mark: float,
    mark_label: str,
    title: str = "",
    audited: bool = False,
) -> Figure:
    """Test accuracy against privacy loss on one data set; `panels`: panel title -> methods drawn in it.

    Bars and the bands of the references are one standard deviation over repeats, as the paper reports them. mark: the
    epsilon of a vertical line, in the units of the axis asked for and drawn on both. Raises ValueError for runs of
    several data sets, or methods without accuracy rows.
    """
    if len(names := runs.dataset.unique()) != 1:
        raise ValueError(f"the panels show one data set, found {list(names)}")
    table = summary(runs)
    table = table.assign(low=table["mean"] - table.sd, high=table["mean"] + table.sd)
    methods = list(dict.fromkeys(method for group in panels.values() for method in group))
    if absent := [method for method in methods if method not in set(table.method)]:
        raise ValueError(f"no accuracy rows for {absent}: list their runs under files in conf/exhibit")
    x = "ln_epsilon_tight" if audited else "ln_epsilon"
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(10.5, 4.9), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels), sharey=True, sharex=True))
        for ax, (name, group) in zip(axes, panels.items(), strict=True):
            draw_panel(ax, table, group, x)
            ax.axvline(np.log(mark), **MARK)
            ax.set(title=name, xlabel=xlabel(runs, audited))
        axes[0].set_ylabel("test accuracy")
        drawn = [method for method in [*methods, *REFERENCES] if method in set(table.method)]
        handles = [handle(method) for method in drawn]
        handles.append(Line2D([], [], **MARK, label=mark_label))
        private = table[table.method.isin(methods)]
        if private.violated.ne("").any():
            handles.append(hollow_handle())
        text = caption(runs, table, "standard deviation (not an interval)") + undrawn(private, x)
        frame(figure, title, text, handles)
    return figure
