"""One run at a time in a checkout: `make repro`, `dvc exp run`, or a stage of a plain `dvc repro`.

A stage whose run was killed ends with its task.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from dplangevin.files import with_fix

RUN = Path(".dvc/tmp/run.lock")
LEADER = "DPL_LEADER"  # environment variable: the pid of the lock's holder, for those that it starts
_PARENT = os.getppid() if "DVC_STAGE" in os.environ else None  # DVC, which starts a stage


class LockError(Exception):
    """The lock cannot be taken."""


@contextmanager
def run(command: str) -> Iterator[None]:
    """Hold the checkout in the working folder, unless the run that this process is a part of does."""
    if orphaned():
        raise LockError("the run that this stage is a part of has ended")
    if LEADER in os.environ:
        yield
        return
    try:
        lock = FileLock(RUN, timeout=0).acquire()
        RUN.write_text(f"{command}; wait for it, or end it: kill {os.getpid()}", encoding="utf-8")
    except Timeout:
        raise LockError(f"another run is at work here: {RUN.read_text(encoding='utf-8')}") from None
    except OSError as error:
        raise LockError(str(with_fix(error, RUN))) from error
    os.environ[LEADER] = str(os.getpid())
    try:
        with lock:
            yield
    finally:
        del os.environ[LEADER]


def orphaned() -> bool:
    """Return whether the run that this process is a part of has ended."""
    leader = int(os.environ.get(LEADER, os.getpid()))
    return not psutil.pid_exists(leader) or _PARENT not in (None, os.getppid())
