"""Reader of the written claims table, with counts of its verdicts."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

Claim = Mapping[str, str]  # column of `papers.claims.evaluation.COLUMNS` -> text
# In the order in which verdicts are listed.
MARKS = {"holds": "✓", "holds in part": "◐", "fails": "✗", "open": "○"}
KINDS = {"paper": "paper", "reading": "reading", "extension": "ours"}  # kind -> its name beside marks
LEGEND = (
    "paper: claims in the papers' own words; reading: claims without a size;",
    "ours: questions of ours",
    "  " + "  ".join(f"{mark} {verdict}" for verdict, mark in MARKS.items()),
)


def word(claim: Claim) -> str:
    """Return the verdict of a claim with its second word, as in "open: not testable"."""
    return f"{claim['verdict']}: {claim['cause']}" if claim["cause"] else claim["verdict"]


def read(path: Path) -> list[Claim]:
    """Return every row of claims.csv, or an empty list if the file does not exist."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shown_by(claim: Claim) -> list[str]:
    """Return the names of the exhibits that show a claim."""
    return [name for name in claim["exhibit"].split("; ") if name]


def ordered(verdicts: Iterable[str]) -> list[str]:
    """Return the distinct verdicts in the order of MARKS."""
    return sorted(set(verdicts), key=[*MARKS].index)


def marks(claims: Iterable[Claim]) -> str:
    """Return the counts of verdicts as marks, each kind of claims by itself, as in "paper ✓2 ✗1, ours ○3"."""
    counts = Counter((claim["kind"], claim["verdict"]) for claim in claims)
    texts = []
    for kind, name in KINDS.items():
        own = {verdict: n for (of, verdict), n in counts.items() if of == kind}
        if own:
            texts.append(" ".join([name, *(f"{MARKS[verdict]}{own[verdict]}" for verdict in ordered(own))]))
    return ", ".join(texts)
