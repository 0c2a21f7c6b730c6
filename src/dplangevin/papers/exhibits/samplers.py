"""Figures, numbers and pages about samplers: pure functions of runs, or of the rows of an analysis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.papers.exhibits import tables
from dplangevin.papers.statistics import sort_by, summary, variant_settings
from dplangevin.reporting.words import at_most, look
from dplangevin.text import short

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

AT = ["theta_1", "theta_2"]


def trajectories(frame: pd.DataFrame, *, size: float) -> pd.DataFrame:
    """Return the points of each chain's path, and of ellipses, in order of the column `step`.

    Kinds: path from its start, its second half, the ellipses exact 1 to exact 3 of the posterior, and at `size`
    standard deviations those of all chains (own), and of the variant "<name>_proper" (noise N(0, 2η)) if there is one.
    The column `ratios` compares the chains with the posterior.
    """
    exact, found = _moments(frame[frame.variant.eq("exact")]), []
    for (variant, epsilon), rows in frame[frame.sampler.notna()].groupby(["variant", "epsilon"]):
        path = rows.loc[rows.kind.eq("path"), ["step", *AT]]
        curves = {"path": pd.concat([pd.DataFrame({"step": [0.0], **dict.fromkeys(AT, 0.0)}), path])}
        curves |= {"half": path[path.step.gt(0.5)], "own": ellipse(*_moments(rows), size)}
        curves |= {f"exact {k}": ellipse(*exact, k) for k in (1, 2, 3)}
        proper = frame[frame.variant.eq(f"{variant}_proper") & frame.epsilon.eq(epsilon)]
        curves |= {"proper": ellipse(*_moments(proper), size)} if len(proper) else {}
        same = {
            "variant": variant,
            "epsilon": epsilon,
            "ratios": _ratios(rows),
            **rows.iloc[0][["epsilon_proven"]],
        }
        found += [points.assign(kind=kind, **same) for kind, points in curves.items()]
    return pd.concat(found, ignore_index=True)


def _moments(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return mean ``(2,)`` and covariance ``(2, 2)`` of one variant at one epsilon."""
    lines = rows[rows.kind.eq("covariance")].sort_values("axis")
    return rows.loc[rows.kind.eq("mean"), AT].to_numpy(float)[0], lines[AT].to_numpy(float)


def ellipse(mean: np.ndarray, covariance: np.ndarray, size: float) -> pd.DataFrame:
    """Return the points of the ellipse at `size` standard deviations of N(mean (2,), covariance (2, 2))."""
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    x, y = mean[:, None] + size * np.linalg.cholesky(covariance) @ circle
    return pd.DataFrame({"step": angle, "theta_1": x, "theta_2": y})


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
