"""The rows of the claims table in the form in which the pages show them, and counts of verdicts.

Each row has its title, one sentence for its result, its quotation, an interval plot, its reason, and the command
that recomputes it. Sentences are in the order of the papers. The facts behind the claims that fail are listed too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import pandas as pd
from markupsafe import Markup, escape

from dplangevin.papers.claims import tally, verdicts, words
from dplangevin.papers.claims.sentences import asked_range, capital, sentence, tidy
from dplangevin.text import distinct

PAPERS = {
    "wang2015": "Wang, Fienberg and Smola, Privacy for Free, ICML 2015",
    "li2019": "Li, Chen, Liu and Carin, On Connecting Stochastic Gradient MCMC and Differential Privacy, AISTATS 2019",
    "ryffel2022": "Ryffel, Bach and Pointcheval, Differential Privacy Guarantees for SGLD, 2022",
}
# The section of each numbered statement, which orders the page.
# A place that begins with "Section" needs no entry.
PLACES: dict[str, dict[str, tuple[float, ...]]] = {
    "wang2015": {
        "Abstract": (0,), "Algorithm 1": (3, 0), "Theorem 1": (3, 1), "Proposition 1": (3, 2), "Proposition 2": (3, 2),
        "Proposition 3": (3, 3), "Algorithm 3": (4, 1), "Theorem 4": (4, 1), "Figure 1": (5,),
        "Supplement A": (10, 1), "Supplement B": (10, 2), "Supplement, Proposition 4": (10, 2),
        "Supplement, Section B": (10, 2), "Supplement C": (10, 3), "Supplement, Lemma 5": (10, 3),
        "Supplement, Theorem 5": (10, 3), "Supplement D": (10, 4), "Supplement, Section D": (10, 4),
        "Supplement, Figure 2": (10, 4), "Supplement E": (10, 5),
    },
    "li2019": {
        "Lemma 2": (2, 2), "Remark 1": (2, 2), "Algorithm 1": (2, 3), "Theorem": (3, 1), "Remark 2": (3, 1),
        "Proposition": (3, 2), "Table 1": (4, 3), "Supplement": (10,),
    },
    "ryffel2022": {
        "Abstract": (0,), "Lemma 3.3": (3, 3), "Theorem 3.1": (3, 3), "Corollary 3.3": (3, 3), "Lemma 4.1": (4, 1),
        "Table": (5, 2), "Appendix": (10,),
    },
}  # fmt: skip
LOOKS = {
    verdicts.HOLDS: "yes",
    verdicts.IN_PART: "partly",
    verdicts.FAILS: "no",
    verdicts.OPEN: "open",
}  # style sheet
COUNTED = (
    (verdicts.HOLDS, ""),
    (verdicts.HOLDS, verdicts.DERIVED),
    (verdicts.IN_PART, ""),
    (verdicts.FAILS, ""),
    *((verdicts.OPEN, cause) for cause in verdicts.CAUSES[verdicts.OPEN]),
)
KINDS = {
    "paper": "The paper's words decide.",
    "reading": "The paper's words leave a size open, and our reading decides. It never refutes the paper.",
    "extension": "A question of ours that the paper does not ask, such as the same ordering at equal proven ε. We "
    "count it apart.",
}
SETTINGS = {
    "paper": "We ran the paper's setting, or the claim needs none.",
    "special case": "We ran one case of those that the claim is about, and its title names the case.",
    "chosen": "We chose the setting, because the paper states none.",
    "stand-in": "We ran another network or other data than the paper's. This never refutes the paper.",
    "invented": "We invented data or sizes that the paper does not give. This never refutes the paper.",
}
MEASURES = {
    verdicts.INTERVAL: "A 95 % interval over independent splits or draws.",
    verdicts.ONE_SPLIT: "A 95 % interval over seeds on one split. It leaves out the sampling error of the test rows.",
    verdicts.EXACT: "The smallest and the largest of several exact values, from a proof or a computation.",
    verdicts.ATTACK: "A lower bound by an attack (95 % confidence), and an upper bound by a proof.",
    verdicts.PAIR: "The exact ε of one pair of data sets (lower bound), and an upper bound by a proof.",
    verdicts.RANGE: "The smallest and the largest of several values, or two neighbouring budgets. This is no "
    "interval and never refutes.",
    "": "One value without an interval, such as that of one seed. It never refutes.",
}


class Claim(NamedTuple):
    """A row of the claims table, in the words of a page.

    - `word`, `cause`: The verdict, after a colon its second word; and this word, or "".
    - `look`, `mark`: A class of the style sheet, and a sign.
    - `result`: One sentence: our number, how certain it is, and what the claim asks for (see `sentence`).
    - `exhibits`, `evidence`, `commands`: The exhibits that show the claim, the files behind it, and the commands that
      recompute it.
    - `plot`: An inline SVG of the interval (see `plot`).
    """

    id: str
    title: str
    paper: str
    kind: str
    setting: str
    where: str
    statement: str
    published: str
    verdict: str
    word: str
    cause: str
    look: str
    mark: str
    result: str
    measure: str
    reason: str
    exhibits: tuple[str, ...]
    evidence: tuple[str, ...]
    commands: tuple[str, ...]
    plot: Markup


class Sentence(NamedTuple):
    """A sentence of a paper and its rows: several if it was tested in several ways."""

    where: str
    statement: str
    claims: list[Claim]


def in_order(claims: Iterable[Claim]) -> dict[str, list[Sentence]]:
    """Return the sentences of each paper, in the order of the paper."""
    papers: dict[str, dict[tuple[str, str], list[Claim]]] = {}
    for claim in claims:
        papers.setdefault(claim.paper, {}).setdefault((claim.where, claim.statement), []).append(claim)
    return {
        paper: sorted(
            (Sentence(where, statement, rows) for (where, statement), rows in sentences.items()),
            key=lambda sentence: place(paper, sentence.where),
        )
        for paper, sentences in papers.items()
    }


def read(table: pd.DataFrame, made: Sequence[str]) -> list[Claim]:
    """Return the rows of the claims table; `made` has the names of the exhibits that exist."""
    table = table.fillna({"measure": "", "cause": "", "exhibit": "", "unit": "", "evidence": ""})
    return [_claim(row, made) for _, row in table.iterrows()]


def _claim(row: pd.Series, made: Sequence[str]) -> Claim:
    """Return one row of the claims table."""
    exhibits, evidence = (tuple(distinct([row[column]])) for column in ("exhibit", "evidence"))
    return Claim(
        **row[["id", "title", "paper", "kind", "setting", "where", "verdict", "measure"]],
        statement=tidy(row.statement),
        published=tidy(row.published),
        word=tally.word({key: row[key] for key in ("verdict", "cause")}),
        cause=row.cause,
        look=LOOKS[row.verdict],
        mark=tally.MARKS[row.verdict],
        result=sentence(row),
        reason=f"{capital(tidy(row.reason))}.",
        exhibits=exhibits,
        evidence=evidence,
        commands=commands(exhibits, evidence, made),
        plot=plot(row),
    )


def commands(exhibits: Sequence[str], evidence: Sequence[str], made: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that recompute the numbers behind a claim.

    - `exhibits`: The exhibits that show it.
    - `evidence`: The files behind it. They count only without exhibits.
    - `made`: The exhibits that exist.
    """
    if exhibits:
        return tuple(
            f"make exhibit ID={name} FORCE=1" + ("" if name in made else " SET=pipeline=svhn")
            for name in exhibits
        )
    stems = [PurePosixPath(path).stem for path in evidence if path.startswith("data/manifest/dataset/")]
    return (*(f"dvc repro -f prepare@{stem}" for stem in stems), "dvc repro -f claims")


# The interval plot

WIDTH, HEIGHT, MARGIN = 260, 40, 12


def plot(row: pd.Series) -> Markup:
    """Return an inline SVG of our number and its limits above the range that the claim asks for.

    Its label is the sentence of the result. It is empty where there is neither a number of ours nor both an
    attack and a proof. The axis is logarithmic if all values are positive and differ by a factor of more than 30.
    """
    known = pd.notna(row.ours)
    bracketed = row.measure in verdicts.BRACKETS and pd.notna(row.low) and pd.notna(row.high)
    if math.isinf(row.ours) or not (known or bracketed):
        return Markup("")
    wanted = asked_range(row)
    ends = [end for end in (row.low, row.high) if not pd.isna(end)]
    values = [*([row.ours] if known else []), *ends, *(wanted or ())]
    finite = [float(value) for value in values if math.isfinite(value)]
    log = min(finite) > 0 and max(finite) / min(finite) > 30
    turn = math.log if log else float
    least, most = turn(min(finite)), turn(max(finite))
    room = 0.08 * (most - least) or 1.0
    least, most = least - room, most + room

    def at(value: float) -> float:
        if math.isinf(value):
            return MARGIN if value < 0 else WIDTH - MARGIN
        share = (turn(value) - least) / (most - least)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    title = sentence(row) + (" The axis is logarithmic." if log else "")
    parts = [f'<line class="axis" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="27" y2="27"/>']
    if wanted:
        low, high = at(wanted[0]), at(wanted[1])
        parts.append(
            f'<rect class="asked" x="{low}" y="22" width="{round(max(high - low, 2), 1)}" height="10"/>'
        )
        for end in wanted:
            if math.isfinite(end):
                parts.append(f'<line class="edge" x1="{at(end)}" x2="{at(end)}" y1="18" y2="36"/>')
    if ends:
        low, high = at(min(ends)), at(max(ends))
        parts.append(f'<line class="limits" x1="{low}" x2="{high}" y1="12" y2="12"/>')
    if known:
        parts.append(f'<circle class="ours" cx="{at(row.ours)}" cy="12" r="4.5"/>')
    opening = f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
    return Markup(opening + "".join(parts) + "</svg>")


# Counts


def counts(claims: pd.DataFrame) -> list[tuple[str, list[int]]]:
    """Return lines that count the papers' claims: a label, the number for each of COUNTED, and the number of all.

    A verdict without a second word counts all of its claims, those of a second word of its own left out. One line is
    for claims in the papers' words and one for our readings of them; a line for each paper follows each.
    """
    own = claims[~claims.kind.eq("extension")].fillna({"cause": ""})
    apart = {pair for pair in COUNTED if pair[1]}
    pairs = pd.Series(
        [pair if pair in apart else (pair[0], "") for pair in zip(own.verdict, own.cause, strict=True)],
        index=own.index,
    )
    lines = []
    for kind, name in (("paper", "In the papers' words"), ("reading", "Read by us: sizes left open")):
        part = own[own.kind.eq(kind)]
        for label, rows in (
            (name, part),
            *((words.PAPERS.get(str(p), str(p)), rows) for p, rows in part.groupby("paper", sort=False)),
        ):
            found = [*pairs[rows.index]]
            lines.append((label, [*(found.count(pair) for pair in COUNTED), len(rows)]))
    return lines


def questions(claims: pd.DataFrame) -> list[tuple[str, int]]:
    """Return how many of our own questions (kind "extension") have each verdict."""
    found = claims[claims.kind.eq("extension")].verdict.value_counts()
    return [(verdict, int(found[verdict])) for verdict in verdicts.WORDS if verdict in found]


def failed(claims: pd.DataFrame) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return each fact behind the claims that fail, with id, paper and place of each of its claims.

    The title of its first claim stands for a fact.
    """
    rows = claims[claims.verdict.eq(verdicts.FAILS) & claims.kind.ne("extension")]
    return [
        (
            str(group.title.iloc[0]),
            [*zip(group.id, group.paper.replace(words.PAPERS), group["where"], strict=True)],
        )
        for _, group in rows.groupby("fact", sort=False)
    ]


def place(paper: str, where: str) -> tuple[float, ...]:
    """Return the section of a sentence as a sort key; unknown places come last."""
    if found := re.match(r"Section (\d+)(?:\.(\d+))?", where):
        return tuple(float(part) for part in found.groups() if part)
    known = PLACES.get(paper, {})
    starts = [start for start in known if where.startswith(start)]
    return known[max(starts, key=len)] if starts else (99.0,)
