"""The exhibits `li2019_tab1` and `li2019_tab1_svhn`: the rows of Table 1 beside what was trained, as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplangevin.comparison import t_interval
from dplangevin.exhibits import style
from dplangevin.exhibits.markdown import head, line, percent, price
from dplangevin.exhibits.style import short

KEYS = ["dataset", "network", "block", "run", "method", "epsilon"]
SETTINGS = ["delta", "step", "batch", "epochs", "clip", "noise_multiplier"]
PRICES = ["epsilon_formula", "epsilon_add_remove", "epsilon_replace_one"]
SCORES = ["accuracy_single", "log_loss", "log_loss_single", "brier", "ece", "ece_single"]
SHOWN = {
    "step": "η", "batch": "batch", "epochs": "epochs", "clip": "clip", "noise_multiplier": "σ", "answered": "answered",
    "epsilon_data_dependent": "ε that depends on the data",
}  # fmt: skip
DEPENDENT = ["answered", "epsilon_data_dependent"]  # PATE's own columns, where they are there
BLOCKS = {
    "nonprivate": "Without privacy",
    "printed": "The paper's printed settings",
    "equal": "At equal audited ε",
    "reference": "A published number for the small network",
}
NOTES = """\
Accuracy on the test set in %, the mean over seeds and their standard deviation; with one seed there is no standard
deviation. Samplers predict with the average of their posterior samples. The paper's ε is the one it prints; formula:
that of the paper's accountant, or of the method's own where that has no price; tight: the smallest ε that we can prove,
for the two kinds of neighbours; all at δ = {delta}. Equal audited ε: the noise is chosen so that the tight price under
add/remove is at most the ε of the row. η: step size, σ: noise multiplier. PATE learns from the even test images and is
scored on the odd ones. Published numbers are those of the paper's network, also where they stand beside another.
Formula: {accountants}."""
VIOLATED = "†: a condition of the guarantee is not met."


def summary(
    frame: pd.DataFrame,
    *,
    published: Sequence[Mapping[str, Any]] = (),
    names: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """One row per run and budget: label, settings, published accuracy, ours with its 95 % interval over seeds, prices.

    frame: final rows (`files.read_training`). published: printed numbers as {where: {column: value or list}, accuracy,
    epsilon (may be absent), source (may be absent)}; `where` picks the rows that a number stands beside. names: run ->
    label, where that of its method does not say enough. sd, low and high are nan for one seed.
    """
    rows = []
    present = [column for column in DEPENDENT if column in frame]
    for values, group in frame.groupby(KEYS, sort=False, dropna=False):
        if group.seed.duplicated().any():
            raise ValueError(f"a seed of run {group.run.iloc[0]} occurs twice at one ε: check its final.csv")
        row: dict[str, Any] = dict(zip(KEYS, values, strict=True))
        row["label"] = (names or {}).get(row["run"]) or style.look(row["method"]).label
        row |= {column: group[column].iloc[0] for column in SETTINGS}
        interval = t_interval(group.accuracy)
        row |= {"seeds": len(group), "accuracy": interval.mean, "sd": group.accuracy.std(ddof=1)}
        row |= {"low": interval.low, "high": interval.high}
        row |= {column: group[column].mean() for column in SCORES if column in group}
        row |= {column: group[column].max() for column in [*PRICES, *present]}
        row["accountant"] = group.accountant.iloc[0]
        row["violated"] = " | ".join(sorted({text for text in group.violated if text}))
        rows.append(row)
    table = pd.DataFrame(rows)
    table.insert(len(KEYS) + 1, "accuracy_paper", math.nan)
    table.insert(len(KEYS) + 2, "epsilon_paper", math.nan)
    table.insert(len(KEYS) + 3, "source", "")
    for number in published:
        here = matches(table, number["where"])
        table.loc[here, "accuracy_paper"] = number["accuracy"]
        table.loc[here, "epsilon_paper"] = number.get("epsilon", math.nan)
        table.loc[here, "source"] = number.get("source", "")
    order = table.block.map({block: i for i, block in enumerate(BLOCKS)})
    return (
        table.assign(order=order).sort_values("order", kind="stable", ignore_index=True).drop(columns="order")
    )


def matches(table: pd.DataFrame, where: Mapping[str, Any]) -> pd.Series:
    """The rows in which every column of `where` has its value, or one of its values."""
    here = pd.Series(True, index=table.index)
    for column, value in where.items():
        here &= table[column].isin(value if isinstance(value, list) else [value])
    return here


def page(
    frame: pd.DataFrame,
    *,
    published: Sequence[Mapping[str, Any]],
    networks: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    title: str = "",
) -> str:
    """Markdown: a table for each block; for that of equal audited ε first the methods side by side. networks: name of a
    network in the frame -> what the page calls it."""
    table = summary(frame, published=published, names=names)
    table["network"] = [networks.get(name, name) for name in table.network]
    lines = [f"# {title}", "", _notes(table)]
    for block, name in BLOCKS.items():
        rows = table[table.block.eq(block)]
        if rows.empty:
            continue
        lines += ["", f"## {name}", ""]
        if sources := sorted({text for text in rows.source if text}):
            lines += [f"Published: {'; '.join(sources)}.", ""]
        if block == "equal":
            lines += [*_side_by_side(rows), ""]
        lines += _block(rows)
    return "\n".join(lines) + "\n"


def _notes(table: pd.DataFrame) -> str:
    private = table[np.isfinite(table.epsilon_add_remove) & table.accountant.ne("")]
    of = private.groupby("method", sort=False).accountant.agg(lambda names: "/".join(sorted(set(names))))
    accountants = ", ".join(f"{style.look(str(method)).label}: {name}" for method, name in of.items())
    delta = "/".join(style.number(value) for value in sorted(private.delta.unique()))
    text = NOTES.format(accountants=accountants, delta=delta)
    return f"{text}\n{VIOLATED}" if table.violated.ne("").any() else text


def _side_by_side(rows: pd.DataFrame) -> list[str]:
    """Networks x budgets down, methods across; a printed number stands in brackets beside ours."""
    methods = {method: style.look(method).label for method in rows.method.unique()}
    lines = head(["network", "tight ε at most", *methods.values()], text=1)
    order = rows.network.map({network: i for i, network in enumerate(rows.network.unique())})
    for _, group in rows.groupby([order, "epsilon"]):
        cells = [group.network.iloc[0], style.number(float(group.epsilon.iloc[0]))]
        for method in methods:
            found = group[group.method.eq(method)]
            cells.append(_beside(found.iloc[0]) if len(found) else "")
        lines.append(line(cells))
    return lines


def _beside(row: pd.Series) -> str:
    text = (
        f"{percent(row.accuracy)} ± {percent(row.sd)}"
        if row.seeds > 1
        else f"{percent(row.accuracy)} (1 seed)"
    )
    paper = "" if math.isnan(row.accuracy_paper) else f" [{percent(row.accuracy_paper)}]"
    return f"{text}{'†' if row.violated else ''}{paper}"


def _block(rows: pd.DataFrame) -> list[str]:
    names = ["network", "method", "settings", "published", "ours", "sd", "seeds", "paper's ε", "formula ε"]
    lines = head([*names, "tight ε, add/remove", "tight ε, replace-one"], text=3)
    for _, row in rows.iterrows():
        ours = percent(row.accuracy) + ("†" if row.violated else "")
        seeds = f"{row.seeds}" if row.seeds > 1 else "1 seed"
        cells = [
            row.network,
            row.label,
            settings(row),
            percent(row.accuracy_paper),
            ours,
            percent(row.sd),
            seeds,
        ]
        cells += [price(row.epsilon_paper), *(price(row[column]) for column in PRICES)]
        lines.append(line(cells))
    return lines


def settings(row: pd.Series) -> str:
    """What a row was trained with, whole numbers as they are, others in short; what its method lacks is left out."""
    parts = {name: row.get(column, math.nan) for column, name in SHOWN.items()}
    return ", ".join(
        f"{name} {style.number(value) if float(value).is_integer() else short(value)}"
        for name, value in parts.items()
        if np.isfinite(value)
    )
