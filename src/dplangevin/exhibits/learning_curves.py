"""The exhibit `li2019_curves`: test accuracy and ε spent against the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as put_frame
from dplangevin.exhibits.style import BAND_ALPHA, short

PRICES = {"epsilon_add_remove": ("-", "add/remove"), "epsilon_replace_one": ("--", "replace-one")}
TEXT = (
    "Mean over seeds (number: {seeds}), bands: standard deviation. Accuracy: that of the last iterate, not of a "
    "posterior average."
)


def nearest(rows: pd.DataFrame, epsilon: float | None) -> pd.DataFrame:
    """The rows at the budget nearest to epsilon in ln ε; all where none is asked for, which must then be one budget."""
    budgets = rows.epsilon.unique()
    if epsilon is None:
        if len(budgets) > 1:
            raise ValueError(
                f"run {rows.run.iloc[0]} has budgets {budgets.tolist()}: say which `epsilon` to draw"
            )
        return rows
    if not np.isfinite(budgets).all():
        raise ValueError(
            f"run {rows.run.iloc[0]} has no finite budget: take its `epsilon` out of the exhibit"
        )
    return rows[rows.epsilon.eq(min(budgets, key=lambda budget: abs(np.log(budget / epsilon))))]


def summary(frame: pd.DataFrame, *, curves: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per curve and epoch: label, run, mean accuracy, sd over seeds, number of seeds, both tight prices.

    frame: curve rows (`files.read_training`). curves: {run, label, epsilon (where the run has several budgets)}.
    """
    parts = []
    for curve in curves:
        rows = nearest(frame[frame.run.eq(curve["run"])], curve.get("epsilon"))
        by_epoch = rows.groupby("epoch")
        part = by_epoch[list(PRICES)].max()
        part.insert(0, "accuracy", by_epoch.accuracy.mean())
        part.insert(1, "sd", by_epoch.accuracy.std(ddof=1))
        part.insert(2, "seeds", by_epoch.seed.nunique())
        label = curve["label"].format(epsilon=short(float(rows.epsilon.iloc[0])))
        named = {
            "label": label,
            "run": curve["run"],
            "method": rows.method.iloc[0],
            "epsilon": rows.epsilon.iloc[0],
        }
        parts.append(part.reset_index().assign(**named))
    table = pd.concat(parts, ignore_index=True)
    first = ["label", "run", "method", "epsilon"]
    return table[[*first, *(column for column in table if column not in first)]]


def chart(frame: pd.DataFrame, *, curves: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Two panels with one epoch axis: accuracy in %, and ε spent (tight, at the δ of the runs) for both neighbours."""
    table = summary(frame, curves=curves)
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(7.2, 6.2), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        handles = [
            _draw(top, bottom, rows, i) for i, (_, rows) in enumerate(table.groupby("label", sort=False))
        ]
        top.set_ylabel("test accuracy (%)")
        _window(top, table)
        bottom.set(
            xlabel="epoch", ylabel="ε spent (tight)", ylim=(0, None), xlim=(0, table.epoch.max() * 1.01)
        )
        bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
        for line, name in PRICES.values():
            handles.append(Line2D([], [], color="#555555", ls=line, label=f"ε, {name}"))
        seeds = " to ".join(str(n) for n in sorted({table.seeds.min(), table.seeds.max()}))
        put_frame(figure, title, TEXT.format(seeds=seeds), handles)
    return figure


def _draw(top: Axes, bottom: Axes, rows: pd.DataFrame, order: int) -> Line2D:
    look = style.look(rows.method.iloc[0])
    again = any(other.get_color() == look.colour for other in top.lines)  # a second curve of a method
    marker, every = "D" if again else look.marker, max(1, len(rows) // 7)
    spots: dict[str, Any] = {"marker": marker, "ms": 4.5, "markevery": (order % every, every)}
    top.plot(rows.epoch, 100 * rows.accuracy, color=look.colour, zorder=3 + order, **spots)
    low, high = 100 * (rows.accuracy - rows.sd), 100 * (rows.accuracy + rows.sd)
    top.fill_between(rows.epoch, low, high, color=look.colour, alpha=BAND_ALPHA, lw=0)
    for column, (style_of, _) in PRICES.items():
        if np.isfinite(rows[column]).all():
            bottom.plot(rows.epoch, rows[column], color=look.colour, ls=style_of, **{**spots, "ms": 3.5})
    return Line2D([], [], color=look.colour, marker=marker, ms=4.5, label=rows.label.iloc[0])


def _window(ax: Axes, table: pd.DataFrame) -> None:
    """From a little below the accuracies after the first tenth of the epochs, so that the ends can be told apart."""
    late = table[table.epoch.ge(0.1 * table.epoch.max())]
    low = 100 * (late.accuracy - late.sd.fillna(0)).min()
    high = 100 * (table.accuracy + table.sd.fillna(0)).max()
    pad = 0.06 * max(high - low, 1.0)
    ax.set_ylim(max(low - pad, 0), min(high + pad, 100.2))
