"""What the benchmarks share: rows of the table, timing, and processes with a pinned number of threads."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median
from typing import NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Options(NamedTuple):
    """threads, runs: as on the command line; full: nothing extrapolated; scale: a file of conf/scale/."""

    threads: int
    runs: int
    full: bool
    scale: str


class Row(NamedTuple):
    """One line of the table, as text.  met: "yes", "NO" or "-" where nothing is required."""

    what: str
    ours: str
    peer: str
    result: str
    required: str
    met: str
    threads: str
    how: str


def table(rows: Iterable[Row]) -> str:
    """Rows as a Markdown table with padded columns."""
    lines = [tuple(name.replace("_", " ") for name in Row._fields), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)).rstrip() + " |" for line in lines)


def verdict(met: bool) -> str:
    return "yes" if met else "NO"


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def medians(runs: int, *sides: Callable[[], object]) -> list[float]:
    """Median seconds of each side, after one warm-up each; the sides take turns, so that a disturbance hits all."""
    for side in sides:
        side()
    rounds = [[seconds(side) for side in sides] for _ in range(runs)]
    return [median(times) for times in zip(*rounds, strict=True)]


def isolated(threads: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a module-level function in a fresh process whose torch and BLAS use `threads` threads.

    The thread variables of the environment must be set already; that they hold is checked in the process.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=pin, initargs=(threads,)) as pool:
        return pool.submit(function, *args, **kwargs).result()


def pin(threads: int) -> None:
    """Pin torch; raise RuntimeError if numpy's and torch's libraries do not keep to `threads` too."""
    import scipy.linalg  # noqa: F401  (loads scipy's own BLAS, so that it is checked)
    import torch
    from threadpoolctl import threadpool_info

    torch.set_num_threads(threads)
    found = {pool["internal_api"]: pool["num_threads"] for pool in threadpool_info()}
    found["torch"] = torch.get_num_threads()
    if wrong := {name: count for name, count in found.items() if count != threads}:
        raise RuntimeError(f"asked for {threads} threads, but found {wrong}")
