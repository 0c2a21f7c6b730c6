"""Raw files, each from the first source that yields the right bytes.

Sources of a file, in this order: every entry of the environment variable DATA_MIRROR, the copy bundled with
the project (xz), the official URL, public mirrors, the official archive that it is a member of. At scale=smoke the
only URL of an image set is the word miniature: a stand-in that is made here. Whatever the source, the file must have
the size and the sha256 of the data set's config: no more bytes than that are taken, and nothing reads them before.
"""

import lzma
import os
import re
import stat
import sys
import tarfile
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from gzip import BadGzipFile
from itertools import groupby
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any, NamedTuple

import pooch

from dplangevin.cache import atomic_path, describe, remove_leftovers, temporary_path
from dplangevin.data import DataError, miniature

TIMEOUT = (10, 60)  # seconds to connect, and without a byte
PATIENCE, LEAST = 60, 50_000  # a download may take so many seconds, and one for so many bytes
UNPACKING = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, BadGzipFile)


class DataUnavailable(DataError):
    """No source of a file can be reached and has it."""


class _Absent(Exception):
    """A source cannot be reached, is too slow, or does not have the file."""


class _Failure(NamedTuple):
    """What was tried.  absent: nothing is wrong but that no source can be reached and has the file."""

    text: str
    absent: bool


def mirrors(value: str) -> list[str]:
    """Entries of DATA_MIRROR: folders or URL prefixes, separated by spaces or commas.

    A value that is itself a folder is one entry, so that a single folder may have spaces in its name.

    >>> mirrors("https://example.org/data, ../mirror")
    ['https://example.org/data', '../mirror']
    """
    if value and Path(value).is_dir():
        return [value]
    return [entry for entry in re.split(r"[\s,]+", value) if entry]


def raw_files(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The files of an entry of conf/dataset, each with the `archive` that they all are members of, if there is one, and
    after its own URLs those that it has in the folders of the entry's `urls`."""
    archive = {"archive": entry["archive"]} if entry.get("archive") else {}
    folders = entry.get("urls") or []
    return [
        {**file, **archive, "urls": [*file.get("urls", []), *(f"{url}/{file['name']}" for url in folders)]}
        for file in entry["files"]
    ]


def fetch(
    key: str,
    files: Sequence[Mapping[str, Any]],
    folder: str | Path,
    mirror: Sequence[str] = (),
    stage: str | None = None,
) -> None:
    """Make `folder` hold every file of the data set `key`; a file with the right sha256 is kept.

    files: entries with `name`, `sha256`, `size` (bytes), and perhaps `bundled` (path of an xz file) and `urls`;
    of a mirror entry M the file `M/<key>/<name>` is tried. Files appear whole or not at all, and a file that is
    already there is only ever replaced by the right one.
    An entry may also have an `archive`, the tar file whose member `<folder>/<name>` it is: `name`, `sha256`,
    `size`, `folder` and `urls`. Of M then `M/<key>/<folder>/<name>` and `M/<folder>/<name>` are tried too, and
    members without a source of their own are taken, each checked by sha256, from the first archive with the
    right sha256 among every `M/<key>/<archive>` and the URLs. No archive is left behind.
    stage: the stage to run again, in messages (None = prepare@<key>).

    Raises, after trying all files, naming for each that cannot be had the expected and found sha256, every source
    with its error, and how to set DATA_MIRROR: DataUnavailable where sources cannot be reached, or do not have it,
    and nothing else is wrong; DataError where one has other bytes or cannot be read, or the file that is here is
    another. OSError where files cannot be written here. A line on stderr names a source with other bytes before
    another is taken.
    """
    folder, stage = Path(folder), stage or f"prepare@{key}"
    folder.mkdir(parents=True, exist_ok=True)
    failed = [(entry, failure) for entry in files if (failure := _fetch_file(key, entry, folder, mirror))]
    failures = [
        failure._replace(
            text=f"{failure.text}\n  To use a copy of your own, set DATA_MIRROR to a folder or URL prefix that holds\n"
            f"  {key}/{entry['name']} (several: separated by spaces or commas), then dvc repro {stage}"
        )
        for entry, failure in failed
        if not entry.get("archive")
    ]
    members = [(entry, failure) for entry, failure in failed if entry.get("archive")]
    for _, group in groupby(members, key=lambda member: member[0]["archive"]["name"]):
        packed = list(group)
        if failure := _fetch_members(key, [entry for entry, _ in packed], folder, mirror):
            lacking = [tried for entry, tried in packed if not _right(folder / entry["name"], entry)]
            text = "\n".join([*(each.text for each in lacking), failure.text, f"  Then dvc repro {stage}"])
            failures.append(_Failure(text, all(each.absent for each in [*lacking, failure])))
    if failures:
        kind = DataUnavailable if all(failure.absent for failure in failures) else DataError
        raise kind("\n".join(failure.text for failure in failures))


def _fetch_file(key: str, entry: Mapping[str, Any], folder: Path, mirror: Sequence[str]) -> _Failure | None:
    """Fetch one file; what was tried if no source has it."""
    target, places = folder / entry["name"], [key]
    if archive := entry.get("archive"):
        remove_leftovers(folder / archive["name"])
        places += [f"{key}/{archive['folder']}", archive["folder"]]
    if _right(target, entry):
        return None
    here = f"found {_said(target)}" if (there := target.is_file()) else "nothing there yet"
    bundled = [entry["bundled"]] if entry.get("bundled") else []
    tried = _Tried()
    for source in [
        *(f"{prefix.rstrip('/')}/{place}/{entry['name']}" for prefix in mirror for place in places),
        *bundled,
        *(
            f"{url} {key} {entry['name']}" if url == miniature.SOURCE else url
            for url in entry.get("urls", [])
        ),
    ]:
        try:
            with atomic_path(target) as part:
                _obtain(source, part, entry, compressed=source in bundled)
        except (_Absent, DataError) as error:
            tried.add(source, error)
        else:
            tried.warn(target)
            return None
    known = "no source is known" + (" but its archive" if archive else "")
    return _Failure(
        f"{target} is not available: expected sha256 {entry['sha256']} ({entry['size']} bytes), {here}.\n"
        + tried.text(known),
        absent=tried.absent and not there,
    )


def _fetch_members(
    key: str, entries: Sequence[Mapping[str, Any]], folder: Path, mirror: Sequence[str]
) -> _Failure | None:
    """Fetch files from the archive that holds them all; what was tried if it cannot be had."""
    archive, tried = entries[0]["archive"], _Tried()
    for source in [*(f"{prefix.rstrip('/')}/{key}/{archive['name']}" for prefix in mirror), *archive["urls"]]:
        try:
            with temporary_path(folder / archive["name"]) as part:
                _obtain(source, part, archive)
                _unpack(part, entries, folder)
        except (_Absent, DataError) as error:
            tried.add(source, error)
        else:
            tried.warn(folder)
            return None
    inside, name = archive["folder"], entries[0]["name"]
    text = "\n".join(
        [
            f"{archive['name']}, which holds {', '.join(entry['name'] for entry in entries)}, is not available: "
            f"expected sha256 {archive['sha256']} ({archive['size']} bytes).",
            tried.text("no source is known"),
            "  To use a copy of your own, set DATA_MIRROR to one or several folders or URL prefixes, separated by",
            f"  spaces or commas, of which one holds the members ({key}/{name}, {key}/{inside}/{name} or",
            f"  {inside}/{name}, and so on) or the archive ({key}/{archive['name']}). A mirror that keeps the data",
            "  packed must first write the members to a folder of their own (its restore_cifar.py does), which",
            "  DATA_MIRROR then names too.",
        ]
    )
    return _Failure(text, tried.absent)


class _Tried:
    """Sources that did not have a file, and why."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.wrong: list[str] = []

    def add(self, source: str, error: Exception) -> None:
        self.texts.append(f"tried {source}: {error}")
        if not isinstance(error, _Absent):
            self.wrong.append(self.texts[-1])

    @property
    def absent(self) -> bool:
        return not self.wrong

    def text(self, none: str) -> str:
        return "\n".join(f"  {text}" for text in self.texts or [none])

    def warn(self, target: Path) -> None:
        """Say which sources have something else than the file that now came from another."""
        for text in self.wrong:
            print(f"{target} came from another source: {text}", file=sys.stderr)


def _unpack(path: Path, entries: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Take the members that `entries` name, and no others, out of a tar file, each checked before it appears."""
    wanted = {f"{entry['archive']['folder']}/{entry['name']}": entry for entry in entries}
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                if not wanted:
                    break
                if (entry := wanted.pop(member.name, None)) is None:
                    continue
                source = tar.extractfile(member) if member.isreg() and member.size == entry["size"] else None
                if source is None:
                    raise DataError(f"{member.name} in it is not a plain file of {entry['size']} bytes")
                with source, atomic_path(folder / entry["name"]) as part:
                    with open(part, "wb") as out:
                        copyfileobj(source, out)
                    if not _right(part, entry):
                        raise DataError(f"{member.name} in it has {_said(part)}")
    except UNPACKING as error:
        raise DataError(f"{type(error).__name__}: {error}") from error
    if wanted:
        raise DataError(f"it lacks {', '.join(wanted)}")


def _obtain(source: str, target: Path, entry: Mapping[str, Any], compressed: bool = False) -> None:
    """Write what a URL, an xz file or a plain file has to `target`, or a stand-in for it, and check it.

    Raises _Absent, DataError for what is wrong with the source, OSError for what is wrong here.
    """
    with open(target, "wb") as file:
        out = _Bounded(file, entry["size"])
        try:
            if source.startswith(f"{miniature.SOURCE} "):
                _, group, name = source.split(" ")
                out.write(miniature.files(group)[name])
            elif "://" in source:
                _download(source, out)
            else:
                if not stat.S_ISREG(os.stat(source).st_mode):
                    raise _Absent(f"{source} is no file")
                with lzma.open(source) if compressed else open(source, "rb") as content:
                    copyfileobj(content, out)
        except (OSError, EOFError, lzma.LZMAError) as error:
            if error is out.error:
                raise
            kind = _Absent if isinstance(error, (FileNotFoundError, NotADirectoryError)) else DataError
            raise kind(f"{type(error).__name__}: {error}") from error
    if not _right(target, entry):
        raise DataError(f"found {_said(target)}")


def _download(url: str, out: "_Bounded") -> None:
    """Write the body of an answer, as it is sent.  _Absent if that takes too long, or fails.

    It is left to a thread, since a server can also be slow with its name, or with what comes before the body.
    """
    failed: list[Exception] = []  # without their frames, which hold the connection

    def work() -> None:
        try:
            as_it_is = {"Accept-Encoding": "identity"}
            pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT, headers=as_it_is)(url, out, None)
        except DataError as error:
            failed.append(DataError(str(error)))
        except (OSError, ValueError) as error:  # all that requests raises
            failed.append(error if error is out.error else _Absent(f"{type(error).__name__}: {error}"))
        except Exception as error:
            failed.append(error)

    seconds = PATIENCE + out.size / LEAST
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        out.ended = True
        raise _Absent(f"TimeoutError: not done after {seconds:.0f} s")
    for error in failed:
        raise error


class _Bounded:
    """A file that takes no more than `size` bytes.  error: of the disk; ended: nothing is to be written."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file, self.size, self.taken = file, size, 0
        self.error: OSError | None = None
        self.ended = False

    def write(self, content: bytes) -> None:
        self.taken += len(content)
        if self.ended or self.taken > self.size:
            raise DataError(f"found more than {self.size} bytes")
        self._here(lambda: self.file.write(content))

    def flush(self) -> None:
        self._here(self.file.flush)

    def _here(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            self.error = error
            raise


def _right(path: Path, entry: Mapping[str, Any]) -> bool:
    if not path.is_file() or path.stat().st_size != entry["size"]:
        return False
    return describe(path)["sha256"] == entry["sha256"]


def _said(path: Path) -> str:
    found = describe(path)
    return f"sha256 {found['sha256']} ({found['size']} bytes)"
