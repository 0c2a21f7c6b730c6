"""Execution of tasks on the workers of a Dask cluster; only this module needs Dask.

If a worker is lost, Dask computes its tasks again on others. Every worker process computes one task at a time, on one
thread.  (joblib's backend for Dask computes in this process where a cluster has one worker.)
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from distributed import Client, KilledWorker, as_completed, get_worker
from distributed.client import ClosedClientError, FutureCancelledError

from dplangevin.pipeline.code import PACKAGE, code_hash, package_hash, reachable
from dplangevin.pipeline.environment import libraries, pinned

R = TypeVar("R")

FIRST = 30  # seconds to wait for the scheduler
CARRIED = "DPL_DEVICE", "DPL_MEMORY"  # variables that affect numbers, for the workers
KEPT = "what is finished is kept: the same command goes on from there"


def versions(names: Sequence[str], threads: int = 1) -> dict[str, str]:
    """Return what must be the same for the driver and its workers.

    Versions of Python, libraries, this package and the modules outside of it among `names`; threads.
    """
    others = {name for name in names if name.partition(".")[0] != PACKAGE and reachable([name])}
    own = {PACKAGE: package_hash()[:12], **{name: code_hash(name)[:12] for name in sorted(others)}}
    return {**libraries(), **own, "--nthreads": f"{threads}"}


def outcomes(
    address: str, call: Callable[[int, Any], R], arguments: Sequence[Any], code: Sequence[str]
) -> Iterator[R]:
    """Yield what the call with the number of each argument, and the argument, returns.

    - `address`: such as tcp://HOST:8786, or the path of an existing scheduler file; anything else is a ValueError.
    - `code`: names of modules or objects that are called. A worker must have the same ones.
    """
    if not (remote := "://" in address) and not Path(address).is_file():
        raise ValueError(
            f"DPL_CLUSTER = {address!r} is neither an address, such as tcp://HOST:8786, nor a scheduler file"
        )
    silent = f"the scheduler at DPL_CLUSTER = {address} does not answer"
    place = {"address" if remote else "scheduler_file": address}
    try:
        client = Client(**place, timeout=FIRST, set_as_default=False, name="dplangevin")
    except (OSError, ValueError, TypeError) as error:  # a scheduler file that is none, tls:// without keys
        raise ValueError(f"{silent} ({error}); {KEPT}") from error
    given = {name: os.environ.get(name, "") for name in CARRIED}
    try:
        with client:
            waits = "" if client.nthreads() else ", no worker yet: waiting for the first"
            print(f"{address}: dashboard {client.dashboard_link}{waits}", file=sys.stderr)
            common = client.submit(tuple, (given, code, versions(code), call), pure=False)  # sent once
            calls = [client.submit(_called, common, *each, pure=False) for each in enumerate(arguments)]
            waiting = as_completed(calls, loop=client.loop)
            calls.clear()  # so that a result that has come is not computed again when its worker ends
            for future in waiting:
                yield future.result()
    except KilledWorker as error:
        raise ValueError(
            f"{error.allowed_failures + 1} workers ended while they computed a task, the last at "
            f"{error.last_worker.address}: see their logs, and give them more memory (--memory-limit); {KEPT}"
        ) from error
    except (OSError, ClosedClientError, FutureCancelledError) as error:
        raise ValueError(f"{silent} ({error}); {KEPT}") from error


def _called(common: tuple[Any, ...], index: int, argument: Any) -> Any:
    """Return the outcome of a call, made in a worker process; ValueError if its numbers would be other ones."""
    given, names, expected, call = common
    os.environ |= given
    worker = get_worker()
    here = versions(names, worker.state.nthreads)
    for name, value in expected.items():
        if (own := here.get(name, "is not on PYTHONPATH")) != value:
            why = f"since numbers would depend on it: {name} {own}, not {value}"
            raise ValueError(f"worker {worker.address} is refused, {why}")
    with pinned():
        return call(index, argument)
