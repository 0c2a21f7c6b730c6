"""The cache of finished tasks: results that are their own cache, and a folder of tasks that are in no result yet.

The key of a task is a hash of its parameters, of the sha256 of its data, and of the code that it can reach.  Beside a
result `ops.csv`, the list `ops.units.json` has for each task, in order, its key, its number of rows, the sha256 of the
header with these rows, and their origin.  A task with a wrong sha256 is computed again.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dplangevin.files import remove, write
from dplangevin.text import csv_bytes

RECOMPUTE = "DPL_RECOMPUTE"  # environment variable: use no rows of existing results


class Rows(NamedTuple):
    """Rows of a CSV file, as they are written there; `header` without its line end, the lines of `text` with theirs.

    `made` is date, commit and computing environment; `renewed` how today's code was shown to give them; `begun` norms
    that the `Checkpoint` noted after the first steps of a long computation; `scores` the key of what was trained, with
    the plan in numbers, or "" if prices need the training; `notes` JSON, for each budget what was not reached.
    """

    header: str
    text: str
    made: str = ""
    renewed: str = ""
    begun: str = ""
    scores: str = ""
    notes: str = ""

    @classmethod
    def of(cls, csv_content: str, **origin: str) -> Rows:
        """Return the rows of a CSV text; of `origin` only the entries that are fields."""
        header, _, text = csv_content.partition("\n")
        return cls(header, text, **{name: str(origin[name]) for name in cls._fields[2:] if name in origin})

    @property
    def origin(self) -> dict[str, str]:
        """The fields beside the rows themselves that are not empty."""
        return {name: text for name, text in zip(self._fields[2:], self[2:], strict=True) if text}

    @property
    def content(self) -> str:
        return f"{self.header}\n{self.text}"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content.encode()).hexdigest()

    def under(self, header: str) -> Rows:
        """Return the same rows under a header with additional columns, which stay empty."""
        if header == self.header:
            return self
        frame = pd.read_csv(io.StringIO(self.content), dtype=str, keep_default_na=False)
        wider = frame.reindex(columns=next(csv.reader([header])), fill_value="")
        return self.of(csv_bytes(wider).decode(), **self.origin)


class Store:
    """The finished tasks of a result: in its CSV files `paths`, or in `folder` until these are written."""

    def __init__(self, paths: Path | Sequence[Path], folder: Path, digits: int | None = 10) -> None:
        self.paths = [paths] if isinstance(paths, Path) else list(paths)
        self.folder, self.digits = folder, digits
        self.before = [listed(path) for path in self.paths]
        self.listed = _joined(self.before) if os.environ.get(RECOMPUTE, "") in ("", "0") else {}

    def find(self, key: str) -> list[Rows] | None:
        """Return the rows of a task, one `Rows` for each table; None if they are missing in one table."""
        return self.listed.get(key) or _joined([listed(place) for place in self._places(key)]).get(key)

    def trained(self, scores: str) -> list[Rows] | None:
        """Return the rows of a task whose training has this key, one `Rows` for each table; None if there is none."""
        return next((rows for rows in self.listed.values() if scores and rows[0].scores == scores), None)

    def keep(self, key: str, *frames: pd.DataFrame, **origin: str) -> None:
        """Store the rows of a task, one frame for each table, with their `Rows.origin`."""
        for place, frame in zip(self._places(key), frames, strict=True):
            _save(place, [key], [Rows.of(csv_bytes(frame, self.digits).decode(), **origin)])

    def _places(self, key: str) -> list[Path]:
        return [self.folder / f"{key}.{path.stem}.csv" for path in self.paths]

    def write(self, keys: Sequence[str]) -> None:
        """Put all tasks into the folder, write the results and their lists, empty the folder: a kill loses no task."""
        for key in self.listed.keys() & keys:
            for place, rows in zip(self._places(key), self.listed[key], strict=True):
                _save(place, [key], [rows])
        tables = zip(*(self.find(key) or () for key in keys), strict=True)
        for path, table in zip(self.paths, tables, strict=True):
            _save(path, keys, table)
        for path in self.folder.iterdir() if self.folder.exists() else ():
            remove(path)


def _joined(tables: Sequence[Mapping[str, Rows]]) -> dict[str, list[Rows]]:
    """Return the rows of each task that all tables have, by key."""
    return {key: [each[key] for each in tables] for key in tables[0] if all(key in each for each in tables)}


def _save(path: Path, keys: Sequence[str], tasks: Sequence[Rows]) -> None:
    """Write a result file with the rows of tasks, under a header with all their columns, and its list."""
    names = dict.fromkeys(name for rows in tasks for name in next(csv.reader([rows.header])))
    header = csv_bytes(pd.DataFrame(columns=[*names])).decode()
    tasks = [rows.under(header.rstrip("\n")) for rows in tasks]
    text = header + "".join(rows.text for rows in tasks)
    write(path.parent, {path.name: text.encode(), beside(path).name: listing(keys, tasks).encode()})


def beside(path: Path) -> Path:
    """Return the place of the task list of a result file."""
    return path.with_name(f"{path.stem}.units.json")


def listing(keys: Sequence[str], tasks: Sequence[Rows]) -> str:
    """Return the task list as JSON, one task a line."""
    entries = (
        {"key": key, "rows": rows.text.count("\n"), "sha256": rows.sha256, **rows.origin}
        for key, rows in zip(keys, tasks, strict=True)
    )
    return "[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n"


def listed(path: Path) -> dict[str, Rows]:
    """Return the rows, by key, of the tasks in a result file whose sha256 matches its list."""
    intact: dict[str, Rows] = {}
    try:
        lines = io.StringIO(path.read_bytes().decode(), newline="\n")
        header, tasks = lines.readline(), json.loads(beside(path).read_bytes())
        for task in tasks:
            rows = Rows.of(header + "".join(islice(lines, int(task["rows"]))), **task)
            if rows.sha256 == task["sha256"]:
                intact[str(task["key"])] = rows
        if len(intact) < len(tasks):
            raise ValueError("other rows than listed")
    except (OSError, ValueError, KeyError, TypeError) as error:
        if beside(path).exists():
            print(f"{path} or {beside(path).name} is damaged ({error!r}): computed again", file=sys.stderr)
    return intact
