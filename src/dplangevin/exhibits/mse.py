"""The figure of li2019's Propositions 5 and 6: error of a posterior average against T and the privacy spent."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from dplangevin.claims.slopes import fit
from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as finish

LOOKS = {
    "optimal": style.Look("step ∝ T^(−1/3) (Prop. 6)", "#0072B2", "o", "-", 4.5),
    "decreasing": style.Look("step ∝ t^(−1/3)", "#009E73", "s", "-", 4.0),
    "private_fixed": style.Look("private step ∝ 1/T (Theorem 4)", "#D55E00", "^", "-", 4.5),
    "private_decreasing": style.Look("private step ∝ t^(−1/3) T^(−2/3) (Prop. 5)", "#CC79A7", "D", "-", 4.0),
    "wang2015": style.Look("step bound of wang2015", "#555555", "v", "-", 4.5),
}
GREY = "#888888"
FUNCTIONS = {"theta": "φ = θ", "theta squared": "φ = θ²"}
NOISE = {"proper": "noise N(0, 2η/N)", "printed": "noise N(0, η/N), as printed"}
FREE = ("optimal", "decreasing")
RATE = -2 / 3


def errors(frame: pd.DataFrame, *, first: float, title: str = "") -> Figure:
    """Two rows of panels, above with the proper noise and below as printed: the error against T for theta and for
    theta^2, and right against the privacy constant (above), and the best constant against T (below).

    frame: rows of `analyses.li2019_mse`.  first: the T from which the exponents in the panels are fitted.
    """
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(11.0, 7.0), layout="constrained")
        axes = figure.subplots(2, 3)
        for row, heat in zip(axes, NOISE, strict=True):
            for ax, function in zip(row[:2], FUNCTIONS, strict=True):
                part = frame[
                    frame.panel.eq("steps") & frame.temperature.eq(heat) & frame.function.eq(function)
                ]
                draw_steps(ax, part, first)
                ax.set_title(f"{FUNCTIONS[function]}, {NOISE[heat]}", fontsize=9)
        for row in axes[:, :2]:
            row[1].sharey(row[0])
        draw_budget(axes[0, 2], frame[frame.panel.eq("budget") & frame.function.eq("theta squared")])
        draw_optimum(axes[1, 2], frame[frame.panel.eq("optimum")])
        shown = set(frame.schedule)
        handles = [
            Line2D([], [], color=look.colour, marker=look.marker, ms=look.size, label=look.label)
            for name, look in LOOKS.items()
            if name in shown
        ]
        handles.append(Line2D([], [], color=GREY, ls="--", label="predicted slope"))
        handles.append(Line2D([], [], color=GREY, ls=":", label="limit if exp(−2U) is sampled"))
        finish(figure, title, caption(frame, first), handles)
    return figure


def draw_steps(ax: Axes, part: pd.DataFrame, first: float) -> None:
    """Error against T by schedule: simulated points with intervals on the closed-form line."""
    texts = []
    for name, look in LOOKS.items():
        rows = part[part.schedule.eq(name)].sort_values("steps")
        if rows.empty:
            continue
        draw_curve(ax, rows, "steps", look)
        late = rows[rows.kind.eq("simulated") & rows.steps.ge(first)]
        if name in FREE and len(late) > 1:
            slope = fit(late, "steps")
            half = (slope.high - slope.low) / 2
            texts.append(f"{look.label.partition(' (')[0]}: {slope.mean:.2f} ± {half:.2f}".replace("-", "−"))
    anchor = part[part.schedule.eq("optimal") & part.kind.eq("closed form")].sort_values("steps")
    if len(anchor):
        x = anchor.steps.to_numpy(float)
        start = anchor.value.iloc[0] * 0.45
        ax.plot(x, start * (x / x[0]) ** RATE, color=GREY, ls="--", lw=1.1, zorder=1)
    if (part.temperature.eq("printed") & part.function.eq("theta squared")).all():
        ax.axhline(1 / 8, color=GREY, ls=":", lw=1.3, zorder=1)
    ax.set(xscale="log", yscale="log", xlabel="steps T", ylim=(1e-4, 9))
    ax.set_ylabel("mean squared error / posterior variance")
    text = "\n".join(["fitted exponents (predicted −0.67):", *texts])
    ax.text(0.03, 0.03, text, transform=ax.transAxes, fontsize=7.5, va="bottom", color="#444444")


def draw_curve(ax: Axes, rows: pd.DataFrame, x: str, look: style.Look, line: str = "-") -> None:
    exact, run = (rows[rows.kind.eq(kind)] for kind in ("closed form", "simulated"))
    ax.plot(exact[x], exact.value, color=look.colour, lw=1.1, ls=line, zorder=2)
    ax.vlines(run[x], run.low, run.high, color=look.colour, lw=1.6, zorder=3)
    face = look.colour if line == "-" else "white"
    ax.plot(run[x], run.value, color=look.colour, mfc=face, marker=look.marker, ms=look.size, ls="", zorder=3)


def draw_budget(ax: Axes, part: pd.DataFrame) -> None:
    """Error of theta^2 at one T against the privacy constant; hollow and dashed as printed."""
    for name in ("private_fixed", "private_decreasing"):
        for heat, line in (("proper", "-"), ("printed", "--")):
            rows = part[part.schedule.eq(name) & part.temperature.eq(heat)].sort_values("eta")
            draw_curve(ax, rows, "eta", LOOKS[name], line)
    eta = np.sort(part.eta.unique())
    top = part[part.schedule.eq("private_decreasing") & part.temperature.eq("proper")].value.max()
    ax.plot(eta, 0.35 * top * eta[0] / eta, color=GREY, ls="--", lw=1.1, zorder=1)
    ax.axhline(1 / 8, color=GREY, ls=":", lw=1.3, zorder=1)
    ax.set(xscale="log", yscale="log", xlabel="privacy constant ε²/(c²L² ln(1/δ))")
    ax.set_ylabel("mean squared error / posterior variance")
    ax.set_title(f"φ = θ², T = {part.steps.iloc[0]:,}", fontsize=9)
    ax.text(
        0.03,
        0.03,
        "hollow, dashed: noise as printed\npredicted slope −1",
        transform=ax.transAxes,
        fontsize=7.5,
        va="bottom",
        color="#444444",
    )


def draw_optimum(ax: Axes, part: pd.DataFrame) -> None:
    """The best privacy constant against T, beside T^(2/9) as the paper says and T^(2/3)."""
    rows = part.dropna(subset=["eta"]).sort_values("steps")
    look, x = LOOKS["private_decreasing"], rows.steps.to_numpy(float)
    ax.plot(x, rows.eta, color=look.colour, marker=look.marker, ms=look.size, zorder=3)
    start = float(rows.eta.iloc[0])
    ends: Mapping[float, str] = {2 / 9: "T^(2/9), the paper", 2 / 3: "T^(2/3)"}
    for power, name in ends.items():
        at = start * (0.8 if power < 0.5 else 1.5) * (x / x[0]) ** power
        ax.plot(x, at, color=GREY, ls="--", lw=1.1, zorder=1)
        ax.annotate(name, (x[-1], at[-1]), (-30, 2), textcoords="offset points", fontsize=8, ha="right")
    ax.set(xscale="log", yscale="log", xlabel="steps T", ylabel="best privacy constant ε²/(c²L² ln(1/δ))")
    ax.set_ylim(top=2 * float(rows.eta.iloc[-1]))
    low, high = ax.get_ylim()
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10) if low <= tick <= high]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_title("step ∝ t^(−1/3) T^(−2/3), closed form", fontsize=9)


def caption(frame: pd.DataFrame, first: float) -> str:
    at = frame[frame.panel.eq("steps") & frame.schedule.eq("private_fixed")].epsilon.iloc[0]
    return (
        "Points: mean over independent chains with 95 % Student intervals; lines: closed form. Posterior N(0, v) of a "
        f"normal mean; private schedules at ε = {style.number(at)} where not on the axis. Exponents are\nfitted by "
        f"weighted least squares to the points with T ≥ {first:g}, ± half a 95 % interval. A chain that samples "
        "exp(−2U) halves the variance, so the error for θ² tends to 1/8 and not to 0."
    )
