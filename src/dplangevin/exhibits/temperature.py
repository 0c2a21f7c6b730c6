"""Which power of the posterior each sampler targets: its law on N(0, 1), and its temperature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as finish

COLOURS = {
    "sgld": "#E69F00",
    "li": "#D55E00",
    "sgfs": "#CC79A7",
    "sghmc": "#0072B2",
    "sgnht": "#009E73",
    "ryffel": "#555555",
}
TARGETS = {"exp(−U)": (1.0, "-"), "exp(−2U)": (0.5, "--"), "exp(−4U)": (0.25, ":")}
PROBLEMS = {"1-d": ("o", 4.5), "2-d, narrow axis": ("^", 3.5), "2-d, wide axis": ("v", 3.5)}
GREY = "#888888"
CAPTION = (
    "Exact gradients unless the row says minibatch. Bars (mostly within the markers): 95 % Student intervals over "
    "chains. Temperature: variance of the chain over\nthat of the posterior, along the coordinate of N(0, 1) and along "
    "both principal axes of a correlated normal; 1 is the posterior."
)


def temperatures(
    frame: pd.DataFrame, *, labels: Mapping[str, str], densities: Mapping[str, str], title: str = ""
) -> Figure:
    """Left: the normal density with the variance measured on N(0, 1), smallest step, of the samplers in `densities`
    (sampler: short name), under those of exp(-U), exp(-2U) and exp(-4U).  Right: temperature of every sampler of
    `labels` (sampler: name of its row, in which {setting}, {first} and {last} are filled in from the frame: what is
    chosen, largest and smallest step), in that order.

    frame: rows of `analyses.temperature`.  Raises ValueError naming samplers that it does not have.
    """
    if absent := sorted({*labels, *densities} - set(frame.sampler)):
        raise ValueError(f"no temperature rows for {absent}: known are {sorted(set(frame.sampler))}")
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(10.5, 5.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[0.8, 1])
        draw_densities(left, frame, densities)
        draw_temperatures(right, frame, labels)
        handles = [
            Line2D([], [], color="black", ls=ls, lw=1.0, label=name) for name, (_, ls) in TARGETS.items()
        ]
        handles += [
            Line2D([], [], color=GREY, marker=marker, ms=size, ls="", label=f"{problem}, smallest step")
            for problem, (marker, size) in PROBLEMS.items()
        ]
        handles.append(Line2D([], [], color=style.tint(GREY), marker="o", ms=3, label="1-d, larger steps"))
        handles.append(Line2D([], [], color="black", marker="|", ms=8, ls="", label="1-d, closed form"))
        finish(figure, title, CAPTION, handles)
    return figure


def draw_densities(ax: Axes, frame: pd.DataFrame, samplers: Mapping[str, str]) -> None:
    """Densities on N(0, 1); those of the targets in black."""
    theta = np.linspace(-3.2, 3.2, 401)
    for variance, line in TARGETS.values():
        ax.plot(theta, normal(theta, variance), color="black", ls=line, lw=0.9, zorder=4)
    for target, (peak, _) in TARGETS.items():
        ours = [name for name in samplers if frame[frame.sampler.eq(name)].limit.iloc[0] == peak]
        for i, sampler in enumerate(ours):
            variance = float(measured(frame, sampler, "1-d").value.iloc[-1])
            dashes: Any = "-" if i == 0 else (6 * i, (6, 6))  # so that both colours of a pair show
            colour = style.tint(COLOURS[sampler], 0.75)
            ax.plot(theta, normal(theta, variance), color=colour, lw=3.6, ls=dashes, zorder=3)
        at = 0.45 * peak**0.5
        text = "\n".join([target, *(samplers[name] for name in ours)])
        ax.annotate(
            text, (at, normal(at, peak)), (16, 4), textcoords="offset points", fontsize=8, va="center"
        )
    ax.set_xlabel("θ, unitless; posterior N(0, 1)")
    ax.set_ylabel("density of a sampler as printed")
    ax.set_ylim(bottom=0)


def draw_temperatures(ax: Axes, frame: pd.DataFrame, labels: Mapping[str, str]) -> None:
    """One row per sampler, the first on top."""
    names = []
    for temperature, line in TARGETS.values():
        ax.axvline(temperature, color="black", ls=line, lw=0.9, zorder=1)
    for y, sampler in enumerate(labels):
        colour = COLOURS[sampler.partition("_")[0]]
        steps = measured(frame, sampler, "1-d")
        first, *_, last_step = steps.step
        names.append(labels[sampler].format(setting=steps.setting.iloc[0], first=first, last=last_step))
        ax.plot(steps.value, [y] * len(steps), color=style.tint(colour), lw=1.2, marker="o", ms=3, zorder=2)
        for offset, (problem, (marker, size)) in zip((0, -0.27, 0.27), PROBLEMS.items(), strict=True):
            last = measured(frame, sampler, problem).iloc[-1]
            ax.hlines(y + offset, last.low, last.high, color=colour, lw=1.4, zorder=3)
            ax.plot(last.value, y + offset, color=colour, marker=marker, ms=size, zorder=3)
        exact = measured(frame, sampler, "1-d", kind="closed form")
        ax.plot(exact.value[-1:], [y] * len(exact[-1:]), color="black", marker="|", ms=8, ls="", zorder=4)
    ax.set_xscale("log", base=2)
    ticks = [0.25, 0.5, 1.0, 2.0]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(ticks, ["1/4", "1/2", "1", "2"])
    ax.set_yticks(range(len(labels)), names)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("temperature T of the target exp(−U/T), unitless")


def measured(frame: pd.DataFrame, sampler: str, problem: str, kind: str = "simulated") -> pd.DataFrame:
    """Rows of one sampler on one problem, the smallest step last."""
    rows = frame[frame.sampler.eq(sampler) & frame.problem.eq(problem) & frame.kind.eq(kind)]
    return rows.sort_values("step", ascending=False)


def normal(theta: np.ndarray | float, variance: float) -> np.ndarray:
    return np.exp(-(np.asarray(theta) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
