"""The figure and the page of the papers' promises, beside proven ε and attack ε."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dplangevin.papers.claims import tally, verdicts
from dplangevin.papers.claims.rows import guarantee
from dplangevin.papers.exhibits import tables
from dplangevin.papers.exhibits.figures import dots
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.papers.statistics import sort_by
from dplangevin.reporting import words
from dplangevin.reporting.words import PRICES, at_least, at_most
from dplangevin.text import epsilon, number

COLOURS = {
    verdicts.FAILS: "#B2182B", verdicts.IN_PART: "#6B6B00", verdicts.OPEN: "#B35900", verdicts.HOLDS: "#009E73"
}  # fmt: skip
SMALLEST = 1e-3


def guarantees(frame: pd.DataFrame, *, shown: Sequence[str], text: str, title: str) -> Figure:
    """Draw the guarantees `shown` (ids), sorted by verdict, with promised ε, proven ε and attack ε."""
    rows = sort_by(frame[frame.id.isin([*shown])], id=shown)
    found = [outcome(frame, row) for _, row in rows.iterrows()]
    attack = rows.epsilon_attack.where(rows.epsilon_attack.gt(SMALLEST))
    rows = rows.assign(
        verdict=[verdict["verdict"] for verdict in found],
        word=[tally.word(verdict) for verdict in found],
        attack=attack.where(rows.attack_runs.ne(0)),
        exact=attack.where(rows.attack_runs.eq(0)),
        known=attack.fillna(SMALLEST / 1.5),
        violated="",
    )
    bar = {"x": "known", "low": "known", "high": "epsilon_replace_one"}
    marks: list[dict[str, Any]] = [
        *({"where": {"verdict": of}, **bar, "colour": colour} for of, colour in COLOURS.items()),
        {"x": "epsilon_claimed", "price": "promised", "label": PRICES["promised"].label},
        {"x": "epsilon_replace_one", "price": "replace_one", "label": PRICES["replace_one"].label},
        *({"x": name, "price": name, "label": PRICES[name].label} for name in ("attack", "exact")),
    ]
    largest = float(np.nanmax(rows[["epsilon_claimed", "epsilon_replace_one"]].to_numpy(float)))
    axis = {
        "xscale": "log",
        "xlim": (SMALLEST / 1.5, 1.5 * largest),
        "xlabel": "privacy loss ε",
        "marks": marks,
    }
    priced = int((np.isfinite(frame.epsilon_claimed) & frame.mechanism.notna()).sum())
    return dots(
        sort_by(rows, verdict=[*COLOURS]),
        label="{paper}: {label}",
        right="{word}",
        text=text.format(smallest=number(SMALLEST), shown=len(rows), priced=priced),
        panels=[axis],
        title=title,
    )


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
