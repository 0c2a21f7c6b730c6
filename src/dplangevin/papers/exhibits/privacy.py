"""Promised, proven and attack ε: a figure and a page of the papers' promises, and two pages of attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dplangevin.papers.claims import tally, verdicts
from dplangevin.papers.claims.rows import guarantee
from dplangevin.papers.exhibits import tables
from dplangevin.papers.exhibits.figures import dots
from dplangevin.papers.exhibits.tables import Cell, cell, method_label
from dplangevin.papers.statistics import sort_by
from dplangevin.reporting import words
from dplangevin.reporting.words import PRICES, at_least, at_most
from dplangevin.text import epsilon, number, short

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


# Attack ε over proven ε, from the rows of `papers.analyses.brackets`


def _facts(frame: pd.DataFrame, parts: str) -> dict[str, Any]:
    runs, known = frame[frame.runs.gt(0)], frame[frame.one_dimensional.eq(1)].ratio
    confidence = runs.confidence.min() if len(runs) else 1.0
    methods = [words.method(name) for name in frame.method[frame.attacked.eq("parts")].unique()]
    return {
        "delta": number(frame.delta.iloc[0]),
        "confidence": f"{100 * confidence:g} %",
        "median": f"{100 * known.median():.0f}",
        "least": f"{100 * known.min():.0f}",
        "parts": " " + parts.format(methods=words.listed(methods)) if methods else "",
    }


def brackets_page(frame: pd.DataFrame, *, notes: str, parts: str, title: str) -> str:
    """Return a Markdown page with a row for each method and ε, and then how each method is attacked.

    `notes` begins the page; if an attack is on parts, it has a sentence `parts`.
    """
    columns: dict[str, Cell] = {
        "method": lambda row: method_label(row.method),
        "neighbours": lambda row: words.NEIGHBOURS[row.neighbours],
        "promised ε": cell("epsilon_promised", epsilon),
        "proven ε": cell("epsilon_proven", at_most),
        "attack ε": cell("epsilon_attack", at_least),
        "share": lambda row: f"{100 * row.ratio:.0f} %",
        "runs": cell("runs", "{:,.0f}".format),
        "confidence": lambda row: "exact" if row.runs == 0 else f"{100 * row.confidence:g} %",
        "attack on": cell("attacked"),
    }
    lines = [notes.format(**_facts(frame, parts)), "", *tables.rows_table(frame, columns, left=2)]
    lines += ["", "## How each method is attacked, and what is loose", ""]
    for name, rows in frame.groupby("method", sort=False):
        first = rows.iloc[0]
        shares = f"{short(100 * rows.ratio.min())} to {short(100 * rows.ratio.max())} %"
        lines.append(
            f"- {method_label(str(name))} ({shares}). Pair: {first.pair}. Statistic: {first.statistic}. {first.gap}"
        )
    return tables.page(title, lines)


# Learners of published packages, from the rows of benchmarks/audits.py


def audits_page(
    frame: pd.DataFrame, *, introduction: str, notes: Mapping[str, Mapping[str, str]], title: str
) -> str:
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
