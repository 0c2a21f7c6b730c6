"""The figure of trajectories: the way to a two-dimensional normal posterior, and the chain within its contours."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as finish

COLOURS = {"sgld": "#E69F00", "sgnht": "#0072B2"}
TWIN = "#D55E00"
DRAWN = 2.0  # standard deviations of the ellipse of a sampler


def trajectories(frame: pd.DataFrame, *, panels: Mapping[str, str], title: str = "") -> Figure:
    """One column per variant of `panels` (variant: label), without privacy and with: above the whole path of one chain,
    below its settled part on the contours of the exact posterior, with the ellipse of all chains.

    A variant `<name>_proper`, where the frame has it, adds its ellipse.  frame: rows of `analyses.wang2015_fig2`.
    """
    exact = frame[frame.variant.eq("exact")]
    mean, covariance = moments(exact)
    columns = [(name, eps) for name in panels for eps in sorted(frame.epsilon.unique(), reverse=True)]
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(2.75 * len(columns), 6.6), layout="constrained")
        axes = figure.subplots(2, len(columns), sharex="row", sharey="row")
        for (name, epsilon), top, bottom in zip(columns, *axes, strict=True):
            rows = frame[frame.variant.eq(name) & frame.epsilon.eq(epsilon)]
            whole(top, rows, mean, covariance)
            settled(bottom, rows, mean, covariance)
            twin = frame[frame.variant.eq(f"{name}_proper") & frame.epsilon.eq(epsilon)]
            if len(twin):
                ellipse(bottom, *moments(twin), DRAWN, color=TWIN, ls="--", lw=1.6, zorder=5)
            private = np.isfinite(epsilon)
            label = f"DP-{panels[name]}, ε = {style.number(epsilon)}" if private else panels[name]
            top.set_title(label, fontsize=9.5)
            bottom.set_title(numbers(rows), fontsize=8, color="#444444")
            bottom.set_xlabel("θ₁, unitless")
            top.tick_params(labelbottom=True)
        for ax in axes[:, 0]:
            ax.set_ylabel("θ₂, unitless")
        half = 4.2 * np.sqrt(np.diag(covariance))
        axes[1, 0].set_xlim(mean[0] - half[0], mean[0] + half[0])
        axes[1, 0].set_ylim(mean[1] - half[1], mean[1] + half[1])
        handles = [
            Line2D([], [], color="black", lw=0.8, label="exact posterior: 1, 2, 3 standard deviations"),
            *(
                Line2D([], [], color=COLOURS[name.partition("_")[0]], lw=2, label=f"{label} and DP twin")
                for name, label in panels.items()
            ),
            Line2D([], [], color=TWIN, ls="--", lw=1.6, label="the same with noise N(0, 2η)"),
        ]
        finish(figure, title, caption(frame, list(panels)), handles)
    return figure


def moments(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Mean ``(2,)`` and covariance ``(2, 2)`` of one variant and epsilon."""
    at = ["theta_1", "theta_2"]
    lines = rows[rows.kind.eq("covariance")].sort_values("axis")
    return rows.loc[rows.kind.eq("mean"), at].to_numpy(float)[0], lines[at].to_numpy(float)


def ellipse(ax: Axes, mean: np.ndarray, covariance: np.ndarray, size: float, **look: object) -> None:
    """Where the normal law is `size` standard deviations away."""
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    x, y = mean[:, None] + size * np.linalg.cholesky(covariance) @ circle
    ax.plot(x, y, **look)  # type: ignore[arg-type]


def whole(ax: Axes, rows: pd.DataFrame, mean: np.ndarray, covariance: np.ndarray) -> None:
    """The path from the start at 0."""
    colour = COLOURS[rows.sampler.iloc[0]]
    path = rows[rows.kind.eq("path")].sort_values("step")
    x, y = (np.append(0.0, path[name]) for name in ("theta_1", "theta_2"))
    ax.plot(x, y, color=colour, lw=0.7, marker="o", ms=1.6, zorder=2)
    ax.plot(0, 0, color="black", marker="x", ms=6, ls="", zorder=3)
    ax.annotate("start", (0, 0), (14, -3), textcoords="offset points", fontsize=8)
    ellipse(ax, mean, covariance, 3, color="black", lw=1.0, zorder=4)


def settled(ax: Axes, rows: pd.DataFrame, mean: np.ndarray, covariance: np.ndarray) -> None:
    """The second half of the path, on the contours."""
    colour = COLOURS[rows.sampler.iloc[0]]
    path = rows[rows.kind.eq("path") & rows.step.gt(0.5)].sort_values("step")
    ax.plot(path.theta_1, path.theta_2, color=style.tint(colour, 0.4), lw=0.5, zorder=1)
    ax.plot(path.theta_1, path.theta_2, color=style.tint(colour, 0.7), marker="o", ms=1.8, ls="", zorder=2)
    for size in (1, 2, 3):
        ellipse(ax, mean, covariance, size, color="black", lw=0.8, zorder=3)
    ellipse(ax, *moments(rows), DRAWN, color=colour, lw=2.2, zorder=4)
    ax.xaxis.set_major_locator(MaxNLocator(4))


def numbers(rows: pd.DataFrame) -> str:
    """Ratios of standard deviations and distance of means."""
    ratio, within = (rows[rows.kind.eq(kind)].sort_values("axis") for kind in ("ratio", "within"))
    found = ratio[["value", "low", "high"]].to_numpy(float)
    parts = [f"{value:.2f} ± {(high - low) / 2:.2f}" for value, low, high in found]
    alone = [f"{value:.2f}" for value in within.value]
    distance = rows[rows.kind.eq("distance")].value.iloc[0]
    lines = f"sd / exact: {', '.join(parts)}", f"within one chain: {', '.join(alone)}"
    return "\n".join([*lines, f"distance of means: {distance:.2f} sd"])


def caption(frame: pd.DataFrame, names: list[str]) -> str:
    private = frame[frame.variant.isin(names) & np.isfinite(frame.epsilon)]
    tight = " and ".join(
        style.short(private[private.variant.eq(name)].epsilon_tight.iloc[0]) for name in names
    )
    return (
        f"Coloured ellipses: {DRAWN:g} standard deviations of all chains after half of the steps; points and lines: "
        "one of them. Ratios along the narrow and the wide axis of the posterior, with half\na 95 % interval over "
        "chains. Noise by Theorem 4 for gradients whose residual is clipped at a bound that no residual of these data "
        f"reaches near the posterior; the tight\naccountant prices these chains at ε = {tight} "
        "(replace-one). As printed, SGLD samples exp(−2U): its standard deviations should be 0.71 of the exact ones."
    )
