"""Printed privacy promises beside what they cost: a figure with one row per promise, and a readable table."""

from __future__ import annotations

import math
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin import claims
from dplangevin.claims.analysis import promise
from dplangevin.exhibits import style
from dplangevin.exhibits.style import short

# column: label, marker, colour, size; drawn in this order
MARKERS = {
    "epsilon_claimed": ("claimed", "|", "#000000", 13.0),
    "epsilon_formula": ("the paper's formula", "s", "#E69F00", 4.5),
    "epsilon_add_remove": ("tight, add/remove", "<", "#56B4E9", 5.5),
    "epsilon_replace_one": ("tight, replace-one", "o", "#0072B2", 5.5),
}
AUDIT = ("attack on the hypotheses: at least (95 %)", "#D55E00")
ATTACKS = (
    "All attacks are on hypotheses, not on a paper's own problem: where all iterates are visible, gradients of any "
    "direction up to the clip (any loss); on the last iterate of ryffel2022, any L-Lipschitz, strongly convex, smooth "
    "loss; on posterior samples, the logistic loss with any other records."
)
VERDICTS = {
    claims.REPRODUCED: "#009E73",
    claims.UNDER_CHOICES: "#6B6B00",
    claims.NOT_REPRODUCED: "#B35900",
    claims.CONTRADICTED: "#B2182B",
    claims.NOT_TESTABLE: "#777777",
}
SMALLEST, LARGEST = 1e-3, 1e4
PAPERS = {"li2019": "Li et al. 2019", "ryffel2022": "Ryffel et al. 2022", "wang2015": "Wang et al. 2015"}


def chart(frame: pd.DataFrame, *, title: str) -> Figure:
    """One row per promise on a log epsilon axis, grouped by paper: markers for what is claimed and what it costs, a bar
    up to the lower bound by an attack on the hypotheses, and the verdict at the right. Promises without settings show
    the claim alone; what lies beyond the axis is drawn at its end, hollow."""
    rows = frame[np.isfinite(frame.epsilon_claimed)]
    lines: list[tuple[str, pd.Series | None]] = []
    for paper, group in rows.groupby("paper", sort=False):
        lines.append((PAPERS.get(str(paper), str(paper)), None))
        lines += [(row.label, row) for _, row in group.iterrows()]
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(9.6, 1.5 + 0.23 * len(lines)), layout="constrained")
        ax = figure.subplots()
        ax.set(xscale="log", xlim=(SMALLEST / 1.5, LARGEST * 1.5), ylim=(len(lines) - 0.4, -0.6))
        for y, (label, row) in enumerate(lines):
            ax.text(
                -0.01,
                y,
                label,
                transform=ax.get_yaxis_transform(),
                ha="right",
                va="center",
                fontsize=8,
                weight="bold" if row is None else "normal",
            )
            if row is not None:
                _draw(ax, y, row)
                word = promise(frame, id=row.id)["verdict"]
                place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
                ax.text(1.01, y, word, color=VERDICTS[word], **place)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("ε at the δ of the promise")
        figure.suptitle(title, fontsize=11)
        figure.legend(handles=_handles(), loc="outside lower center", ncols=3)
    return figure


def _draw(ax: Axes, y: int, row: pd.Series) -> None:
    ax.axhline(y, color="#eeeeee", lw=0.6, zorder=0)
    if row.audit_epsilon > SMALLEST:
        ax.plot(
            [SMALLEST / 1.5, min(row.audit_epsilon, LARGEST)],
            [y, y],
            color=AUDIT[1],
            lw=4.5,
            alpha=0.75,
            zorder=1,
            solid_capstyle="butt",
        )
    for order, (column, (_, marker, colour, size)) in enumerate(MARKERS.items()):
        value = row[column]
        if math.isnan(value):
            continue
        at = min(max(value, SMALLEST), LARGEST)
        face = colour if at == value else "white"
        wide = 2.2 if marker == "|" else 1.0
        ax.plot(at, y, ls="", marker=marker, color=colour, mfc=face, ms=size, mew=wide, zorder=3 + order)


def _handles() -> list[Line2D]:
    found = [
        Line2D(
            [],
            [],
            ls="",
            marker=marker,
            color=colour,
            ms=size,
            mew=2.2 if marker == "|" else 1.0,
            label=label,
        )
        for label, marker, colour, size in MARKERS.values()
    ]
    hollow = Line2D([], [], ls="", marker="o", color="#555555", mfc="white", label="hollow: beyond the axis")
    return [*found, Line2D([], [], color=AUDIT[1], lw=4.5, alpha=0.75, label=AUDIT[0]), hollow]


def table(frame: pd.DataFrame, *, title: str) -> str:
    """A page of Markdown: per paper one row per promise, then for each its words, settings and verdict."""
    lines = [f"# {title}", ""]
    lines += [
        "ε at the δ of the promise; tight: the smallest ε we can prove (steps without replacement by the "
        "larger of both directions, up to 25 % above each alone), attack: a lower bound (95 %). " + ATTACKS,
        "",
    ]
    for paper, group in frame.groupby("paper", sort=False):
        lines += [f"## {PAPERS.get(str(paper), str(paper))}", ""]
        lines += [
            "| promise | where | claimed | δ | formula | add/remove | replace-one | attack ≥ | verdict |"
        ]
        lines += ["|---|---|---|---|---|---|---|---|---|"]
        found = {name: promise(frame, id=name) for name in group.id}
        for _, row in group.iterrows():
            prices = (row.epsilon_formula, row.epsilon_add_remove, row.epsilon_replace_one, row.audit_epsilon)
            numbers = [
                "" if math.isnan(value) else short(value)
                for value in (row.epsilon_claimed, row.delta, *prices)
            ]
            cells = [row.label, row["where"], *numbers, f"**{found[row.id]['verdict']}**"]
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", *[f"- {row.label}: {found[row.id]['reason']}." for _, row in group.iterrows()], ""]
    return "\n".join(lines)
