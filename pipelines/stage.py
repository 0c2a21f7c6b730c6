"""The frame of every stage: take the lock, end with an exit status, and tell `make repro` of it."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from dplangevin.data import DataError
from dplangevin.files import with_fix
from dplangevin.pipeline import lock
from dplangevin.pipeline.cache import RECOMPUTE, Store, listed
from dplangevin.pipeline.config import PARAMS, ConfigError, load
from dplangevin.pipeline.environment import moved

LOG = "DPL_LOG"  # environment variable: the file where stages write for the summary of repro.py
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
            with lock.run(name or " ".join(sys.argv)):
                if os.environ.get("DVC_EXP_NAME"):  # DVC wrote it in the second in which git looked at it
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
