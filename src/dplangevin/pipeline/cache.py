"""The cache: finished tasks, and results that are their own cache.

A task (`unit` in the code) is the smallest piece of work that is stored.  Its key is a hash of its
parameters, of the sha256 of its data, and of *the code that it can reach*.  This code is the syntax trees,
without docstrings, of the modules that the task names and of all modules that these import.  So an edit of a
comment changes no key.  An edit of a method changes the keys of all tasks that use this method.

Results in git are themselves the cache.  Beside a result `ops.csv` lies the list `ops.units.json`.  It has
one entry for each task, in order: its key, its number of rows, and the sha256 of the header with these rows.
If earlier code computed a task and its key was renewed later, the entry says how it was shown that the rows
stay the same.  Tasks of a result that is not yet written lie in `data/units`, with size and sha256 in a JSON
file beside each.  A task with a wrong sha256 is computed again, and a line on stderr says so.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import importlib.machinery
import io
import json
import math
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.files import stated_beside, write, write_checksum

PACKAGE = __name__.partition(".")[0]
SOURCES = Path(__file__).parents[2]
LIBRARIES = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
# modules that store and start tasks, and determine no number
KEEPERS = {__name__, f"{PACKAGE}.files", f"{PACKAGE}.pipeline.executor"}
OFTEN = 1.0  # seconds between two waits until stored tasks are on the disk
RECOMPUTE = "DPL_RECOMPUTE"  # environment variable: use no rows of existing results


# Files


def csv_bytes(frame: pd.DataFrame, digits: int | None = 10) -> bytes:
    """Return a frame as CSV.

    Parameters
    ----------
    digits : int or None, significant digits of a number; None: as many as restore each number exactly.
    """
    form = None if digits is None else f"%.{digits}g"
    return frame.to_csv(index=False, float_format=form, lineterminator="\n").encode()


# Code


def targets(*configs: Any) -> list[str]:
    """Return every `_target_` anywhere in configs of plain dicts and lists, sorted."""
    found: set[str] = set()
    for config in configs:
        if isinstance(config, Mapping):
            if isinstance(name := config.get("_target_"), str):
                found.add(name)
            found.update(targets(*config.values()))
        elif isinstance(config, (list, tuple)):
            found.update(targets(*config))
    return sorted(found)


def code_hash(*names: str) -> str:
    """Return the SHA-256 of the code that these modules, or the modules of these objects, can reach.

    The hash leaves out the modules `KEEPERS`, which determine no number, and all modules that only these
    import.
    """
    return _hash({name: path for name, path in reachable(names).items() if name not in KEEPERS})


def package_hash(*names: str) -> str:
    """Return the SHA-256 of all modules of this package and of the code that `names` can reach."""
    here = SOURCES / PACKAGE
    own = {str(path.relative_to(SOURCES)): path for path in here.rglob("*.py")}
    return _hash(own | {name: path for name, path in reachable(names).items() if path not in own.values()})


def _hash(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 of module names with the syntax trees of their files."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name} {_tree_hash(path)}\n".encode())
    return digest.hexdigest()


def reachable(names: Iterable[str]) -> dict[str, Path]:
    """Return the source files, by module name, of the modules of `names` and of what these import.

    `names` are dotted names of modules, or of objects in modules.  Imports inside this package are followed,
    also those in functions.  In a module from outside this package, imports are followed inside its own
    top-level package or folder.  Imports of an installed library's module are not followed.
    """
    return dict(_reachable(frozenset(names)))


@lru_cache
def _reachable(names: frozenset[str]) -> tuple[tuple[str, Path], ...]:
    found: dict[str, Path] = {}
    todo = [module for name in names for module in _modules(name)]
    while todo:
        name = todo.pop()
        if name in found or (path := _file(name)) is None:
            continue
        found[name] = path
        if name not in KEEPERS and not _installed(path):
            todo += [module for imported in _imports(name, path) for module in _modules(imported)]
    return tuple(found.items())


def _modules(name: str) -> list[str]:
    """Return the module that `name` is or lies in, and the packages around it.

    The top-level package of this project is left out, because it only names what users import.  For a module
    of an installed library, only the module itself is returned.
    """
    parts = name.split(".")
    first = 2 if parts[0] == PACKAGE else 1
    places = [".".join(parts[:n]) for n in range(first, len(parts) + 1)]
    here = [place for place in places if _file(place)]
    return here[-1:] if here and _installed(_file(here[-1])) else here


@cache
def _file(name: str) -> Path | None:
    """Return the source file of a module, found without importing anything; None if there is none."""
    above, _, last = name.rpartition(".")
    if name.partition(".")[0] == PACKAGE:
        place = SOURCES / Path(*name.split("."))
        files = (place.with_suffix(".py"), place / "__init__.py")
        return next((file for file in files if file.is_file()), None)
    if last == "" or (above and (parent := _file(above)) is None):
        return None
    path = [str(parent.parent)] if above and parent and parent.name == "__init__.py" else None
    if above and path is None:
        return None
    spec = importlib.machinery.PathFinder.find_spec(last, path)
    origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith(".py") else None


def _installed(path: Path | None) -> bool:
    """Return whether a file belongs to Python or to a library in Python's own folders."""
    return path is not None and any(path.is_relative_to(place) for place in LIBRARIES)


@cache
def _parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_bytes(), filename=str(path))


@cache
def _imports(name: str, path: Path) -> tuple[str, ...]:
    """Return the names that a module imports from its top package, this package, or files next to it."""
    kept: list[str] = []
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            found = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for module in found:
            top = module.partition(".")[0]
            if top in (PACKAGE, name.partition(".")[0]) or not _installed(_file(top)):
                kept.append(module)
    return tuple(kept)


@cache
def _tree_hash(path: Path) -> str:
    """Return the SHA-256 of a file's syntax tree without docstrings.

    It is the same under every Python version that parses the file to the same tree.
    """
    digest = hashlib.sha256()
    _feed(_parsed(path), digest.update)
    return digest.hexdigest()


def _feed(node: Any, take: Callable[[bytes], Any]) -> None:
    """Give a syntax tree, without docstrings, to `take` piece by piece."""
    if isinstance(node, ast.AST):
        take(f"{type(node).__name__}(".encode())
        for field in node._fields:
            value: Any = getattr(node, field, None)
            if field == "body" and _documented(node):
                value = value[1:]
            if value is None or value == [] or field in ("ctx", "kind", "type_comment"):
                continue
            take(f"{field}=".encode())
            _feed(value, take)
        take(b")")
    elif isinstance(node, list):
        take(b"[")
        for item in node:
            _feed(item, take)
            take(b",")
        take(b"]")
    else:
        take(repr(node).encode())


def _documented(node: ast.AST) -> bool:
    """Return whether a node of a syntax tree has a docstring."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None


# Tasks


class Rows(NamedTuple):
    """Rows of a CSV file, as they are written there.

    Attributes
    ----------
    header : str, a line without its line end.
    text : str, the lines, each with its line end.
    made : str, the computing environment (`pipeline.environment.described`) of the rows; "" if unknown.
    renewed : str; if earlier code computed the rows: how it was shown that the code of their key gives the
        same rows, see pipelines/verify.py.
    """

    header: str
    text: str
    made: str = ""
    renewed: str = ""

    @classmethod
    def of(cls, csv_content: str, made: str = "") -> Rows:
        header, _, text = csv_content.partition("\n")
        return cls(header, text, made)

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


def kept(folder: Path, name: str, compute: Callable[[], pd.DataFrame], digits: int | None = None) -> Rows:
    """Return the rows of the task `name` in `folder`; compute and store them if missing or damaged."""
    if (found := _whole(folder / f"{name}.csv")) is None:
        found = keep(folder, name, compute(), digits)
    return found


def keep(
    folder: Path,
    name: str,
    frame: pd.DataFrame,
    digits: int | None = None,
    made: str = "",
    durable: bool = True,
) -> Rows:
    """Write the rows of a task, then their size, sha256 and computing environment, and return them.

    `digits` is as in `csv_bytes`, `made` as in `Rows`, and `durable` as in `atomic_path`.
    """
    content = csv_bytes(frame, digits)
    write(folder, {f"{name}.csv": content}, durable=durable)
    write_checksum(folder / f"{name}.csv", durable, **({"made": made} if made else {}))
    return Rows.of(content.decode(), made)


def _whole(path: Path) -> Rows | None:
    """Return the rows of a stored task; None if they are missing or damaged."""
    if (stated := stated_beside(path)) is None:
        return None
    return Rows.of(path.read_bytes().decode(), stated.get("made", ""))


class Store:
    """The stored tasks of a result, which is one CSV file or several tables that have the same tasks.

    Parameters
    ----------
    paths : the CSV files in git.
    folder : folder of finished tasks that are not yet in a result.
    digits : int, significant digits of a number.
    """

    def __init__(self, paths: Path | Sequence[Path], folder: Path, digits: int = 10) -> None:
        self.paths = [paths] if isinstance(paths, Path) else list(paths)
        self.folder, self.digits = folder, digits
        self.synced = -math.inf  # when `keep` last waited for the disk
        self.before = [listed(path) for path in self.paths]
        fresh = os.environ.get(RECOMPUTE, "") in ("", "0")
        self.listed = self.before if fresh else [{} for _ in self.paths]

    def find(self, unit: str) -> list[Rows] | None:
        """Return the rows of a task, one `Rows` for each table; None if they are missing in one table.

        They come from the results, or else from the folder of finished tasks.
        """
        if all(unit in table for table in self.listed):
            return [table[unit] for table in self.listed]
        found = [_whole(self.folder / f"{self._name(unit, path)}.csv") for path in self.paths]
        return None if None in found else [rows for rows in found if rows is not None]

    def keep(self, unit: str, *frames: pd.DataFrame, made: str = "") -> list[Rows]:
        """Store and return the rows of a task, one frame for each table; `made` is as in `Rows`.

        The call waits until they are on the disk, unless the last such wait was less than `OFTEN` seconds
        ago.  Tasks that take so little time are not worth the wait.
        """
        now = time.monotonic()
        if durable := now - self.synced > OFTEN:
            self.synced = now
        pairs = zip(self.paths, frames, strict=True)
        return [
            keep(self.folder, self._name(unit, path), frame, self.digits, made, durable)
            for path, frame in pairs
        ]

    def get(self, unit: str, compute: Callable[[], pd.DataFrame]) -> list[Rows]:
        """Return the rows of a task of a single table; compute and store them if they are missing."""
        return self.find(unit) or self.keep(unit, compute())

    def tables(self, units: Sequence[str]) -> list[str]:
        """Return the contents of the result files for these tasks, in order; all tasks must be finished."""
        return [content for content, _ in self._tables(units)]

    def write(self, units: Sequence[str]) -> None:
        """Write the result files of these finished tasks with their task lists; then empty the folder."""
        for path, (content, listing) in zip(self.paths, self._tables(units), strict=True):
            write(path.parent, {path.name: content.encode(), beside(path).name: listing.encode()})
        if self.folder.exists():
            for path in self.folder.iterdir():
                path.unlink()

    def _name(self, unit: str, path: Path) -> str:
        return unit if len(self.paths) == 1 else f"{unit}.{path.stem}"

    def _tables(self, units: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the content and the task list of each result file."""
        pieces = []
        for unit in units:
            if (found := self.find(unit)) is None:
                raise ValueError(f"unit {unit} of {', '.join(map(str, self.paths))} is not finished")
            pieces.append(found)
        for table in zip(*pieces, strict=True):
            header = _united([rows.header for rows in table])
            united = [rows.under(header) for rows in table]
            yield header + "\n" + "".join(rows.text for rows in united), listing(units, united)


def beside(path: Path) -> Path:
    """Return the path of the task list of a result file."""
    return path.with_name(f"{path.stem}.units.json")


def listing(units: Sequence[str], pieces: Sequence[Rows]) -> str:
    """Return the task list as JSON, one task a line: key, number of rows, sha256, `made` and `renewed`."""
    lines = []
    for unit, rows in zip(units, pieces, strict=True):
        entry = {"key": unit, "rows": rows.text.count("\n"), "sha256": rows.sha256}
        more = {"made": rows.made, "renewed": rows.renewed}
        lines.append(json.dumps({**entry, **{name: text for name, text in more.items() if text}}))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def listed(path: Path) -> dict[str, Rows]:
    """Return the rows, by key, of those tasks in a result file whose sha256 matches the task list beside it.

    If some tasks do not match, or a file is damaged, a line on stderr says so.
    """
    try:
        units = json.loads(beside(path).read_bytes())
        stated = [(str(unit["key"]), int(unit["rows"]), unit["sha256"]) for unit in units]
        made = [(str(unit.get("made", "")), str(unit.get("renewed", ""))) for unit in units]
        header, *lines = io.StringIO(path.read_bytes().decode(), newline="\n")
    except (OSError, ValueError, KeyError, TypeError) as error:
        if beside(path).exists():
            print(f"{path} or {beside(path).name} is damaged ({error!r}): computed again", file=sys.stderr)
        return {}
    found, start = {}, 0
    for (name, count, digest), how in zip(stated, made, strict=True):
        text = "".join(lines[start : start + count])
        start += count
        if (rows := Rows(header.rstrip("\n"), text, *how)).sha256 == digest:
            found[name] = rows
    if wrong := len(stated) - len(found):
        print(
            f"{path} has other rows than {beside(path).name} lists for {wrong} of {len(stated)} units: computed again",
            file=sys.stderr,
        )
    return found


def _united(headers: Sequence[str]) -> str:
    """Return one header with the columns of several headers, in order of first appearance."""
    if len(set(headers)) == 1:
        return headers[0]
    out = io.StringIO()
    names = dict.fromkeys(name for header in headers for name in next(csv.reader([header])))
    csv.writer(out, lineterminator="").writerow(names)
    return out.getvalue()
