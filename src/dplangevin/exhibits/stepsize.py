"""Figures 1 and 2 of li2019: the largest step size that a budget allows, by several accountants."""

from __future__ import annotations

import math

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as finish
from dplangevin.exhibits.style import Look

LOOKS = {
    "tight": Look("tight (PLD), add/remove", "#0072B2", "o", "-", 3.5),
    "tight_replace_one": Look("tight (PLD), replace-one", "#56B4E9", "", "-"),
    "moments_256": Look("moments, 256 orders", "#009E73", "", "-"),
    "moments_32": Look("moments, 32 orders (the paper's)", "#D55E00", "", "-"),
    "wang2015": Look("bound of wang2015", "#000000", "", "-"),
}
SCHEDULES = {"decreasing": "-", "fixed": "--"}
STYLES = {"tight": "-", "moments_256": "--", "moments_32": ":"}
SHADES = ["#CC79A7", "#D55E00", "#0072B2", "#000000"]
ORDERS = 32
STEP, FIRST_STEP = "largest step size η", "largest step size η\n(first step where it decreases)"


def budgets(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Figure 1: step size against epsilon, against N and L, and against the minibatch, beside the printed numbers.

    frame: the rows of `analyses.stepsize.Budgets`.
    """
    (example,) = frame[frame.panel.eq("example")].epsilon.unique()
    setting = frame[frame.panel.eq("budget")].iloc[0]
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(12.0, 4.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=[1.35, 1, 1])
        _against_epsilon(left, frame, setting.delta)
        _against_records(middle, frame, example)
        _against_batch(right, frame, example, setting.batch)
        handles = [
            *(
                _handle(look.label, look.colour, "-", look.marker, _width(name))
                for name, look in LOOKS.items()
            ),
            *(_handle(f"{name} step", "#666666", line) for name, line in SCHEDULES.items()),
            Line2D([], [], color="#CC0000", marker="*", ms=9, ls="", label="printed in the paper"),
            Line2D([], [], color="#D55E00", alpha=0.15, lw=8, label=f"ε out of reach of {ORDERS} orders"),
        ]
        number = style.number
        text = (
            f"Left and right: N = {setting.records:,}, T = {setting.steps:,}, L = {number(setting.lipschitz)}, "
            f"δ = {number(setting.delta)}. Minibatch τ = {setting.batch} where it is not the axis: the paper states "
            "none.\nMoments accountant: add/remove; an accountant of K orders reports no ε below ln(1/δ)/K. "
            "wang2015: as li2019 prints it, replace-one."
        )
        finish(figure, title, text, handles)
    return figure


def sizes(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Figure 2: step size against epsilon, for several N (top) and L (bottom); decreasing and fixed steps side by side.

    frame: the rows of `analyses.stepsize.Sizes`.
    """
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(9.6, 7.4), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        for (panel, column, symbol), pair in zip(
            (("records", "records", "N"), ("lipschitz", "lipschitz", "L")), axes, strict=True
        ):
            rows = frame[frame.panel.eq(panel)]
            values = sorted(rows[column].unique())
            for ax, (schedule, word) in zip(
                pair, (("decreasing", "first of decreasing steps"), ("fixed", "fixed step")), strict=True
            ):
                here = rows[rows.schedule.eq(schedule)]
                for value, colour in zip(values, SHADES[: len(values)], strict=True):
                    for name, line in STYLES.items():
                        _curve(
                            ax, here[here[column].eq(value) & here.curve.eq(name)], "epsilon", colour, line
                        )
                _logs(ax)
                ax.set_title(f"{_fixed(rows, panel)}: {word}")
            pair[0].set_ylabel(STEP)
            labels = [
                _handle(f"{symbol} = {f'{value:,.1f}'.removesuffix('.0')}", colour, "-")
                for value, colour in zip(values, SHADES[: len(values)], strict=True)
            ]
            pair[1].legend(handles=labels, loc="center left", bbox_to_anchor=(1.01, 0.5))
        for ax in axes[-1]:
            ax.set_xlabel("ε (δ = 1/N)")
        handles = [_handle(LOOKS[name].label, "#444444", line) for name, line in STYLES.items()]
        text = (
            f"δ = 1/N, T = N, minibatch τ = {frame.batch.iloc[0]} (the paper states none), add/remove. "
            "An accountant of K orders reports no ε below ln(1/δ)/K: its curves begin there."
        )
        finish(figure, title, text, handles)
    return figure


def _fixed(rows: pd.DataFrame, panel: str) -> str:
    return "L = 1" if panel == "records" else f"N = {rows.records.iloc[0]:,}"


def _against_epsilon(ax: Axes, frame: pd.DataFrame, delta: float) -> None:
    rows = frame[frame.panel.eq("budget")]
    for name, look in LOOKS.items():
        for schedule, line in SCHEDULES.items():
            here = rows[rows.curve.eq(name) & rows.schedule.eq(schedule)]
            _curve(ax, here, "epsilon", look.colour, line, look.marker, _width(name))
    printed = frame[frame.panel.eq("example") & frame.curve.str.startswith("published")]
    ax.plot(printed.epsilon, printed.step_size, "*", color="#CC0000", ms=10, zorder=5)
    for x, y in printed[["epsilon", "step_size"]].to_numpy(float):
        text = style.number(y)
        ax.annotate(
            text, (x, y), (-5, 6), textcoords="offset points", ha="right", color="#CC0000", fontsize=8
        )
    _logs(ax)
    ax.set_xlim(ax.get_xlim()[0], ax.get_xlim()[1])
    ax.axvspan(ax.get_xlim()[0], math.log(1 / delta) / ORDERS, color="#D55E00", alpha=0.1, lw=0, zorder=0)
    ax.set_xlabel(f"ε (δ = {style.number(delta)})")
    ax.set_ylabel(FIRST_STEP)
    ax.set_title("Against the budget")


def _against_records(ax: Axes, frame: pd.DataFrame, epsilon: float) -> None:
    rows = frame[frame.panel.eq("records")]
    values = sorted(rows.lipschitz.unique())
    for name in ("moments_256", "tight"):
        look = LOOKS[name]
        for schedule, line in SCHEDULES.items():
            for value in values:
                here = rows[rows.curve.eq(name) & rows.schedule.eq(schedule) & rows.lipschitz.eq(value)]
                _curve(ax, here, "records", look.colour, line, look.marker)
    last = rows[rows.curve.eq("tight") & rows.schedule.eq("decreasing") & rows.records.eq(rows.records.max())]
    for _, end in last.iterrows():
        place = (end.records, end.step_size)
        ax.annotate(f"L = {end.lipschitz:g}", place, (5, -3), textcoords="offset points", fontsize=8)
    _logs(ax)
    ax.set_xlim(ax.get_xlim()[0], ax.get_xlim()[1] * 4)
    ax.set_xlabel("records N (δ = 1/N, T = N)")
    ax.set_title(f"Against N and L, ε = {style.number(epsilon)}")


def _against_batch(ax: Axes, frame: pd.DataFrame, epsilon: float, used: int) -> None:
    rows = frame[frame.panel.eq("batch")]
    for name in ("tight", "tight_replace_one", "moments_256"):
        look = LOOKS[name]
        for schedule, line in SCHEDULES.items():
            here = rows[rows.curve.eq(name) & rows.schedule.eq(schedule)]
            _curve(ax, here, "batch", look.colour, line, look.marker, _width(name))
    printed = frame[frame.panel.eq("example") & frame.curve.eq("published")].step_size.iloc[0]
    ax.axhline(printed, color="#CC0000", lw=0.9, zorder=1)
    ax.annotate(
        f"printed: {printed:g}", (1, printed), (-2, 4), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", color="#CC0000", fontsize=8,
    )  # fmt: skip
    _logs(ax)
    batches = sorted({*rows.batch, used})
    ax.set_xticks(batches, [str(b) for b in batches])
    ax.minorticks_off()
    ax.set_xlabel("minibatch τ")
    ax.set_title(f"Against the minibatch, ε = {style.number(epsilon)}")


def _curve(
    ax: Axes, rows: pd.DataFrame, x: str, colour: str, line: str, marker: str = "", width: float = 1.4
) -> None:
    """One curve, where it exists."""
    rows = rows[rows.reachable.eq(1)].sort_values(x)
    ax.plot(rows[x], rows.step_size, color=colour, ls=line, marker=marker, ms=3.5, lw=width, zorder=3)


def _width(name: str) -> float:
    return 0.9 if name == "tight_replace_one" else 1.4


def _logs(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")


def _handle(label: str, colour: str, line: str, marker: str = "", width: float = 1.4) -> Line2D:
    return Line2D([], [], color=colour, ls=line, marker=marker, ms=3.5, lw=width, label=label)
