"""Raw files, each from the first source that yields the right bytes.

Sources of a file, in this order: every entry of the environment variable DATA_MIRROR, the copy bundled with
the project (xz), the official URL, public mirrors, the official archive that it is a member of. At scale=smoke the
only URL of an image set is the word miniature: a stand-in that is made here. Whatever the source, the file must have
the sha256 of the data set's config.
"""

import hashlib
import lzma
import re
import shutil
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pooch

from dplangevin.cache import atomic_path, sha256
from dplangevin.data import DataError, miniature

TIMEOUT = (10, 60)  # seconds to connect, and without a byte
# What a source that is absent, unreachable, cut short or of another kind raises.
FAILURES = (OSError, EOFError, ValueError, KeyError, lzma.LZMAError, zlib.error, tarfile.TarError, DataError)


class DataUnavailable(DataError):
    """No source yields the file that the config describes."""


def mirrors(value: str) -> list[str]:
    """Entries of DATA_MIRROR: folders or URL prefixes, separated by spaces or commas.

    A value that is itself a folder is one entry, so that a single folder may have spaces in its name.

    >>> mirrors("https://example.org/data, ../mirror")
    ['https://example.org/data', '../mirror']
    """
    if value and Path(value).is_dir():
        return [value]
    return [entry for entry in re.split(r"[\s,]+", value) if entry]


def fetch(
    key: str,
    files: Sequence[Mapping[str, Any]],
    folder: str | Path,
    mirror: Sequence[str] = (),
    stage: str | None = None,
) -> None:
    """Make `folder` hold every file of the data set `key`; a file with the right sha256 is kept.

    files: entries with `name`, `sha256`, `size` (bytes), `bundled` (path of an xz file, or null) and
    `urls`; of a mirror entry M the file `M/<key>/<name>` is tried. Files appear whole or not at all, and a
    file that is already there is only ever replaced by the right one.
    An entry may also have an `archive`, the tar file whose member `<folder>/<name>` it is: `name`, `md5`,
    `size`, `folder` and `urls`. Of M then `M/<key>/<folder>/<name>` and `M/<folder>/<name>` are tried too, and
    members without a source of their own are taken, each checked by sha256, from the first archive with the
    right MD5 among every `M/<key>/<archive>` and the URLs. No archive is left behind.
    stage: the stage to run again, in messages (None = prepare@<key>). Raises DataUnavailable, after trying all
    files, naming for each that cannot be had the expected and found sha256, every source with its error, and
    how to set DATA_MIRROR.
    """
    folder, stage = Path(folder), stage or f"prepare@{key}"
    folder.mkdir(parents=True, exist_ok=True)
    failed = [(entry, text) for entry in files if (text := _fetch_file(key, entry, folder, mirror))]
    failures = [
        f"{text}\n  To use a copy of your own, set DATA_MIRROR to a folder or URL prefix that holds\n"
        f"  {key}/{entry['name']} (several: separated by spaces or commas), then dvc repro {stage}"
        for entry, text in failed
        if not entry.get("archive")
    ]
    members = [(entry, text) for entry, text in failed if entry.get("archive")]
    for _, group in groupby(members, key=lambda member: member[0]["archive"]["name"]):
        packed = list(group)
        if text := _fetch_members(key, [entry for entry, _ in packed], folder, mirror):
            absent = [tried for entry, tried in packed if not _right(folder / entry["name"], entry)]
            failures.append("\n".join([*absent, text, f"  Then dvc repro {stage}"]))
    if failures:
        raise DataUnavailable("\n".join(failures))


def _fetch_file(key: str, entry: Mapping[str, Any], folder: Path, mirror: Sequence[str]) -> str:
    """Fetch one file; what was tried if no source has it, otherwise an empty string."""
    target, places = folder / entry["name"], [key]
    if archive := entry.get("archive"):
        _part(folder, archive).unlink(missing_ok=True)  # what a killed download left
        places += [f"{key}/{archive['folder']}", archive["folder"]]
    here = "nothing there yet"
    if _right(target, entry):
        return ""
    if target.is_file():
        here = f"found {_describe(target)}"
    bundled = [entry["bundled"]] if entry["bundled"] else []
    tried = []
    for source in [
        *(f"{prefix.rstrip('/')}/{place}/{entry['name']}" for prefix in mirror for place in places),
        *bundled,
        *(f"{url} {key} {entry['name']}" if url == miniature.SOURCE else url for url in entry["urls"]),
    ]:
        try:
            with atomic_path(target) as part:
                _obtain(source, part, compressed=source in bundled)
                if not _right(part, entry):
                    raise DataError(f"found {_describe(part)}")
            return ""
        except FAILURES as error:
            tried.append(f"  tried {source}: {type(error).__name__}: {error}")
    return "\n".join(
        [
            f"{target} is not available: expected sha256 {entry['sha256']} ({entry['size']} bytes), {here}.",
            *(tried or ["  no source is known" + (" but its archive" if archive else "")]),
        ]
    )


def _fetch_members(
    key: str, entries: Sequence[Mapping[str, Any]], folder: Path, mirror: Sequence[str]
) -> str:
    """Fetch files from the archive that holds them all; what was tried if it cannot be had, otherwise ""."""
    archive, tried = entries[0]["archive"], []
    part = _part(folder, archive)
    for source in [*(f"{prefix.rstrip('/')}/{key}/{archive['name']}" for prefix in mirror), *archive["urls"]]:
        try:
            _obtain(source, part, compressed=False)
            with open(part, "rb") as handle:
                digest = hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
            if digest != archive["md5"]:
                raise DataError(f"found MD5 {digest} ({part.stat().st_size} bytes)")
            _unpack(part, entries, folder)
            return ""
        except FAILURES as error:
            tried.append(f"  tried {source}: {type(error).__name__}: {error}")
        finally:
            part.unlink(missing_ok=True)
    inside, name = archive["folder"], entries[0]["name"]
    return "\n".join(
        [
            f"{archive['name']}, which holds {', '.join(entry['name'] for entry in entries)}, is not available: "
            f"expected MD5 {archive['md5']} ({archive['size']} bytes).",
            *(tried or ["  no source is known"]),
            "  To use a copy of your own, set DATA_MIRROR to one or several folders or URL prefixes, separated by",
            f"  spaces or commas, of which one holds the members ({key}/{name}, {key}/{inside}/{name} or",
            f"  {inside}/{name}, and so on) or the archive ({key}/{archive['name']}). A mirror that keeps the data",
            "  packed must first write the members to a folder of their own (its restore_cifar.py does), which",
            "  DATA_MIRROR then names too.",
        ]
    )


def _unpack(path: Path, entries: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Take the members that `entries` name, and no others, out of a tar file, each checked before it appears."""
    wanted = {f"{entry['archive']['folder']}/{entry['name']}": entry for entry in entries}
    with tarfile.open(path) as tar:
        for member in tar:
            if not wanted:
                break
            if (entry := wanted.pop(member.name, None)) is None:
                continue
            source = tar.extractfile(member) if member.isreg() and member.size == entry["size"] else None
            if source is None:
                raise DataError(f"{member.name} in it is not a plain file of {entry['size']} bytes")
            with atomic_path(folder / entry["name"]) as part:
                with source, open(part, "wb") as out:
                    shutil.copyfileobj(source, out)
                if not _right(part, entry):
                    raise DataError(f"{member.name} in it has {_describe(part)}")
    if wanted:
        raise DataError(f"it lacks {', '.join(wanted)}")


def _part(folder: Path, archive: Mapping[str, Any]) -> Path:
    """Where an archive lies while it is downloaded and unpacked."""
    return folder / f".{archive['name']}.part"


def _obtain(source: str, target: Path, compressed: bool) -> None:
    """Write the bytes of a URL, an xz file or a plain file to `target`, or those of a stand-in for it."""
    if source.startswith(f"{miniature.SOURCE} "):
        _, group, name = source.split(" ")
        target.write_bytes(miniature.files(group)[name])
    elif "://" in source:
        pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT)(source, str(target), None)
    elif compressed:
        with lzma.open(source) as packed, open(target, "wb") as out:
            shutil.copyfileobj(packed, out)
    else:
        shutil.copyfile(source, target)


def _right(path: Path, entry: Mapping[str, Any]) -> bool:
    return path.is_file() and sha256(path) == entry["sha256"]


def _describe(path: Path) -> str:
    return f"sha256 {sha256(path)} ({path.stat().st_size} bytes)"
