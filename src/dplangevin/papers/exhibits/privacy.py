"""The figure and the page of the papers' promises, beside proven ε and attack ε."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from dplangevin.papers.claims import tally, verdicts
from dplangevin.papers.claims.rows import guarantee
from dplangevin.papers.exhibits import tables
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.reporting import style, words
from dplangevin.reporting.style import entry, lay_out, tint
from dplangevin.reporting.words import PRICES, at_least, at_most
from dplangevin.text import epsilon, number

SHOWN = ("formula", "promised", "add_remove", "replace_one")  # in the order of drawing
ATTACKS = (
    "Every attack is on the hypotheses of a theorem, not on a paper's own problem. Where all iterates are visible, "
    "gradients have any direction up to the clip (any loss). On posterior samples, the loss is logistic and the other "
    "records are free. These attacks have 95 % confidence. On the last iterate of ryffel2022, the loss is any that is "
    "L-Lipschitz, strongly convex and smooth. This ε is exact for one pair of data sets."
)
COLOURS = dict(zip(verdicts.WORDS, ("#009E73", "#6B6B00", "#B2182B", "#B35900"), strict=True))
SMALLEST, LARGEST = 1e-3, 1e4
EDGES = {"promised": 2.2}  # width of the edge of a marker, in points
GUARANTEES_TEXT = (
    "A span leads from the attack ε to the proven ε. The true ε for replaced records lies on it. Where it begins at "
    "the left edge, no attack ε above {smallest} is known. Attacks are on the hypotheses of the theorem (95 % "
    "confidence, or exact for one pair of data sets). Each ε is at the δ of its promise. The "
    "word at the right is the verdict of the claim."
)


def guarantees(frame: pd.DataFrame, *, title: str, cases: Sequence[str] = ()) -> Figure:
    """Draw a row for every guarantee with settings; values beyond the axis are hollow markers at its end."""
    promised = frame[np.isfinite(frame.epsilon_claimed)]
    priced = promised.mechanism.notna()
    rows, left_out = promised[priced], promised.label[~priced]
    lines: list[tuple[str, pd.Series | None]] = []
    for paper, group in rows.groupby("paper", sort=False):
        lines.append((words.PAPERS.get(str(paper), str(paper)), None))
        lines += [(row.label, row) for _, row in group.iterrows()]
    with style.settings():
        figure = Figure(figsize=(9.6, 2.1 + 0.23 * len(lines)), layout="constrained")
        ax = figure.subplots()
        ax.set(xscale="log", xlim=(SMALLEST / 1.5, LARGEST * 1.5), ylim=(len(lines) - 0.4, -0.6))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        text_style: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
        for y, (label, row) in enumerate(lines):
            ax.text(-0.01, y, label, ha="right", weight="bold" if row is None else "normal", **text_style)
            if row is not None:
                verdict = outcome(frame, row, cases)
                colour = COLOURS[verdict["verdict"]]
                _guarantee(ax, y, row, colour)
                ax.text(1.01, y, tally.word(verdict), color=colour, **text_style)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("privacy loss ε (log scale)")
        handles = [entry(PRICES[name], mew=EDGES.get(name, 1.0)) for name in (*SHOWN, "attack", "exact")]
        if rows[[_column(name) for name in SHOWN]].gt(LARGEST).to_numpy().any():
            handles.append(style.hollow_entry("hollow: beyond the axis"))
        text = GUARANTEES_TEXT.format(smallest=number(SMALLEST))
        if len(left_out):
            text += (
                f" Not drawn, because their settings are not stated ({len(left_out)}): {'; '.join(left_out)}."
            )
        return lay_out(figure, title, text, handles)


def outcome(frame: pd.DataFrame, row: pd.Series, cases: Sequence[str]) -> verdicts.Verdict:
    """Return the verdict on a guarantee by its numbers; `cases` are ids of promises of which one case was priced."""
    setting = "special case" if row.id in cases else "paper"
    return verdicts.claim_verdict(guarantee(frame, id=row.id), kind="paper", setting=setting)


def _column(name: str) -> str:
    return "epsilon_claimed" if name == "promised" else f"epsilon_{name}"


def _guarantee(ax: Axes, y: int, row: pd.Series, colour: str) -> None:
    """Draw the span and the marks of one guarantee; `colour` is that of the span."""
    ax.axhline(y, color="#eeeeee", lw=0.6, zorder=0)
    attack = row.epsilon_attack if row.epsilon_attack > SMALLEST else math.nan
    span: dict[str, Any] = {"lw": 5.0, "zorder": 1, "solid_capstyle": "butt"}
    ends = [SMALLEST / 1.5 if math.isnan(attack) else attack, min(row.epsilon_replace_one, LARGEST)]
    ax.plot(ends, [y, y], color=tint(colour, 0.3), **span)
    shown = {name: row[_column(name)] for name in SHOWN} | {"attack" if row.attack_runs else "exact": attack}
    for order, (name, value) in enumerate(shown.items()):
        if not math.isnan(value):
            of, at = PRICES[name], min(max(value, SMALLEST), LARGEST)
            face = of.colour if at == value else "white"
            ax.plot(at, y, **of.shape, mew=EDGES.get(name, 1.0), mfc=face, zorder=3 + order)


def guarantees_page(frame: pd.DataFrame, *, title: str, cases: Sequence[str] = ()) -> str:
    """Return a Markdown page with one table for each paper, and the reason of every verdict below it."""
    notes = (
        "All ε are at the δ of the promise. Proven ε: the smallest ε that our accountants prove. For steps without "
        "replacement it is the larger of both directions, up to 25 % above each alone. Attack ε: a lower bound. "
        + ATTACKS
        + " 'Other settings': the row prices settings that we chose, and the promise holds with others that the paper "
        "leaves open. 'Special case': the row prices one case of a theorem."
    )
    found = {row.id: outcome(frame, row, cases) for _, row in frame.iterrows()}
    columns: dict[str, Cell] = {
        "promise": cell("label"),
        "where": cell("where"),
        "promised ε": cell("epsilon_claimed", epsilon),
        "δ": cell("delta", epsilon),
        "ε by formula": cell("epsilon_formula", epsilon),
        "proven ε, add/remove": cell("epsilon_add_remove", at_most),
        "proven ε, replace-one": cell("epsilon_replace_one", at_most),
        "attack ε": cell("epsilon_attack", at_least),
        "verdict": lambda row: f"**{tally.word(found[row.id])}**",
    }
    sections = {}
    for paper, group in frame.groupby("paper", sort=False):
        reasons = [f"- {row.label}: {found[row.id]['reason']}." for _, row in group.iterrows()]
        heading = words.PAPERS.get(str(paper), str(paper))
        sections[heading] = [*tables.rows_table(group, columns), "", *reasons]
    return tables.page(title, [notes], sections)
