"""The frame of every stage: take the lock, check that its inputs stay unchanged, and end with an exit status."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

from dplangevin.data import DataError
from dplangevin.files import sha256, with_fix
from dplangevin.pipeline import lock
from dplangevin.pipeline.cache import RECOMPUTE, Store, listed
from dplangevin.pipeline.config import PARAMS, ConfigError, load, values
from dplangevin.pipeline.environment import moved

LOG = "DPL_LOG"  # environment variable: the file where stages write for the summary of repro.py
MADE = ("results/", "data/manifest/", "${item")  # what other stages make, and settings that params.yaml has
BACK = "The experiment failed; `git restore --staged --worktree params.yaml dvc.lock data/manifest results`"


def log(**entry: Any) -> None:
    """Write a line about this stage: its `status`, `why` it failed, or how far numbers `moved`."""
    if path := os.environ.get(LOG):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"stage": os.environ.get("DVC_STAGE", "stage"), **entry}) + "\n")


def stage(main: Callable[..., object]) -> Callable[[], int]:
    """Return a function that calls `main` with params.yaml and the words of the command line; it returns the status."""

    @wraps(main)
    def finished() -> int:
        name = os.environ.get("DVC_STAGE", "")
        log(status=1)  # unless it comes to another end
        try:
            try:
                signature(main).bind(None, *sys.argv[1:])
            except TypeError as error:
                raise ConfigError(f"{sys.argv[0]}: {error}") from error
            with lock.run(name or " ".join(sys.argv)), unchanged(name):
                # DVC writes an experiment's values in the second in which git has looked at the file. An earlier
                # time makes git compare the content, so that `git restore` restores a file of the same size.
                if os.environ.get("DVC_EXP_NAME"):
                    status = os.stat(PARAMS)
                    os.utime(PARAMS, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))
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


def finish(store: Store, keys: Sequence[str]) -> None:
    """Write the results of tasks; report how far tasks changed that were computed again with the same key."""
    store.write(keys)
    for path, before in zip(store.paths, store.before, strict=True):
        move = moved(before, listed(path))
        if move.largest or (move.tasks and os.environ.get(RECOMPUTE)):
            print(line := f"{path}: {move}")
            log(moved=line)


@contextmanager
def unchanged(name: str) -> Iterator[None]:
    """Raise ConfigError if an input changes while the stage runs: DVC enters in dvc.lock what it finds afterwards."""
    before = inputs(name)
    yield
    if changed := sorted({path for path, _ in before.items() ^ inputs(name).items()}):
        what = f"{', '.join(changed)} changed while this stage was at work, so its results belong to neither state"
        raise ConfigError(f"{what}. Run it again: finished tasks are kept")


def inputs(name: str) -> dict[str, str]:
    """Return file -> sha256, for params.yaml and the dependencies of a stage that no stage makes."""
    group, _, key = name.partition("@")
    entry = values("dvc.yaml")["stages"][group] if name else {}
    deps = [dep.replace("${key}", key) for dep in entry.get("do", entry).get("deps", [])]
    places = [Path(PARAMS), *(Path(dep) for dep in deps if not f"{dep}/".startswith(MADE))]
    files = {file for place in places for file in (place, *place.rglob("[!.]*")) if file.is_file()}
    return {str(file): sha256(file) for file in files if file.suffix != ".pyc"}
