"""Figures, numbers and pages about samplers: pure functions of runs, or of the rows of an analysis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from dplangevin.papers.exhibits import tables
from dplangevin.papers.statistics import sort_by, summary, variant_settings
from dplangevin.reporting import style
from dplangevin.reporting.style import lay_out, tint
from dplangevin.reporting.words import at_most, look
from dplangevin.text import number, short

# The power of the posterior that each sampler targets


def temperature_rows(frame: pd.DataFrame, *, labels: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of the samplers in `labels`, in this order, with the columns `label` and `smallest` (step).

    In a label {setting}, {first} and {last} are the setting, the largest and the smallest step.
    """
    if absent := sorted({*labels} - set(frame.sampler)):
        raise ValueError(f"no temperature rows for {absent}: known are {sorted(set(frame.sampler))}")
    rows = sort_by(frame[frame.sampler.isin([*labels])], sampler=[*labels])
    names = {}
    for sampler, of in rows[rows.problem.eq("1-d")].groupby("sampler"):
        ends = {"first": of.step.max(), "last": of.step.min()}
        names[sampler] = labels[str(sampler)].format(setting=of.setting.iloc[0], **ends)
    least = rows.groupby(["sampler", "problem", "kind"]).step.transform("min")
    return rows.assign(label=rows.sampler.map(names), smallest=rows.step.eq(least))


# Trajectories on a two-dimensional normal posterior: Figure 2 of wang2015

CHAIN_COLOURS = {"sgld": "#E69F00", "sgnht": "#0072B2"}
PROPER_COLOUR = "#D55E00"
ELLIPSE = 2.0  # size of a sampler's ellipse in standard deviations


def trajectories(frame: pd.DataFrame, *, panels: Mapping[str, str], text: str, title: str = "") -> Figure:
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
        text = text.format(size=ELLIPSE, proven=" and ".join(map(short, proven)))
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
    ratio, within = (rows[rows.kind.eq(kind)].sort_values("axis") for kind in ("ratio", "within"))
    intervals = ratio[["value", "low", "high"]].to_numpy(float)
    of_all = ", ".join(f"{value:.2f} ± {(high - low) / 2:.2f}" for value, low, high in intervals)
    of_one = ", ".join(f"{value:.2f}" for value in within.value)
    distance = rows[rows.kind.eq("distance")].value.iloc[0]
    return f"sd / exact: {of_all}\nwithin one chain: {of_one}\ndistance of means: {distance:.2f} sd"


# One posterior sample by HMC and by a sampler whose distance to the posterior is proven


def proven_samplers_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of accuracy and the number of steps of every run; its method is "<method>:<run>"."""
    keys = ["dataset", "method", "epsilon"]
    named = runs.assign(method=runs.method + ":" + runs.run)
    return summary(named).merge(named[[*keys, "steps"]].drop_duplicates(), on=keys, validate="one_to_one")


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
WORST = {"r_hat": "max", "ess": "min"}  # worst value over repeats, because these are diagnostics


def posterior_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of all METRICS; methods without a choice of the noise have temperature "printed"."""
    present = [metric for metric in METRICS if runs.metric.eq(metric).any()]
    if not present:
        raise ValueError("no row of these runs has a metric of the posterior: check conf/exhibit")
    table = pd.concat([summary(runs, metric).assign(metric=metric) for metric in present], ignore_index=True)
    table = table[table.method.ne("majority")]
    table["temperature"] = [variant_settings(each).get("temperature", "printed") for each in table.variant]
    return table[POSTERIOR_COLUMNS]


def against_posterior_page(runs: pd.DataFrame, *, methods: Sequence[str], notes: str, title: str = "") -> str:
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
            cells += [_budget(epsilon), _budget(float(of.epsilon_proven.iloc[0]), at_most)]
            for metric in present:
                value = of["mean"].get(metric, np.nan)
                if metric in extreme:
                    value = extreme[metric].get((method, variant, epsilon, metric), np.nan)
                diverged = int(of.diverged.get(metric, 0))
                cells.append(_metric(metric, value) + (f" /{diverged}" if diverged else ""))
            lines.append(cells)
    columns = ["method", "noise", "promised ε", "proven ε", *(METRICS[metric] for metric in present)]
    return tables.markdown(title, [notes, tables.table(columns, lines, left=2)])


def _budget(epsilon: float, text: Callable[[float], str] = short) -> str:
    return "none" if np.isinf(epsilon) else text(epsilon)


def _metric(metric: str, value: float) -> str:
    if np.isnan(value):
        return ""
    return f"{value:.4f}" if metric in FOUR_DIGITS else short(value)
