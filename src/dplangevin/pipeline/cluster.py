"""Execution of tasks on the workers of a Dask cluster; only this module needs Dask.

joblib's backend for Dask computes in this process where a cluster has one worker, and waits for ever for a task that
ends its workers.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from distributed import Client, KilledWorker, as_completed, get_worker
from distributed.client import ClosedClientError, FutureCancelledError

from dplangevin.device import drawing, pick
from dplangevin.pipeline.code import code_hash
from dplangevin.pipeline.environment import libraries, pinned

FIRST = 30  # seconds to wait for the scheduler
CARRIED = "DPL_DEVICE", "DPL_MEMORY", "DPL_RANDOM"  # variables that affect numbers, for the workers


def versions(names: Sequence[str], threads: int = 1) -> dict[str, str]:
    """Return what must be the same for the driver and its workers."""
    own = {"code": code_hash(*names)[:12], "DPL_RANDOM": drawing(pick()).type}
    return {**libraries(), **own, "--nthreads": f"{threads}"}


def outcomes(
    address: str, call: Callable[[int, Any], Any], arguments: Sequence[Any], code: Sequence[str]
) -> Iterator[Any]:
    """Yield what the call with the number of each argument, and the argument, returns.

    A worker must have the same `code`, which are names of modules or objects.
    """
    given = {name: os.environ.get(name, "") for name in CARRIED}
    try:
        with Client(address, timeout=FIRST, set_as_default=False, name="dplangevin") as client:
            common = client.submit(tuple, (given, code, versions(code), call), pure=False)  # sent once
            calls = [client.submit(_called, common, *each, pure=False) for each in enumerate(arguments)]
            waiting = as_completed(calls, loop=client.loop)
            calls.clear()  # so that a result that has come is not computed again when its worker ends
            for future in waiting:
                yield future.result()
    except (OSError, TypeError, KilledWorker, ClosedClientError, FutureCancelledError) as error:
        raise ValueError(
            f"DPL_CLUSTER = {address} ended or does not answer: {error}; finished tasks are kept"
        ) from error


def _called(common: tuple[Any, ...], index: int, argument: Any) -> Any:
    """Return the outcome of a call, made in a worker process; ValueError if its numbers would be other ones."""
    given, names, expected, call = common
    os.environ |= given
    worker = get_worker()
    here = versions(names, worker.state.nthreads)
    for name, value in expected.items():
        if here[name] != value:
            raise ValueError(f"worker {worker.address} is refused: {name} {here[name]}, not {value}")
    with pinned():
        return call(index, argument)
