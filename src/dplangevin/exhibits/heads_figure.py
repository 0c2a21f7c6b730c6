"""The figures of `ryffel2022_tab1` and `_tab2` (rows with accuracy and five epsilons) and `ryffel2022_curve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import dots, style
from dplangevin.exhibits.figures import frame as put_frame
from dplangevin.exhibits.heads_table import BLOCKS, scores, summary

CALIBRATIONS = {"published": "", "formula": ", noise by their formula", "tight": ", proven price", "": ""}
TEXT = (
    "Accuracy of the last iterate, mean and 95 % t-interval over {seeds} seeds. The paper's accuracies are of other\n"
    "networks, and of the best epoch on the test set. The formula is no bound for batches. '<', '>': beyond the axis."
)
TICKS = [m * 10.0**k for k in range(-3, 4) for m in (1, 2, 5)]
CURVE_TEXT = (
    "Mean and 95 % t-interval over {seeds} seeds on the features of {network}. x: the smallest ε that we can prove\n"
    "with all iterates visible, replace-one, δ = {delta}."
)
CURVE_KEYS = ["features", "method", "run", "epsilon"]


def chart(
    frame: pd.DataFrame,
    *,
    schedule: str,
    published: Sequence[Mapping[str, Any]],
    features: Mapping[str, Mapping[str, str]],
    title: str = "",
) -> Figure:
    """One panel per features; arguments as for `heads_table.page`."""
    table = summary(frame, schedule=schedule, published=published)
    panels = []
    for name, rows in table.groupby("features", sort=False):
        said = features.get(str(name), {"task": str(name), "network": str(name)})
        delta = float(rows.delta[rows.method.ne("none")].iloc[0])
        kinds = zip(rows.method, rows.calibration, strict=True)
        labels = [style.look(method).label + CALIBRATIONS[kind] for method, kind in kinds]
        rows = rows.assign(label=labels, group=rows.block.map(BLOCKS))
        panels.append(dots.Panel(f"{said['task']}: {said['network']}", rows, delta))
    return dots.chart(panels, title=title, text=TEXT.format(seeds=counts(table)))


def counts(table: pd.DataFrame) -> str:
    """The numbers of seeds behind the rows."""
    return " to ".join(str(n) for n in sorted({table.seeds.min(), table.seeds.max()}))


def curve_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per method and budget of the figure's runs (block "figure"), and the non-private one: accuracy with its
    95 % interval over seeds, epsilon as asked and tight. A non-private run with constant steps of another experiment
    counts where the figure has none of its own."""
    kept = frame[frame.block.eq("figure")]
    if kept.empty:
        raise ValueError(f"no run of block 'figure': the runs have {sorted(set(frame.block))}")
    if not kept.method.eq("none").any():
        free = frame.method.eq("none") & ~frame.schedule.eq("decreasing")
        kept = pd.concat([kept, frame[free & frame.features.isin(set(kept.features))]])
    rows = []
    for values, group in kept.groupby(CURVE_KEYS, sort=False, dropna=False):
        row: dict[str, Any] = dict(zip(CURVE_KEYS, values, strict=True))
        row |= {"delta": group.delta.max(), "epsilon_tight": group.epsilon_tight.max()}
        row |= scores(group)
        rows.append({**row, "violated": " | ".join(sorted({text for text in group.violated if text}))})
    return pd.DataFrame(rows)


def curve(frame: pd.DataFrame, *, network: str, title: str = "") -> Figure:
    """Test accuracy against tight epsilon on a log axis, a curve per method and a line without privacy. network: what
    the caption calls the network behind the features."""
    table = curve_summary(frame)
    private = table[table.method.ne("none")]
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(7.6, 4.4), layout="constrained")
        ax = figure.subplots()
        ax.set_xscale("log")
        handles = []
        free = table.loc[table.method.eq("none"), ["accuracy", "low", "high"]]
        for mean, low, high in 100 * free.to_numpy(float):
            look = style.look("none")
            handles.append(ax.axhline(mean, color=look.colour, ls=look.line, lw=1.1, zorder=1))
            handles[-1].set_label(look.label)
            if high > low:
                ax.axhspan(low, high, color=look.colour, alpha=0.1, lw=0, zorder=0)
        for method, rows in private.groupby("method", sort=False):
            handles.append(_drawn(ax, rows.sort_values("epsilon_tight"), style.look(str(method))))
        low, high = ax.get_xlim()
        inside = [e for e in TICKS if low <= e <= high]
        ax.set_xticks(inside, [style.number(e) for e in inside])
        ax.set_xticks([], minor=True)
        ax.set_xlabel("tight ε (replace-one)")
        ax.set_ylabel("test accuracy (%)")
        if private.violated.ne("").any():
            handles.append(Line2D([], [], marker="o", mfc="white", color="#555555", ls="", label=dots.HOLLOW))
        delta = "/".join(style.number(d) for d in sorted(private.delta.dropna().unique()))
        text = CURVE_TEXT.format(seeds=counts(private), network=network, delta=delta)
        if lost := int((~np.isfinite(private.epsilon_tight)).sum()):
            text += f" Without a finite ε, and not drawn: {lost} of {len(private)} points."
        put_frame(figure, title, text, handles)
    return figure


def _drawn(ax: Any, rows: pd.DataFrame, look: style.Look) -> Line2D:
    """One curve with bars, hollow where a condition fails; returns its legend entry."""
    rows = rows[np.isfinite(rows.epsilon_tight) & rows.epsilon_tight.gt(0)]
    ax.plot(rows.epsilon_tight, 100 * rows.accuracy, color=look.colour, ls=look.line, zorder=3)
    ax.vlines(
        rows.epsilon_tight, 100 * rows.low, 100 * rows.high, color=style.tint(look.colour), lw=2.0, zorder=2
    )
    kind: dict[str, Any] = {"color": look.colour, "marker": look.marker, "ms": look.size}
    for hollow, part in rows.groupby(rows.violated.ne("")):
        face = "white" if hollow else look.colour
        ax.plot(part.epsilon_tight, 100 * part.accuracy, ls="", mfc=face, zorder=4, **kind)
    return Line2D([], [], ls=look.line, label=look.label, **kind)
