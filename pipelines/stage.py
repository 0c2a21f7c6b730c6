"""The frame of every stage: take the lock, check that its inputs stay unchanged, and end with an exit status."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

from summary import log

from dplangevin.data import DataError
from dplangevin.files import sha256, with_fix
from dplangevin.pipeline import lock
from dplangevin.pipeline.cache import RECOMPUTE, Store, listed
from dplangevin.pipeline.config import PARAMS, ConfigError, load, values, visible
from dplangevin.pipeline.environment import moved

SAFE = ("results/", "data/manifest/", "${item")  # what other stages make, and content of params.yaml
BACK = "The experiment failed; `git restore --staged --worktree params.yaml dvc.lock data/manifest results`"


def stage(main: Callable[..., object]) -> Callable[[], int]:
    """Return a function that calls `main` with params.yaml and the words of the command line; it returns the status."""

    @wraps(main)
    def finished() -> int:
        name = os.environ.get("DVC_STAGE", "")
        log(status=1)  # unless it comes to another end
        try:
            with lock.run(name or " ".join(sys.argv)), unchanged(name):
                if os.environ.get("DVC_EXP_NAME"):
                    visible()
                main(load(), *sys.argv[1:])
        except Exception as error:  # a method from anywhere can raise anything
            if isinstance(error, OSError):
                error = with_fix(error)
            elif not isinstance(error, (ConfigError, DataError, ValueError, lock.LockError)):
                traceback.print_exception(error)
            print(f"{name}: {error}" if name else error, file=sys.stderr)
            if os.environ.get("DVC_EXP_NAME"):
                print(f"{BACK} takes its values back.", file=sys.stderr)
            log(status=1, why=str(error))
            return 1
        log(status=0)
        return 0

    return finished


def finish(store: Store, units: Sequence[str]) -> None:
    """Write the results of tasks; report how far tasks changed that were computed again with the same key."""
    store.write(units)
    for path, before in zip(store.paths, store.before, strict=True):
        move = moved(before, listed(path))
        if move.largest or (move.units and os.environ.get(RECOMPUTE)):
            print(line := f"{path}: {move}")
            log(moved=line)


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
