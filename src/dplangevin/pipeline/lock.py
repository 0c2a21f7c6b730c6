"""Locks for one run at a time in a checkout.

`make repro` and `dvc exp run` hold the lock `RUN` from before they write params.yaml until DVC has ended. Each stage
of a plain `dvc repro` holds it while it works. A stage also holds the lock `STAGE`. If its run is killed, it ends
when the next task is finished (`orphaned`). No other run begins before that. A lock file names its holder.
"""

import json
import os
import platform
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from dplangevin.files import with_fix

RUN = Path(".dvc/tmp/run.lock")
STAGE = Path(".dvc/tmp/stage.lock")
LEADER = "DPL_LEADER"  # environment variable: the pid of the `make repro` whose stages see it
LEFT = 10.0  # seconds to wait until the stage of a killed run has ended
HELD = ExitStack()  # the locks that are held until this process ends
_LEADERS: list[psutil.Process] = []  # of the run that this stage is a part of


class LockError(Exception):
    """The lock cannot be taken; the message says why, and what to do."""


class Busy(LockError):
    """Another run is at work in this checkout: the process `pid` on `machine`, or in a container of this name."""

    def __init__(self, pid: int, machine: str, since: str, command: str) -> None:
        who = f"{command} (pid {pid} on {machine}, since {since})"
        super().__init__(f"another run is at work here: {who}; wait for it, or end it: kill {pid}")
        self.pid, self.machine = pid, machine


@contextmanager
def run(command: str, pid: int | None = None) -> Iterator[int]:
    """Hold the checkout in the working folder for a process (default: this one), and yield its pid.

    If a run that this process is a part of holds the checkout, yield the pid of that run.
    """
    pid = pid or os.getpid()
    with ExitStack() as locks:
        try:
            locks.enter_context(_taken(RUN, command, pid))
        except Busy as error:
            family = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
            if error.machine != platform.node() or error.pid not in family:
                raise
            pid = error.pid
        else:
            with _taken(STAGE, command, pid, LEFT):
                pass
        yield pid


@contextmanager
def stage() -> Iterator[None]:
    """Hold the lock of a stage: of a run that holds the checkout, else as a run of its own."""
    own, driver = psutil.Process(), _driver()
    with run(shlex.join(driver.cmdline()), driver.pid) as leader:
        try:
            pids = {driver.pid, leader, int(os.environ.get(LEADER, leader))} - {own.pid}
            _LEADERS[:] = map(psutil.Process, pids)
        except psutil.NoSuchProcess as error:
            raise LockError("the run that this stage is a part of has ended") from error
        name = os.environ.get("DVC_STAGE") or shlex.join(own.cmdline())
        with _taken(STAGE, name, own.pid, LEFT):
            yield


def orphaned() -> bool:
    """Return whether the run that this stage is a part of has ended."""
    with suppress(psutil.NoSuchProcess):
        return any(not each.is_running() or each.status() == psutil.STATUS_ZOMBIE for each in _LEADERS)
    return True


@contextmanager
def _taken(path: Path, command: str, pid: int, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file, which names the holder; raise Busy after `patience` seconds."""
    lock = FileLock(path, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=patience)
        holder = pid, platform.node(), time.strftime("%Y-%m-%d %H:%M:%S"), command
        path.write_text(json.dumps(holder), encoding="utf-8")
    except Timeout:
        while True:
            with suppress(ValueError):  # it is being written
                raise Busy(*json.loads(path.read_text(encoding="utf-8"))) from None
            time.sleep(0.05)
    except OSError as error:
        raise LockError(str(with_fix(error, path))) from error
    try:
        yield
    finally:
        lock.release()


def _driver() -> psutil.Process:
    """Return the DVC process that started this one for a stage, else this one."""
    own = psutil.Process()
    if "DVC_STAGE" in os.environ:
        with suppress(psutil.Error):
            return next(each for each in own.parents() if "DVC_STAGE" not in each.environ())
    return own
