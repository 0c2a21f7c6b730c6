"""The claims table as it was written, and how its verdicts are distributed."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

Claim = Mapping[str, str]  # column of `claims.table.COLUMNS` -> text


def read(path: Path) -> list[Claim]:
    """Every row of claims.csv; none where there is no such file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shown_by(claim: Claim) -> list[str]:
    """The exhibits that show a claim."""
    return [name for name in claim["exhibit"].split("; ") if name]


def by_exhibit(claims: Iterable[Claim]) -> dict[str, Counter[str]]:
    """Exhibit -> verdict -> number of claims that it shows."""
    found: dict[str, Counter[str]] = {}
    for claim in claims:
        for name in shown_by(claim):
            found.setdefault(name, Counter())[claim["verdict"]] += 1
    return found
