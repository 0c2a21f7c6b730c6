"""Files that are written whole or not at all, with their size and SHA-256 beside them, and checkpoints."""

from __future__ import annotations

import errno
import glob
import hashlib
import io
import json
import os
import pickle
import platform
import secrets
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import psutil

HASH = 32  # characters of a key
LARGE = 100_000  # bytes


@contextmanager
def temporary_path(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` that no other process or thread uses; at the end, delete a file left there."""
    path = Path(path)
    part = path.with_name(f"{_prefix(path)}{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
    except OSError as error:
        if (fixed := with_fix(error, path)) is error:
            raise
        raise fixed from error
    finally:
        with suppress(OSError):
            part.unlink()


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a `temporary_path`; on success, let it replace `path`."""
    path = Path(path)
    with temporary_path(path) as part:
        yield part
        large = part.stat().st_size > LARGE
        os.replace(part, path)
    if large:  # for each of many small files a look into their folder would take too long
        remove_leftovers(path)


def remove_leftovers(path: Path) -> None:
    """Delete the temporary files of `path` whose processes, on this machine, have ended."""
    for left in path.parent.glob(f"{glob.escape(_prefix(path))}*.part"):
        pid = left.name.removeprefix(_prefix(path)).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            with suppress(OSError):  # the file may belong to another user
                left.unlink()


def _prefix(path: Path) -> str:
    return f".{path.name}.{platform.node()}-"  # of the temporary files that this machine makes for `path`


FIXES = {  # error number -> what the user can do
    errno.ENOSPC: "free some space there and run again",
    errno.EDQUOT: "free some of your quota there and run again",
    errno.EFBIG: "allow larger files (ulimit -f) and run again",
}


def with_fix(error: OSError, path: str | Path | None = None) -> OSError:
    """Return the error with advice from `FIXES` in its message, naming `path` if it names no file itself."""
    fix, named = FIXES.get(error.errno or 0), error.filename or path
    if fix is None or fix in str(error):
        return error
    return OSError(error.errno, f"{error.strerror}: {fix}", named and str(named))


def write(folder: Path, contents: Mapping[str, bytes], only: bool = False) -> None:
    """Write files into a folder, each as in `atomic_path`; with `only`, then delete everything else in it."""
    for name, content in contents.items():
        with atomic_path(folder / name) as part:
            part.write_bytes(content)
    for path in folder.iterdir() if only else ():
        if path.name not in contents:
            remove(path)


def remove(path: Path) -> None:
    """Delete a file, or a folder with all its files."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # another process may still write into it
    else:
        path.unlink(missing_ok=True)


def key(inputs: Any) -> str:
    """Return the hash of JSON-like inputs, which names the result that these inputs determine."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:HASH]


def sha256(path: str | Path) -> str:
    """Return the hex SHA-256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def describe(path: Path) -> dict[str, Any]:
    """Return the sha256 and the size in bytes of a file."""
    return {"sha256": sha256(path), "size": path.stat().st_size}


def sidecar(path: Path) -> dict[str, Any] | None:
    """Return the content of the JSON file beside a file if size and sha256 match it, else None; a line says so."""
    with suppress(OSError, ValueError, AttributeError):
        content: dict[str, Any] = json.loads(path.with_suffix(".json").read_bytes())
        if describe(path).items() <= content.items():
            return content
    if path.with_suffix(".json").exists():
        print(f"{path} is damaged: computed again", file=sys.stderr)
    return None


def write_checksum(path: Path, **more: str) -> None:
    """Write size and sha256 of a file, with the entries of `more`, into a JSON file beside it: now it is finished."""
    content = json.dumps({**describe(path), **more}).encode()
    write(path.parent, {path.with_suffix(".json").name: content})


def made_file(path: Path, make: Callable[[Path], object]) -> Path:
    """Return `path`; first call `make(path)` if the file is missing or damaged."""
    if sidecar(path) is None:
        make(path)
        write_checksum(path)
    return path


class File(NamedTuple):
    """A file that `get` makes if it is missing; `sha256` may be a hash of all inputs that it is made from."""

    sha256: str
    get: Callable[[], Path]

    @classmethod
    def at(cls, path: Path) -> File:
        return cls(sha256(path), ExistingFile(path))


@dataclass(frozen=True)
class ExistingFile:
    """A callable that returns the path of a file that exists; pickled, it takes the content along."""

    path: Path

    def __call__(self) -> Path:
        return self.path

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (self.path.name, self.path.read_bytes())


def _copied(name: str, content: bytes) -> ExistingFile:
    """Return a file with this content; its temporary folder is deleted together with the returned object."""
    folder = tempfile.TemporaryDirectory(prefix="dplangevin-")
    copy = ExistingFile(Path(folder.name, name))
    copy.path.write_bytes(content)
    weakref.finalize(copy, folder.cleanup)
    return copy


class Noted(Exception):
    """The steps that a `Checkpoint` notes are done, and the rest is not wanted."""


class Checkpoint:
    """A file with the latest state of one computation, written whole or not at all.

    A state is a dict of tensors, numbers, texts and lists of those, with everything that later steps depend on. A state
    with another `key`, a hash of all inputs of the computation, is never loaded.

    After `STEPS` calls of `save`, or the last one, the norm of each tensor of a chain's state is noted in `noted`, by
    key, so that the first steps can be done again and compared; `stops` makes the computation end there.
    """

    STEPS: ClassVar[int] = 16
    noted: ClassVar[dict[str, list[float]]] = {}
    stops: ClassVar[bool] = False

    def __init__(self, path: Path, key: str, every: float = 30.0) -> None:
        self.path, self.key, self.every = path, key, every
        self.written, self.calls = time.monotonic(), 0

    def load(self) -> dict[str, Any] | None:
        """Return the latest state; None if there is none, if its key differs, or if it is damaged (stderr says so)."""
        import torch  # slow, and not every stage has checkpoints

        try:
            first, _, content = self.path.read_bytes().partition(b"\n")
            if first != _first_line(content):
                raise ValueError
            checkpoint = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RuntimeError, pickle.UnpicklingError):
            print(f"{self.path} is damaged: computed again", file=sys.stderr)
            return None
        if checkpoint["key"] != self.key:
            return None
        self.calls, norms = checkpoint.get("noted", (self.STEPS, []))
        self.noted.update({self.key: norms} if norms else {})
        if norms and self.stops:
            raise Noted
        return checkpoint["state"]

    def save(self, make: Callable[[], dict[str, Any]], force: bool = False) -> None:
        """Write the state that `make` returns; without `force`, only `every` seconds after the last write."""
        import torch

        self.calls += 1
        if self.calls == self.STEPS or (force and self.calls < self.STEPS):
            chain = make().get("state", [])
            self.noted[self.key] = [float(each.double().norm()) for each in chain if each.is_floating_point()]
            if self.stops:
                raise Noted
        if force or time.monotonic() - self.written >= self.every:
            buffer = io.BytesIO()
            noted = self.calls, self.noted.get(self.key, [])
            torch.save({"key": self.key, "state": make(), "noted": noted}, buffer)
            content = buffer.getvalue()
            write(self.path.parent, {self.path.name: _first_line(content) + b"\n" + content})
            self.written = time.monotonic()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _first_line(content: bytes) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()} {len(content)}".encode()
