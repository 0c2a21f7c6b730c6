"""What the benchmarks share: command line, machine, rows of the table, timing, processes with pinned threads."""

import os
import platform
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import NamedTuple, ParamSpec, TypeVar

from dplangevin.pipeline.environment import processor

P = ParamSpec("P")
T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[1]
PINS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PACKAGES = (
    *("torch", "numpy", "scipy", "scikit-learn", "arviz", "dvc", "opacus", "jax", "jax_privacy", "optax"),
    *("dp-accounting", "riskcal", "prv-accountant", "pld-accounting"),
)
BUSY = 0.5  # load average; above it a warning


def arguments(parser: ArgumentParser, argv: Sequence[str] | None) -> Namespace:
    """What is given, with --threads and --scale; of the parser are --runs and --write.

    From then on the working folder is the repository's, and processes that are started keep to the threads.
    """
    threads = int(os.environ.get("OMP_NUM_THREADS") or cores())
    text = "of torch and BLAS, on both sides of a ratio (default: OMP_NUM_THREADS, else the cores)"
    parser.add_argument("--threads", type=int, default=threads, help=text)
    text = "a file of conf/scale/; under smoke the numbers mean nothing"
    parser.add_argument("--scale", default="laptop", help=text)
    args = parser.parse_args(argv)
    if args.runs < 1 or args.threads < 1:
        parser.error(f"--runs {args.runs} and --threads {args.threads} must be 1 or more")
    if args.write and args.scale != "laptop":
        parser.error("--write is for the default scale: leave out --scale")
    os.chdir(ROOT)
    os.environ.update(dict.fromkeys(PINS, str(args.threads)))
    if (load := os.getloadavg()[0]) > BUSY:
        print(f"This machine is busy (load {load:.1f}): expect times that are too long.", file=sys.stderr)
    return args


def describe(threads: int, scale: str) -> str:
    """Processor, cores, memory, threads and versions, as Markdown lines without a date."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    packages = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return (
        f"CPU: {processor()}, {cores()} cores for this process, {memory:.0f} GB of memory.\n"
        f"Threads: {threads} for torch and BLAS, unless a row says otherwise. Scale: {scale}.\n"
        f"Versions: Python {platform.python_version()}, {packages}."
    )


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(absent)"


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


def timed(function: Callable[[], T]) -> tuple[T, float]:
    """What a call returns, and its seconds."""
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def seconds(function: Callable[[], object]) -> float:
    return timed(function)[1]


def medians(runs: int, *sides: Callable[[], object]) -> list[float]:
    """Median seconds of each side, after one warm-up each; the sides take turns, so that a disturbance hits all."""
    for side in sides:
        side()
    rounds = [[seconds(side) for side in sides] for _ in range(runs)]
    return [median(times) for times in zip(*rounds, strict=True)]


def isolated(threads: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a module-level function in a fresh process whose torch and BLAS use `threads` threads.

    The libraries read the number from the environment; that they keep to it is checked in the process.
    """
    os.environ.update(dict.fromkeys(PINS, str(threads)))
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
