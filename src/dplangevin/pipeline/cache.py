"""The cache of finished tasks: results that are their own cache, and a folder of tasks that are in no result yet.

The key of a task is a hash of its parameters, of the sha256 of its data, and of the code that it can reach.  Beside a
result `ops.csv` lies the list `ops.units.json`.  It has one entry for each task, in order: its key, its number of
rows, and the sha256 of the header with these rows.  `scores` is the key of what was trained: of the plan in numbers
instead of the code that planned and priced it, so that after an edit of a price only prices are computed again.  Tasks
of a result that is not yet written lie in `data/units`, with size and sha256 in a JSON file beside each.  A task with a
wrong sha256 is computed again, and a line on stderr says so.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dplangevin.files import remove, sidecar, write, write_checksum
from dplangevin.text import csv_bytes

RECOMPUTE = "DPL_RECOMPUTE"  # environment variable: use no rows of existing results


class Rows(NamedTuple):
    """Rows of a CSV file, as they are written there; `header` without its line end, the lines of `text` with theirs.

    - `made`: date, commit and computing environment of the rows; "" if unknown.
    - `renewed`: if earlier code computed the rows: how pipelines/verify.py showed that today's code gives the same
      ones.
    - `begun`: norms after the first steps of a long computation, see `executor.Done`.
    - `scores`: the key of what was trained; "" if its prices need the training.
    - `notes`: JSON, for each budget what the training did not reach; "" for nothing.
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
        header, _, text = csv_content.partition("\n")
        return cls(header, text, **origin)

    @property
    def origin(self) -> dict[str, str]:
        """The fields beside the rows themselves that are not empty."""
        return {name: text for name, text in self._asdict().items() if text and name in ORIGIN}

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
        own, (wanted,) = next(csv.reader([self.header])), csv.reader([header])
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for row in csv.reader(io.StringIO(self.text)):
            values = dict(zip(own, row, strict=True))
            writer.writerow([values.get(name, "") for name in wanted])
        return self._replace(header=header, text=out.getvalue())


ORIGIN = Rows._fields[2:]


def cached_rows(folder: Path, name: str, compute: Callable[[], pd.DataFrame]) -> Rows:
    """Return the rows of the task `name` in `folder`; compute and store them if missing or damaged."""
    return _undamaged(folder / f"{name}.csv") or write_rows(folder, name, compute())


def write_rows(
    folder: Path,
    name: str,
    frame: pd.DataFrame,
    digits: int | None = None,
    **origin: str,
) -> Rows:
    """Write the rows of a task, then their size, sha256 and origin, and return them."""
    content = csv_bytes(frame, digits)
    write(folder, {f"{name}.csv": content})
    rows = Rows.of(content.decode(), **origin)
    write_checksum(folder / f"{name}.csv", **rows.origin)
    return rows


def _undamaged(path: Path) -> Rows | None:
    """Return the rows of a stored task; None if they are missing or damaged."""
    if (content := sidecar(path)) is None:
        return None
    return Rows.of(path.read_bytes().decode(), **{name: content[name] for name in ORIGIN if name in content})


class Store:
    """The stored tasks of a result, which is one CSV file or several tables that have the same tasks.

    - `folder`: folder of finished tasks that are not yet in a result.
    """

    def __init__(self, paths: Path | Sequence[Path], folder: Path, digits: int = 10) -> None:
        self.paths = [paths] if isinstance(paths, Path) else list(paths)
        self.folder, self.digits = folder, digits
        self.before = [listed(path, folder) for path in self.paths]
        fresh = os.environ.get(RECOMPUTE, "") in ("", "0")
        self.listed = self.before if fresh else [{} for _ in self.paths]

    def find(self, key: str) -> list[Rows] | None:
        """Return the rows of a task, one `Rows` for each table; None if they are missing in one table."""
        if all(key in table for table in self.listed):
            return [table[key] for table in self.listed]
        stored = [_undamaged(self.folder / f"{self._name(key, path)}.csv") for path in self.paths]
        return None if None in stored else [rows for rows in stored if rows is not None]

    def trained(self, scores: str) -> list[Rows] | None:
        """Return the rows of a task in the results whose training has this key, one `Rows` for each table."""
        found = [
            next((rows for rows in table.values() if rows.scores == scores), None) for table in self.listed
        ]
        return None if None in found else [rows for rows in found if rows is not None]

    def keep(self, key: str, *frames: pd.DataFrame, **origin: str) -> None:
        """Store the rows of a task, one frame for each table, with their `Rows.origin`."""
        for path, frame in zip(self.paths, frames, strict=True):
            write_rows(self.folder, self._name(key, path), frame, self.digits, **origin)

    def tables(self, keys: Sequence[str]) -> list[str]:
        """Return the contents of the result files for these tasks, in order; all tasks must be finished."""
        return [content for content, _ in self._tables(keys)]

    def write(self, keys: Sequence[str]) -> None:
        """Write the result files of these finished tasks with their task lists; then empty the folder.

        The process may be killed after it wrote a result and before it wrote the list.  So the list is first
        written into the folder, where `listed` finds it.
        """
        for path, (text, listing) in zip(self.paths, self._tables(keys), strict=True):
            content, units = text.encode(), listing.encode()
            write(self.folder, {_pending(self.folder, path, content).name: units})
            write(path.parent, {path.name: content, beside(path).name: units})
        for path in self.folder.iterdir():
            remove(path)

    def _name(self, key: str, path: Path) -> str:
        return key if len(self.paths) == 1 else f"{key}.{path.stem}"

    def _tables(self, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the content and the task list of each result file."""
        tasks = []
        for key in keys:
            if (tables := self.find(key)) is None:
                raise ValueError(f"task {key} of {', '.join(map(str, self.paths))} is not finished")
            tasks.append(tables)
        for table in zip(*tasks, strict=True):
            header = _united([rows.header for rows in table])
            united = [rows.under(header) for rows in table]
            yield header + "\n" + "".join(rows.text for rows in united), listing(keys, united)


def beside(path: Path) -> Path:
    """Return the place of the task list of a result file."""
    return path.with_name(f"{path.stem}.units.json")


def _pending(folder: Path, path: Path, content: bytes) -> Path:
    """Return the place of the task list of a result file with this content while it is being written."""
    return folder / f"{path.stem}.{hashlib.sha256(content).hexdigest()}.units.json"


def listing(keys: Sequence[str], tasks: Sequence[Rows]) -> str:
    """Return the task list as JSON, one task a line: key, number of rows, sha256, and `Rows.origin`."""
    lines = []
    for key, rows in zip(keys, tasks, strict=True):
        entry = {"key": key, "rows": rows.text.count("\n"), "sha256": rows.sha256}
        lines.append(json.dumps(entry | rows.origin))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def listed(path: Path, folder: Path | None = None) -> dict[str, Rows]:
    """Return the rows, by key, of those tasks in a result file whose sha256 matches its task list.

    A line on stderr says that some do not match.  If `Store.write` was killed, the list may still lie in `folder`.
    """
    units = beside(path)
    try:
        content = path.read_bytes()
        intact, count = _intact(content, units.read_bytes())
        if len(intact) < count and folder and (pending := _pending(folder, path, content)).exists():
            intact, count = _intact(content, pending.read_bytes())
    except (OSError, ValueError, KeyError, TypeError) as error:
        if units.exists():
            print(f"{path} or {units.name} is damaged ({error!r}): computed again", file=sys.stderr)
        return {}
    if wrong := count - len(intact):
        print(
            f"{path} has other rows than {units.name} lists for {wrong} of {count} tasks: computed again",
            file=sys.stderr,
        )
    return intact


def _intact(content: bytes, units: bytes) -> tuple[dict[str, Rows], int]:
    """Return the rows, by key, whose sha256 matches this task list, and the length of the list."""
    tasks = json.loads(units)
    header, *lines = io.StringIO(content.decode(), newline="\n")
    intact, start = {}, 0
    for task in tasks:
        end = start + int(task["rows"])
        origin = {name: str(task[name]) for name in ORIGIN if name in task}
        rows = Rows(header.rstrip("\n"), "".join(lines[start:end]), **origin)
        if rows.sha256 == task["sha256"]:
            intact[str(task["key"])] = rows
        start = end
    return intact, len(tasks)


def _united(headers: Sequence[str]) -> str:
    """Return one header with the columns of several headers, in order of first appearance."""
    if len(set(headers)) == 1:
        return headers[0]
    out = io.StringIO()
    names = dict.fromkeys(name for header in headers for name in next(csv.reader([header])))
    csv.writer(out, lineterminator="").writerow(names)
    return out.getvalue()
