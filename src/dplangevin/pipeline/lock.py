"""Locks for one run at a time in a checkout.

`make repro` and `dvc exp run` hold the lock `RUN` from before they write params.yaml until DVC has ended. Each stage
of a plain `dvc repro` holds it while it works. A stage also holds the lock `STAGE`. If its run is killed, it ends
when the next task is finished (`orphaned`). No other run begins before that. The text in a lock file names its
holder.
"""

import json
import os
import platform
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil
from filelock import FileLock, Timeout

from dplangevin.files import with_fix

RUN = Path(".dvc/tmp/run.lock")
STAGE = Path(".dvc/tmp/stage.lock")
LEADER = "DPL_LEADER"  # environment variable: the pid of the `make repro` whose stages see it
LEFT = 10.0  # seconds to wait until the stage of a killed run has ended
_HELD: list[FileLock] = []
_LEADERS: list[psutil.Process] = []  # of the run that this stage is a part of


class LockError(Exception):
    """The lock cannot be taken; the message says why, and what to do."""


class Holder(NamedTuple):
    """The process that holds a lock, on a machine or in a container."""

    pid: int
    machine: str
    since: str
    command: str


class Busy(LockError):
    """Another run is at work in this checkout."""

    def __init__(self, holder: Holder) -> None:
        who = f"{holder.command} (pid {holder.pid} on {holder.machine}, since {holder.since})"
        super().__init__(f"another run is at work here: {who}; wait for it, or end it: kill {holder.pid}")
        self.holder = holder


@contextmanager
def run(command: str) -> Iterator[None]:
    """Hold the lock of the checkout in the working folder, unless a run that this process is a part of holds it."""
    with _taken(command, os.getpid()):
        yield


def hold(command: str) -> None:
    """Hold the lock as `run` does, until this process ends."""
    if not _HELD:  # Hydra calls once for each of several experiments
        _HELD.append(_take(RUN, command, os.getpid()))  # a lock that is deleted is released
        _take(STAGE, command, os.getpid(), LEFT).release()


@contextmanager
def stage() -> Iterator[None]:
    """Hold the lock of a stage: of a run that holds the checkout, else as a run of its own."""
    own, driver = os.getpid(), _driver()
    with _taken(_command(driver), driver) as leader:
        pids = {driver, leader, int(os.environ.get(LEADER, leader))} - {own}
        try:
            _LEADERS[:] = map(psutil.Process, pids)
        except psutil.NoSuchProcess as error:
            raise LockError("the run that this stage is a part of has ended") from error
        lock = _take(STAGE, os.environ.get("DVC_STAGE") or _command(own), own, LEFT)
        try:
            yield
        finally:
            lock.release()


def orphaned() -> bool:
    """Return whether the run that this stage is a part of has ended."""

    def ended(process: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess):
            return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        return True

    return any(map(ended, _LEADERS))


@contextmanager
def _taken(command: str, pid: int) -> Iterator[int]:
    """Hold the checkout for the process `pid`; yield the pid that holds it, which may be that of a run around it."""
    lock, holder = None, pid
    try:
        lock = _take(RUN, command, pid)
    except Busy as error:
        family = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
        holder = error.holder.pid
        if error.holder.machine != platform.node() or holder not in family:
            raise
    if lock is None:
        yield holder
        return
    try:
        _take(STAGE, command, pid, LEFT).release()
        yield pid
    finally:
        lock.release()


def _take(path: Path, command: str, pid: int, patience: float = 0.0) -> FileLock:
    """Lock a file for a process, and write the holder into it."""
    lock = FileLock(path, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=patience)
        holder = Holder(pid, platform.node(), time.strftime("%Y-%m-%d %H:%M:%S"), command)
        path.write_text(json.dumps(holder), encoding="utf-8")
    except Timeout:
        raise Busy(_holder(path)) from None
    except OSError as error:
        raise LockError(str(with_fix(error, path))) from error
    return lock


def _holder(path: Path) -> Holder:
    while True:
        with suppress(ValueError):  # it is being written
            return Holder(*json.loads(path.read_text(encoding="utf-8")))
        time.sleep(0.05)


def _driver() -> int:
    """Return the pid of the DVC process that started this one for a stage; the own pid if there is none."""
    if "DVC_STAGE" in os.environ:
        for process in psutil.Process().parents():
            try:
                if "DVC_STAGE" not in process.environ():
                    return process.pid
            except psutil.Error:
                return process.pid
    return os.getpid()


def _command(pid: int) -> str:
    return shlex.join(psutil.Process(pid).cmdline())
