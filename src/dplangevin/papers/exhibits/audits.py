"""A figure and a page of what `dplangevin audit` shows of learners of published packages.

Both are pure functions of the rows that benchmarks/audits.py writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.papers.claims import words
from dplangevin.papers.claims.words import at_least
from dplangevin.papers.exhibits import style, tables
from dplangevin.papers.exhibits.style import Look, entry, lay_out
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.text import epsilon, number

EXCEEDS = Look("attack ε exceeds the promised ε", "#D55E00", "o", "", 6.0)
WITHIN = Look("attack ε is within the promised ε", "#0072B2", "o", "", 6.0)
VISIBLE = Look("true ε needed: the least that so many runs can detect", "#888888", "|", "", 9.0)
TEXT = (
    "Attack ε is a lower bound with {confidence} confidence. A dot left of the black line is no evidence for or "
    "against the promise. New fits confirm each attack ε that exceeds its promise. Grey mark: for a learner whose "
    "violation is the easiest to see. Each package was given all public facts that it asks for."
)
NOTES = (
    "The attack ε is a lower bound with {confidence} confidence, from two small tables that differ in one record. "
    "`dplangevin audit` searches for the pair and the event ([how](../../../docs/audit.md)). New fits confirm an "
    "attack ε that exceeds the promise. *No violation found* does not prove the promise. The number under *true ε "
    "needed* is the least true ε at which so many runs detect a violation where it is easiest to see (randomised "
    "response). "
    "Every package was given the public facts that it asks for, such as bounds. Where a package does not state its "
    "neighbours, the table has those that its noise is for, or both."
)
Notes = Mapping[str, Mapping[str, str]]


def audits(frame: pd.DataFrame, *, title: str) -> Figure:
    """Draw promised ε, attack ε and the least ε that the runs would show, a line for each learner.

    - `frame`: Rows of benchmarks/audits.csv.
    """
    with style.settings():
        figure = Figure(figsize=(9.4, 1.6 + 0.24 * len(frame)), layout="constrained")
        ax = figure.subplots()
        for y, (_, row) in enumerate(frame.iterrows()):
            ax.axhline(y, color="#eeeeee", lw=0.6, zorder=0)
            ax.plot([row.epsilon_promised] * 2, [y - 0.4, y + 0.4], color="#000000", lw=2.0, zorder=2)
            ax.plot([row.epsilon_visible], [y], **VISIBLE.shape, zorder=1)
            ax.plot([row.epsilon_attack], [y], **(EXCEEDS if row.violated else WITHIN).shape, zorder=3)
        ax.set(xlim=(-0.1, None), ylim=(len(frame) - 0.4, -0.6), xlabel="ε")
        ax.set_yticks(range(len(frame)), [_named(row) for _, row in frame.iterrows()])
        promised = Line2D([], [], color="#000000", lw=2.0, label="promised ε")
        handles = [promised, *map(entry, (EXCEEDS, WITHIN, VISIBLE))]
        return lay_out(figure, title, TEXT.format(confidence=_confidence(frame)), handles)


def audits_page(frame: pd.DataFrame, *, notes: Notes, title: str) -> str:
    """Return a Markdown page with a row for each learner, then each violation and how to repeat the audits.

    - `frame`: Rows of benchmarks/audits.csv.
    - `notes`: id -> `effect`, what the violation is, and `reported`, the address of an earlier report.
    """
    found = frame[frame.violated.eq(1)]
    if absent := sorted(set(found.id) - set(notes)):
        raise ValueError(
            f"no note on the violation by {', '.join(absent)}: write it in conf/exhibit/audits.yaml"
        )
    columns: dict[str, Cell] = {
        "learner": cell("label"),
        "package": lambda row: f"{row.package} {row.version}",
        "date": cell("date"),
        "neighbours": lambda row: words.NEIGHBOURS[row.neighbours],
        "promised ε": cell("epsilon_promised", epsilon),
        "δ": cell("delta", number),
        "attack ε": cell("epsilon_attack", at_least),
        "true ε needed": cell("epsilon_visible", epsilon),
        "runs": cell("runs", "{:,.0f}".format),
        "result": lambda row: "exceeds" if row.violated else "no violation found",
    }
    lines = [NOTES.format(confidence=_confidence(frame)), "", *tables.rows_table(frame, columns, left=4)]
    lines += ["", "## What exceeds its promise", ""]
    for _, row in found.iterrows():
        of = notes[row.id]
        program = f"[a program of a few lines](../../../docs/audits/{row.id}.py) shows it without dplangevin"
        earlier = f" Reported [before]({of['reported']})." if of.get("reported") else ""
        lines.append(
            f"- **{_named(row)}**, {words.NEIGHBOURS[row.neighbours]}. {of['effect']} Event: `{row.event}` "
            f"({row.pair}); {program}.{earlier}"
        )
    lines += [
        "",
        "## To repeat an audit",
        "",
        "`make audits` repeats all. One alone is `dplangevin audit` with",
        "",
    ]
    lines += [f"- {_named(row)}: `{row.options}`" for _, row in frame.iterrows()]
    return tables.page(title, lines)


def _named(row: Any) -> str:
    """Return the learner with its package."""
    return f"{row.package}: {row.label}"


def _confidence(frame: pd.DataFrame) -> str:
    return f"{100 * frame.confidence.min():g} %"
