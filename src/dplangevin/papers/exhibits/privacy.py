"""The figure and the page of the papers' promises, beside proven ε and attack ε."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dplangevin.papers.claims import tally, verdicts
from dplangevin.papers.claims.rows import guarantee
from dplangevin.papers.exhibits import tables
from dplangevin.papers.exhibits.figures import dots
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.reporting import words
from dplangevin.reporting.words import PRICES, at_least, at_most
from dplangevin.text import epsilon, number

SHOWN = ("formula", "promised", "add_remove", "replace_one", "attack", "exact")  # in the order of drawing
COLOURS = dict(zip(verdicts.WORDS, ("#009E73", "#6B6B00", "#B2182B", "#B35900"), strict=True))
SMALLEST = 1e-3


def guarantees(frame: pd.DataFrame, *, text: str, title: str) -> Figure:
    """Draw a row for every guarantee with settings, with its prices, attack and verdict."""
    promised = frame[np.isfinite(frame.epsilon_claimed)]
    priced = promised.mechanism.notna()
    rows, left_out = promised[priced], promised.label[~priced]
    found = [outcome(frame, row) for _, row in rows.iterrows()]
    attack = rows.epsilon_attack.where(rows.epsilon_attack.gt(SMALLEST))
    rows = rows.assign(
        epsilon_promised=rows.epsilon_claimed,
        epsilon_attack=attack.where(rows.attack_runs.ne(0)),
        epsilon_exact=attack.where(rows.attack_runs.eq(0)),
        violated="",
        known=attack.fillna(SMALLEST / 1.5),
        verdict=[verdict["verdict"] for verdict in found],
        word=[tally.word(verdict) for verdict in found],
    )
    spans = [
        {
            "where": {"verdict": verdict},
            "x": "known",
            "low": "known",
            "high": "epsilon_replace_one",
            "colour": colour,
        }
        for verdict, colour in COLOURS.items()
    ]
    shown = [name for name in SHOWN if rows[f"epsilon_{name}"].notna().any()]
    marks = [{"x": f"epsilon_{name}", "price": name, "label": PRICES[name].label} for name in shown]
    limits = (SMALLEST / 1.5, 1.5 * rows[[f"epsilon_{name}" for name in shown]].max(axis=None))
    text = text.format(smallest=number(SMALLEST))
    if len(left_out):
        text += f" Not drawn, because their settings are not stated ({len(left_out)}): {'; '.join(left_out)}."
    axis = {
        "xscale": "log",
        "xlim": limits,
        "xlabel": "privacy loss ε (log scale)",
        "marks": [*spans, *marks],
    }
    return dots(rows, label="{paper}: {label}", right="{word}", text=text, panels=[axis], title=title)


def outcome(frame: pd.DataFrame, row: pd.Series) -> verdicts.Verdict:
    """Return the verdict on a guarantee by its numbers alone; results/claims.csv has that on the paper's sentence."""
    return verdicts.claim_verdict(guarantee(frame, id=row.id), kind="paper", setting="paper")


def guarantees_page(frame: pd.DataFrame, *, notes: str, title: str) -> str:
    """Return a Markdown page with one table for each paper, and the reason of every verdict below it."""
    found = {row.id: outcome(frame, row) for _, row in frame.iterrows()}
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
