"""Locks for one run at a time in a checkout, and functions that end a process together with its run.

A run writes params.yaml and replaces results.  It holds the lock `RUN` from before it writes params.yaml
until DVC has ended.  `make repro` and `dvc exp run` take this lock themselves.  A plain `dvc repro` only
starts stages: its first stage takes the lock, and a small process holds it until that DVC ends.  A stage
holds the lock `STAGE` while it works.  So a run begins only when no stage of an earlier run is left.  Both
are locks of the kernel (flock): they end with the process that holds them, however it ends.  The content of
the lock files is used only in messages.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

RUN = Path(".dvc/tmp/run.lock")
STAGE = Path(".dvc/tmp/stage.lock")
LEFT = 10.0  # seconds to wait until the stage of a killed run has ended
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>


class LockError(Exception):
    """The lock cannot be taken; the message says why, and what to do."""


class Holder(NamedTuple):
    """The process that holds a lock.

    Attributes
    ----------
    pid : int.
    since : str, time by the clock of the holder's machine.
    command : str.
    where : str, the machine and namespace that the pid belongs to, see `_where`.
    """

    pid: int
    since: str
    command: str
    where: str = ""


class Busy(LockError):
    """Another run is at work in this checkout."""

    def __init__(self, holder: Holder) -> None:
        near = holder.where == _where()
        far = "" if near else " of another machine or container"
        who = f"{holder.command} (pid {holder.pid}{far}, since {holder.since})"
        end = f"end it{'' if near else ' there'}: kill {holder.pid}"
        super().__init__(f"another run is at work here: {who}; wait for it, or {end}")
        self.holder = holder


@contextmanager
def run(command: str) -> Iterator[None]:
    """Hold the lock of the checkout in the working folder.

    Raises
    ------
    Busy : Another run holds it, and this process is not a part of that run.
    """
    held = _take_unless_ours(command, os.getpid())[1]
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def hold(command: str) -> None:
    """Hold the lock as `run` does, until this process ends."""
    _take_unless_ours(command, os.getpid())  # the descriptor closes when this process ends


@contextmanager
def stage() -> Iterator[None]:
    """Hold the lock of a stage, and end this process when its run ends.

    If DVC started this process, the stage is a part of that run.  Otherwise it is a run of its own.

    Raises
    ------
    Busy : Another run is at work.
    """
    own, driver = os.getpid(), _driver()
    leader, held = _take_unless_ours(_command(driver), driver)
    follow(*{driver, leader} - {own})
    if held is not None and driver != own:
        _keep(held, driver)
        held = None
    try:
        part = _take(STAGE, os.environ.get("DVC_STAGE") or _command(own), own, LEFT)
        try:
            yield
        finally:
            os.close(part)
    finally:
        if held is not None:
            os.close(held)


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
        while _alive(pid):
            time.sleep(0.2)
        return
    ended = select.poll()
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

    Parameters
    ----------
    parent : int, pid of the parent process.
    number : int, number of the signal.
    """
    if sys.platform == "linux":
        (libc or ctypes.CDLL(None)).prctl(DEATH_SIGNAL, number)
        if os.getppid() != parent:  # the parent ended before the call
            os.kill(os.getpid(), number)


def _take_unless_ours(command: str, pid: int) -> tuple[int, int | None]:
    """Return the pid that holds the checkout and a descriptor of the lock, taken for the process `pid`.

    The descriptor is None if a run already holds the lock and this process is a part of that run.
    """
    try:
        held = _take(RUN, command, pid)
    except Busy as error:
        if error.holder.where == _where() and error.holder.pid in {os.getpid(), *_ancestors()}:
            return error.holder.pid, None
        raise
    try:
        os.close(_take(STAGE, command, pid, LEFT))
    except LockError:
        os.close(held)
        raise
    return pid, held


def _take(path: Path, command: str, pid: int, patience: float = 0.0) -> int:
    """Lock a file for a process, write the holder into it, and return the descriptor that holds the lock."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise LockError(f"{path} cannot be opened: {error.strerror}{_fix(path)}") from error
    last = time.monotonic() + patience
    try:
        while not _locked(held):
            if time.monotonic() >= last and (holder := _holder(held)):
                raise Busy(holder)
            time.sleep(0.05)
    except OSError as error:
        raise LockError(f"{path} cannot be locked: {error.strerror}") from error
    except Busy:
        os.close(held)
        raise
    holder = Holder(pid, time.strftime("%Y-%m-%d %H:%M:%S"), command, _where())
    try:
        os.ftruncate(held, 0)
        os.pwrite(held, json.dumps(holder).encode(), 0)
    except OSError as error:
        os.close(held)
        raise LockError(f"{path} cannot be written: {error.strerror}") from error
    return held


def _locked(descriptor: int) -> bool:
    """Return whether the lock could be taken."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> Holder | None:
    """Return the holder that is written in a lock; None while it is being written."""
    try:
        return Holder(*json.loads(os.pread(descriptor, 1 << 16, 0)))
    except ValueError:
        return None


def _fix(path: Path) -> str:
    """Return advice about a file that cannot be opened, such as the file of a user who ran this before."""
    place = next(at for at in (path, *path.parents) if os.path.exists(at))  # False: hidden from this user
    if place.stat().st_uid == os.getuid():
        return f" ({place}): chmod -R u+rwX ."
    try:
        owner = place.owner()
    except KeyError:
        owner = str(place.stat().st_uid)
    return f" ({place} belongs to {owner}): sudo chown -R $(id -un) ."


def _keep(held: int, pid: int) -> None:
    """Start a process that holds the lock until the process `pid` has ended."""
    command = [sys.executable, "-I", "-S", __file__, str(pid)]
    nothing = subprocess.DEVNULL
    keeper = subprocess.Popen(
        command, stdin=nothing, stdout=nothing, stderr=nothing, pass_fds=[held], start_new_session=True
    )
    keeper.returncode = 0  # avoids the warning of Popen: it shall outlive this process
    os.close(held)


def _driver() -> int:
    """Return the pid of the DVC process that started this one for a stage; the own pid if there is none."""
    if "DVC_STAGE" in os.environ:
        import psutil

        for process in psutil.Process().parents():
            try:
                if "DVC_STAGE" not in process.environ():
                    return process.pid
            except psutil.Error:
                return process.pid
    return os.getpid()


def _where() -> str:
    """Return what a pid belongs to: on Linux the boot of the machine and the pid namespace; else ""."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{started} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _ancestors() -> list[int]:
    import psutil

    return [process.pid for process in psutil.Process().parents()]


def _command(pid: int) -> str:
    import psutil

    return shlex.join(psutil.Process(pid).cmdline())


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


if __name__ == "__main__":  # the process that `_keep` starts
    wait(int(sys.argv[1]))
