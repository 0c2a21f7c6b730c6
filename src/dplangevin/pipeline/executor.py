"""Execution of tasks: in this process, on the cores of this machine, or on a Dask cluster, with the same rows."""

import os
import pickle
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.files import Checkpoint
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.environment import described, revision
from dplangevin.pipeline.lock import orphaned

CLUSTER = "DPL_CLUSTER"  # environment variable: tcp://HOST:PORT or tls://HOST:PORT


class Done(NamedTuple):
    """The outcome of the call with the argument of this `number`; `begun` as in `cache.Rows`."""

    number: int
    value: Any
    error: Exception | None
    environment: str
    seconds: float
    begun: str = ""


class TaskTables(dict[str, pd.DataFrame]):
    """The tables of a task, by name; `origin`: what a store notes of it, see `cache.Rows`."""

    origin: Mapping[str, str] = {}


def computed(
    function: Callable[[Any], Any],
    arguments: Sequence[Any],
    gpu: bool = False,
    code: Sequence[str] = (),
    store: Store | None = None,
    keys: Sequence[Sequence[str]] = (),
) -> Iterator[Done]:
    """Yield the outcome of a picklable function for every argument, in the order in which calls finish.

    An Exception in one call does not stop the others.

    - `gpu`: whether a call can use a GPU.
    - `code`: names of modules or objects that the function calls. Workers must have the same ones.
    - `store`: keeps what a call returns before it is yielded, the `TaskTables` of the tasks with its entry of `keys`.
    """
    if not arguments:
        return
    call = partial(attempted, function)
    found = _on_this_machine(call, arguments, gpu)
    if cluster := os.environ.get(CLUSTER):
        try:
            from dplangevin.pipeline.cluster import outcomes  # it needs Dask, which is optional
        except ImportError as error:
            raise ValueError(f"{CLUSTER} needs Dask: pip install 'dplangevin[cluster]' ({error})") from error
        found = outcomes(cluster, call, arguments, code)
    for done in found:
        if store and done.error is None:
            here = {"made": f"{revision()}, {done.environment}", "begun": done.begun}
            for key, tables in zip(keys[done.number], done.value, strict=True):
                store.keep(key, *(tables[path.stem] for path in store.paths), **here | {**tables.origin})
        if orphaned():
            raise ValueError("the run that this stage is a part of has ended: finished tasks are kept")
        yield done


def _on_this_machine(call: Callable[[int, Any], Done], arguments: Sequence[Any], gpu: bool) -> Iterator[Done]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    from dplangevin.device import pick  # imported here, because it loads torch

    # one process, which is this one, if the calls use a GPU
    jobs = 1 if gpu and pick().type == "cuda" else min(workers(), len(arguments))
    # joblib warns when it replaces a process whose memory has grown
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    try:
        yield from Parallel(jobs, return_as="generator_unordered")(
            starmap(delayed(call), enumerate(arguments))
        )
    except TerminatedWorkerError as error:
        raise ValueError(
            f"one of {jobs} processes was killed, as a system does that runs out of memory: what is finished is kept; "
            f"run it again with fewer, such as DPL_WORKERS={max(jobs // 2, 1)}"
        ) from error


def workers() -> int:
    """Return the number of worker processes on this machine: DPL_WORKERS, or the number of cores."""
    from joblib import cpu_count

    given = os.environ.get("DPL_WORKERS") or str(cpu_count())
    if not (given.isdecimal() and int(given) > 0):
        raise ValueError(f"DPL_WORKERS = {given!r} must be a positive integer; unset it to use every core")
    return int(given)


def attempted(function: Callable[[Any], Any], index: int, argument: Any) -> Done:
    """Call the function in this process; an Exception, with its traceback as a note, becomes the error."""
    began = time.perf_counter()
    Checkpoint.noted.clear()
    try:
        value = function(argument)
    except Exception as error:
        note = traceback.format_exc()
        try:
            portable = pickle.loads(pickle.dumps(error))
        except Exception:  # its class cannot be pickled
            portable = RuntimeError(f"{type(error).__name__}: {error}")
        portable.add_note(note)
        return Done(index, None, portable, "", time.perf_counter() - began)
    norms = " ".join(f"{norm:.10g}" for noted in Checkpoint.noted.values() for norm in noted)
    return Done(index, value, None, described(), time.perf_counter() - began, norms)
