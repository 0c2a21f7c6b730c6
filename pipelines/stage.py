"""The frame of every stage: join the run, check that its inputs stay unchanged, and end with an exit status.

The status is 69 if no source of the data can be reached and has them, which `make repro` excuses, and 1 after any
other failure.
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

from summary import LOG, UNAVAILABLE

from dplangevin.data import DataError
from dplangevin.data.fetch import DataUnavailable
from dplangevin.files import sha256, with_fix
from dplangevin.pipeline import lock
from dplangevin.pipeline.cache import RECOMPUTE, Store, listed
from dplangevin.pipeline.config import PARAMS, ConfigError, values, visible
from dplangevin.pipeline.environment import moved

SAFE = ("results/", "data/manifest/", "${item")  # what other stages make, and content of params.yaml


def stage(main: Callable[[], object]) -> Callable[[], int]:
    """Return the main function of a stage's script as one that returns the exit status."""

    @wraps(main)
    def finished() -> int:
        name = os.environ.get("DVC_STAGE", "")
        try:
            with lock.stage(), unchanged(name):
                if os.environ.get("DVC_EXP_NAME"):
                    visible()  # do it now: DVC may be killed before it ends
                main()
        except Exception as error:  # a method from anywhere can raise anything
            if isinstance(error, OSError):
                error = with_fix(error)
            elif not isinstance(error, (ConfigError, DataError, ValueError, lock.LockError)):
                traceback.print_exception(error)
            print(f"{name}: {error}" if name else error, file=sys.stderr)
            if isinstance(error, DataUnavailable):
                log("txt", str(error))
                return UNAVAILABLE
            return 1
        return 0

    return finished


def finish(store: Store, units: Sequence[str]) -> None:
    """Write the results of tasks; report how far tasks changed that were computed again with the same key."""
    store.write(units)
    for path, before in zip(store.paths, store.before, strict=True):
        move = moved(before, listed(path))
        if move.largest or (move.units and os.environ.get(RECOMPUTE)):
            print(line := f"{path}: {move}")
            log("moved", line)


def log(kind: str, line: str) -> None:
    """Write a line about this stage for the summary of the run."""
    if folder := os.environ.get(LOG):
        path = Path(folder, f"{os.environ.get('DVC_STAGE', 'stage')}.{kind}")
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


@contextmanager
def unchanged(name: str) -> Iterator[None]:
    """Raise ConfigError if an input changes while the stage runs: DVC notes in dvc.lock what it finds afterwards."""
    before = sources(name)
    yield
    if changed := sorted({path for path, _ in before.items() ^ sources(name).items()}):
        raise ConfigError(
            f"{', '.join(changed)} changed while this stage was at work, so that what it made is of neither state. "
            "Run it again: finished tasks are kept"
        )


def sources(name: str) -> dict[str, str]:
    """Return file -> sha256, for params.yaml and what the stage depends on in dvc.yaml outside `SAFE`."""
    group, _, key = name.partition("@")
    entry = values("dvc.yaml")["stages"].get(group, {}) if Path("dvc.yaml").exists() else {}
    deps = [dep.replace("${key}", key) for dep in entry.get("do", entry).get("deps", [])]
    places = [Path(PARAMS), *(Path(dep) for dep in deps if not f"{dep}/".startswith(SAFE))]
    files = {file for place in places for file in (place, *place.rglob("[!.]*")) if file.is_file()}
    return {str(file): sha256(file) for file in files if file.suffix != ".pyc"}
