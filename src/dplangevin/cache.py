"""Cache on disk: finished tasks, checkpoints, and files that are written whole or not at all.

A task (`unit` in the code) is the smallest piece of work that is stored.  Its key is a hash of its
parameters, of the sha256 of its data, and of *the code that it can reach*.  This code is the syntax trees,
without docstrings, of the modules that the task names and of all modules that these import.  So an edit of a
comment changes no key.  An edit of a method changes the keys of all tasks that use this method.

Results in git are themselves the cache.  Beside a result `ops.csv` lies the list `ops.units.json`.  It has
one entry for each task, in order: its key, its number of rows, and the sha256 of the header with these rows.
If earlier code computed a task and its key was renewed later, the entry says how it was shown that the rows
stay the same.  Tasks of a result that is not yet written lie in `data/units`, with size and sha256 in a JSON
file beside each.  The first line of a checkpoint is its own size and sha256.  A file or task with a wrong
sha256 is computed again, and a line on stderr says so.
"""

from __future__ import annotations

import ast
import csv
import errno
import glob
import hashlib
import importlib.machinery
import io
import json
import math
import os
import pickle
import platform
import secrets
import shutil
import sys
import sysconfig
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

PACKAGE = __name__.partition(".")[0]
SOURCES = Path(__file__).parents[1]
HASH = 32  # characters of a key
LIBRARIES = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
KEEPERS = {__name__, f"{PACKAGE}.executor"}  # they store and start tasks, and determine no number
OFTEN = 1.0  # seconds between two waits until stored tasks are on the disk
RECOMPUTE = "DPL_RECOMPUTE"  # environment variable: use no rows of existing results


# Files


@contextmanager
def temporary_path(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` that no other process or thread uses; at the end, delete a file left there.

    Raises
    ------
    OSError : A write to the path failed.  The message says what would help, see `FIXES`.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{_prefix(path)}{os.getpid()}-{secrets.token_hex(4)}.part")
        try:
            yield part
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        if (told := with_fix(error, path)) is error:
            raise
        raise told from error


@contextmanager
def atomic_path(path: str | Path, durable: bool = True) -> Iterator[Path]:
    """Yield a `temporary_path`; on success, wait until the file is on the disk and let it replace `path`.

    Temporary files of `path` that killed processes left are then deleted.

    Parameters
    ----------
    durable : bool; False: do not wait for the disk, and delete no old temporary files.  This saves
        milliseconds for each of many small files.  Their sha256 is stored, so a damaged file is noticed.
    """
    path = Path(path)
    with temporary_path(path) as part:
        yield part
        if durable:
            _sync(part)
        os.replace(part, path)
        if durable:
            _sync(path.parent)
    if durable:
        remove_leftovers(path)


def remove_leftovers(path: Path) -> None:
    """Delete the temporary files of `path` whose processes, on this machine, have ended."""
    for left in path.parent.glob(f"{glob.escape(_prefix(path))}*.part"):
        if not _alive(left.name.removeprefix(_prefix(path)).partition("-")[0]):
            with suppress(OSError):  # the file may belong to another user
                left.unlink()


def _prefix(path: Path) -> str:
    """Return the start of the names of the temporary files that this machine makes for `path`."""
    return f".{path.name}.{platform.node()}-"


def _sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot do this for folders
            raise
    finally:
        os.close(handle)


FIXES = {  # error number -> what the user can do
    errno.ENOSPC: "free some space there and run again",
    errno.EDQUOT: "free some of your quota there and run again",
    errno.EFBIG: "allow larger files (ulimit -f) and run again",
    errno.EROFS: "mount it for writing, or work in another folder",
    errno.EACCES: "give this user the right to (ls -l, chmod, chown) and run again",
    errno.EPERM: "give this user the right to (ls -l, chmod, chown) and run again",
}


def with_fix(error: OSError, path: str | Path | None = None) -> OSError:
    """Return the error with advice from `FIXES` in its message; the error itself if there is no advice.

    Parameters
    ----------
    path : path of the written file; used if the error names no file.
    """
    if error.errno not in FIXES or FIXES[error.errno] in (error.strerror or ""):
        return error
    named = error.filename or path
    return OSError(error.errno, f"{error.strerror}: {FIXES[error.errno]}", named and str(named))


def _alive(process: str) -> bool:
    """Return whether a process with this number runs."""
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except (PermissionError, ValueError):
        pass
    return True


def write(folder: Path, contents: Mapping[str, bytes], only: bool = False, durable: bool = True) -> None:
    """Write files into a folder, each as in `atomic_path`.

    Parameters
    ----------
    contents : mapping of file name to bytes.
    only : bool; True: afterwards, delete every other file in the folder.
    durable : bool, as in `atomic_path`.
    """
    for name, content in contents.items():
        with atomic_path(folder / name, durable) as part:
            part.write_bytes(content)
    if only:
        for path in folder.iterdir():
            if path.name not in contents:
                path.unlink()


def csv_bytes(frame: pd.DataFrame, digits: int | None = 10) -> bytes:
    """Return a frame as CSV.

    Parameters
    ----------
    digits : int or None, significant digits of a number; None: as many as restore each number exactly.
    """
    form = None if digits is None else f"%.{digits}g"
    return frame.to_csv(index=False, float_format=form, lineterminator="\n").encode()


def sha256(path: str | Path) -> str:
    """Return the hex SHA-256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def describe(path: Path) -> dict[str, Any]:
    """Return the sha256 and the size in bytes of a file."""
    return {"sha256": sha256(path), "size": path.stat().st_size}


def verified(path: Path) -> bool:
    """Return whether size and sha256 of a file match the JSON file beside it.

    If the JSON file exists and they do not match, a line on stderr says so.
    """
    return _stated(path) is not None


def _stated(path: Path) -> dict[str, Any] | None:
    """Return the content of the JSON file beside a file if size and sha256 match it, else None."""
    stated = path.with_suffix(".json")
    try:
        found: dict[str, Any] = json.loads(stated.read_bytes())
        if describe(path).items() <= found.items():
            return found
    except (OSError, ValueError, AttributeError):
        if not stated.exists():
            return None
    print(f"{path} is damaged: computed again", file=sys.stderr)
    return None


def write_checksum(path: Path, durable: bool = True, **more: str) -> None:
    """Write size and sha256 of a file, with the entries of `more`, into a JSON file beside it.

    Without this JSON file, the file does not count as finished.
    """
    stated = json.dumps({**describe(path), **more}).encode()
    write(path.parent, {path.with_suffix(".json").name: stated}, durable=durable)


def kept_file(path: Path, make: Callable[[Path], object]) -> Path:
    """Return `path`; first call `make(path)` if the file is missing or damaged."""
    if not verified(path):
        make(path)
        write_checksum(path)
    return path


class File(NamedTuple):
    """A file that may have to be made first.

    Attributes
    ----------
    sha256 : str, identifies the content: its SHA-256, or a hash of all inputs that the file is made from.
    get : callable that makes the file if it is missing, and returns its path.  It can be pickled and called
        in another process, also on another machine.
    """

    sha256: str
    get: Callable[[], Path]

    @classmethod
    def at(cls, path: Path) -> File:
        """Return the `File` of a file that exists."""
        return cls(sha256(path), Here(path))


@dataclass(frozen=True)
class Here:
    """A callable that returns the path of a file that exists.

    Pickling it includes the content of the file.  In another process it returns the path of a copy.
    """

    path: Path

    def __call__(self) -> Path:
        return self.path

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (self.path.name, self.path.read_bytes())


def _copied(name: str, content: bytes) -> Here:
    """Return a file with this content; its temporary folder is deleted together with the returned object."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PACKAGE}-"))
    (folder / name).write_bytes(content)
    found = Here(folder / name)
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found


# Code


def key(inputs: Any) -> str:
    """Return the hash of JSON-like inputs, which names the result that these inputs determine."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:HASH]


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
    made : str, the computing environment (`arithmetic.described`) of the rows; "" if unknown.
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
    if (stated := _stated(path)) is None:
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


# Unfinished work


class Checkpoint:
    """A file with the latest state of one computation, written whole or not at all.

    A state is a dict of tensors, numbers, texts and lists of those.  It must contain everything that later
    steps depend on, such as the generator's state.  Then a resumed run ends in the same bytes.  The first
    line of the file is the sha256 and the size of the rest.

    Parameters
    ----------
    key : str, a hash of all inputs of the computation.  A state with another key is never loaded.
    every : float, seconds between two writes; a killed process loses at most this time.
    """

    def __init__(self, path: Path, key: str, every: float = 30.0) -> None:
        self.path, self.key, self.every = path, key, every
        self.written = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Return the latest state; None if there is none, if it has another key, or if it is damaged.

        If it is damaged, a line on stderr says so.
        """
        import torch  # imported here, because it is slow and not every stage has checkpoints

        try:
            first, _, content = self.path.read_bytes().partition(b"\n")
            if first != _summed(content):
                raise ValueError
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RuntimeError, pickle.UnpicklingError):
            print(f"{self.path} is damaged: computed again", file=sys.stderr)
            return None
        return found["state"] if found["key"] == self.key else None

    def save(self, make: Callable[[], dict[str, Any]], force: bool = False) -> None:
        """Write the state that `make` returns; without `force`, only `every` seconds after the last write."""
        import torch

        if force or time.monotonic() - self.written >= self.every:
            buffer = io.BytesIO()
            torch.save({"key": self.key, "state": make()}, buffer)
            content = buffer.getvalue()
            write(self.path.parent, {self.path.name: _summed(content) + b"\n" + content})
            self.written = time.monotonic()

    def remove(self) -> None:
        """Delete the file; called when the computation is finished and its result is stored."""
        self.path.unlink(missing_ok=True)


def _summed(content: bytes) -> bytes:
    """Return the first line of a checkpoint with this content."""
    return f"{hashlib.sha256(content).hexdigest()} {len(content)}".encode()
