"""Reader of the written claims table, with counts of its verdicts."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

Claim = Mapping[str, str]  # column of `papers.claims.table.COLUMNS` -> text


def read(path: Path) -> list[Claim]:
    """Return every row of claims.csv, or an empty list if the file does not exist."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shown_by(claim: Claim) -> list[str]:
    """Return the names of the exhibits that show a claim."""
    return [name for name in claim["exhibit"].split("; ") if name]


def by_exhibit(claims: Iterable[Claim]) -> dict[str, Counter[str]]:
    """Return, for each exhibit, how many of the claims that it shows have each verdict."""
    found: dict[str, Counter[str]] = {}
    for claim in claims:
        for name in shown_by(claim):
            found.setdefault(name, Counter())[claim["verdict"]] += 1
    return found
