"""How near private samplers come to the exact posterior: accuracy and distances against privacy loss, and a table of
diagnostics and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import caption, frame, hollow_handle, top_axis, undrawn, xlabel
from dplangevin.exhibits.tables import summary, variant_settings

METRICS = {
    "accuracy": "accuracy", "mean_distance": "mean distance (sd)", "covariance_distance": "covariance distance",
    "predictive_gap": "predictive gap (nats)", "r_hat": "R-hat", "ess": "ESS", "log_loss": "log score (nats)",
    "brier": "Brier", "ece": "ECE",
}  # fmt: skip
COLUMNS = [
    "dataset", "method", "variant", "temperature", "epsilon", "epsilon_tight", "metric", "mean", "sd", "low", "high",
    "repeats", "diverged", "violated",
]  # fmt: skip
LINES = {"printed": "-", "proper": "--"}
NOTES = """\
Means over repeats; R-hat: the largest, ESS: the smallest over repeats (worst coordinate). Distances to the exact
posterior: of the mean in posterior standard deviations, of the covariance relative in Frobenius norm, of the predictive
density (log score minus the posterior's) in nats per test row. Log score, Brier and expected calibration error (ECE):
smaller is better. Repeats without a finite value are left out (their number after a /). †: a condition of the guarantee
fails, or chains have diverged."""
WORST = {"r_hat": "max", "ess": "min"}  # over repeats, as a diagnostic is read
WIDE = 3.0  # ratio between values from which on their axis is logarithmic


def scores(runs: pd.DataFrame) -> pd.DataFrame:
    """Summary of every metric of METRICS, one row per method, variant, budget and metric.

    temperature: as the variant says, "printed" where the method has no such choice.
    """
    parts = [
        summary(runs, metric).assign(metric=metric) for metric in METRICS if runs.metric.eq(metric).any()
    ]
    if not parts:
        raise ValueError("no row of these runs has a metric of the posterior: check conf/exhibit")
    table = pd.concat(parts, ignore_index=True)
    table = table[table.method.ne("majority")]
    settings = [variant_settings(variant) for variant in table.variant]
    table["temperature"] = [setting.get("temperature", "printed") for setting in settings]
    return table[COLUMNS]


def family(
    runs: pd.DataFrame,
    *,
    methods: Sequence[str],
    panels: Mapping[str, str],
    baseline: str = "sgld",
    title: str = "",
    audited: bool = False,
) -> Figure:
    """One panel per metric of `panels` (metric -> axis name) against privacy loss; wide distances on a log axis.

    A curve per method and temperature, solid as printed, dashed where the posterior is the target; the non-private
    `baseline` as horizontal lines. Means with 95 % Student intervals. Raises ValueError where a method has no rows.
    """
    table = scores(runs)
    if absent := [m for m in methods if m not in set(table.method)]:
        raise ValueError(f"no rows for {absent}: list their runs under files in conf/exhibit")
    x = "ln_epsilon_tight" if audited else "ln_epsilon"
    column = "epsilon_tight" if audited else "epsilon"
    table[x] = np.log(table[column].where(table[column].gt(0)))
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(3.6 * len(panels), 4.7), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels), sharex=True))
        for ax, (metric, name) in zip(axes, panels.items(), strict=True):
            rows = table[table.metric.eq(metric)]
            draw(ax, rows, methods, baseline, x)
            ax.set(ylabel=name, xlabel=xlabel(runs, audited))
            if metric != "accuracy" and rows["mean"].max() > WIDE * rows["mean"].min():
                ax.set_yscale("log")
            top_axis(ax)
        private = table[table.method.isin(methods) & table.metric.eq("accuracy")]
        text = caption(runs, table[table.repeats.gt(0)]) + undrawn(private, x) + _diverged(table, panels)
        frame(figure, title, text, _handles(table, methods, baseline))
    return figure


def draw(ax: Axes, table: pd.DataFrame, methods: Sequence[str], baseline: str, x: str) -> None:
    """The curves of one metric, and the baseline's level."""
    for method in methods:
        look = style.look(method)
        for temperature, line in LINES.items():
            kept = table.method.eq(method) & table.temperature.eq(temperature) & np.isfinite(table[x])
            rows = table[kept & table["mean"].notna()].sort_values(x)
            ax.plot(rows[x], rows["mean"], color=look.colour, ls=line, zorder=3)
            low = np.maximum(rows.low, 0.01 * rows["mean"])  # a log axis has no place for less than 0
            ax.vlines(rows[x], low, rows.high, color=style.tint(look.colour), lw=2.2, zorder=2)
            for hollow, part in rows.groupby(rows.violated.ne("")):
                face = "white" if hollow else look.colour
                at: dict[str, Any] = {"marker": look.marker, "ms": look.size, "mfc": face}
                ax.plot(part[x], part["mean"], ls="", color=look.colour, zorder=4, **at)
    levels = table[table.method.eq(baseline)]
    for temperature, mean in zip(levels.temperature, levels["mean"].astype(float), strict=True):
        ax.axhline(mean, color="black", ls=LINES[temperature], lw=1.1, zorder=1)


def _handles(table: pd.DataFrame, methods: Sequence[str], baseline: str) -> list[Line2D]:
    found = []
    for method in methods:
        look = style.look(method)
        kind: dict[str, Any] = {"marker": look.marker, "ms": look.size}
        found.append(Line2D([], [], color=look.colour, label=look.label, **kind))
    if table.method.eq(baseline).any():
        found.append(Line2D([], [], color="black", label=style.look(baseline).label))
    found.append(Line2D([], [], color="#777777", ls=LINES["printed"], label="noise as printed"))
    if table.temperature.eq("proper").any():
        found.append(
            Line2D([], [], color="#777777", ls=LINES["proper"], label="noise that targets the posterior")
        )
    return [*found, hollow_handle()] if table.violated.ne("").any() else found


def _diverged(table: pd.DataFrame, panels: Mapping[str, str]) -> str:
    bad = table[table.metric.isin(list(panels)) & table.diverged.gt(0)]
    counts = bad.groupby("method", sort=False).diverged.max()
    listed = ", ".join(f"{style.look(str(m)).label} {int(n)}" for m, n in counts.items())
    return f"\nRepeats without a finite value, at most, left out: {listed}." if listed else ""


def page(runs: pd.DataFrame, *, methods: Sequence[str], title: str = "") -> str:
    """Markdown: every metric of METRICS for every method, temperature and budget; R-hat is the largest and ESS the
    smallest over the repeats, the others are means."""
    table = scores(runs)
    present = [metric for metric in METRICS if table.metric.eq(metric).any()]
    head = ["method", "noise", "ε asked", "ε audited", *(METRICS[metric] for metric in present)]
    lines = [
        f"# {title}",
        "",
        NOTES,
        "",
        f"| {' | '.join(head)} |",
        f"|{' --- |' * 2}{' ---: |' * (len(head) - 2)}",
    ]
    keys = ["method", "variant", "epsilon", "metric"]
    worst = runs[np.isfinite(runs.value)].groupby(keys).value
    extreme = {metric: worst.agg(how) for metric, how in WORST.items()}
    for method in methods:
        groups = table[table.method.eq(method)].groupby(["epsilon", "temperature", "variant"])
        for key, rows in groups:
            named: Any = key
            epsilon, temperature, variant = named
            cells = rows.set_index("metric")
            flag = "†" if cells.violated.ne("").any() else ""
            line = [style.look(method).label + flag, temperature]
            line += [_budget(epsilon), _budget(float(cells.epsilon_tight.iloc[0]))]
            for metric in present:
                value = cells["mean"].get(metric, np.nan)
                if metric in extreme:
                    value = extreme[metric].get((method, variant, epsilon, metric), np.nan)
                lost = int(cells.diverged.get(metric, 0))
                line.append(_cell(metric, value) + (f" /{lost}" if lost else ""))
            lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines) + "\n"


def _budget(epsilon: float) -> str:
    return "none" if np.isinf(epsilon) else style.short(epsilon)


def _cell(metric: str, value: float) -> str:
    if np.isnan(value):
        return ""
    return f"{value:.4f}" if metric in ("accuracy", "log_loss", "brier", "ece") else style.short(value)
