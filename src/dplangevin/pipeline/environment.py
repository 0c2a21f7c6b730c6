"""What numbers are made with: threads, libraries and processor, on which the last digits of a sum depend.

Every task is computed on one thread, and lists the rest. If it is computed again, a line says how far numbers moved.
"""

import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dplangevin.pipeline.cache import Rows
from dplangevin.text import short

LIBRARIES = ("torch", "numpy", "scipy", "pandas", "dp-accounting", "arviz")
SMALL = 1e-12  # numbers below are compared as if they were this large


@contextmanager
def pinned() -> Iterator[None]:
    """Compute on one thread of BLAS, here and in each process that joblib starts, and of torch from here on."""
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # for libraries that are not loaded yet
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    with threadpool_limits(1), parallel_config("loky", inner_max_num_threads=1):
        yield


@cache  # a process runs the code that it loaded, also where another commit is checked out meanwhile
def revision() -> str:
    """Return the date (SOURCE_DATE_EPOCH if set) and this repository's commit, if there is one."""
    now = datetime.fromtimestamp(float(os.environ.get("SOURCE_DATE_EPOCH", time.time())), UTC)
    changed = "status --porcelain --untracked-files=no conf params.yaml pipelines src"
    commands = "rev-parse --short=12 HEAD", changed, "cat-file -e HEAD:src/dplangevin"
    output = partial(subprocess.check_output, text=True, stderr=subprocess.DEVNULL)
    try:
        commit, changes, _ = (output(["git", *words.split()]).strip() for words in commands)
    except (OSError, subprocess.CalledProcessError):
        return f"{now:%Y-%m-%d}"
    return f"{now:%Y-%m-%d}, commit {commit}{' with changes' * bool(changes)}"


def described() -> str:
    """Return threads, processor, device and libraries as one text, which is listed with a task."""
    import scipy.linalg  # noqa: F401  (loads scipy's own BLAS, so that it is listed)
    import torch
    from threadpoolctl import threadpool_info

    from dplangevin.device import pick

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas" and "architecture" in pool]
    blas = {f"{pool['internal_api']} {pool['version']} {pool['architecture']}" for pool in pools}
    device = torch.cuda.get_device_name() if pick().type == "cuda" else ""
    memory = f"DPL_MEMORY {given}" if (given := os.environ.get("DPL_MEMORY")) else ""  # the order of sums
    versions = [f"{name} {version(name)}" for name in LIBRARIES if name != "pandas"]
    machine = processor(), torch.backends.cpu.get_cpu_capability(), device, memory
    return ", ".join(filter(None, [f"threads {torch.get_num_threads()}", *machine, *versions, *sorted(blas)]))


def processor() -> str:
    """Return the name of the processor, on which the code that BLAS runs depends, beside its instructions."""
    info = Path("/proc/cpuinfo")
    name = re.search(r"(?m)^model name\s*:(.*)", info.read_text("utf-8") if info.exists() else "")
    return name[1].strip() if name else platform.processor() or platform.machine()


class Move(NamedTuple):
    """How far the numbers of tasks moved when they were computed again; `same` have the same bytes.

    `largest`, by column or metric: the largest |new - old|, relative to the standard error of the mean over the seeds
    where there are several, else to |old|; infinite if the columns, the number of rows or a text differ.
    """

    tasks: int
    same: int
    largest: dict[str, float]

    @property
    def farthest(self) -> float:
        return max(self.largest.values(), default=0.0)

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {short(size)}" for name, size in sorted(self.largest.items()))
        others = "; the others moved, in standard errors of the seeds or else relatively, by at most: "
        said = f"{self.same} of {self.tasks} tasks have the same bytes as before"
        return said + f"{others}{sizes}" * (self.same < self.tasks)


def largest(renewed: str) -> float:
    """Return the largest move that renewals of a task have named, see `pipelines/verify.py`."""
    return max(map(float, re.findall(r"at most ([0-9.e+-]+|inf)", renewed)), default=0.0)


def moved(tasks: Sequence[tuple[Rows, Rows]]) -> Move:
    """Return how far tasks moved, from their rows before and now."""
    others = [(old, new) for old, new in tasks if old.content != new.content]
    sizes = pd.concat([pd.Series(dtype=float), *(_sizes(*pair) for pair in others)])
    return Move(len(tasks), len(tasks) - len(others), sizes[sizes > 0].groupby(level=0).max().to_dict())


def _sizes(old: Rows, new: Rows) -> pd.Series:
    """Return how far each number moved, by column, or by metric in a long table."""
    a, b = (pd.read_csv(StringIO(rows.content)) for rows in (old, new))
    if list(a) != list(b) or len(a) != len(b):
        return pd.Series({"rows": math.inf})
    x, y = (frame.apply(pd.to_numeric, errors="coerce").astype(float) for frame in (a, b))
    scale = x.abs().clip(lower=SMALL)
    if {"seed", "value"} <= {*a}:
        error = a.groupby([*a.columns.difference(["seed", "value"])], dropna=False).value.transform("sem")
        scale["value"] = error.where(error > 1e-9 * x.value.abs(), scale.value)
    sizes = ((y - x).abs() / scale).fillna(math.inf).mask(a.eq(b) | (a.isna() & b.isna()), 0.0)
    if {"metric", "value"} <= {*a}:
        return pd.concat([sizes.drop(columns="value").max(), sizes.value.groupby(a.metric).max()])
    return sizes.max()
