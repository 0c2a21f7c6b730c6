"""The arithmetic that numbers are made with.

The last digits of a sum depend on how many threads share it, on the libraries and on the processor, and a chain makes
first digits of last ones.  So threads are not for the environment or the machine to choose: every unit is computed on
one, as the committed ones were (`pinned`).  Libraries and processor cannot be pinned: they are listed with every unit
(`described`), and where a unit is computed again, a line says by how much it moved (`moved`).
"""

import math
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dplangevin.cache import Rows
from dplangevin.lock import follow
from dplangevin.text import short

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # libraries read them when loaded


@contextmanager
def pinned() -> Iterator[None]:
    """Compute on one thread of torch and BLAS, whatever the environment says, here and in each process that joblib
    starts, which ends with this one."""
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    given = {name: os.environ.get(name) for name in VARIABLES}
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    workers = {"inner_max_num_threads": 1, "initializer": follow, "initargs": (os.getpid(),)}
    try:
        os.environ |= dict.fromkeys(VARIABLES, "1")  # for what is not loaded yet
        with threadpool_limits(1), parallel_config("loky", **workers):
            if torch:
                torch.set_num_threads(1)
            yield
    finally:
        for name, value in given.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if torch:
            torch.set_num_threads(before)


def described() -> str:
    """Threads, processor, device and libraries, as they are listed with a unit."""
    import scipy.linalg  # noqa: F401  (loads scipy's own BLAS, so that it is listed)
    import torch
    from threadpoolctl import threadpool_info

    from dplangevin.device import pick

    blas = [
        f"{pool['internal_api']} {pool['version']} {pool['architecture']}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas" and "architecture" in pool
    ]
    device = [torch.cuda.get_device_name()] if pick().type == "cuda" else []
    libraries = [f"{name} {version(name)}" for name in ("torch", "numpy", "scipy", "dp-accounting", "arviz")]
    memory = [f"DPL_MEMORY {given}"] if (given := os.environ.get("DPL_MEMORY")) else []  # the order of sums
    capability = torch.backends.cpu.get_cpu_capability()
    threads = f"threads {torch.get_num_threads()}"
    return ", ".join([threads, processor(), capability, *device, *memory, *libraries, *sorted(set(blas))])


def processor() -> str:
    """The name of the processor: torch's BLAS takes other ways on one of another maker with the same instructions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


class Move(NamedTuple):
    """How far units moved that were computed again.

    units: how many; same: how many of them have the same bytes; largest: of the others, the largest |new - old|/max(1,
    |old|) by column or metric, infinite for other rows or texts; made: the arithmetic of these, before and now.
    """

    units: int
    same: int
    largest: dict[str, float]
    made: tuple[str, str]

    def __str__(self) -> str:
        if self.same == self.units:
            return f"all {self.units} units have the same bytes as before"
        sizes = ", ".join(f"{name} {short(size)}" for name, size in sorted(self.largest.items()))
        before, now = (made or "arithmetic that is not listed" for made in self.made)
        return (
            f"{self.same} of {self.units} units have the same bytes as before; the others moved, relative to "
            f"max(1, |value|), by at most: {sizes}. Before: {before}; now: {now}"
        )


def moved(before: Mapping[str, Rows], after: Mapping[str, Rows]) -> Move:
    """What became of the units, key -> rows, that there were before."""
    both = [(before[key], after[key]) for key in before if key in after]
    others = [(old, new) for old, new in both if old.content != new.content]
    largest: dict[str, float] = {}
    for old, new in others:
        for name, size in _sizes(old, new):
            largest[name] = max(size, largest.get(name, 0.0))
    largest = {name: size for name, size in largest.items() if size}
    made = [" or ".join(sorted({rows.made for rows in side})) for side in zip(*others, strict=True)]
    return Move(len(both), len(both) - len(others), largest, (made[0], made[1]) if made else ("", ""))


def _sizes(old: Rows, new: Rows) -> Iterator[tuple[str, float]]:
    """Column, or metric of a long table, and how far it moved."""
    a, b = (pd.read_csv(StringIO(rows.content)) for rows in (old, new))
    if list(a) != list(b) or len(a) != len(b):
        yield "rows", math.inf
        return
    for name in a:
        if not (pd.api.types.is_numeric_dtype(a[name]) and pd.api.types.is_numeric_dtype(b[name])):
            yield str(name), 0.0 if a[name].equals(b[name]) else math.inf
            continue
        x, y = a[name].to_numpy(float), b[name].to_numpy(float)
        with np.errstate(invalid="ignore"):
            sizes = np.abs(y - x) / np.maximum(1.0, np.abs(x))
        sizes = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.nan_to_num(sizes, nan=math.inf))
        if name == "value" and "metric" in a:
            yield from ((str(a.metric[i]), float(size)) for i, size in enumerate(sizes))
        else:
            yield str(name), float(sizes.max(initial=0.0))
