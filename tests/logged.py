"""Methods that log what they compute: one waits or takes much memory where it is told to, one is killed half-way."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from distributed import get_worker

from dplangevin.files import Checkpoint, File, sha256
from dplangevin.methods import Execution, Plan, Release, Workspace
from dplangevin.methods.dp_sgd import Sgd
from dplangevin.methods.objpert import ObjPert
from dplangevin.problems import Problem
from dplangevin.problems.glm import Glm


@dataclass(frozen=True)
class Logged(ObjPert):
    """folder: with `log`, a line a computation, its unit and its process; while there is `wait`, no computation ends,
    and each has `waits-PID`; `hungry` is taken away by the first process that has HUNGRY, which then takes so many
    bytes."""

    folder: str = ""

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        folder = Path(self.folder)
        unit = f"{self.ridge} {plans[0].guarantee.epsilon:.6f} {float(problem.x.sum()):.6f}"
        with open(folder / "log", "a") as log:
            log.write(f"{unit},{os.getpid()}\n")
        if "HUNGRY" in os.environ and (folder / "hungry").exists():
            (folder / "hungry").unlink()
            taken = np.ones(int(float(os.environ["HUNGRY"])) // 8)
            time.sleep(60 + 0 * taken[0])
        while (folder / "wait").exists():
            (folder / f"waits-{os.getpid()}").touch()
            time.sleep(0.02)
        return super().release(problem, plans, how)


@dataclass(frozen=True)
class Resumed(Sgd):
    """folder: with `log`, a line a computation, the step that it begins at and its process; `stop` is taken away by the
    first process that comes to step 10, which is killed there."""

    folder: str = ""

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert how.workspace is not None
        watched = _Watched(*how.workspace)
        watched.log = Path(self.folder)
        return super().release(problem, plans, how._replace(workspace=watched))


class _Watched(Workspace):
    log: Path

    def checkpoint(self, name: str = "") -> Checkpoint:
        made = super().checkpoint(name)
        return _EveryStep(made.path, made.key, self.log)


class _EveryStep(Checkpoint):
    def __init__(self, path: Path, key: str, log: Path) -> None:
        super().__init__(path, key, every=0)
        self.log = log

    def load(self) -> dict[str, Any] | None:
        found = super().load()
        with open(self.log / "log", "a") as log:
            log.write(f"{found['step'] if found else 0},{os.getpid()}\n")
        return found

    def save(self, make: Callable[[], dict[str, Any]], force: bool = False) -> None:
        super().save(make, force)
        if make()["step"] == 10 and (self.log / "stop").exists():
            (self.log / "stop").unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def device(_: object) -> tuple[str, str]:
    """What a call is told to run on, and the name of its worker; no GPU is looked for."""
    told, os.environ["DPL_DEVICE"] = os.environ["DPL_DEVICE"], "cpu"
    return told, str(get_worker().name)


def described(file: File) -> tuple[str, str]:
    """What a file is, and where."""
    path = file.get()
    return sha256(path), str(path.absolute())


def killed(_: object) -> None:
    """Ends the process that it is called in, as a system out of memory does."""
    os.kill(os.getpid(), signal.SIGKILL)
