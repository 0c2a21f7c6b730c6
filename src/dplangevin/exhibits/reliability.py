"""The exhibit `li2019_reliability`: confidence against accuracy, of a posterior average and of a single sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as put_frame
from dplangevin.exhibits.learning_curves import nearest
from dplangevin.exhibits.style import short

PREDICTORS = {
    "average": ("posterior average", "#0072B2", "o", "-"),
    "single": ("single sample", "#D55E00", "s", "--"),
}
NAMED = ["panel", "title", "run", "epsilon", "predictor"]
SEED = ["seed", "log_loss", "ece"]
TEXT = (
    "Bins of equal width, test predictions pooled over seeds (number: {seeds}); points of bins with less than {least} "
    "predictions are left out.\nECE (expected calibration error, {bins} bins) and log loss (nats): means over seeds. "
    "Below the diagonal: over-confident."
)
LEAST = 20  # predictions in a bin that is drawn
BINS = 15  # of `scores.reliability`, numbered from 1


def summary(frame: pd.DataFrame, *, panels: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per panel, predictor and bin, pooled over seeds: confidence and accuracy weighted by count, count, share
    of all predictions, and the predictor's ECE and log loss, means over seeds.

    frame: reliability rows with ece and log_loss (`files.read_training`). panels: {run, title, epsilon (where the run
    has several budgets)}; {epsilon} in a title is the budget found.
    """
    parts = []
    for order, panel in enumerate(panels):
        here = nearest(frame[frame.run.eq(panel["run"])], panel.get("epsilon"))
        title = panel["title"].format(epsilon=short(float(here.epsilon.iloc[0])))
        for predictor in PREDICTORS:
            part = here[here.predictor.eq(predictor)]
            seeds = part[SEED].drop_duplicates()
            scores = {"ece": seeds.ece.mean(), "log_loss": seeds.log_loss.mean(), "seeds": len(seeds)}
            values = (order, title, panel["run"], here.epsilon.iloc[0], predictor)
            named = dict(zip(NAMED, values, strict=True))
            weighted = part[["confidence", "accuracy"]].mul(part["count"], axis=0)
            sums = weighted.assign(count=part["count"]).groupby(part.bin).sum()
            pooled = sums[["confidence", "accuracy"]].div(sums["count"], axis=0)
            shares = pooled.assign(count=sums["count"], share=sums["count"] / sums["count"].sum())
            parts.append(shares.reset_index().assign(**named, **scores))
    table = pd.concat(parts, ignore_index=True)
    return table[[*NAMED, *(column for column in table if column not in NAMED)]]


def chart(frame: pd.DataFrame, *, panels: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """A column for each panel: the reliability diagram, below it the share of predictions in every bin (log axis)."""
    table = summary(frame, panels=panels)
    groups = list(table.groupby("panel", sort=False))
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(3.3 * len(groups) + 0.8, 5.6), layout="constrained")
        axes = figure.subplots(2, len(groups), squeeze=False, sharex=True, sharey="row", height_ratios=(3, 1))
        for (_, rows), top, bottom in zip(groups, axes[0], axes[1], strict=True):
            _diagram(top, rows)
            _shares(bottom, rows)
            bottom.set_xlabel("confidence")
        axes[0][0].set_ylabel("accuracy")
        axes[1][0].set_ylabel("share")
        handles = [
            Line2D([], [], color=colour, marker=marker, ls=line, ms=4.5, label=label)
            for label, colour, marker, line in PREDICTORS.values()
        ]
        handles.append(Line2D([], [], color="#888888", ls=":", label="calibrated"))
        seeds = " to ".join(str(n) for n in sorted({table.seeds.min(), table.seeds.max()}))
        put_frame(figure, title, TEXT.format(seeds=seeds, least=LEAST, bins=BINS), handles)
    return figure


def _diagram(ax: Axes, rows: pd.DataFrame) -> None:
    ax.plot([0, 1], [0, 1], color="#888888", ls=":", lw=1.0, zorder=1)
    said = []
    for predictor, (label, colour, marker, line) in PREDICTORS.items():
        part = rows[rows.predictor.eq(predictor)]
        if part.empty:
            continue
        drawn = part[part["count"].ge(LEAST)]
        ax.plot(drawn.confidence, drawn.accuracy, color=colour, ls=line, marker=marker, ms=4.0, zorder=3)
        said.append(f"{label}: ECE {part.ece.iloc[0]:.4f}, log loss {part.log_loss.iloc[0]:.3f}")
    ax.set_title("\n".join([rows.title.iloc[0], *said]), fontsize=8)
    ax.set(xlim=(0, 1), ylim=(0, 1.02))


def _shares(ax: Axes, rows: pd.DataFrame) -> None:
    """Bars of the two predictors side by side within each bin."""
    width = 1 / BINS
    for i, (predictor, (_, colour, _, _)) in enumerate(PREDICTORS.items()):
        part = rows[rows.predictor.eq(predictor)]
        ax.bar((part.bin - 0.75 + 0.5 * i) * width, part.share, width=0.46 * width, color=colour)
    ax.set_yscale("log")
