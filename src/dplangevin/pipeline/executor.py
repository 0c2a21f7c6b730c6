"""Execution of tasks: in this process, on the cores of this machine, or on a Dask cluster, with the same rows."""

import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import starmap
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.files import Checkpoint
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.code import code_hash, package_hash
from dplangevin.pipeline.environment import LIBRARIES, described, pinned, revision
from dplangevin.pipeline.lock import orphaned

CLUSTER = "DPL_CLUSTER"  # environment variable: tcp://HOST:PORT or tls://HOST:PORT
CARRIED = "DPL_DEVICE", "DPL_MEMORY"  # variables that affect numbers, for the workers
FIRST = 30  # seconds to wait for the scheduler
Call = Callable[[int, Any], "Done"]


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
    function: Callable[[Any], Any],
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
    if not arguments:
        return
    call = partial(attempted, function)
    address = os.environ.get(CLUSTER)
    found = _on_cluster(address, call, arguments, code) if address else _here(call, arguments, gpu)
    for done in found:
        if store and done.error is None:
            here = {"made": f"{revision()}, {done.environment}", "begun": done.begun}
            for key, tables in zip(keys[done.number], done.value, strict=True):
                store.keep(key, *(tables[path.stem] for path in store.paths), **here | {**tables.origin})
        if orphaned():
            raise ValueError("the run that this stage is a part of has ended: finished tasks are kept")
        yield done


def _here(call: Call, arguments: Sequence[Any], gpu: bool) -> Iterator[Done]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    from dplangevin.device import pick  # imported here, because it loads torch

    # one process, which is this one, if the calls use a GPU
    jobs = 1 if gpu and pick().type == "cuda" else min(workers(), len(arguments))
    # joblib warns when it replaces a process whose memory has grown
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    calls = starmap(delayed(call), enumerate(arguments))
    try:
        yield from Parallel(jobs, return_as="generator_unordered")(calls)
    except TerminatedWorkerError as error:
        fix = f"take fewer processes, such as DPL_WORKERS={max(jobs // 2, 1)}"
        raise ValueError(f"one of {jobs} processes was killed; finished tasks are kept: {fix}") from error


def _on_cluster(address: str, call: Call, arguments: Sequence[Any], code: Sequence[str]) -> Iterator[Done]:
    """Yield outcomes of workers; Dask gives a lost one's tasks to others, where joblib's backend waits for ever."""
    given = {name: os.environ.get(name, "") for name in CARRIED}
    try:
        from distributed import Client, KilledWorker, as_completed
        from distributed.client import ClosedClientError, FutureCancelledError

        with Client(address, timeout=FIRST, set_as_default=False, name="dplangevin") as client:
            common = client.submit(tuple, (given, code, versions(code), call), pure=False)  # sent once
            calls = [client.submit(_called, common, *each, pure=False) for each in enumerate(arguments)]
            waiting = as_completed(calls, loop=client.loop)
            calls.clear()  # so that a result that has come is not computed again when its worker ends
            for future in waiting:
                if isinstance(error := future.exception(), ImportError | OSError | TypeError):
                    raise ValueError(f"a worker failed before its task began: {error!r}") from error
                yield future.result()
    except ImportError as error:
        raise ValueError(f"{CLUSTER} needs Dask: pip install 'dplangevin[cluster]'") from error
    except (OSError, TypeError, KilledWorker, ClosedClientError, FutureCancelledError) as error:
        why = f"{CLUSTER} = {address} ended or does not answer ({error}); finished tasks are kept"
        raise ValueError(why) from error


def _called(common: tuple[Any, ...], index: int, argument: Any) -> Done:
    """Return the outcome of a call, made in a worker; ValueError if its numbers would be other ones."""
    from distributed import get_worker

    given, code, expected, call = common
    os.environ |= given
    worker = get_worker()
    for name, own in versions(code, worker.state.nthreads).items():
        if own != expected[name]:
            raise ValueError(f"worker {worker.address} is refused: {name} {own}, not {expected[name]}")
    with pinned():
        done: Done = call(index, argument)
        return done


def versions(code: Sequence[str], threads: int = 1) -> dict[str, str]:
    """Return what must be the same for the driver and its workers."""
    libraries = {name: version(name).partition("+")[0] for name in LIBRARIES}  # +cpu is a build tag
    own = {"code": package_hash()[:12] + code_hash(*code)[:12], "--nthreads": f"{threads}"}
    return {"Python": sys.version[:4], **libraries, **own}


def workers() -> int:
    """Return the number of worker processes on this machine: DPL_WORKERS, or the number of cores."""
    from joblib import cpu_count

    given = os.environ.get("DPL_WORKERS") or str(cpu_count())
    if not (given.isdecimal() and int(given) > 0):
        raise ValueError(f"DPL_WORKERS = {given!r} must be a positive integer; unset it to use every core")
    return int(given)


def attempted(function: Callable[[Any], Any], index: int, argument: Any) -> Done:
    """Call the function in this process; an Exception, with its traceback as a note, becomes the error."""
    Checkpoint.noted.clear()
    package_hash()  # so that the keys that a task makes at its end are of the code that it began with
    try:
        value = function(argument)
    except Exception as error:
        note = traceback.format_exc()
        try:
            portable = pickle.loads(pickle.dumps(error))
        except Exception:  # its class cannot be pickled
            portable = RuntimeError(f"{type(error).__name__}: {error}")
        portable.add_note(note)
        return Done(index, None, portable)
    norms = " ".join(f"{norm:.10g}" for noted in Checkpoint.noted.values() for norm in noted)
    return Done(index, value, None, described(), norms)
