"""Numbers of learning curves and of calibration: pure functions of the frames of `reporting.read`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.text import short

PROVEN = ["epsilon_add_remove", "epsilon_replace_one"]
# {run, a name with perhaps {epsilon}, and perhaps `epsilon`, to which the nearest budget is taken}
Curve = Mapping[str, Any]


def _each(
    frame: pd.DataFrame, curves: Sequence[Curve], name: str
) -> Iterator[tuple[tuple[str, str, float], pd.DataFrame]]:
    """Yield name, run and ε of each curve, and the rows of its run at the budget nearest to its `epsilon` in ln ε."""
    for curve in curves:
        rows = frame[frame.run.eq(curve["run"])]
        budgets, wanted = rows.epsilon.unique(), curve.get("epsilon")
        if wanted and np.isfinite(budgets).all():
            rows = rows[rows.epsilon.eq(min(budgets, key=lambda budget: abs(np.log(budget / wanted))))]
        elif wanted or len(budgets) > 1:
            there = f"run {curve['run']} has budgets {budgets.tolist()}"
            raise ValueError(f"{there}: say in the exhibit which `epsilon`")
        epsilon = float(rows.epsilon.iloc[0])
        yield (curve[name].format(epsilon=short(epsilon)), curve["run"], epsilon), rows


def learning_curve_summary(frame: pd.DataFrame, *, curves: Sequence[Curve]) -> pd.DataFrame:
    """Return one row for each curve and epoch, with mean accuracy, its sd over seeds, and two proven ε."""
    summaries = {}
    for (label, run, epsilon), rows in _each(frame, curves, "label"):
        accuracy = rows.groupby("epoch").accuracy
        scores = {"accuracy": accuracy.mean(), "sd": accuracy.std(ddof=1), "seeds": accuracy.size()}
        summary = pd.DataFrame(scores).join(rows.groupby("epoch")[PROVEN].max())
        summaries[label, run, rows.method.iloc[0], epsilon] = summary
    return pd.concat(summaries, names=["label", "run", "method", "epsilon"]).reset_index()


def reliability_summary(frame: pd.DataFrame, *, panels: Sequence[Curve]) -> pd.DataFrame:
    """Return one row for each panel, predictor and confidence bin, pooled over seeds."""
    summaries = {}
    for order, (key, rows) in enumerate(_each(frame, panels, "title")):
        for predictor, bins in rows.groupby("predictor", sort=False):
            seeds = bins[["seed", "log_loss", "ece"]].drop_duplicates()
            weighted = bins[["confidence", "accuracy"]].mul(bins["count"], axis=0)
            sums = weighted.assign(count=bins["count"]).groupby(bins.bin).sum()
            pooled = sums[["confidence", "accuracy"]].div(sums["count"], axis=0)
            pooled = pooled.assign(count=sums["count"], share=sums["count"] / sums["count"].sum())
            scores: dict[str, Any] = {"ece": seeds.ece.mean(), "log_loss": seeds.log_loss.mean()}
            summaries[order, *key, predictor] = pooled.assign(**scores, seeds=len(seeds))
    return pd.concat(summaries, names=["panel", "title", "run", "epsilon", "predictor"]).reset_index()
