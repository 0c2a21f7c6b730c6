"""Numbers about samplers: pure functions of runs, or of the rows of an analysis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dplangevin.papers.statistics import sort_by, summary, variant_settings


def temperature_rows(frame: pd.DataFrame, *, labels: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of the samplers in `labels`, in this order, with the columns `label` and `smallest` (step)."""
    rows = sort_by(frame[frame.sampler.isin([*labels])], sampler=[*labels])
    names = {}
    for sampler, of in rows[rows.problem.eq("1-d")].groupby("sampler"):
        ends = {"first": of.step.max(), "last": of.step.min()}
        names[sampler] = labels[str(sampler)].format(setting=of.setting.iloc[0], **ends)
    least = rows.groupby(["sampler", "problem", "kind"]).step.transform("min")
    return rows.assign(label=rows.sampler.map(names), smallest=rows.step.eq(least))


AT = ["theta_1", "theta_2"]


def trajectories(frame: pd.DataFrame, *, size: float) -> pd.DataFrame:
    """Return the points of each chain's path, and of ellipses, in order of the column `step`.

    Kinds: path, its second half, exact 1 to exact 3 of the posterior, and at `size` standard deviations those of all
    chains (own), and of the variant "<name>_proper" if there is one. `ratios` compares the chains with the posterior.
    """
    exact, found = _moments(frame[frame.variant.eq("exact")]), []
    for _, rows in frame[frame.sampler.notna()].groupby(["variant", "epsilon"]):
        variant, epsilon, proven = rows.iloc[0][["variant", "epsilon", "epsilon_proven"]]
        path = rows.loc[rows.kind.eq("path"), ["step", *AT]]
        curves = {"path": pd.concat([pd.DataFrame({"step": [0.0], **dict.fromkeys(AT, 0.0)}), path])}
        curves |= {"half": path[path.step.gt(0.5)], "own": ellipse(*_moments(rows), size)}
        curves |= {f"exact {k}": ellipse(*exact, k) for k in (1, 2, 3)}
        proper = frame[frame.variant.eq(f"{variant}_proper") & frame.epsilon.eq(epsilon)]
        curves |= {"proper": ellipse(*_moments(proper), size)} if len(proper) else {}
        same = {"variant": variant, "epsilon": epsilon, "epsilon_proven": proven, "ratios": _ratios(rows)}
        found += [points.assign(kind=kind, **same) for kind, points in curves.items()]
    return pd.concat(found, ignore_index=True)


def _moments(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
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
    of_all = " and ".join(f"{value:.2f} ± {(high - low) / 2:.2f}" for value, low, high in intervals)
    of_one = ", ".join(f"{value:.2f}" for value in within.value)
    return f"width over the posterior's:\n{of_all}\n(one chain: {of_one})"


def proven_samplers_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of accuracy and the number of steps of every run; its method is "<method>:<run>"."""
    keys = ["dataset", "method", "epsilon"]
    named = runs.assign(method=runs.method + ":" + runs.run)
    return summary(named).merge(named[[*keys, "steps"]].drop_duplicates(), on=keys, validate="one_to_one")


METRICS = [
    "accuracy", "mean_distance", "covariance_distance", "predictive_gap", "r_hat", "ess", "log_loss", "brier", "ece"
]  # fmt: skip
POSTERIOR_COLUMNS = [
    "dataset", "method", "variant", "temperature", "epsilon", "epsilon_proven", "metric", "mean", "sd", "low", "high",
    "repeats", "diverged", "violated",
]  # fmt: skip


def posterior_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of all METRICS; methods without a choice of the noise have temperature "printed"."""
    present = [metric for metric in METRICS if runs.metric.eq(metric).any()]
    table = pd.concat([summary(runs, metric).assign(metric=metric) for metric in present], ignore_index=True)
    table = table[table.method.ne("majority")]
    table["temperature"] = [variant_settings(each).get("temperature", "printed") for each in table.variant]
    return table[POSTERIOR_COLUMNS]


def posterior_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the summary with a column for each metric; R-hat and ESS, which are diagnostics, at their worst."""
    rows, keys = posterior_summary(runs), ["method", "epsilon", "variant"]
    wide = rows.pivot(index=keys, columns="metric", values="mean")
    of = runs[np.isfinite(runs.value)].groupby([*keys, "metric"]).value
    for metric, how in {"r_hat": "max", "ess": "min"}.items():
        wide[metric] = of.agg(how).xs(metric, level="metric")
    more = rows.groupby(keys)[["temperature", "epsilon_proven", "violated", "diverged"]].max()
    return wide.join(more.assign(diverged=more.diverged.where(more.diverged.gt(0)))).reset_index()
