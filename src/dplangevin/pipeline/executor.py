"""Execution of tasks: in this process, on the cores of this machine, or on a Dask cluster, with the same rows."""

import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import pandas as pd
from joblib import Parallel, cpu_count, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from dplangevin.files import Checkpoint
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.code import code_hash, package_hash
from dplangevin.pipeline.environment import LIBRARIES, described, pinned, revision
from dplangevin.pipeline.lock import orphaned

CLUSTER = "DPL_CLUSTER"  # environment variable: tcp://HOST:PORT or tls://HOST:PORT
CARRIED = "DPL_DEVICE", "DPL_MEMORY"  # variables that affect numbers, for the workers
Function = Callable[[Any], Any]


class Done(NamedTuple):
    """The outcome of the call with the argument of this `number`; `begun` as in `cache.Rows`."""

    number: int
    value: Any
    error: Exception | None
    environment: str = ""
    begun: str = ""


class TaskTables(dict[str, pd.DataFrame]):
    """The tables of a task, by name; `origin`: what a store notes of it, see `cache.Rows`."""

    origin: Mapping[str, str] = {}


def computed(
    function: Function,
    arguments: Sequence[Any],
    gpu: bool = False,
    code: Sequence[str] = (),
    store: Store | None = None,
    keys: Sequence[Sequence[str]] = (),
) -> Iterator[Done]:
    """Yield the outcome of a picklable function for every argument, in the order in which calls finish.

    `code` names modules and objects that the function calls; workers must have the same ones. `store` keeps what a
    call returns before it is yielded: the `TaskTables` of the tasks whose keys are its entry of `keys`.
    """
    remote = os.environ.get(CLUSTER)
    found = _on_cluster(function, arguments, code) if remote else _here(function, arguments, gpu)
    for done in found if arguments else ():  # nothing to do needs no cluster
        if store and done.error is None:
            here = {"made": f"{revision()}, {done.environment}", "begun": done.begun}
            for key, tables in zip(keys[done.number], done.value, strict=True):
                store.keep(key, *(tables[path.stem] for path in store.paths), **here | {**tables.origin})
        if orphaned():
            raise ValueError("the run that this stage is a part of has ended: finished tasks are kept")
        yield done


def _here(function: Function, arguments: Sequence[Any], gpu: bool) -> Iterator[Done]:
    from dplangevin.device import pick  # imported here, because it loads torch

    # one process, which is this one, if the calls use a GPU
    jobs = 1 if gpu and pick().type == "cuda" else min(workers(), len(arguments))
    # joblib warns when it replaces a process whose memory has grown
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    calls = (delayed(attempted)(function, *each) for each in enumerate(arguments))
    try:
        yield from Parallel(jobs, return_as="generator_unordered")(calls)
    except TerminatedWorkerError as error:
        fix = f"take fewer processes, such as DPL_WORKERS={max(jobs // 2, 1)}"
        raise ValueError(f"one of {jobs} processes was killed; finished tasks are kept: {fix}") from error


def _on_cluster(function: Function, arguments: Sequence[Any], code: Sequence[str]) -> Iterator[Done]:
    """Yield outcomes of workers; Dask gives a lost one's tasks to others, where joblib's backend waits for ever."""
    address, given = os.environ[CLUSTER], {name: os.environ.get(name, "") for name in CARRIED}
    try:
        from distributed import Client, as_completed

        with Client(address, set_as_default=False, name="dplangevin") as client:
            common = client.submit(tuple, (given, code, versions(code), function), pure=False)  # sent once
            calls = [client.submit(_called, common, *each, pure=False) for each in enumerate(arguments)]
            waiting = as_completed(calls, loop=client.loop)
            calls.clear()  # so that a result that has come is not computed again when its worker ends
            for future in waiting:
                yield future.result()
    except Exception as error:  # no Dask, no connection, or a worker that cannot begin
        raise ValueError(f"{CLUSTER} = {address}, finished tasks are kept: {error}") from error


def _called(common: tuple[Any, ...], index: int, argument: Any) -> Done:
    """Return the outcome of a call, made in a worker; ValueError if its numbers would be other ones."""
    from distributed import get_worker

    given, code, expected, function = common
    os.environ |= given
    worker = get_worker()
    for name, own in versions(code, worker.state.nthreads).items():
        if own != expected[name]:
            raise ValueError(f"worker {worker.address} is refused: {name} {own}, not {expected[name]}")
    with pinned():
        return attempted(function, index, argument)


def versions(code: Sequence[str], threads: int = 1) -> dict[str, str]:
    """Return what must be the same for the driver and its workers."""
    libraries = {name: version(name).partition("+")[0] for name in LIBRARIES}  # +cpu is a build tag
    digest = package_hash()[:12] + code_hash(*code)[:12]
    return {"Python": sys.version[:4], **libraries, "code": digest, "--nthreads": f"{threads}"}


def workers() -> int:
    """Return the number of worker processes on this machine: DPL_WORKERS, or the number of cores."""
    given = os.environ.get("DPL_WORKERS") or str(cpu_count())
    if not (given.isdecimal() and int(given) > 0):
        raise ValueError(f"DPL_WORKERS = {given!r} must be a positive integer; unset it to use every core")
    return int(given)


def attempted(function: Function, index: int, argument: Any) -> Done:
    """Call the function in this process; an Exception, with its traceback as a note, becomes the error."""
    Checkpoint.noted.clear()
    package_hash()  # so that the keys that a task makes at its end are of the code that it began with
    try:
        value = function(argument)
    except Exception as error:
        note = traceback.format_exc()
        try:
            portable = pickle.loads(pickle.dumps(error))  # without frames, which would keep the task's memory
        except Exception:  # its class cannot be pickled
            portable = RuntimeError(f"{type(error).__name__}: {error}")
        portable.add_note(note)
        return Done(index, None, portable)
    norms = " ".join(f"{norm:.10g}" for noted in Checkpoint.noted.values() for norm in noted)
    return Done(index, value, None, described(), norms)
