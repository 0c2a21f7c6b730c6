"""The frame of every stage: take the lock, and end with one line and an exit status."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path

from dplangevin.data import DataError
from dplangevin.pipeline import lock
from dplangevin.pipeline.cache import RECOMPUTE, Store, listed
from dplangevin.pipeline.config import PARAMS, load
from dplangevin.pipeline.environment import moved, pinned

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


def finish(paths: Sequence[Path], folder: Path, compute: Callable[[Store], list[str]]) -> None:
    """Compute what results lack, and write them; report how far tasks with the same key changed."""
    store = Store(paths, folder)
    with pinned():
        store.write(compute(store))
    for path, before in zip(store.paths, store.before, strict=True):
        after = listed(path)
        move = moved([(rows, after[key]) for key, rows in before.items() if key in after])
        if move.largest or (move.tasks and os.environ.get(RECOMPUTE)):
            print(f"{path}: {move}")
