"""Raw files: each comes from the first source that provides the right bytes.

The sources of a file are tried in this order:

1. every entry of the environment variable DATA_MIRROR;
2. the copy bundled with the project (xz);
3. the official URL, then public mirrors;
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
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any

import requests
from tqdm import tqdm
from urllib3.exceptions import HTTPError

from dplangevin.data.archives import DataError
from dplangevin.files import atomic_path, describe, remove_leftovers, temporary_path

TIMEOUT = (10, 60)  # seconds to connect; seconds without a byte
PATIENCE, LEAST = 60, 50_000  # a download may take 60 s, plus 1 s for every 50,000 bytes
BLOCK = 2**16  # most bytes that are read together
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


def fetch(
    key: str,
    files: Sequence[Entry],
    folder: str | Path,
    mirror: Sequence[str] = (),
    archive: Entry | None = None,
    urls: Sequence[str] = (),
    stage: str | None = None,
) -> None:
    """Make `folder` hold every file of the data set `key`; a right file stays, a wrong one is only replaced by it.

    A source with other bytes is named on stderr if another source serves the file. An error names, after all files
    were tried, each missing file, its sources with their errors, and how to set DATA_MIRROR.

    - `files`: `name`, `sha256`, `size`; optional: `bundled` (path of an xz file) and `urls`.
    - `mirror`: See `mirrors`. An entry M may hold `M/<key>/<name>`; a member also at `M/<key>/<folder>/<name>` or
      `M/<folder>/<name>`; an archive at `M/<key>/<archive>`.
    - `archive`: `name`, `sha256`, `size`, `folder` and `urls`, one of which may be `pypi:NAME==VERSION`. Each file is
      its member `<folder>/<name>` or, compressed, `<folder>/<name>.gz`.
    - `urls`: Folders on the web that hold all files.
    - `stage`: The stage that messages tell the user to run again. None: prepare@<key>.
    """
    folder, roots, places = Path(folder), [each.rstrip("/") for each in mirror], [key]
    folder.mkdir(parents=True, exist_ok=True)
    if archive:
        places += [f"{key}/{archive['folder']}", archive["folder"]]
        remove_leftovers(folder / archive["name"])
    failures: dict[str, DataError] = {}
    for entry in files:
        name, target = entry["name"], folder / entry["name"]
        sources = [f"{root}/{place}/{name}" for root in roots for place in places]
        sources += [entry["bundled"]] if entry.get("bundled") else []
        sources += [*entry.get("urls", ()), *(f"{url}/{name}" for url in urls)]
        if _fault(target, entry) and (failure := _from_first(sources, target, entry, str(target))):
            failures[name] = failure
    holds = [f"{key}/{name}" for name in failures]
    if archive and failures:
        place = f"{key}/{archive['name']}"
        holds.append(f"the archive {place}")
        members = {f"{archive['folder']}/{each['name']}": each for each in files if each["name"] in failures}
        what = f"{archive['name']}, which holds {', '.join(failures)},"
        sources = [*(f"{root}/{place}" for root in roots), *archive["urls"]]
        unpack = partial(_unpack, members, folder)
        failure = _from_first(sources, folder / archive["name"], archive, what, unpack)
        for entry in members.values():
            if not _fault(folder / entry["name"], entry):
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
                _copy_in_time(source, part, entry)
                if fault := _fault(part, entry):
                    raise DataError(fault)
                if unpack:
                    unpack(part)
        except DataError as error:
            tried.append(f"tried {source}: {error}")
            wrong += [] if isinstance(error, DataUnavailable) else tried[-1:]
        else:
            for text in wrong:
                print(f"{target} came from another source: {text}", file=sys.stderr)
            return None
    expected = f"expected sha256 {entry['sha256']} ({entry['size']} bytes), {_fault(target, entry)}"
    head = f"{what} is not available: {expected}."
    kind = DataError if wrong or target.is_file() else DataUnavailable
    return kind("\n  ".join([head, *(tried or ["no source is known"])]))


def _unpack(members: Mapping[str, Entry], folder: Path, path: Path) -> None:
    """Extract members from a tar or zip file; each is checked before it appears."""
    zipped = zipfile.is_zipfile(path)
    opened: Any = zipfile.ZipFile if zipped else tarfile.open
    with opened(path) as archive:
        names = {*(archive.namelist() if zipped else archive.getnames())}
        for name, entry in members.items():
            there = next((each for each in (name, f"{name}.gz") if each in names), None)
            if there is None:
                raise DataError(f"it lacks {name}")
            with (
                (archive.open if zipped else archive.extractfile)(there) as packed,
                packed if there == name else gzip.GzipFile(fileobj=packed) as source,
                atomic_path(folder / entry["name"]) as part,
            ):
                with open(part, "wb") as file:
                    copyfileobj(source, file)
                if fault := _fault(part, entry):
                    raise DataError(f"of {there} in it {fault}")


def _copy_in_time(source: str, target: Path, entry: Entry) -> None:
    """Call `_copy` in a thread, because a server can also be slow to resolve its name, or before the body."""
    failed: list[Exception] = []
    given_up = threading.Event()

    def run() -> None:
        try:
            _copy(source, target, entry, given_up)
        except Exception as error:
            failed.append(error.with_traceback(None))  # its frames would hold the connection

    thread = threading.Thread(target=run, name=source, daemon=True)
    thread.start()
    thread.join(_patience(entry))
    if thread.is_alive():
        given_up.set()
        raise _late(entry)
    for error in failed:
        raise error


def _copy(source: str, target: Path, entry: Entry, given_up: threading.Event) -> None:
    """Write a source to `target`, up to its size, until it is `given_up`; an OSError is a fault of this machine."""
    bar = tqdm(total=entry["size"], desc=entry["name"], unit="B", unit_scale=True, leave=False, disable=None)
    with open(target, "wb") as file, bar:
        for block in _blocks(source, entry):
            if given_up.is_set():
                return
            if file.tell() + len(block) > entry["size"]:
                raise DataError(f"found more than {entry['size']} bytes")
            file.write(block)
            bar.update(len(block))


def _blocks(source: str, entry: Entry) -> Iterator[bytes]:
    """Yield the bytes of a source; whatever fails there is a DataError."""
    try:
        with _opened(source, entry) as content:
            while block := content.read1(BLOCK):  # what has arrived; a slow server fills no block for hours
                yield block
    except (OSError, EOFError, ValueError, lzma.LZMAError, HTTPError) as error:
        absent = "://" in source or isinstance(error, (FileNotFoundError, NotADirectoryError))
        raise (DataUnavailable if absent else DataError)(f"{type(error).__name__}: {error}") from error


@contextmanager
def _opened(source: str, entry: Entry) -> Iterator[Any]:
    """Yield a source as an open file; the body of an HTTP response is as it was sent."""
    if source.startswith(INDEX):
        with TemporaryDirectory() as here:
            _download(source.removeprefix(INDEX), entry, Path(here))
            with open(Path(here, entry["name"]), "rb") as content:
                yield content
    elif "://" in source:
        plain = {"Accept-Encoding": "identity"}
        with requests.get(source, stream=True, timeout=TIMEOUT, headers=plain) as response:
            response.raise_for_status()
            yield response.raw
    elif not stat.S_ISREG(os.stat(source).st_mode):
        raise DataUnavailable(f"{source} is no file")
    else:
        with lzma.open(source) if source == entry.get("bundled") else open(source, "rb") as content:
            yield content


def _download(package: str, entry: Entry, folder: Path) -> None:
    """Let pip download a distribution from its index; raise DataUnavailable if that fails or takes too long.

    pip takes only the file with the sha256 of the entry, and checks it before it runs the setup.py of an sdist. A
    wheel may be for another platform.
    """
    how = ["--no-binary=:all:", "--no-build-isolation"]
    if entry["name"].endswith(".whl"):
        python, abi, system = entry["name"].removesuffix(".whl").split("-")[-3:]
        how = ["--only-binary=:all:", *(f"--platform={each}" for each in system.split("."))]
        how += [f"--python-version={python[2:]}", f"--implementation={python[:2]}", f"--abi={abi}"]
    asked = folder / "requirements.txt"
    asked.write_text(f"{package} --hash=sha256:{entry['sha256']}\n")
    options = f"--quiet --no-input --no-deps --retries=1 --timeout={TIMEOUT[0]} --dest".split()
    command = [sys.executable, "-m", "pip", "download", *how, *options, str(folder), "-r", str(asked)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_patience(entry))
    except subprocess.TimeoutExpired:
        raise _late(entry) from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        message = errors[-1] if errors else f"pip ended with {done.returncode}"
        raise (DataError if "DO NOT MATCH" in message else DataUnavailable)(message)


def _patience(entry: Entry) -> float:
    return PATIENCE + float(entry["size"]) / LEAST


def _late(entry: Entry) -> DataUnavailable:
    return DataUnavailable(f"TimeoutError: not done after {_patience(entry):.0f} s")


def _fault(path: Path, entry: Entry) -> str:
    """Return what is there instead of the right file; "" for that."""
    if not path.is_file():
        return "nothing there yet"
    found = describe(path)
    right = found == {word: entry[word] for word in found}
    return "" if right else "found sha256 {sha256} ({size} bytes)".format(**found)
