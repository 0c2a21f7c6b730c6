"""The frame of every stage: take the lock, and end with one line and an exit status."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps

from dplangevin.data import DataError
from dplangevin.pipeline import lock
from dplangevin.pipeline.cache import RECOMPUTE, Store, listed
from dplangevin.pipeline.config import PARAMS, load
from dplangevin.pipeline.environment import moved

BACK = "To go back: `git restore --staged --worktree params.yaml dvc.lock data/manifest results`"


def stage(main: Callable[..., object]) -> Callable[[], int]:
    """Return a function that calls `main` with params.yaml and the words of the command line; it returns the status.

    It is called at once if the script of `main` is what is run, so `main` stands last in its script.
    """

    @wraps(main)
    def finished() -> int:
        name = os.environ.get("DVC_STAGE") or " ".join(sys.argv)
        try:
            with lock.run(name):
                if "DVC_EXP_NAME" in os.environ:  # DVC has written it in the second in which git looked at it
                    os.utime(PARAMS, (0, os.stat(PARAMS).st_mtime - 1))  # so that `git restore` sees a change
                main(load(), *sys.argv[1:])
        except (DataError, OSError, ValueError, lock.LockError) as error:
            print(f"{name}: {error}", *[BACK] * ("DVC_EXP_NAME" in os.environ), sep="\n", file=sys.stderr)
            return 1
        return 0

    if main.__module__ == "__main__":
        sys.exit(finished())
    return finished


def finish(store: Store, keys: Sequence[str]) -> None:
    """Write the results of tasks; report how far tasks changed that were computed again with the same key."""
    store.write(keys)
    for path, before in zip(store.paths, store.before, strict=True):
        move = moved(before, listed(path))
        if move.largest or (move.tasks and os.environ.get(RECOMPUTE)):
            print(f"{path}: {move}")
