"""The exhibit `ryffel2022_tab3`: the last block trained as well, beside the head alone, with and without privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from dplangevin.exhibits import dots, style
from dplangevin.exhibits.heads_figure import counts
from dplangevin.exhibits.heads_table import failed, interval, parts, scores, settings
from dplangevin.exhibits.markdown import head, line, percent, price

KEYS = ["run", "trained", "method"]
PRICES = {
    "epsilon_paper": "paper's ε",
    "epsilon_tight": "tight, replace-one",
    "epsilon_tight_add_remove": "tight, add/remove",
}
SETTINGS = ["delta", "step_size", "clip", "noise_multiplier", "batch", "epochs", "steps", "parameters"]
TRAINED = {"head": "The head alone", "block": "Last block and head"}
NOTES = """\
CIFAR-10: the last block of {network} is trained together with its head, by DP-SGD and without privacy, and for
comparison the head alone in the same loop with the same settings. Accuracy on the test set in %: the last iterate, mean
over seeds with its 95 % t-interval. The paper's numbers are of **another network** (ResNet-18, its "last and fourth
block", and for the head those of Table 1), and its code reports the best epoch on the test set."""
CAPTION = (
    "Accuracy of the last iterate, mean and 95 % t-interval over {seeds} seeds; {network}. The paper's accuracies are\n"
    "of another network, and of the best epoch on the test set."
)


def summary(frame: pd.DataFrame, *, published: Sequence[Mapping[str, Any]] = ()) -> pd.DataFrame:
    """One row per run: accuracy with its 95 % interval over seeds, prices, settings. frame: rows of
    `head_files.read_finetune`. published: printed accuracies as {run, accuracy}."""
    printed = {number["run"]: number["accuracy"] for number in published}
    rows = []
    for values, group in frame.groupby(KEYS, sort=False):
        if group.seed.duplicated().any():
            raise ValueError(
                f"a seed of run {group.run.iloc[0]} occurs twice: check its results/finetune file"
            )
        row: dict[str, Any] = dict(zip(KEYS, values, strict=True))
        row |= {"paper_resnet18": printed.get(row["run"], math.nan), **scores(group)}
        row |= {column: group[column].max() for column in [*PRICES, *SETTINGS]}
        row["violated"] = " | ".join(sorted({text for text in group.violated if text}))
        rows.append(row)
    order = {trained: i for i, trained in enumerate(TRAINED)}
    return pd.DataFrame(rows).sort_values(
        "trained", key=lambda names: names.map(order), kind="stable", ignore_index=True
    )


def page(
    frame: pd.DataFrame, *, published: Sequence[Mapping[str, Any]], network: str, title: str = ""
) -> str:
    """Markdown: one table. network: what the page calls the network."""
    table = summary(frame, published=published)
    lines = [f"# {title}", "", NOTES.format(network=network)]
    lines += (
        [f"Assumed, in all rows or some: {'; '.join(parts(frame.assumptions))}."]
        if frame.assumptions.any()
        else []
    )
    lines += failed(table)
    names = [
        "trained",
        "network",
        "method",
        "settings",
        "parameters",
        "paper, ResNet-18",
        "ours",
        "95 % interval",
    ]
    lines += ["", *head([*names, "seeds", "δ", *PRICES.values()], text=4)]
    for _, row in table.iterrows():
        private = row.method != "none"
        cells = [TRAINED[row.trained], network, style.look(row.method).label, settings(row)]
        cells += [f"{row.parameters:.0f}", percent(row.paper_resnet18)]
        cells += [percent(row.accuracy) + ("†" if row.violated else ""), interval(row), f"{row.seeds}"]
        cells += [style.number(row.delta) if private else ""]
        lines.append(line([*cells, *(price(row[column]) if private else "" for column in PRICES)]))
    return "\n".join(lines) + "\n"


def chart(
    frame: pd.DataFrame, *, published: Sequence[Mapping[str, Any]], network: str, title: str = ""
) -> Figure:
    """One panel, the runs below each other; arguments as for `page`."""
    table = summary(frame, published=published)
    labels = [style.look(method).label for method in table.method]
    rows = table.assign(label=labels, group=table.trained.map(TRAINED))
    delta = float(table.delta[table.method.ne("none")].iloc[0])
    text = CAPTION.format(seeds=counts(table), network=network)
    return dots.chart([dots.Panel("", rows, delta)], title=title, text=text)
