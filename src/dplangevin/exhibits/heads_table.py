"""The exhibits `ryffel2022_tab1` and `_tab2`: logistic regression on features, each row with its five epsilons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.comparison import Interval, t_interval
from dplangevin.exhibits import style
from dplangevin.exhibits.markdown import head, line, percent, price
from dplangevin.exhibits.style import short

KEYS = ["features", "block", "run", "method", "schedule", "calibration", "epsilon"]
PRICES = {
    "epsilon_paper": "paper's ε",
    "epsilon_formula_epochs": "formula, K = epochs",
    "epsilon_formula_steps": "formula, K = steps",
    "epsilon_tight": "all iterates",
    "epsilon_last": "last iterate",
    "epsilon_audit": "attack on this row, at least",
}
OTHERS = ["epsilon_tight_add_remove"]
SETTINGS = [
    "delta", "step_size", "precision", "beta", "clip", "noise_std", "noise_multiplier", "batch", "epochs", "steps",
    "records", "features_dim", "classes",
]  # fmt: skip
SHOWN = {
    "step_size": "η", "precision": "λ", "clip": "clip", "noise_std": "σ", "noise_multiplier": "σ/clip",
    "batch": "batch", "epochs": "epochs",
}  # fmt: skip
BLOCKS = {
    "published": "The authors' settings",
    "equal": "At ε = 1, proven or by their formula",
    "public": "At ε = 1, step sizes from a public bound",
}
NOISE = {
    "published": "the authors'",
    "formula": "their formula, K = steps, at ε = 1",
    "tight": "proven price at ε = 1",
    "": "",
}
NETWORKS = {"resnet18": "ResNet-18", "alexnet": "AlexNet"}
INTRO = """\
Logistic regression on the features of a network trained on public images, {schedule}: DP-Langevin (the paper's
DP-SGLD) beside DP-SGD and training without privacy. The first block shows what the authors' own settings cost; in the
second the noise is chosen anew, and only rows of the same proven price compare. In both, as in the paper, step sizes
follow from the largest eigenvalue of the private features, which no ε here pays for; in the third they follow from the
public bound on the rows."""
NOTES = """\
Accuracy on the test set in %: the last iterate, mean over seeds with its 95 % t-interval. The paper's numbers, for
which it prints ε = 1.0 (they stand in both blocks), are of **another network** than ours, and its code reports the best
epoch on the test set. The five ε, at the δ of the row, for replace-one neighbours: the paper's Theorem 3.1 with K =
epochs, as its code counts (the steps are those of our features, so it is not quite 1), and with K = steps, as the
theorem says (no bound for batches: the proof covers full batches); the smallest ε that we can prove with all iterates
visible (for DP-Langevin's subsets by the larger of both directions of a step, up to 25 % above each alone); a bound for
the last iterate alone (Bok, Su, Altschuler 2024), where it applies; what an attack on this row shows to be lost at
least ({confidence} confidence). That attack is on a pair of records that this problem admits, the best of a flipped
label, x and -x, and pairs of other lengths, all other rows being zero, through the step that trains; an attack on the
theorem's hypotheses, any loss with gradients as long, shows more. Add/remove: the price for the other kind of
neighbours with Poisson batches, which is what the authors' accountant for DP-SGD computes."""


def summary(
    frame: pd.DataFrame, *, schedule: str, published: Sequence[Mapping[str, Any]] = ()
) -> pd.DataFrame:
    """One row per features and run of one schedule: accuracy with its 95 % interval over seeds, prices, settings.

    frame: rows of `head_files.read_heads`. published: printed accuracies as {dataset, method, network, accuracy}, which
    stand beside the rows whose features begin with the data set (columns paper_<network>). Over seeds the largest of
    every price counts, and of the attack the smallest.
    """
    rows = []
    kept = frame[frame.schedule.eq(schedule) & frame.block.isin(list(BLOCKS))]
    if kept.empty:
        raise ValueError(f"no run with schedule {schedule!r}: the runs have {sorted(set(frame.schedule))}")
    networks = [*dict.fromkeys(number["network"] for number in published)]
    for values, group in kept.groupby(KEYS, sort=False, dropna=False):
        if group.seed.duplicated().any():
            raise ValueError(f"a seed of run {group.run.iloc[0]} occurs twice: check its results/heads file")
        row: dict[str, Any] = dict(zip(KEYS, values, strict=True))
        row |= {f"paper_{network}": math.nan for network in networks}
        for number in published:
            if row["features"].startswith(f"{number['dataset']}_") and row["method"] == number["method"]:
                row[f"paper_{number['network']}"] = number["accuracy"]
        row |= scores(group)
        row |= {
            column: group[column].min() if column == "epsilon_audit" else group[column].max()
            for column in [*PRICES, *OTHERS]
        }
        row |= {column: group[column].max() for column in SETTINGS}
        row["violated"] = " | ".join(sorted({text for text in group.violated if text}))
        rows.append(row)
    table = pd.DataFrame(rows)
    order = table.block.map({block: i for i, block in enumerate(BLOCKS)})
    task = table.features.map({name: i for i, name in enumerate(table.features.unique())})
    return table.iloc[(len(table) * order + task).argsort(kind="stable")].reset_index(drop=True)


def scores(group: pd.DataFrame) -> dict[str, float]:
    """Mean accuracy with its 95 % interval over seeds, mean log loss, seeds; without the chains that have diverged
    (nan)."""
    kept = group[np.isfinite(group.accuracy)]
    interval = t_interval(kept.accuracy) if len(kept) else Interval(math.nan, math.nan, math.nan)
    found = {"accuracy": interval.mean, "low": interval.low, "high": interval.high, "seeds": len(kept)}
    return {**found, "log_loss": kept.log_loss.mean()}


def page(
    frame: pd.DataFrame,
    *,
    schedule: str,
    published: Sequence[Mapping[str, Any]],
    features: Mapping[str, Mapping[str, str]],
    title: str = "",
) -> str:
    """Markdown: a table for each block. features: name in the frame -> {task, network, source}: the classification
    task, the network behind the features, and in words where images and weights are from."""
    table = summary(frame, schedule=schedule, published=published)
    steps = {"constant": "constant step size", "decreasing": "decreasing step size"}[schedule]
    confidence = "/".join(f"{100 * value:g} %" for value in sorted(frame.audit_confidence.dropna().unique()))
    lines = [f"# {title}", "", INTRO.format(schedule=steps), ""]
    for name in table.features.unique():
        said = features.get(name, {"task": name, "network": name, "source": ""})
        lines.append(f"- {said['task']}: {said['network']}. {said['source']}".rstrip())
        chosen = parts(frame.assumptions[frame.features.eq(name) & frame.schedule.eq(schedule)])
        lines += [f"  Assumed, in all rows or some: {'; '.join(chosen)}."] if chosen else []
    lines += ["", NOTES.format(confidence=confidence or "95 %")]
    lines += failed(table)
    for block, name in BLOCKS.items():
        rows = table[table.block.eq(block)]
        if len(rows):
            lines += ["", f"## {name}", "", *_block(rows, features)]
    return "\n".join(lines) + "\n"


def _block(rows: pd.DataFrame, features: Mapping[str, Mapping[str, str]]) -> list[str]:
    networks = [
        f"paper_{name}"
        for name in NETWORKS
        if rows.get(f"paper_{name}", pd.Series(dtype=float)).notna().any()
    ]
    names = [NETWORKS[column.removeprefix("paper_")] for column in networks]
    columns = ["task", "network", "method", "noise", "settings", *[f"paper, {name}" for name in names]]
    lines = head([*columns, "ours", "95 % interval", "seeds", "δ", *PRICES.values(), "add/remove"], text=5)
    for _, row in rows.iterrows():
        said = features.get(row.features, {"task": row.features, "network": row.features})
        cells = [said["task"], said["network"], style.look(row.method).label, NOISE[row.calibration]]
        cells += [settings(row), *[percent(row[column]) for column in networks]]
        cells += [percent(row.accuracy) + ("†" if row.violated else ""), interval(row), f"{row.seeds}"]
        private = row.method != "none"
        cells += [style.number(row.delta) if private else ""]
        cells += [price(row[column]) if private else "" for column in [*PRICES, *OTHERS]]
        lines.append(line(cells))
    return lines


def failed(table: pd.DataFrame) -> list[str]:
    """A line on what † means, with the distinct texts of `violated`; none where nothing is."""
    texts = parts(table.violated.str.replace(" | ", "; "))
    return [f"†: not met: {'; '.join(texts)}."] if texts else []


def parts(notes: pd.Series) -> list[str]:
    """The distinct pieces, joined by "; ", of the texts in a column."""
    return [*dict.fromkeys(piece for text in notes for piece in text.split("; ") if piece)]


def interval(row: pd.Series) -> str:
    """The 95 % interval of an accuracy in %, or why there is none."""
    if row.seeds < 2:
        return "one seed" if row.seeds else "diverged"
    return f"{percent(row.low)} to {percent(row.high)}"


def settings(row: pd.Series) -> str:
    """What a row was trained with, in short; what its method lacks is left out."""
    return ", ".join(
        f"{name} {style.number(row[column]) if float(row[column]).is_integer() else short(row[column])}"
        for column, name in SHOWN.items()
        if column in row and math.isfinite(row[column])
    )
