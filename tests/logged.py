"""A method that logs what it computes, and waits where it is told to."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dplangevin.files import File, sha256
from dplangevin.methods import Execution, Plan, Release
from dplangevin.methods.objpert import ObjPert
from dplangevin.problems import Problem
from dplangevin.problems.glm import Glm


@dataclass(frozen=True)
class Logged(ObjPert):
    """folder: with `log`, a line a computation, its unit and its process; while there is `wait`, no computation ends,
    and each has `waits-PID`."""

    folder: str = ""

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        folder = Path(self.folder)
        unit = f"{self.ridge} {plans[0].guarantee.epsilon:.6f} {float(problem.x.sum()):.6f}"
        with open(folder / "log", "a") as log:
            log.write(f"{unit},{os.getpid()}\n")
        while (folder / "wait").exists():
            (folder / f"waits-{os.getpid()}").touch()
            time.sleep(0.02)
        return super().release(problem, plans, how)


def described(file: File) -> tuple[str, str]:
    """What a file is, and where."""
    path = file.get()
    return sha256(path), str(path.absolute())
