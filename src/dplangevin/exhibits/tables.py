"""Tables as pure functions of tidy run frames: the numbers behind a figure, the metrics file, the readable
list of claims."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.comparison import Interval, t_interval
from dplangevin.exhibits.style import number

SUMMARY_COLUMNS = [
    "dataset", "method", "variant", "scaling", "epsilon", "ln_epsilon", "epsilon_paper", "epsilon_tight",
    "ln_epsilon_tight", "mean", "sd", "low", "high", "repeats", "diverged",
    "violated",
]  # fmt: skip
MAJORITY = "majority_accuracy"


def ln(epsilon: float) -> float:
    """Natural log that sends 0 to -inf and inf to inf without a warning."""
    return math.log(epsilon) if epsilon > 0 else -math.inf


def summary(runs: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """Mean, standard deviation and 95 % Student interval of a metric over repeats, one row per data set, method,
    variant, scaling and budget.

    runs: long form, one row per repeat and metric. The share of the majority class (metric `majority_accuracy`) becomes
    rows of the method `majority` in a summary of accuracy. `epsilon_tight` is the largest over the repeats; `violated`
    joins the distinct texts. Values that are not finite, of chains that have diverged, are left out and counted in
    `diverged`. sd, low and high are nan for a single repeat, as is the mean for none. Raises ValueError when a repeat
    occurs twice.
    """
    kept = runs[runs.metric.isin([metric, MAJORITY] if metric == "accuracy" else [metric])].copy()
    kept.loc[kept.metric.eq(MAJORITY), "method"] = "majority"
    keys = ["dataset", "method", "variant", "scaling", "epsilon"]
    # every non-private method says what the majority class is worth
    again = kept.method.eq("majority") & kept.duplicated([*keys, "repeat", "value"])
    kept = kept[~again]
    twice = kept.duplicated([*keys, "repeat"])
    if twice.any():
        raise ValueError(
            f"a run is listed twice: {kept[twice].iloc[0][[*keys, 'repeat']].to_dict()} occurs more than once"
        )
    rows = []
    for values, group in kept.groupby(keys, sort=False):
        finite = group.value[np.isfinite(group.value)]
        interval = t_interval(finite) if len(finite) else Interval(math.nan, math.nan, math.nan)
        row: dict[str, Any] = dict(zip(keys, values, strict=True))
        tight = float(group.epsilon_tight.max())
        row |= {"epsilon_paper": float(group.epsilon_paper.max()), "epsilon_tight": tight}
        row |= {
            "ln_epsilon": ln(float(group.epsilon.iloc[0])),
            "ln_epsilon_tight": ln(tight) if not math.isnan(tight) else math.nan,
        }
        row |= {
            "mean": interval.mean,
            "sd": float(finite.std(ddof=1)),
            "low": interval.low,
            "high": interval.high,
        }
        row |= {"repeats": len(finite), "diverged": len(group) - len(finite)}
        row["violated"] = " | ".join(sorted({text for text in group.violated if text}))
        rows.append(row)
    table = pd.DataFrame(rows, columns=SUMMARY_COLUMNS)
    return table.sort_values(keys, kind="stable", ignore_index=True)


def variant_settings(variant: str) -> dict[str, str]:
    """Settings in a variant string: "bound=range;radius=10.0" -> {"bound": "range", "radius": "10.0"}; "" ->
    {}."""
    pairs = [piece.partition("=") for piece in variant.split(";") if piece]
    if any(not sep for _, sep, _ in pairs):
        raise ValueError(f"variant {variant!r} is not key=value joined by ';'")
    return {key: value for key, _, value in pairs}


def metrics(runs: pd.DataFrame, epsilon: float = 1.0) -> dict[str, Any]:
    """Nested metrics, experiment -> data set -> method: mean accuracy at the budget nearest `epsilon`, and
    its audited epsilon.

    The key names the budget, for example accuracy_at_eps_1. Runs with a variant (sensitivity runs) are left
    out.
    """
    nested: dict[str, Any] = {}
    for experiment, frame in runs[runs.variant.eq("")].groupby("experiment"):
        for (dataset, method), rows in summary(frame).groupby(["dataset", "method"]):
            rows = rows[rows["mean"].notna()]
            if rows.empty:
                continue
            finite = rows[np.isfinite(rows.epsilon)]
            here = (
                nested.setdefault(str(experiment), {})
                .setdefault(str(dataset), {})
                .setdefault(str(method), {})
            )
            if finite.empty:
                here["accuracy"] = round(float(rows["mean"].iloc[0]), 6)
                continue
            row = finite.loc[(np.log(finite.epsilon) - math.log(epsilon)).abs().idxmin()]
            here[f"accuracy_at_eps_{number(row.epsilon)}"] = round(float(row["mean"]), 6)
            if math.isfinite(row.epsilon_tight):
                here["epsilon_tight"] = round(float(row.epsilon_tight), 6)
    return nested


def claims_markdown(claims: pd.DataFrame) -> str:
    """A readable page of the claims table: counts of the verdicts, then each statement of the paper with its
    rows."""
    counts = claims.verdict.value_counts()
    lines = ["# Claims and verdicts", "", "| verdict | claims |", "|---|---|"]
    lines += [f"| {verdict} | {count} |" for verdict, count in counts.items()]
    for (paper, where, statement), group in claims.groupby(["paper", "where", "statement"], sort=False):
        lines += [
            "",
            f"## {paper}, {where}",
            "",
            f"> {statement}",
            "",
            "| claim | published | ours (95 %) | verdict |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {row.id} | {row.published} | {_ours(row)} | **{row.verdict}** |" for row in group.itertuples()
        ]
        lines += [
            "",
            *[f"- {row.id}: {row.reason}. Numbers: `{row.evidence}`." for row in group.itertuples()],
        ]
    return "\n".join(lines) + "\n"


def _ours(row: Any) -> str:
    if pd.isna(row.ours):
        return ""
    return f"{row.ours:.5g}" if pd.isna(row.low) else f"{row.ours:.4f} ({row.low:.4f} to {row.high:.4f})"
