"""A page of what `dplangevin audit` shows of learners of published packages, from the rows of benchmarks/audits.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dplangevin.papers.exhibits import tables
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.reporting import words
from dplangevin.reporting.words import at_least
from dplangevin.text import epsilon, number

Notes = Mapping[str, Mapping[str, str]]


def audits_page(frame: pd.DataFrame, *, introduction: str, notes: Notes, title: str) -> str:
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
    lines = [
        introduction.format(confidence=f"{100 * frame.confidence.min():g} %"),
        "",
        *tables.rows_table(frame, columns, left=4),
    ]
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
    return f"{row.package}: {row.label}"
