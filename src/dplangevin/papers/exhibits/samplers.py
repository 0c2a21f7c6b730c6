"""Figures and pages about samplers: pure functions of runs, or of the rows of the analysis with the exhibit's name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from dplangevin.papers.exhibits import accuracy, style, tables
from dplangevin.papers.exhibits.style import GREY, Look, entry, hollow_entries, lay_out, look, tint
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.papers.statistics import power_law, summary, variant_settings
from dplangevin.text import epsilon as epsilon_text
from dplangevin.text import fixed, number, short

# The power of the posterior that each sampler targets

SAMPLER_COLOURS = {
    "sgld": "#E69F00",
    "li": "#D55E00",
    "sgfs": "#CC79A7",
    "sghmc": "#0072B2",
    "sgnht": "#009E73",
    "ryffel": "#555555",
}
TARGETS = {"exp(−U)": (1.0, "-"), "exp(−2U)": (0.5, "--"), "exp(−4U)": (0.25, ":")}
PROBLEMS = {"1-d": ("o", 4.5), "2-d, narrow axis": ("^", 3.5), "2-d, wide axis": ("v", 3.5)}
TEMPERATURE_TEXT = (
    "Exact gradients unless the row says minibatch. Bars (mostly within the markers): 95 % Student intervals over "
    "chains. Temperature: variance of the chain over that of the posterior, along the coordinate of N(0, 1) and along "
    "both principal axes of a correlated normal; 1 is the posterior."
)


def temperatures(
    frame: pd.DataFrame, *, labels: Mapping[str, str], densities: Mapping[str, str], title: str = ""
) -> Figure:
    """Draw which power of the posterior each sampler targets.

    `densities` maps the samplers on the left to short names, and `labels` those on the right to names of rows, in which
    {setting}, {first} and {last} are the setting, the largest and the smallest step.
    """
    if absent := sorted({*labels, *densities} - set(frame.sampler)):
        raise ValueError(f"no temperature rows for {absent}: known are {sorted(set(frame.sampler))}")
    with style.settings():
        figure = Figure(figsize=(10.5, 5.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[0.8, 1])
        _densities(left, frame, densities)
        _temperatures(right, frame, labels)
        handles = [
            *(Line2D([], [], color="black", ls=ls, lw=1.0, label=name) for name, (_, ls) in TARGETS.items()),
            *(
                entry(Look(f"{problem}, smallest step", GREY, marker, "", size))
                for problem, (marker, size) in PROBLEMS.items()
            ),
            Line2D([], [], color=tint(GREY), marker="o", ms=3, label="1-d, larger steps"),
            entry(Look("1-d, closed form", "black", "|", "", 8)),
        ]
        return lay_out(figure, title, TEMPERATURE_TEXT, handles)


def _densities(ax: Axes, frame: pd.DataFrame, samplers: Mapping[str, str]) -> None:
    """Draw the densities on N(0, 1); those of the targets are black."""
    theta = np.linspace(-3.2, 3.2, 401)
    for variance, line in TARGETS.values():
        ax.plot(theta, _normal(theta, variance), color="black", ls=line, lw=0.9, zorder=4)
    for target, (peak, _) in TARGETS.items():
        same = [name for name in samplers if frame[frame.sampler.eq(name)].limit.iloc[0] == peak]
        for i, sampler in enumerate(same):
            variance = float(_measured(frame, sampler, "1-d").value.iloc[-1])
            dashes: Any = "-" if i == 0 else (6 * i, (6, 6))  # the line below stays visible in the gaps
            colour = tint(SAMPLER_COLOURS[sampler], 0.75)
            ax.plot(theta, _normal(theta, variance), color=colour, lw=3.6, ls=dashes, zorder=3)
        at = 0.45 * peak**0.5
        text = "\n".join([target, *(samplers[name] for name in same)])
        point = (at, _normal(at, peak))
        ax.annotate(text, point, (16, 4), textcoords="offset points", fontsize=8, va="center")
    ax.set(xlabel="θ, unitless; posterior N(0, 1)", ylabel="density of a sampler as printed")
    ax.set_ylim(bottom=0)


def _temperatures(ax: Axes, frame: pd.DataFrame, labels: Mapping[str, str]) -> None:
    """Draw the temperatures, one row for each sampler, the first at the top."""
    names = []
    for temperature, line in TARGETS.values():
        ax.axvline(temperature, color="black", ls=line, lw=0.9, zorder=1)
    for y, sampler in enumerate(labels):
        colour = SAMPLER_COLOURS[sampler.partition("_")[0]]
        steps = _measured(frame, sampler, "1-d")
        first, *_, last_step = steps.step
        names.append(labels[sampler].format(setting=steps.setting.iloc[0], first=first, last=last_step))
        ax.plot(steps.value, [y] * len(steps), color=tint(colour), lw=1.2, marker="o", ms=3, zorder=2)
        for offset, (problem, (marker, size)) in zip((0, -0.27, 0.27), PROBLEMS.items(), strict=True):
            last = _measured(frame, sampler, problem).iloc[-1]
            ax.hlines(y + offset, last.low, last.high, color=colour, lw=1.4, zorder=3)
            ax.plot(last.value, y + offset, color=colour, marker=marker, ms=size, zorder=3)
        exact = _measured(frame, sampler, "1-d", kind="closed form")
        ax.plot(exact.value[-1:], [y] * len(exact[-1:]), color="black", marker="|", ms=8, ls="", zorder=4)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks([0.25, 0.5, 1.0, 2.0], ["1/4", "1/2", "1", "2"])
    ax.set_yticks(range(len(labels)), names)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("temperature T of the target exp(−U/T), unitless")


def _measured(frame: pd.DataFrame, sampler: str, problem: str, kind: str = "simulated") -> pd.DataFrame:
    """Return the rows of one sampler on one problem, from the largest to the smallest step."""
    rows = frame[frame.sampler.eq(sampler) & frame.problem.eq(problem) & frame.kind.eq(kind)]
    return rows.sort_values("step", ascending=False)


def _normal(theta: np.ndarray | float, variance: float) -> np.ndarray:
    return np.exp(-(np.asarray(theta) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


# Trajectories on a two-dimensional normal posterior: Figure 2 of wang2015

CHAIN_COLOURS = {"sgld": "#E69F00", "sgnht": "#0072B2"}
PROPER_COLOUR = "#D55E00"
ELLIPSE = 2.0  # size of a sampler's ellipse in standard deviations
TRAJECTORIES_TEXT = (
    f"Coloured ellipses: {ELLIPSE:g} standard deviations of all chains after half of the steps; points and lines: "
    "one of them. Ratios along the narrow and the wide axis of the posterior, with half a 95 % interval over "
    "chains. Noise by Theorem 4 for gradients whose residual is clipped at a bound that no residual of these data "
    "reaches near the posterior. The proven ε of these chains is {proven} (replace-one). The data are invented. "
    "As printed, SGLD samples exp(−2U): its standard deviations should be 0.71 of the exact ones."
)


def trajectories(frame: pd.DataFrame, *, panels: Mapping[str, str], title: str = "") -> Figure:
    """Draw chains on a two-dimensional normal posterior, with a column for each variant (-> label) and each ε.

    The top panel has the path of one chain. The bottom panel has its second half and the ellipse of all chains, also
    that of the variant "<name>_proper" (noise N(0, 2η)), if there is one.
    Source: wang2015, Figure 2 of the supplement.
    """
    mean, covariance = _moments(frame[frame.variant.eq("exact")])
    columns = [(name, eps) for name in panels for eps in sorted(frame.epsilon.unique(), reverse=True)]
    with style.settings():
        figure = Figure(figsize=(2.75 * len(columns), 6.6), layout="constrained")
        axes = figure.subplots(2, len(columns), sharex="row", sharey="row")
        for (name, epsilon), top, bottom in zip(columns, *axes, strict=True):
            rows = frame[frame.variant.eq(name) & frame.epsilon.eq(epsilon)]
            _paths(top, bottom, rows, mean, covariance)
            proper = frame[frame.variant.eq(f"{name}_proper") & frame.epsilon.eq(epsilon)]
            if len(proper):
                ellipse(bottom, *_moments(proper), ELLIPSE, color=PROPER_COLOUR, ls="--", lw=1.6, zorder=5)
            label = f"DP-{panels[name]}, ε = {number(epsilon)}" if np.isfinite(epsilon) else panels[name]
            top.set_title(label, fontsize=9.5)
            bottom.set_title(_ratios(rows), fontsize=8, color="#444444")
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
                Line2D([], [], color=CHAIN_COLOURS[name.partition("_")[0]], lw=2, label=f"{of} and DP twin")
                for name, of in panels.items()
            ),
            Line2D([], [], color=PROPER_COLOUR, ls="--", lw=1.6, label="the same with noise N(0, 2η)"),
        ]
        private = frame[frame.variant.isin(list(panels)) & np.isfinite(frame.epsilon)]
        proven = private.groupby("variant").epsilon_proven.first()[list(panels)]
        text = TRAJECTORIES_TEXT.format(proven=" and ".join(map(short, proven)))
        return lay_out(figure, title, text, handles)


def _moments(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return mean ``(2,)`` and covariance ``(2, 2)`` of one variant at one epsilon."""
    at = ["theta_1", "theta_2"]
    lines = rows[rows.kind.eq("covariance")].sort_values("axis")
    return rows.loc[rows.kind.eq("mean"), at].to_numpy(float)[0], lines[at].to_numpy(float)


def ellipse(ax: Axes, mean: np.ndarray, covariance: np.ndarray, size: float, **drawn: Any) -> None:
    """Draw the ellipse at `size` standard deviations of N(mean (2,), covariance (2, 2))."""
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    x, y = mean[:, None] + size * np.linalg.cholesky(covariance) @ circle
    ax.plot(x, y, **drawn)


def _paths(top: Axes, bottom: Axes, rows: pd.DataFrame, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Draw the path in the top panel. Draw its second half and the posterior's contours in the bottom panel."""
    colour = CHAIN_COLOURS[rows.sampler.iloc[0]]
    path = rows[rows.kind.eq("path")].sort_values("step")
    x, y = (np.append(0.0, path[name]) for name in ("theta_1", "theta_2"))
    top.plot(x, y, color=colour, lw=0.7, marker="o", ms=1.6, zorder=2)
    top.plot(0, 0, color="black", marker="x", ms=6, ls="", zorder=3)
    top.annotate("start", (0, 0), (14, -3), textcoords="offset points", fontsize=8)
    ellipse(top, mean, covariance, 3, color="black", lw=1.0, zorder=4)
    half = path[path.step.gt(0.5)]
    bottom.plot(half.theta_1, half.theta_2, color=tint(colour, 0.4), lw=0.5, zorder=1)
    bottom.plot(half.theta_1, half.theta_2, color=tint(colour, 0.7), marker="o", ms=1.8, ls="", zorder=2)
    for size in (1, 2, 3):
        ellipse(bottom, mean, covariance, size, color="black", lw=0.8, zorder=3)
    ellipse(bottom, *_moments(rows), ELLIPSE, color=colour, lw=2.2, zorder=4)
    bottom.xaxis.set_major_locator(MaxNLocator(4))


def _ratios(rows: pd.DataFrame) -> str:
    """Return the title of a panel: ratios of standard deviations and distance of the means."""
    ratio, within = (rows[rows.kind.eq(kind)].sort_values("axis") for kind in ("ratio", "within"))
    intervals = ratio[["value", "low", "high"]].to_numpy(float)
    of_all = ", ".join(f"{value:.2f} ± {(high - low) / 2:.2f}" for value, low, high in intervals)
    of_one = ", ".join(f"{value:.2f}" for value in within.value)
    distance = rows[rows.kind.eq("distance")].value.iloc[0]
    return f"sd / exact: {of_all}\nwithin one chain: {of_one}\ndistance of means: {distance:.2f} sd"


# Error of a posterior average: Propositions 5 and 6 of li2019

SCHEDULES = {
    "optimal": Look("step ∝ T^(−1/3) (Prop. 6)", "#0072B2", "o", "-", 4.5),
    "decreasing": Look("step ∝ t^(−1/3)", "#009E73", "s", "-", 4.0),
    "private_fixed": Look("private step ∝ 1/T (Theorem 4)", "#D55E00", "^", "-", 4.5),
    "private_decreasing": Look("private step ∝ t^(−1/3) T^(−2/3) (Prop. 5)", "#CC79A7", "D", "-", 4.0),
    "wang2015": Look("step bound of wang2015", "#555555", "v", "-", 4.5),
}
FUNCTIONS = {"theta": "φ = θ", "theta squared": "φ = θ²"}
NOISE = {"proper": "noise N(0, 2η/N)", "printed": "noise N(0, η/N), as printed"}
FITTED = ("optimal", "decreasing")
RATE = -2 / 3
PREDICTED: dict[str, Any] = {"color": GREY, "ls": "--"}
LIMIT: dict[str, Any] = {"color": GREY, "ls": ":"}
ERRORS_TEXT = (
    "Points: mean over independent chains with 95 % Student intervals; lines: closed form. Posterior N(0, v) of a "
    "normal mean; private schedules at ε = {epsilon} where not on the axis. Exponents are fitted by "
    "weighted least squares to the points with T ≥ {first:g}, ± half a 95 % interval. A chain that samples "
    "exp(−2U) halves the variance, so the error for θ² tends to 1/8 and not to 0."
)
ERROR_LABEL = "mean squared error / posterior variance"
CONSTANT_LABEL = "privacy constant ε²/(c²L² ln(1/δ))"


def average_errors(frame: pd.DataFrame, *, first: float, title: str = "") -> Figure:
    """Draw the mean squared error of posterior averages against the number of steps T and the privacy constant.

    `first` is the smallest T of the fit of the exponents. Source: li2019, Propositions 5 and 6.
    """
    with style.settings():
        figure = Figure(figsize=(11.0, 7.0), layout="constrained")
        axes = figure.subplots(2, 3)
        for row, noise in zip(axes, NOISE, strict=True):
            for ax, function in zip(row[:2], FUNCTIONS, strict=True):
                here = frame.panel.eq("steps") & frame.temperature.eq(noise) & frame.function.eq(function)
                _errors_over_steps(ax, frame[here], first)
                ax.set_title(f"{FUNCTIONS[function]}, {NOISE[noise]}", fontsize=9)
        for row in axes[:, :2]:
            row[1].sharey(row[0])
        budgets = frame[frame.panel.eq("budget") & frame.function.eq("theta squared")]
        _errors_over_constant(axes[0, 2], budgets)
        _best_constant(axes[1, 2], frame[frame.panel.eq("optimum")])
        handles = [entry(of) for name, of in SCHEDULES.items() if name in set(frame.schedule)]
        handles.append(Line2D([], [], **PREDICTED, label="predicted slope"))
        handles.append(Line2D([], [], **LIMIT, label="limit if exp(−2U) is sampled"))
        at = frame[frame.panel.eq("steps") & frame.schedule.eq("private_fixed")].epsilon.iloc[0]
        return lay_out(figure, title, ERRORS_TEXT.format(epsilon=number(at), first=first), handles)


def _errors_over_steps(ax: Axes, errors: pd.DataFrame, first: float) -> None:
    """Draw the error against T by schedule: simulated points with intervals, and closed forms as lines."""
    texts = []
    for name, of in SCHEDULES.items():
        rows = errors[errors.schedule.eq(name)].sort_values("steps")
        if rows.empty:
            continue
        _error_curve(ax, rows, "steps", of)
        late = rows[rows.kind.eq("simulated") & rows.steps.ge(first)]
        if name in FITTED and len(late) > 1:
            slope = power_law(late, "steps")
            half = (slope.high - slope.low) / 2
            texts.append(f"{of.label.partition(' (')[0]}: {slope.mean:.2f} ± {half:.2f}".replace("-", "−"))
    anchor = errors[errors.schedule.eq("optimal") & errors.kind.eq("closed form")].sort_values("steps")
    x, start = anchor.steps.to_numpy(float), anchor.value.iloc[0] * 0.45
    ax.plot(x, start * (x / x[0]) ** RATE, **PREDICTED, lw=1.1, zorder=1)
    if (errors.temperature.eq("printed") & errors.function.eq("theta squared")).all():
        ax.axhline(1 / 8, **LIMIT, lw=1.3, zorder=1)
    ax.set(xscale="log", yscale="log", xlabel="steps T", ylabel=ERROR_LABEL, ylim=(1e-4, 9))
    _corner(ax, "\n".join(["fitted exponents (predicted −0.67):", *texts]))


def _corner(ax: Axes, text: str) -> None:
    ax.text(0.03, 0.03, text, transform=ax.transAxes, fontsize=7.5, va="bottom", color="#444444")


def _error_curve(ax: Axes, rows: pd.DataFrame, x: str, of: Look, line: str = "-") -> None:
    """Draw the closed form as a line and the simulation as points with intervals."""
    exact, run = (rows[rows.kind.eq(kind)] for kind in ("closed form", "simulated"))
    ax.plot(exact[x], exact.value, color=of.colour, lw=1.1, ls=line, zorder=2)
    ax.vlines(run[x], run.low, run.high, color=of.colour, lw=1.6, zorder=3)
    face = of.colour if line == "-" else "white"
    ax.plot(run[x], run.value, **(of.shape | {"ls": ""}), mfc=face, zorder=3)


def _plain_ticks(ax: Axes) -> None:
    """Label 1, 2 and 5 times the powers of ten on a logarithmic y axis as plain numbers."""
    low, high = ax.get_ylim()
    values = [tick for tick in style.EPSILON_TICKS if low <= tick <= high]
    ax.set_yticks(values, [f"{tick:g}" for tick in values])
    ax.yaxis.set_minor_formatter(NullFormatter())


def _errors_over_constant(ax: Axes, errors: pd.DataFrame) -> None:
    """Draw the error of theta^2 against the privacy constant; the printed noise is hollow and dashed."""
    for name in ("private_fixed", "private_decreasing"):
        for noise, line in (("proper", "-"), ("printed", "--")):
            rows = errors[errors.schedule.eq(name) & errors.temperature.eq(noise)].sort_values("eta")
            _error_curve(ax, rows, "eta", SCHEDULES[name], line)
    eta = np.sort(errors.eta.unique())
    top = errors[errors.schedule.eq("private_decreasing") & errors.temperature.eq("proper")].value.max()
    ax.plot(eta, 0.35 * top * eta[0] / eta, **PREDICTED, lw=1.1, zorder=1)
    ax.axhline(1 / 8, **LIMIT, lw=1.3, zorder=1)
    ax.set(xscale="log", yscale="log", xlabel=CONSTANT_LABEL, ylabel=ERROR_LABEL)
    ax.set_title(f"φ = θ², T = {errors.steps.iloc[0]:,}", fontsize=9)
    _corner(ax, "hollow, dashed: noise as printed\npredicted slope −1")


def _best_constant(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw the best privacy constant against T, beside T^(2/9), which the paper states, and T^(2/3)."""
    rows = frame.dropna(subset=["eta"]).sort_values("steps")
    x, start = rows.steps.to_numpy(float), float(rows.eta.iloc[0])
    ax.plot(x, rows.eta, **SCHEDULES["private_decreasing"].shape, zorder=3)
    for power, below, name in ((2 / 9, 0.8, "T^(2/9), the paper"), (2 / 3, 1.5, "T^(2/3)")):
        at = start * below * (x / x[0]) ** power
        ax.plot(x, at, **PREDICTED, lw=1.1, zorder=1)
        ax.annotate(name, (x[-1], at[-1]), (-30, 2), textcoords="offset points", fontsize=8, ha="right")
    ax.set(xscale="log", yscale="log", xlabel="steps T", ylabel=f"best {CONSTANT_LABEL}")
    ax.set_ylim(top=2 * float(rows.eta.iloc[-1]))
    _plain_ticks(ax)
    ax.set_title("step ∝ t^(−1/3) T^(−2/3), closed form", fontsize=9)


# Error of one posterior sample: Propositions 2 and 4 of wang2015

EPSILON_LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))
EFFICIENCY_TEXT = (
    "Logistic regression in two dimensions on data drawn at a known θ₀, {draws:,} data sets per n; averages over "
    "both coordinates of I^(1/2)(θ − θ₀); bars: 95 % Student intervals; the draws by HMC are set a little to the "
    "right of their n. Smallest n ρ of the grid from which on the exact error is within 5 % of the formula "
    "(grey band), by ε: {starts}."
)


def efficiency(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw the mean squared error of one posterior sample (OPS) over its asymptotic formula, at four ε at most.

    The formula is (1 + 4B/ε) I⁻¹/n. Right: its two parts, against n ρ. Source: wang2015, Propositions 2 and 4.
    """
    with style.settings():
        figure = Figure(figsize=(9.5, 4.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        handles, starts = [], []
        groups: Any = frame.groupby("epsilon")
        for (epsilon, rows), (colour, marker) in zip(groups, EPSILON_LOOKS, strict=False):
            kinds = dict(list(rows.groupby("kind")))
            shifted = kinds["hmc"].assign(records=1.15 * kinds["hmc"].records)  # not under the exact draws
            _error_ratio(left, kinds["exact"], "records", colour, "-", "")
            _error_ratio(left, kinds["sample"], "records", colour, "", marker)
            _error_ratio(left, shifted, "records", colour, "", marker, hollow=True)
            _error_ratio(right, kinds["spread"], "tempered", colour, "-", marker)
            _error_ratio(right, kinds["mean"], "tempered", colour, ":", marker, hollow=True)
            starts.append(f"{number(epsilon)}: {short(asymptotic_from(rows, 0.05))}")
            label = f"ε = {number(epsilon)}: formula (1 + {short(1 / rows.rho.iloc[0])}) I⁻¹"
            handles.append(Line2D([], [], color=colour, marker=marker, ms=5, label=label))
        left.set(xlabel="records n", ylabel="squared error of one sample / formula")
        right.set_xlabel("n ρ, records times the exponent ρ = min(1, ε/4B)")
        right.set_ylabel("part of the error / formula")
        left.set_title("Posterior sample", fontsize=9)
        right.set_title("Spread of the posterior, and error of its mean", fontsize=9)
        for ax in (left, right):
            ax.axhline(1, color="black", lw=0.9, zorder=1)
            ax.axhspan(0.95, 1.05, color="#eeeeee", zorder=0)
            ax.set(xscale="log", yscale="log")
            _plain_ticks(ax)
        handles += [
            Line2D([], [], color=GREY, ls="-", label="left: exact finite-n error; right: spread"),
            entry(Look("left: exact draws", GREY, "o", "")),
            entry(Look("left: draws by HMC", GREY, "o", ""), mfc="white"),
            entry(Look("right: mean", GREY, "o", ":"), mfc="white"),
        ]
        draws = frame[frame.kind.eq("sample")].repeats.iloc[0]
        return lay_out(figure, title, EFFICIENCY_TEXT.format(draws=draws, starts=", ".join(starts)), handles)


def _error_ratio(
    ax: Axes, rows: pd.DataFrame, x: str, colour: str, line: str, marker: str, hollow: bool = False
) -> None:
    """Draw values with their intervals against x."""
    rows = rows.sort_values(x)
    at, values = rows[x].to_numpy(float), rows.value.to_numpy(float)
    if marker:
        ax.vlines(at, rows.low, rows.high, color=colour, lw=1.4, zorder=3)
    face = "white" if hollow else colour
    ax.plot(at, values, color=colour, ls=line or "none", marker=marker, ms=4.5, mfc=face, lw=1.2, zorder=3)


def asymptotic_from(rows: pd.DataFrame, tolerance: float) -> float:
    """Return the n ρ from which on all exact errors at one ε are within `tolerance` of the formula, or nan."""
    rows = rows[rows.kind.eq("exact")].sort_values("tempered")
    off = np.flatnonzero((rows.value - 1).abs().gt(tolerance))
    first = off[-1] + 1 if len(off) else 0
    return float(rows.tempered.iloc[first]) if first < len(rows) else math.nan


# Draws that OPS releases, against the exact posterior

OPS_SAMPLERS = {
    "ball": Look("ball, pure ε: HMC on the sphere", "#0072B2", "o", "-"),
    "gaussian_prior": Look("Gaussian prior: HMC", "#D55E00", "s", "-"),
    "gaussian_prior_rejection": Look("Gaussian prior: rejection", "#009E73", "^", "-"),
}
OPS_NOTES = """\
OPS promises the privacy of an exact posterior sample. A sampler draws what OPS releases. Here the posterior is known
by quadrature. One draw of each of many independent chains is sorted into cells of equal posterior probability. Total
variation: the distance of the shares of the cells from equal shares. "If exact" is its mean for exact draws, which is
the sampling error. "Below (95 %)" is an upper limit for the distributions over the cells, at 95 % confidence. Largest
|log ratio|: the largest over the cells, with limits that hold for all cells together. The cells show nothing finer
than a cell: **no line of this table bounds the largest log ratio of the distributions themselves, on which a pure ε
rests**. The chains stop by R-hat, which bounds neither. For rejection sampling the total variation is at most {tv} by
construction, and δ pays for it."""
OPS_TEXT = (
    "{draws:,} independent draws; {cells}. Left: total variation of the shares of the cells, limits above it at 95 % "
    "confidence (bars), and what exact draws would show (|). Right: largest |log ratio| over cells with simultaneous "
    "95 % limits. No sampler can be told from an exact one here; nothing finer than the cells is bounded."
)


def ops_distance(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw the distance of released draws from the exact posterior: total variation and largest log ratio."""
    rows = frame.reset_index(drop=True)
    with style.settings():
        figure = Figure(figsize=(9.5, 0.24 * len(rows) + 2.2), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for y, row in rows.iterrows():
            of = OPS_SAMPLERS[row.sampler]._replace(line="")
            left.hlines(y, row.tv, row.tv_limit, color=of.colour, lw=1.6)
            left.plot(row.tv, y, **of.shape)
            left.plot(row.tv_if_exact, y, marker="|", color="black", ms=10, ls="")
            right.hlines(y, row.ratio_low, row.ratio_high, color=of.colour, lw=1.6)
            right.plot(row.ratio, y, **of.shape)
        names = [f"{row.dimension}-d, ε = {number(row.epsilon)}" for _, row in rows.iterrows()]
        left.set_yticks(range(len(rows)), names)
        left.set_ylim(len(rows) - 0.5, -0.5)
        for ax, distance in ((left, "total variation"), (right, "largest |log ratio|")):
            ax.set_xlim(left=0)
            ax.set_xlabel(f"{distance} over the cells")
        expected = entry(Look("expected of exact draws", "black", "|", "", 10))
        cells = [f"{int(n)} cells in {d}-d" for d, n in frame.groupby("dimension").cells.max().items()]
        text = OPS_TEXT.format(draws=int(frame.draws.max()), cells=", ".join(cells))
        return lay_out(figure, title, text, [*(entry(of) for of in OPS_SAMPLERS.values()), expected])


def ops_distance_page(frame: pd.DataFrame, *, title: str = "", tv: str) -> str:
    """Return a Markdown page with a row for each case; `tv` is the total variation that rejection sampling may have."""
    columns: dict[str, Cell] = {
        "sampler": lambda row: OPS_SAMPLERS[row.sampler].label,
        "dimension": cell("dimension"),
        "ε": cell("epsilon", number),
        "ρ": cell("rho", short),
        "draws": cell("draws", "{:,.0f}".format),
        "cells": cell("cells", "{:.0f}".format),
        "total variation": cell("tv", "{:.4f}".format),
        "if exact": cell("tv_if_exact", "{:.4f}".format),
        "below (95 %)": cell("tv_limit", "{:.4f}".format),
        "largest |log ratio|": cell("ratio", "{:.3f}".format),
        "95 % limits": lambda row: f"{row.ratio_low:.3f} to {row.ratio_high:.3f}",
        "χ² p-value": cell("p_value", "{:.2f}".format),
        "R-hat": lambda row: fixed(row.r_hat, ".3f"),
    }
    return tables.page(title, [OPS_NOTES.format(tv=tv), "", *tables.rows_table(frame, columns, left=1)])


# Coverage of intervals from released posteriors

INTERVALS = {"released": "-", "simulated": "--"}  # those that are drawn
INTERVAL_NAMES = {
    "released": "width of the release",
    "noise added": "width, plus the variance between releases",
    "simulated": "estimate that knows the noise",
}
COVERAGE_COLOURS = ("#D55E00", "#E69F00", "#0072B2", "#999999")  # by ascending epsilon
COVERAGE_TEXT = (
    "Share of {repeats:,} data sets from the prior whose interval contains the parameter, against the nominal share. "
    "Bars: 95 % Clopper-Pearson limits at the largest level. Below the diagonal an interval promises too much. "
    "ε = ∞ is the same release without privacy."
)
COVERAGE_NOTES = """\
Data sets of a logistic regression are drawn from the prior of the method, {repeats:,} for each line. An exact posterior
then covers as often as it says. OPS releases one draw of a tempered posterior; its width is that of Laplace's
approximation of this posterior at the draw. Even without privacy one draw is no centre: its error has twice the
variance of the posterior. DPVI releases a normal distribution. Its width leaves out the privacy noise in its mean.

*Width of the release*: interval around the released centre. *Plus the variance between releases*: the same, with
half the mean squared difference of two releases on the same data added. *Estimate that knows the noise*: least
squares of the parameter on the centre, over simulated data sets. All three are post-processing. Privacy share: the
part of the mean squared error of the centre that privacy causes. Width: mean standard deviation of the interval.
Limits are 95 % Clopper-Pearson limits.

The simulated estimate uses the law of the rows, which is public here. Alrawajfeh et al. (2025) infer without it, from
all noisy gradients of DPVI."""


def coverage(frame: pd.DataFrame, *, methods: Sequence[str], title: str = "") -> Figure:
    """Draw actual against nominal coverage: a panel for each method, a colour for each epsilon."""
    epsilons = sorted(frame.epsilon.unique())
    colours = dict(zip(epsilons, COVERAGE_COLOURS, strict=True))
    with style.settings():
        figure = Figure(figsize=(9.5, 5.2), layout="constrained")
        axes = figure.subplots(1, len(methods), sharey=True, sharex=True)
        for ax, method in zip(axes, methods, strict=True):
            ax.plot([0, 1], [0, 1], color="black", lw=0.8)
            here = frame[frame.method.eq(method)]
            for (epsilon, interval), line in here.sort_values("level").groupby(["epsilon", "interval"]):
                if interval != "noise added":
                    colour, dash, last = colours[epsilon], INTERVALS[str(interval)], line.iloc[-1]
                    ax.plot(line.level, line.coverage, color=colour, ls=dash, lw=1.8)
                    ax.vlines(last.level, last.low, last.high, color=colour, lw=1.2)
            ax.set_title(look(method).label)
            ax.set_xlabel("nominal coverage")
            ax.set_aspect("equal")
        axes[0].set(ylabel="actual coverage", xlim=(0, 1), ylim=(0, 1))
        entries = [
            *(Line2D([], [], color=colours[each], label=f"ε = {epsilon_text(each)}") for each in epsilons),
            *(Line2D([], [], color="black", ls=ls, label=INTERVAL_NAMES[of]) for of, ls in INTERVALS.items()),
        ]
        return lay_out(figure, title, COVERAGE_TEXT.format(repeats=int(frame.repeats.max())), entries)


def coverage_page(frame: pd.DataFrame, *, title: str = "") -> str:
    """Return a Markdown page with a row for each method, epsilon and interval, at the nominal level 0.95."""
    rows = frame[np.isclose(frame.level, 0.95)]
    columns: dict[str, Cell] = {
        "method": lambda row: look(row.method).label,
        "ε": cell("epsilon", epsilon_text),
        "interval": lambda row: INTERVAL_NAMES[row.interval],
        "nominal": lambda row: f"{100 * row.level:.0f} %",
        "actual": lambda row: f"{100 * row.coverage:.1f} %",
        "95 % limits": lambda row: f"{100 * row.low:.1f} to {100 * row.high:.1f}",
        "width": cell("width", "{:.3f}".format),
        "noise (sd)": cell("noise", "{:.3f}".format),
        "privacy share of the error": lambda row: f"{100 * row.privacy_share:.0f} %",
    }
    notes = COVERAGE_NOTES.format(repeats=int(frame.repeats.max()))
    return tables.page(title, [notes, "", *tables.rows_table(rows, columns, left=3)])


# One posterior sample by HMC and by a sampler whose distance to the posterior is proven

PROVEN_NOTES = """\
One posterior sample under a Gaussian prior, by two samplers. The guarantee of HMC is that of an exact sample. Nothing
bounds how far HMC is from it. The proximal sampler makes a number of steps that follows from public numbers. It is
within a proven total variation of the posterior, for which δ pays. Accuracy: mean over repeats with a 95 % interval.
"""


def proven_samplers_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of accuracy and the number of steps of every run; its method is "<method>:<run>"."""
    keys = ["dataset", "method", "epsilon"]
    named = runs.assign(method=runs.method + ":" + runs.run)
    return summary(named).merge(named[[*keys, "steps"]].drop_duplicates(), on=keys, validate="one_to_one")


def proven_samplers_page(runs: pd.DataFrame, *, panels: Mapping[str, str], title: str = "") -> str:
    """Return a Markdown page with a row for each data set, budget and run; `panels` names the data sets."""
    table = proven_samplers_summary(runs).sort_values(["dataset", "epsilon", "method"], kind="stable")
    columns: dict[str, Cell] = {
        "data": lambda row: panels[row.dataset],
        "sampler": lambda row: look(row.method).label,
        "promised ε": cell("epsilon", number),
        "proven ε": lambda row: fixed(row.epsilon_proven, ".4f"),
        "steps": lambda row: fixed(row.steps, ",.0f") or "until R-hat < 1.05",
        "repeats": cell("repeats"),
        "accuracy": cell("mean", "{:.4f}".format),
        "95 % interval": lambda row: f"{row.low:.4f} to {row.high:.4f}",
    }
    return tables.page(title, [PROVEN_NOTES, "", *tables.rows_table(table, columns, left=2)])


# Private samplers beside the exact posterior

METRICS = {
    "accuracy": "accuracy", "mean_distance": "mean distance (sd)", "covariance_distance": "covariance distance",
    "predictive_gap": "predictive gap (nats)", "r_hat": "R-hat", "ess": "ESS", "log_loss": "log score (nats)",
    "brier": "Brier", "ece": "ECE",
}  # fmt: skip
FOUR_DIGITS = ("accuracy", "log_loss", "brier", "ece")
POSTERIOR_COLUMNS = [
    "dataset", "method", "variant", "temperature", "epsilon", "epsilon_proven", "metric", "mean", "sd", "low", "high",
    "repeats", "diverged", "violated",
]  # fmt: skip
TEMPERATURES = {"printed": ("-", "noise as printed"), "proper": ("--", "noise that targets the posterior")}
POSTERIOR_NOTES = """\
Means over repeats. R-hat is the largest and ESS the smallest over repeats, of the worst coordinate. Distances to the
exact posterior: of the mean in posterior standard deviations; of the covariance relative in Frobenius norm; of the
predictive density as log score minus the posterior's, in nats per test row. Log score, Brier score and expected
calibration error (ECE): smaller is better. Repeats without a finite value are left out; their number stands after a /.
†: a condition of the guarantee fails, or chains have diverged."""
WORST = {"r_hat": "max", "ess": "min"}  # worst value over repeats, because these are diagnostics
WIDE = 3.0  # largest over smallest value, above which an axis is logarithmic


def posterior_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of all METRICS; methods without a choice of the noise have temperature "printed"."""
    present = [metric for metric in METRICS if runs.metric.eq(metric).any()]
    if not present:
        raise ValueError("no row of these runs has a metric of the posterior: check conf/exhibit")
    table = pd.concat([summary(runs, metric).assign(metric=metric) for metric in present], ignore_index=True)
    table = table[table.method.ne("majority")]
    table["temperature"] = [variant_settings(each).get("temperature", "printed") for each in table.variant]
    return table[POSTERIOR_COLUMNS]


def against_posterior(
    runs: pd.DataFrame,
    *,
    methods: Sequence[str],
    panels: Mapping[str, str],
    note: str = "",
    title: str = "",
    proven: bool = False,
) -> Figure:
    """Draw private samplers against ε, with a panel for each metric (-> label); SGLD without privacy is a level.

    A metric with a wide range has a log axis, except accuracy.
    """
    table = accuracy.require(posterior_summary(runs), methods)
    x, epsilon = "ln_epsilon", table.epsilon_proven if proven else table.epsilon
    table[x] = np.log(epsilon.where(epsilon.gt(0)))
    with style.settings():
        figure = Figure(figsize=(3.6 * len(panels), 4.7), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels), sharex=True))
        for ax, (metric, name) in zip(axes, panels.items(), strict=True):
            rows = table[table.metric.eq(metric)]
            _metric_curves(ax, rows, methods, x)
            ax.set(ylabel=name, xlabel=accuracy.epsilon_label(runs, proven))
            if metric != "accuracy" and rows["mean"].max() > WIDE * rows["mean"].min():
                ax.set_yscale("log")
            accuracy.epsilon_axis(ax)
        private = table[table.method.isin(methods) & table.metric.eq("accuracy")]
        text = accuracy.caption(runs, table[table.repeats.gt(0)]) + accuracy.not_drawn(private, x)
        handles = [entry(look(method), ls="-") for method in methods]
        if table.method.eq("sgld").any():
            handles.append(Line2D([], [], color="black", label=look("sgld").label))
        handles += [
            Line2D([], [], color="#777777", ls=line, label=label)
            for temperature, (line, label) in TEMPERATURES.items()
            if table.temperature.eq(temperature).any()
        ]
        handles += hollow_entries(table.violated)
        bad = table[table.metric.isin(list(panels)) & table.diverged.gt(0)]
        counts = bad.groupby("method", sort=False).diverged.max()
        text += accuracy.listed("Repeats without a finite value, at most, left out", counts)
        return lay_out(figure, title, text + (f"\n{note}" if note else ""), handles)


def _metric_curves(ax: Axes, table: pd.DataFrame, methods: Sequence[str], x: str) -> None:
    """Draw the curves of one metric and the level of non-private SGLD."""
    for method in methods:
        for temperature, (line, _) in TEMPERATURES.items():
            curve = table.method.eq(method) & table.temperature.eq(temperature)
            rows = table[curve & np.isfinite(table[x]) & table["mean"].notna()].sort_values(x)
            low = np.maximum(rows.low, 0.01 * rows["mean"])  # a log axis cannot show values of 0 or less
            style.curve(ax, rows[x], rows.assign(low=low), look(method)._replace(line=line), width=2.2)
    nonprivate = table[table.method.eq("sgld")]
    for temperature, mean in zip(nonprivate.temperature, nonprivate["mean"].astype(float), strict=True):
        ax.axhline(mean, color="black", ls=TEMPERATURES[temperature][0], lw=1.1, zorder=1)


def against_posterior_page(runs: pd.DataFrame, *, methods: Sequence[str], title: str = "") -> str:
    """Return a Markdown page with all METRICS of each method, temperature and budget; R-hat and ESS at their worst."""
    table = posterior_summary(runs)
    present = [metric for metric in METRICS if table.metric.eq(metric).any()]
    worst = runs[np.isfinite(runs.value)].groupby(["method", "variant", "epsilon", "metric"]).value
    extreme = {metric: worst.agg(how) for metric, how in WORST.items()}
    lines = []
    for method in methods:
        groups: Any = table[table.method.eq(method)].groupby(["epsilon", "temperature", "variant"])
        for (epsilon, temperature, variant), rows in groups:
            of = rows.set_index("metric")
            flag = "†" if of.violated.ne("").any() else ""
            cells = [look(method).label + flag, temperature]
            cells += [_budget(epsilon), _budget(float(of.epsilon_proven.iloc[0]))]
            for metric in present:
                value = of["mean"].get(metric, np.nan)
                if metric in extreme:
                    value = extreme[metric].get((method, variant, epsilon, metric), np.nan)
                diverged = int(of.diverged.get(metric, 0))
                cells.append(_metric(metric, value) + (f" /{diverged}" if diverged else ""))
            lines.append(cells)
    columns = ["method", "noise", "promised ε", "proven ε", *(METRICS[metric] for metric in present)]
    return tables.page(title, [POSTERIOR_NOTES, "", *tables.table(columns, lines, left=2)])


def _budget(epsilon: float) -> str:
    """Return an epsilon as text, "none" if it is infinite."""
    return "none" if np.isinf(epsilon) else short(epsilon)


def _metric(metric: str, value: float) -> str:
    """Return the value of a metric as text, "" if it is nan."""
    if np.isnan(value):
        return ""
    return f"{value:.4f}" if metric in FOUR_DIGITS else short(value)
