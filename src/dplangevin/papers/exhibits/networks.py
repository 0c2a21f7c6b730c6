"""Numbers of learning curves and of heads against ε, and the figure of calibration.

The networks are those of li2019 (Table 1), and the heads and blocks on features of ryffel2022 (section 5).
All functions are pure functions of the frames of `reporting.read`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.papers.exhibits import tables
from dplangevin.papers.statistics import seed_summaries
from dplangevin.reporting import style
from dplangevin.reporting.style import entry, lay_out
from dplangevin.reporting.words import Look
from dplangevin.text import short, span

# Learning curves

PROVEN = ["epsilon_add_remove", "epsilon_replace_one"]


def nearest_budget(rows: pd.DataFrame, epsilon: float | None) -> pd.DataFrame:
    """Return the rows of one run at the budget nearest to `epsilon` > 0 in ln ε; None needs a single budget."""
    budgets, run = rows.epsilon.unique(), f"run {rows.run.iloc[0]}"
    if epsilon is None:
        if len(budgets) > 1:
            raise ValueError(f"{run} has budgets {budgets.tolist()}: say which `epsilon` to draw")
        return rows
    if not np.isfinite(budgets).all():
        raise ValueError(f"{run} has no finite budget: take its `epsilon` out of the exhibit")
    return rows[rows.epsilon.eq(min(budgets, key=lambda budget: abs(np.log(budget / epsilon))))]


def learning_curve_summary(frame: pd.DataFrame, *, curves: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row for each curve and epoch, with mean accuracy, its sd over seeds, and two proven ε.

    `curves` has {run, label, epsilon}; the budget nearest to `epsilon` is drawn, and replaces {epsilon} in the label.
    """
    summaries = []
    for curve in curves:
        rows = nearest_budget(frame[frame.run.eq(curve["run"])], curve.get("epsilon"))
        epsilon, method = float(rows.epsilon.iloc[0]), rows.method.iloc[0]
        accuracy = rows.groupby("epoch").accuracy
        label = curve["label"].format(epsilon=short(epsilon))
        columns: dict[str, Any] = {"label": label, "run": curve["run"], "method": method, "epsilon": epsilon}
        scores = {"accuracy": accuracy.mean(), "sd": accuracy.std(ddof=1), "seeds": accuracy.size()}
        summary = pd.DataFrame(scores).join(rows.groupby("epoch")[PROVEN].max()).reset_index()
        summaries.append(summary.assign(**columns)[[*columns, *summary.columns]])
    return pd.concat(summaries, ignore_index=True)


# Calibration

PREDICTORS = {
    "average": Look("posterior average", "#0072B2", "o", "-"),
    "single": Look("single sample", "#D55E00", "s", "--"),
}
LEAST = 20  # smallest number of predictions in a bin that is drawn
BINS = 15  # number of bins of `scores.reliability`, numbered from 1


def reliability_summary(frame: pd.DataFrame, *, panels: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row for each panel {run, title, epsilon}, predictor and confidence bin, pooled over seeds.

    confidence and accuracy are means weighted by count; ece and log_loss of the predictor are means over seeds.
    """
    summaries = []
    for order, panel in enumerate(panels):
        rows = nearest_budget(frame[frame.run.eq(panel["run"])], panel.get("epsilon"))
        epsilon = float(rows.epsilon.iloc[0])
        title = panel["title"].format(epsilon=short(epsilon))
        names: dict[str, Any] = {"panel": order, "title": title, "run": panel["run"], "epsilon": epsilon}
        for predictor in PREDICTORS:
            bins = rows[rows.predictor.eq(predictor)]
            seeds = bins[["seed", "log_loss", "ece"]].drop_duplicates()
            weighted = bins[["confidence", "accuracy"]].mul(bins["count"], axis=0)
            sums = weighted.assign(count=bins["count"]).groupby(bins.bin).sum()
            pooled = sums[["confidence", "accuracy"]].div(sums["count"], axis=0)
            count = sums["count"]
            pooled = pooled.assign(count=count, share=count / count.sum()).reset_index()
            names["predictor"] = predictor
            scores: dict[str, Any] = {"ece": seeds.ece.mean(), "log_loss": seeds.log_loss.mean()}
            scores["seeds"] = len(seeds)
            summaries.append(pooled.assign(**names, **scores)[[*names, *pooled.columns, *scores]])
    return pd.concat(summaries, ignore_index=True)


def reliability(
    frame: pd.DataFrame, *, panels: Sequence[Mapping[str, Any]], text: str, title: str = ""
) -> Figure:
    """Draw a reliability diagram for each panel, and below it the share of predictions in every bin."""
    table = reliability_summary(frame, panels=panels)
    groups = list(table.groupby("panel", sort=False))
    with style.settings():
        figure = Figure(figsize=(3.3 * len(groups) + 0.8, 5.6), layout="constrained")
        axes = figure.subplots(2, len(groups), squeeze=False, sharex=True, sharey="row", height_ratios=(3, 1))
        for (_, rows), top, bottom in zip(groups, axes[0], axes[1], strict=True):
            _diagram(top, bottom, rows)
        axes[0][0].set_ylabel("accuracy")
        axes[1][0].set_ylabel("share")
        handles = [entry(of, ms=4.5) for of in PREDICTORS.values()]
        handles.append(Line2D([], [], color=style.GREY, ls=":", label="calibrated"))
        facts = {"seeds": span(table.seeds), "least": LEAST, "bins": BINS}
        return lay_out(figure, title, text.format(**facts), handles)


def _diagram(top: Axes, bottom: Axes, rows: pd.DataFrame) -> None:
    """Draw the diagram, and the shares of the two predictors as bars side by side within each bin."""
    top.plot([0, 1], [0, 1], color=style.GREY, ls=":", lw=1.0, zorder=1)
    lines, width = [rows.title.iloc[0]], 1 / BINS
    for i, (predictor, of) in enumerate(PREDICTORS.items()):
        bins = rows[rows.predictor.eq(predictor)]
        if bins.empty:
            continue
        drawn = bins[bins["count"].ge(LEAST)]
        top.plot(drawn.confidence, drawn.accuracy, **(of.shape | {"ms": 4.0}), zorder=3)
        bottom.bar((bins.bin - 0.75 + 0.5 * i) * width, bins.share, width=0.46 * width, color=of.colour)
        lines.append(f"{of.label}: ECE {bins.ece.iloc[0]:.4f}, log loss {bins.log_loss.iloc[0]:.3f}")
    top.set_title("\n".join(lines), fontsize=8)
    top.set(xlim=(0, 1), ylim=(0, 1.02))
    bottom.set(yscale="log", xlabel="confidence")


# Heads against epsilon


def heads_over_epsilon_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy and prices of each method and budget in block "figure", and of the non-private run.

    If the block has no non-private run, one with constant steps on the same data set takes its place.
    """
    runs = frame[frame.block.eq("figure")]
    if runs.empty:
        raise ValueError(f"no run of block 'figure': the runs have {sorted(set(frame.block))}")
    if not runs.method.eq("sgd").any():
        nonprivate = frame.method.eq("sgd") & ~frame.schedule.eq("decreasing")
        runs = pd.concat([runs, frame[nonprivate & frame.dataset.isin(set(runs.dataset))]])
    keys, prices = ["dataset", "method", "run", "epsilon"], ["delta", "epsilon_proven"]
    rows = [{**row, **group.iloc[0][prices]} for row, group in seed_summaries(runs, keys)]
    return pd.DataFrame(rows)[[*keys, *prices, *tables.SCORES, "violated"]]
