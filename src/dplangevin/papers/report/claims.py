"""The rows of the claims table in the form in which the pages show them, and counts of verdicts.

Each row has its quotation, an interval plot, its reason, and the command that recomputes it. Sentences are in
the order of the papers. The facts behind contradicted claims are listed too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import pandas as pd
from markupsafe import Markup, escape

from dplangevin.papers.claims import verdicts
from dplangevin.papers.claims.verdicts import Asked
from dplangevin.text import distinct, number

PAPERS = {
    "wang2015": "Wang, Fienberg and Smola, Privacy for Free, ICML 2015",
    "li2019": "Li, Chen, Liu and Carin, On Connecting Stochastic Gradient MCMC and Differential Privacy, AISTATS 2019",
    "ryffel2022": "Ryffel, Bach and Pointcheval, Differential Privacy Guarantees for SGLD, 2022",
}
SHORT = {"wang2015": "Wang et al. 2015", "li2019": "Li et al. 2019", "ryffel2022": "Ryffel et al. 2022"}
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
VERDICTS = {
    verdicts.REPRODUCED: "the claim is shown with the default choices",
    verdicts.UNDER_CHOICES: "it is not shown with the default choices, but with settings that the paper leaves open or "
    "with another reading of its definitions, which the reason names; or it is shown, but on a stand-in or on invented "
    "data",
    verdicts.NOT_REPRODUCED: "neither the claim nor its opposite is shown",
    verdicts.CONTRADICTED: "the opposite is shown, in the paper's setting or where it states none, by a 95 % interval, "
    "a proof, an exact computation or an attack at 95 %",
    verdicts.NOT_TESTABLE: "there is nothing to compare, and the reason says what is missing",
    verdicts.HOLDS: "of a question of ours: shown, as above",
    verdicts.FAILS: "of a question of ours: the opposite is shown",
    verdicts.UNDECIDED: "of a question of ours: neither is shown",
}
MARKS = {  # verdict -> a class of the style sheet and a sign, so that no reader depends on colour
    verdicts.REPRODUCED: ("yes", "✓"),
    verdicts.UNDER_CHOICES: ("partly", "◐"),
    verdicts.NOT_REPRODUCED: ("open", "○"),
    verdicts.CONTRADICTED: ("no", "✗"),
    verdicts.NOT_TESTABLE: ("none", "–"),
    verdicts.HOLDS: ("yes", "✓"),
    verdicts.FAILS: ("no", "✗"),
    verdicts.UNDECIDED: ("open", "○"),
}
KINDS = {
    "paper": "the paper's words decide",
    "reading": "the words leave a size open, and ours decides; it never contradicts",
    "extension": "a question of ours that the paper does not ask, counted apart, such as the same ordering at equal "
    "tight ε",
}
SETTINGS = {
    "paper": "as the paper states it, or no setting is needed",
    "chosen": "chosen by us where the paper states none",
    "stand-in": "another network or other data than the paper's; never contradicts",
    "invented": "data or sizes that the paper does not give; never contradicts",
}
MEASURES = {
    verdicts.INTERVAL: "a 95 % interval over independent splits or draws",
    verdicts.ONE_SPLIT: "a 95 % interval over seeds on one split, without the sampling error of the test rows",
    verdicts.EXACT: "smallest and largest of several numbers of a proof or an exact computation",
    verdicts.ATTACK: "a lower bound by an attack (95 %) and a proven price; ours is a price that a pair of data sets "
    "attains, where one is known",
    verdicts.RANGE: "smallest and largest of several values, not an interval; never contradicts",
    "": "none: one value, as of one seed; never contradicts",
}


class Claim(NamedTuple):
    """A row of the claims table, in the words of a page.

    Attributes
    ----------
    look, mark : str
        A class of the style sheet, and a sign (see MARKS).
    ours, limits : str
        Our number and its limits, formatted.
    exhibits, evidence, commands : tuple of str
        The exhibits that show the claim, the files behind it, and the commands that recompute it.
    plot : Markup
        An inline SVG of the interval (see `plot`).
    """

    id: str
    paper: str
    fact: str
    kind: str
    setting: str
    where: str
    statement: str
    published: str
    verdict: str
    look: str
    mark: str
    ours: str
    limits: str
    measure: str
    reason: str
    exhibits: tuple[str, ...]
    evidence: tuple[str, ...]
    commands: tuple[str, ...]
    plot: Markup

    @property
    def name(self) -> str:
        """Return the id without the paper, as words."""
        return self.id.removeprefix(f"{self.paper}_").replace("_", " ")


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
    table = table.fillna({"measure": "", "exhibit": "", "unit": "", "evidence": ""})
    return [_claim(row, made) for _, row in table.iterrows()]


def _claim(row: pd.Series, made: Sequence[str]) -> Claim:
    """Return one row of the claims table."""
    look, mark = MARKS[row.verdict]
    exhibits, evidence = (tuple(distinct([row[column]])) for column in ("exhibit", "evidence"))
    return Claim(
        **row[["id", "paper", "fact", "kind", "setting", "where", "verdict", "measure"]],
        statement=tidy(row.statement),
        published=tidy(row.published),
        look=look,
        mark=mark,
        ours=f"{digits(row.ours)} {row.unit}".strip() if pd.notna(row.ours) else bracket(row),
        limits=limits(row),
        reason=f"{_capital(tidy(row.reason))}.",
        exhibits=exhibits,
        evidence=evidence,
        commands=commands(exhibits, evidence, made),
        plot=plot(row),
    )


def commands(exhibits: Sequence[str], evidence: Sequence[str], made: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that recompute the numbers behind a claim.

    The arguments are the exhibits that show it, the files behind it, and the exhibits that exist.
    """
    if exhibits:
        return tuple(
            f"make exhibit ID={name} FORCE=1" + ("" if name in made else " SET=pipeline=svhn")
            for name in exhibits
        )
    stems = [PurePosixPath(path).stem for path in evidence if path.startswith("data/manifest/dataset/")]
    return (*(f"dvc repro -f prepare@{stem}" for stem in stems), "dvc repro -f claims")


# Numbers


def limits(row: pd.Series) -> str:
    """Return low and high as text, with "?" for a missing one, or "" if both are missing."""
    if pd.isna(row.low) and pd.isna(row.high):
        return ""
    low, high = ("?" if pd.isna(end) else digits(end) for end in (row.low, row.high))
    return low if low == high else f"{low} to {high}"


def bracket(row: pd.Series) -> str:
    """Return the text shown instead of our number where only bounds are known, otherwise "".

    An example is "4.1 (attack) to 1315 (proof)".
    """
    if row.measure != verdicts.ATTACK or pd.isna(row.high):
        return ""
    return "" if pd.isna(row.low) else f"{digits(row.low)} (attack) to {digits(row.high)} (proof)"


def digits(value: float) -> str:
    """Return whole numbers as they are and others to four digits, with a typographic minus sign."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.0f}" if value % 1 == 0 and abs(value) < 1e6 else number(float(f"{value:.4g}"))
    return text.replace("-", "−", 1) if text.startswith("-") else text


def asked(row: pd.Series) -> Asked | None:
    """Return the range that the claim asks our number to lie in, or None if there is no such range."""
    return None if pd.isna(row.asked_low) else Asked(row.asked_low, row.asked_high)


# The interval plot

WIDTH, HEIGHT, MARGIN = 260, 40, 12


def plot(row: pd.Series) -> Markup:
    """Return an inline SVG of our number and its limits above the range that the claim asks for.

    It is empty where there is neither a number of ours nor a bracket. The axis is logarithmic if all values
    are positive and differ by a factor of more than 30.
    """
    known = pd.notna(row.ours)
    if math.isinf(row.ours) or not (known or bracket(row)):
        return Markup("")
    wanted = asked(row)
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

    said = (
        [f"Ours {digits(row.ours)}", *([f"from {limits(row)}"] if ends else [])] if known else [bracket(row)]
    )
    if wanted:
        printed = wanted.low == wanted.high
        said.append(f"asked: {digits(wanted.low) if printed else wanted.words(digits)}")
    title = ", ".join(said) + (", log scale" if log else "")
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


def counts(claims: pd.DataFrame) -> tuple[list[str], list[tuple[str, list[int]]]]:
    """Return the verdicts, and lines that count them.

    Returns
    -------
    columns : list of str
        The verdicts on the papers' claims.
    lines : list of (str, list of int)
        A label, the number of claims with each verdict, and the number of all. One line is for claims in the
        papers' words and one for our readings of them; a line for each paper follows each.
    """
    own = claims[~claims.kind.eq("extension")]
    columns = [*VERDICTS][:5]
    lines = []
    for kind, name in (("paper", "In the papers' words"), ("reading", "Read by us: sizes left open")):
        part = own[own.kind.eq(kind)]
        for label, rows in (
            (name, part),
            *((SHORT.get(str(p), str(p)), rows) for p, rows in part.groupby("paper", sort=False)),
        ):
            numbers = [int(rows.verdict.eq(verdict).sum()) for verdict in columns]
            lines.append((label, [*numbers, len(rows)]))
    return columns, lines


def questions(claims: pd.DataFrame) -> list[tuple[str, int]]:
    """Return how many of our own questions (kind "extension") have each verdict."""
    found = claims[claims.kind.eq("extension")].verdict.value_counts()
    return [(verdict, int(found[verdict])) for verdict in VERDICTS if verdict in found]


def contradicted(claims: pd.DataFrame) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return each fact behind the contradicted claims, with id, paper and place of each of its claims."""
    rows = claims[claims.verdict.eq(verdicts.CONTRADICTED)]
    return [
        (
            str(fact).replace("_", " "),
            [*zip(group.id, group.paper.replace(SHORT), group["where"], strict=True)],
        )
        for fact, group in rows.groupby("fact", sort=False)
    ]


def place(paper: str, where: str) -> tuple[float, ...]:
    """Return the section of a sentence as a sort key; unknown places come last."""
    if found := re.match(r"Section (\d+)(?:\.(\d+))?", where):
        return tuple(float(part) for part in found.groups() if part)
    known = PLACES.get(paper, {})
    starts = [start for start in known if where.startswith(start)]
    return known[max(starts, key=len)] if starts else (99.0,)


def tidy(text: str) -> str:
    """Return the text on one line without a full stop at its end."""
    return " ".join(str(text).split()).rstrip(".")


def _capital(text: str) -> str:
    """Return the text with a capital first letter if it begins with a word of two letters or more."""
    return text[0].upper() + text[1:] if re.match(r"[a-z]{2,}\b", text) else text
