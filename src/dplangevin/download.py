"""Raw files, each from the first source that yields the right bytes.

Sources of a file, in this order: every entry of the environment variable DATA_MIRROR, the copy bundled with
the project (xz), the official URL, public mirrors. Whatever the source, the file must have the sha256 of
the data set's config.
"""

import lzma
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pooch

from dplangevin.data import DataError, atomic_path, sha256

TIMEOUT = (10, 60)  # seconds to connect, and without a byte


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
    key: str, files: Sequence[Mapping[str, Any]], folder: str | Path, mirror: Sequence[str] = ()
) -> None:
    """Make `folder` hold every file of the data set `key`; a file with the right sha256 is kept.

    files: entries with `name`, `sha256`, `size` (bytes), `bundled` (path of an xz file, or null) and
    `urls`; of a mirror entry M the file `M/<key>/<name>` is tried. Files appear whole or not at all, and a
    file that is already there is only ever replaced by the right one. Raises DataUnavailable, after trying
    all files, naming for each that cannot be had the expected and found sha256, every source with its
    error, and how to set DATA_MIRROR.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    failures = [text for entry in files if (text := _fetch_file(key, entry, Path(folder), mirror))]
    if failures:
        raise DataUnavailable("\n".join(failures))


def _fetch_file(key: str, entry: Mapping[str, Any], folder: Path, mirror: Sequence[str]) -> str:
    """Fetch one file; the message if no source has it, otherwise an empty string."""
    target = folder / entry["name"]
    here = "nothing there yet"
    if target.is_file():
        if sha256(target) == entry["sha256"]:
            return ""
        here = f"found {_describe(target)}"
    bundled = [entry["bundled"]] if entry["bundled"] else []
    tried = []
    for source in [
        *(f"{prefix.rstrip('/')}/{key}/{entry['name']}" for prefix in mirror),
        *bundled,
        *entry["urls"],
    ]:
        try:
            with atomic_path(target) as part:
                _obtain(source, part, compressed=source in bundled)
                if sha256(part) != entry["sha256"]:
                    raise DataError(f"found {_describe(part)}")
            return ""
        except (OSError, EOFError, ValueError, lzma.LZMAError, DataError) as error:
            tried.append(f"  tried {source}: {type(error).__name__}: {error}")
    return "\n".join(
        [
            f"{target} is not available: expected sha256 {entry['sha256']} ({entry['size']} bytes), {here}.",
            *(tried or ["  no source is known"]),
            "  To use a copy of your own, set DATA_MIRROR to a folder or URL prefix that holds",
            f"  {key}/{entry['name']} (several: separated by spaces or commas), then dvc repro fetch@{key}",
        ]
    )


def _obtain(source: str, target: Path, compressed: bool) -> None:
    """Write the bytes of a URL, an xz file or a plain file to `target`."""
    if "://" in source:
        pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT)(source, str(target), None)
    elif compressed:
        with lzma.open(source) as packed, open(target, "wb") as out:
            shutil.copyfileobj(packed, out)
    else:
        shutil.copyfile(source, target)


def _describe(path: Path) -> str:
    return f"sha256 {sha256(path)} ({path.stat().st_size} bytes)"
