"""Where units of work are computed: in this process, on the cores of this machine, or on a Dask cluster.

A piece of work is a picklable function of one argument.  `computed` calls it for many, wherever that is, and gives back
what came of each: the rows are the same everywhere, and who asked for them keeps them.  One worker is this process,
several are joblib's; where the environment variable DPL_CLUSTER names a scheduler, the workers are Dask's (`cluster`).
"""

import os
import pickle
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Generic, NamedTuple, TypeVar

import torch

from dplangevin.arithmetic import described
from dplangevin.device import pick

T = TypeVar("T")
R = TypeVar("R")

CLUSTER = "DPL_CLUSTER"  # environment: tcp://HOST:PORT, tls://HOST:PORT, or the path of a scheduler file


class Need(NamedTuple):
    """What a call needs beside the one thread of its worker.  memory: bytes, estimated; gpu: how many are of use to
    it."""

    memory: float = 0.0
    gpu: int = 0


class Done(NamedTuple, Generic[R]):
    """What came of the argument at a place: value, or the error why there is none; made: the arithmetic of it; seconds:
    that it took."""

    place: int
    value: R | None
    error: Exception | None
    made: str
    seconds: float = 0.0


def computed(
    function: Callable[[T], R],
    arguments: Sequence[T],
    need: Need = Need(),  # noqa: B008
    code: Sequence[str] = (),
) -> Iterator[Done[R]]:
    """What comes of `function` for every argument, as it is finished; an Exception of one stops no other.

    need: of each call.  code: what is not of this package among what it calls, by name, which workers must have the
    same of.
    ValueError where the scheduler cannot be reached or its workers are refused: then nothing is computed; and where a
    process of this machine is killed: what was finished before has been given back.
    """
    if not arguments:
        return
    if cluster := os.environ.get(CLUSTER):
        try:
            from dplangevin.cluster import Cluster
        except ImportError as error:
            raise ValueError(f"{CLUSTER} needs Dask: pip install 'dplangevin[cluster]' ({error})") from error
        yield from Cluster(cluster, need, code).computed(function, arguments)
        return
    jobs = min(workers(), len(arguments))
    if jobs == 1 or (need.gpu and pick().type == "cuda"):  # one process has the GPU
        for each in enumerate(arguments):
            yield attempted(function, *each)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # a process whose memory has grown is replaced by another
    warnings.filterwarnings(
        "ignore", "A worker stopped while some jobs were given to the executor", UserWarning
    )
    calls = (delayed(attempted)(function, *each) for each in enumerate(arguments))
    try:
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)
    except TerminatedWorkerError as error:
        raise ValueError(
            f"one of {jobs} processes was killed, as a system does that runs out of memory: what is finished is kept; "
            f"run it again with fewer, such as DPL_WORKERS={max(jobs // 2, 1)}"
        ) from error


def workers() -> int:
    """Processes of this machine: DPL_WORKERS, or the cores there are.  ValueError for anything but a positive
    integer."""
    from joblib import cpu_count

    given = os.environ.get("DPL_WORKERS", "")
    if given and not (given.isdecimal() and int(given) > 0):
        raise ValueError(f"DPL_WORKERS = {given!r} must be a positive integer; unset it to use every core")
    return int(given) if given else cpu_count()


def attempted(function: Callable[[T], R], index: int, argument: T) -> Done[R]:
    """The call, in the process that it is for."""
    began = time.perf_counter()
    try:
        value = function(argument)
    except Exception as error:
        return Done(index, None, _portable(error), "", time.perf_counter() - began)
    made = _arithmetic(torch.get_num_threads(), pick())
    return Done(index, value, None, made, time.perf_counter() - began)


def _portable(error: Exception) -> Exception:
    """The error with its traceback as a note, as one that can be sent to another process."""
    text = "".join(traceback.format_exception(error))
    try:
        found: Exception = pickle.loads(pickle.dumps(error))
    except Exception:  # its class is not made for it
        found = RuntimeError(f"{type(error).__name__}: {error}")
    found.add_note(text)
    return found


@cache
def _arithmetic(threads: int, device: torch.device) -> str:
    """`described` takes milliseconds, and says the same in every call of a process."""
    return described()
