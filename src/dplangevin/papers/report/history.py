"""The history of every claim's verdict, conf/report/history.csv: from, to, when and why.

The first entry of a claim has an empty `from`.  `python pipelines/report.py history --why "..."` appends an entry
for each claim whose verdict in results/claims.csv differs from its last entry.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dplangevin.papers.report.claims import MARKS

PATH = Path("conf/report/history.csv")
COLUMNS = ("id", "date", "from", "to", "why")


class Change(NamedTuple):
    """An entry of the history: on which day a claim got which verdict, and why; `before` is "" for the first."""

    date: str
    before: str
    after: str
    why: str


def read(path: Path) -> dict[str, list[Change]]:
    """Return the entries of each claim, the oldest first.

    Raises
    ------
    ValueError
        An entry has an unknown verdict, no date or no reason, or does not continue the entry before it.
    """
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    if tuple(table.columns) != COLUMNS:
        raise ValueError(f"{path}: the columns are {', '.join(COLUMNS)}")
    history: dict[str, list[Change]] = {}
    for line, (name, *cells) in enumerate(table.itertuples(index=False, name=None), 2):
        entries, change = history.setdefault(name, []), Change(*cells)
        if error := _error(entries, change):
            raise ValueError(f"{path}, line {line}, {name}: {error}")
        entries.append(change)
    return history


def _error(entries: list[Change], change: Change) -> str:
    """Return why an entry cannot follow the entries of its claim, or ""."""
    last = entries[-1].after if entries else ""
    if change.before != last:
        return f"it changes {change.before!r}, and the entry before it ends with {last!r}"
    if change.after not in MARKS or change.after == last:
        return f"{change.after!r} is no other verdict"
    if not change.why.strip():
        return "it has no reason"
    try:
        datetime.date.fromisoformat(change.date)
    except ValueError:
        return f"{change.date!r} is no date"
    return "it is older than the entry before it" if entries and change.date < entries[-1].date else ""


def updated(
    history: Mapping[str, list[Change]], verdicts: Mapping[str, str], date: str, why: Mapping[str, str] | str
) -> dict[str, list[Change]]:
    """Return the history of the claims of today, with an entry for each verdict that is new.

    Parameters
    ----------
    history : mapping of str to list of Change
        The entries of each claim. Claims that no longer exist are left out.
    verdicts : mapping of str to str
        The verdict of each claim today, by its id.
    date : str
        The day of the change, such as "2026-11-25".
    why : str or mapping of str to str
        The reason of all changes, or the reason of each by its id.

    Raises
    ------
    ValueError
        An entry lacks a reason, or its date is before the last entry.
    """
    found: dict[str, list[Change]] = {}
    for name, verdict in verdicts.items():
        entries = found[name] = list(history.get(name, ()))
        last = entries[-1].after if entries else ""
        if verdict == last:
            continue
        change = Change(date, last, verdict, why if isinstance(why, str) else why[name])
        if error := _error(entries, change):
            raise ValueError(f"{name}: {error}")
        entries.append(change)
    return found


def csv_bytes(history: Mapping[str, list[Change]]) -> bytes:
    """Return the history as the bytes of its file."""
    rows = [(name, *change) for name, entries in history.items() for change in entries]
    return pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(index=False, lineterminator="\n").encode()
