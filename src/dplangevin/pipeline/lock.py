"""Locks for one run at a time in a checkout, and functions that end a process together with its run.

A run writes params.yaml and replaces results. It holds the lock `RUN` from before it writes params.yaml until
DVC has ended. `make repro` and `dvc exp run` take this lock themselves. A plain `dvc repro` only starts
stages: its first stage starts a small process, which holds the lock until that DVC ends. A stage holds the
lock `STAGE` while it works. So a run begins only when no stage of an earlier run is left. The kernel releases
both locks when the process that holds them ends. The text in a lock file names its holder.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from filelock import FileLock, Timeout

from dplangevin.files import with_fix

RUN = Path(".dvc/tmp/run.lock")
STAGE = Path(".dvc/tmp/stage.lock")
LEFT = 10.0  # seconds to wait until the stage of a killed run has ended
_HELD: list[FileLock | None] = []
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


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
    """Hold the lock of the checkout in the working folder."""
    with _released(_take_run(command, os.getpid())[1]):
        yield


def hold(command: str) -> None:
    """Hold the lock as `run` does, until this process ends."""
    _HELD.append(_take_run(command, os.getpid())[1])  # a lock that is deleted is released


@contextmanager
def stage() -> Iterator[None]:
    """Hold the lock of a stage, and end this process when its run ends.

    If DVC started this process, the stage is a part of that run. Otherwise it is a run of its own.
    """
    own, driver = os.getpid(), _driver()
    leader, lock = _take_run(_command(driver), driver)
    follow(*{driver, leader} - {own})
    if lock and driver != own:
        lock.release()
        _start_keeper(driver)
        lock = None
    with _released(lock), _released(_take(STAGE, os.environ.get("DVC_STAGE") or _command(own), own, LEFT)):
        yield


def follow(*pids: int) -> None:
    """Kill this process as soon as one of these processes has ended."""

    def end_after(pid: int) -> None:
        wait(pid)
        os.kill(os.getpid(), signal.SIGKILL)

    for pid in pids:
        threading.Thread(target=end_after, args=(pid,), name=f"follows {pid}", daemon=True).start()


def wait(pid: int) -> None:
    """Return when a process has ended; the process may be of any user and need not be a child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or an old kernel
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait()
        return
    ended = select.poll()  # psutil would also wait until the parent asks for the exit status
    ended.register(descriptor, select.POLLIN)
    ended.poll()
    os.close(descriptor)


def spawn(command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a program in a process group of its own; it is killed when this process ends."""
    end = partial(end_with, os.getpid(), signal.SIGKILL, ctypes.CDLL(None))
    return subprocess.Popen(command, env=env, process_group=0, preexec_fn=end)


def end_with(parent: int, number: int, libc: ctypes.CDLL | None = None) -> None:
    """Let the kernel send this process a signal when its parent process ends; on Linux only.

    This stays in force when this process executes another program.
    """
    if sys.platform == "linux":
        (libc or ctypes.CDLL(None)).prctl(DEATH_SIGNAL, number)
        if os.getppid() != parent:  # the parent ended before the call
            os.kill(os.getpid(), number)


@contextmanager
def _released(lock: FileLock | None) -> Iterator[None]:
    """Release a lock at the end of the block."""
    try:
        yield
    finally:
        if lock:
            lock.release()


def _take_run(command: str, pid: int) -> tuple[int, FileLock | None]:
    """Return the pid that holds the checkout, and the lock, taken for the process `pid`.

    The lock is None if a run already holds it and this process is a part of that run.
    """
    try:
        lock = _take(RUN, command, pid)
    except Busy as error:
        family = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
        if error.holder.machine == platform.node() and error.holder.pid in family:
            return error.holder.pid, None
        raise
    try:
        _take(STAGE, command, pid, LEFT).release()
    except LockError:
        lock.release()
        raise
    return pid, lock


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


def _start_keeper(pid: int) -> None:
    """Start a process that holds the lock until the process `pid` has ended; return when it holds it."""
    command = [sys.executable, "-m", __name__, str(pid)]
    keeper = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert keeper.stdout
    with keeper.stdout as answer:
        if message := answer.read():
            raise LockError(message.strip())
    keeper.returncode = 0  # avoids the warning of Popen: it shall outlive this process


def _keep(pid: int) -> None:
    """Hold the lock for the process `pid` until it has ended; print why if that cannot be."""
    try:
        lock = _take(RUN, _command(pid), pid)
    except LockError as error:
        print(error)
        return
    with _released(lock), open(os.devnull, "w") as nothing:
        for stream in (1, 2):  # whoever reads the streams is not to wait for this process
            os.dup2(nothing.fileno(), stream)
        wait(pid)


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


if __name__ == "__main__":  # the process that `_start_keeper` starts
    _keep(int(sys.argv[1]))
