"""Finished work on disk: units, results that are their own cache, checkpoints, and files written whole or not at all.

A unit is the smallest piece of work that is kept.  Its key is the hash of its parameters, of the sha256 of its data
and of *the code that it can reach*: the syntax trees, without docstrings, of the modules that it names and of all
that these import.  An edit of a comment changes no key, an edit of a method changes the keys of what is made of that
method.

Beside a result `ops.csv` lies `ops.units.json`, the keys of its units in order with the number of their rows and the
sha256 of these rows' bytes under the header: results in git are themselves the cache.  A unit that earlier code has
made, and whose key was renewed since, says there how it was found out that it would come out the same.  Units of a
result that is not written yet lie in `data/units`, with size and sha256 beside them; a checkpoint begins with its own.
What does not hash right is computed again, and a line on stderr says so.
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
KEEPERS = {__name__, f"{PACKAGE}.executor"}  # where work is kept, and where it is carried out
OFTEN = 1.0  # seconds between units that are waited for until they are on the disk
RECOMPUTE = "DPL_RECOMPUTE"  # environment: take nothing from results that are there


# Files


@contextmanager
def temporary_path(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` that no other process or thread has; what is there goes at the end.

    OSError of a write to it says what would help.
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
    """A `temporary_path` that replaces `path` on success, when it is on the disk.

    What processes that were killed left of earlier ones goes then.  durable: False for one of many small files whose
    sha256 is stated, for which neither is worth its milliseconds.
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
    """Delete the temporary paths of `path` whose processes, on this machine, are gone."""
    for left in path.parent.glob(f"{glob.escape(_prefix(path))}*.part"):
        if not _alive(left.name.removeprefix(_prefix(path)).partition("-")[0]):
            with suppress(OSError):  # another user's
                left.unlink()


def _prefix(path: Path) -> str:
    return f".{path.name}.{platform.node()}-"


def _sync(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of file systems that cannot do this for folders
            raise
    finally:
        os.close(handle)


FIXES = {  # of errors of the disk
    errno.ENOSPC: "free some space there and run again",
    errno.EDQUOT: "free some of your quota there and run again",
    errno.EFBIG: "allow larger files (ulimit -f) and run again",
    errno.EROFS: "mount it for writing, or work in another folder",
    errno.EACCES: "give this user the right to (ls -l, chmod, chown) and run again",
    errno.EPERM: "give this user the right to (ls -l, chmod, chown) and run again",
}


def with_fix(error: OSError, path: str | Path | None = None) -> OSError:
    """The error with what would help in its text, if `FIXES` knows; path: what was written, if it names no file."""
    if error.errno not in FIXES or FIXES[error.errno] in (error.strerror or ""):
        return error
    named = error.filename or path
    return OSError(error.errno, f"{error.strerror}: {FIXES[error.errno]}", named and str(named))


def _alive(process: str) -> bool:
    """Whether a process of this number runs."""
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except (PermissionError, ValueError):
        pass
    return True


def write(folder: Path, contents: Mapping[str, bytes], only: bool = False, durable: bool = True) -> None:
    """Write files into `folder`, each as `atomic_path`; with `only`, then remove every other file there."""
    for name, content in contents.items():
        with atomic_path(folder / name, durable) as part:
            part.write_bytes(content)
    if only:
        for path in folder.iterdir():
            if path.name not in contents:
                path.unlink()


def csv_bytes(frame: pd.DataFrame, digits: int | None = 10) -> bytes:
    """A frame as CSV with so many significant digits; None: as many as bring every number back."""
    form = None if digits is None else f"%.{digits}g"
    return frame.to_csv(index=False, float_format=form, lineterminator="\n").encode()


def sha256(path: str | Path) -> str:
    """Hex SHA-256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def describe(path: Path) -> dict[str, Any]:
    """sha256 and size of a file."""
    return {"sha256": sha256(path), "size": path.stat().st_size}


def verified(path: Path) -> bool:
    """Whether a file has the size and sha256 that are stated beside it; if they are another's, a line says so."""
    return _stated(path) is not None


def _stated(path: Path) -> dict[str, Any] | None:
    """What is stated beside a file that has the size and sha256 that are stated there."""
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
    """State size and sha256 of a file beside it, without which it does not count, and more of it."""
    stated = json.dumps({**describe(path), **more}).encode()
    write(path.parent, {path.with_suffix(".json").name: stated}, durable=durable)


def kept_file(path: Path, make: Callable[[Path], object]) -> Path:
    """The file at `path`, made by `make(path)` unless it is there and whole."""
    if not verified(path):
        make(path)
        write_checksum(path)
    return path


class File(NamedTuple):
    """A file that may have to be made first.  sha256: what it is; get: makes sure that it is there, and can be pickled
    where the file is needed in other processes, perhaps of another machine."""

    sha256: str
    get: Callable[[], Path]

    @classmethod
    def at(cls, path: Path) -> File:
        """A file that is there."""
        return cls(sha256(path), Here(path))


@dataclass(frozen=True)
class Here:
    """Gets a file that is there.  In another process it gets a copy, since its content is what is pickled."""

    path: Path

    def __call__(self) -> Path:
        return self.path

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (self.path.name, self.path.read_bytes())


def _copied(name: str, content: bytes) -> Here:
    """A file of this content, in a folder that goes with what is returned."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PACKAGE}-"))
    (folder / name).write_bytes(content)
    found = Here(folder / name)
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found


# Code


def key(inputs: Any) -> str:
    """The name of what these inputs (JSON-like) decide."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:HASH]


def targets(*configs: Any) -> list[str]:
    """Every `_target_` anywhere in configs of plain dicts and lists, sorted."""
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
    """SHA-256 of the code that these modules, or objects in them, can reach.

    `KEEPERS` are left out, which decide no number, and so is what only these import.
    """
    return _hash({name: path for name, path in reachable(names).items() if name not in KEEPERS})


def package_hash(*names: str) -> str:
    """SHA-256 of all modules of this package, and of the code that others can reach."""
    here = SOURCES / PACKAGE
    own = {str(path.relative_to(SOURCES)): path for path in here.rglob("*.py")}
    return _hash(own | {name: path for name, path in reachable(names).items() if path not in own.values()})


def _hash(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name} {_tree_hash(path)}\n".encode())
    return digest.hexdigest()


def reachable(names: Iterable[str]) -> dict[str, Path]:
    """Module name -> file of the modules that `names` (modules, or objects in them) are in and of what these import.

    Followed are imports inside this package, also those in functions, and those of a module from elsewhere inside its
    own top-level package or folder.  A module of an installed library counts alone.
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
    """The module that `name` is, or is in, and the packages around it, but for this one: it only names what users
    import."""
    parts = name.split(".")
    first = 2 if parts[0] == PACKAGE else 1
    places = [".".join(parts[:n]) for n in range(first, len(parts) + 1)]
    here = [place for place in places if _file(place)]
    return here[-1:] if here and _installed(_file(here[-1])) else here


@cache
def _file(name: str) -> Path | None:
    """The source of a module, found without importing anything; None if there is none."""
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
    """Whether a file belongs to Python or to a library in its folders."""
    return path is not None and any(path.is_relative_to(place) for place in LIBRARIES)


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


@cache
def _imports(name: str, path: Path) -> tuple[str, ...]:
    """What a module imports from its own top-level package, from this package, or from files next to it."""
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
    """SHA-256 of a file's syntax tree without docstrings, the same under every Python that parses it alike."""
    digest = hashlib.sha256()
    _feed(_parsed(path), digest.update)
    return digest.hexdigest()


def _feed(node: Any, take: Callable[[bytes], Any]) -> None:
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
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None


# Units


class Rows(NamedTuple):
    """Rows of a CSV file as they are written there.  header: a line without its end; text: lines, each with its end;
    made: the arithmetic that they were made with, where that is known; renewed: of rows that earlier code has made, how
    it was found out that the code of their key makes the same, see pipelines/verify.py."""

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
        """The same rows under a header that has other columns too, which stay empty."""
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
    """The unit `name` of `folder`, computed unless it is there and whole."""
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
    """Write a unit, then its size, sha256 and the arithmetic that it was made with."""
    content = csv_bytes(frame, digits)
    write(folder, {f"{name}.csv": content}, durable=durable)
    write_checksum(folder / f"{name}.csv", durable, **({"made": made} if made else {}))
    return Rows.of(content.decode(), made)


def _whole(path: Path) -> Rows | None:
    """A unit that is there and whole."""
    if (stated := _stated(path)) is None:
        return None
    return Rows.of(path.read_bytes().decode(), stated.get("made", ""))


class Store:
    """The units of a result: one CSV file, or several tables that have their units in common.

    paths: the files in git; folder: of finished units that are in no result yet; digits: significant ones of a number.
    """

    def __init__(self, paths: Path | Sequence[Path], folder: Path, digits: int = 10) -> None:
        self.paths = [paths] if isinstance(paths, Path) else list(paths)
        self.folder, self.digits = folder, digits
        self.synced = -math.inf  # when a unit was last put on the disk
        self.before = [listed(path) for path in self.paths]
        fresh = os.environ.get(RECOMPUTE, "") in ("", "0")
        self.listed = self.before if fresh else [{} for _ in self.paths]

    def find(self, unit: str) -> list[Rows] | None:
        """The rows of a unit, a piece a table, from the results or from finished units; None where one is not there."""
        if all(unit in table for table in self.listed):
            return [table[unit] for table in self.listed]
        found = [_whole(self.folder / f"{self._name(unit, path)}.csv") for path in self.paths]
        return None if None in found else [rows for rows in found if rows is not None]

    def keep(self, unit: str, *frames: pd.DataFrame, made: str = "") -> list[Rows]:
        """Keep the rows of a unit, a frame a table.  made: the arithmetic that they were made with.

        They are on the disk then, unless the last ones that are came within a second: units that take so little are not
        worth the wait.
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
        """The rows of a unit of a single table, computed unless they are there."""
        return self.find(unit) or self.keep(unit, compute())

    def tables(self, units: Sequence[str]) -> list[str]:
        """The result files of these units, which must all be finished, in order."""
        return [content for content, _ in self._tables(units)]

    def write(self, units: Sequence[str]) -> None:
        """Write the results of these units with the list of units beside each, and drop what is now in them."""
        for path, (content, listing) in zip(self.paths, self._tables(units), strict=True):
            write(path.parent, {path.name: content.encode(), beside(path).name: listing.encode()})
        if self.folder.exists():
            for path in self.folder.iterdir():
                path.unlink()

    def _name(self, unit: str, path: Path) -> str:
        return unit if len(self.paths) == 1 else f"{unit}.{path.stem}"

    def _tables(self, units: Sequence[str]) -> Iterator[tuple[str, str]]:
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
    """The list of units of a result file."""
    return path.with_name(f"{path.stem}.units.json")


def listing(units: Sequence[str], pieces: Sequence[Rows]) -> str:
    """The list of units with their rows and how these were made, one unit a line."""
    lines = []
    for unit, rows in zip(units, pieces, strict=True):
        entry = {"key": unit, "rows": rows.text.count("\n"), "sha256": rows.sha256}
        more = {"made": rows.made, "renewed": rows.renewed}
        lines.append(json.dumps({**entry, **{name: text for name, text in more.items() if text}}))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def listed(path: Path) -> dict[str, Rows]:
    """Key -> rows of the units that are listed beside a result file and whose bytes, and header, are there."""
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
    """All columns of several headers, in order of appearance."""
    if len(set(headers)) == 1:
        return headers[0]
    out = io.StringIO()
    names = dict.fromkeys(name for header in headers for name in next(csv.reader([header])))
    csv.writer(out, lineterminator="").writerow(names)
    return out.getvalue()


# Unfinished work


class Checkpoint:
    """A file that holds the latest state of one computation, written whole or not at all.

    key: a hash of all that decides the computation; the state of another is never picked up.  every: seconds between
    two writes, which a kill costs at most.  A state is a dict of tensors, numbers, texts and lists of those; it must
    determine all that follows, the generator's state included, so that a resumed run ends in the same bytes.  The
    file's first line is the sha256 and the size of the rest.
    """

    def __init__(self, path: Path, key: str, every: float = 30.0) -> None:
        self.path, self.key, self.every = path, key, every
        self.written = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The latest state; None if there is none, if it belongs to another computation, or, with a line that says so,
        if it is damaged."""
        import torch  # here, so that a stage without checkpoints does not wait for it

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
        """Write what `make` returns if `every` seconds have passed since the last write, or if forced."""
        import torch

        if force or time.monotonic() - self.written >= self.every:
            buffer = io.BytesIO()
            torch.save({"key": self.key, "state": make()}, buffer)
            content = buffer.getvalue()
            write(self.path.parent, {self.path.name: _summed(content) + b"\n" + content})
            self.written = time.monotonic()

    def remove(self) -> None:
        """Delete the file, once the computation is finished and its result kept."""
        self.path.unlink(missing_ok=True)


def _summed(content: bytes) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()} {len(content)}".encode()
