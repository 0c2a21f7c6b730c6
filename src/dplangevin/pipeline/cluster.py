"""Execution of tasks on the workers of a Dask cluster; only this module needs Dask.

Each call is a future, because joblib's backend for Dask supports no resources and does not survive a lost
connection.  The data that all calls share are sent to each worker once.  A few calls wait at each worker, the
others in this process.  If a worker is lost, Dask computes its calls again.  If the connection is lost, this
process submits the remaining calls again under the same keys.  Dask finds by its key a call that still runs
on the cluster.  Every worker process computes on one thread, one call at a time.
"""

import os
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
from distributed import Client, Future, KilledWorker, WorkerPlugin, as_completed, fire_and_forget, get_worker
from distributed.client import ClosedClientError

from dplangevin.device import pick
from dplangevin.pipeline.code import PACKAGE, code_hash, package_hash, reachable
from dplangevin.pipeline.environment import libraries, pinned
from dplangevin.pipeline.executor import CLUSTER, Done, R, Resources, T, attempted

PROTOCOLS = ("tcp://", "tls://", "ws://", "wss://", "ucx://")
PATIENCE = 600.0  # seconds to wait for a scheduler that has answered before
FIRST = 30.0  # seconds to wait for the first answer of a scheduler
CARRIED = "DPL_MEMORY", "DPL_RANDOM"  # variables of the driver that affect numbers, for the workers
WAITING = 2  # calls that run or wait at each worker
REFUSALS = 10  # how often a check may find that the workers in question are gone
SEEN = 5.0  # seconds between two counts of the workers


class Job(NamedTuple):
    """The data that all calls share.

    - `function`: callable of one argument.
    - `code`: names of modules or objects that the function calls.
    - `versions`: what `versions` returns in the submitting process; a worker must have the same.
    """

    function: Callable[[Any], Any]
    code: Sequence[str]
    versions: Mapping[str, str]


class Carrier(WorkerPlugin):
    """A Dask plugin that brings a job to every worker, also to workers that join later."""

    def __init__(self, name: str, job: bytes) -> None:
        self.name, self.job = name, job


class Refused(Exception):
    """A worker has other versions than the submitting process."""


class _Lost(Exception):
    """The connection to the scheduler is lost."""


LOST = (_Lost, OSError, CancelledError, ClosedClientError)  # exceptions that show a lost connection


def versions(code: Sequence[str]) -> dict[str, str]:
    """Return the versions of all code that determines numbers, in this process.

    These are Python, libraries, this package, and the modules outside it that `code` names.
    """
    own = [name for name in code if name.partition(".")[0] != PACKAGE]
    return {**libraries(), PACKAGE: _package(), **{name: _code(name) for name in sorted(own)}}


@cache
def _package() -> str:
    """Return the hash of this package's code, as it was when this process first asked."""
    return package_hash()[:12]


@cache
def _code(name: str) -> str:
    """Return the hash of the code of a name outside this package, or a text if it cannot be found."""
    return code_hash(name)[:12] if reachable([name]) else "is not on PYTHONPATH"


class Cluster:
    """The workers of a scheduler.

    - `address`: such as tcp://HOST:8786, or the path of an existing scheduler file; anything else is a ValueError.
    """

    def __init__(self, address: str, resources: Resources, code: Sequence[str]) -> None:
        if not address.startswith(PROTOCOLS) and not Path(address).is_file():
            raise ValueError(
                f"{CLUSTER} = {address!r} is neither an address, such as tcp://HOST:8786, nor a scheduler file"
            )
        self.address, self.resources, self.code = address, resources, code
        self.versions, self.refusals = versions(code), 0

    def computed(self, function: Callable[[T], R], arguments: Sequence[T]) -> Iterator[Done[R]]:
        """Yield the outcome of every call; if the connection is lost, submit the remaining calls again."""
        job = cloudpickle.dumps(Job(function, self.code, self.versions))
        left, name, patience = dict(enumerate(arguments)), f"{PACKAGE}-{uuid.uuid4().hex}", FIRST
        while left:
            try:
                with self.connected(patience) as client:
                    patience = PATIENCE
                    for done in self.gathered(client, job, left, name):
                        del left[done.number]
                        yield done
            except _Lost:
                print(
                    f"The connection to {self.address} is lost: {len(left)} of {len(arguments)} are asked for again",
                    file=sys.stderr,
                )
                time.sleep(1)

    @contextmanager
    def connected(self, patience: float) -> Iterator[Client]:
        """Yield a client of the scheduler, which must answer within `patience` seconds."""
        place = {"address" if self.address.startswith(PROTOCOLS) else "scheduler_file": self.address}
        try:
            client = Client(**place, timeout=patience, set_as_default=False, name="dplangevin")
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(
                f"no scheduler answers at {CLUSTER} = {self.address} for {patience:.0f} s ({error}): start one with "
                "`dask scheduler`; tasks that were finished are kept"
            ) from error
        try:
            yield client
        except LOST as error:
            raise _Lost from error
        finally:
            client.close(timeout=5)

    def gathered(self, client: Client, job: bytes, left: Mapping[int, Any], name: str) -> Iterator[Done[Any]]:
        """Yield the outcomes of the calls in `left`.

        - `client`: Client of the scheduler.
        - `job`: the pickled `Job`.
        - `left`: mapping of the number of each call to its argument.
        - `name`: the name of the job on the workers; the keys of the calls begin with it.
        """
        offered = self.accepted(client)
        resources = self.requested(offered)
        device = _device(resources)
        given = {name: os.environ.get(name) for name in CARRIED}
        todo, running = deque(left.items()), dict[Future, int]()
        finished, slots, looked = as_completed(loop=client.loop), len(offered), time.monotonic()
        client.register_plugin(Carrier(name, job))

        def fill() -> None:
            while todo and len(running) < WAITING * slots:
                index, argument = todo.popleft()
                call = name, {**given, "DPL_DEVICE": device}, index, argument
                future = client.submit(_called, *call, key=f"{name}-{index}", resources=resources, pure=False)
                fire_and_forget(future)  # it keeps running if the connection is lost; its key finds it again
                running[future] = index
                finished.add(future)

        try:
            fill()
            while running:
                batch = finished.next_batch()
                ready = [future for future in batch if future.status == "finished"]
                for future, done in zip(ready, client.gather(ready), strict=True):
                    del running[future]
                    yield done
                for future in batch:
                    if future not in running:
                        continue
                    if future.status != "error":
                        raise _Lost
                    yield Done(running.pop(future), None, self.error_for_user(client, future.exception()), "")
                if time.monotonic() - looked > SEEN:
                    slots, looked = max(1, len(client.nthreads())), time.monotonic()
                fill()
        except LOST:
            raise  # without cancelling: `computed` submits the same calls again
        except BaseException:
            client.cancel([*running], force=True)
            client.unregister_worker_plugin(name)
            raise
        client.unregister_worker_plugin(name)

    def error_for_user(self, client: Client, error: Exception) -> Exception:
        """Return an error, for the user, for a call that no worker finished."""
        if isinstance(error, Refused):
            self.accepted(client)
            self.refusals += 1
            if self.refusals > REFUSALS:
                return ValueError(
                    "a worker says that its versions are not those here, and then that they are: start "
                    "the workers again"
                )
            raise _Lost  # the worker has left
        if isinstance(error, KilledWorker):
            return ValueError(
                f"{error.allowed_failures + 1} workers ended while they computed this, the last at "
                f"{error.last_worker.address}: see their logs, and give them more memory (--memory-limit)"
            )
        return error

    def accepted(self, client: Client) -> dict[str, Mapping[str, float]]:
        """Return the resources of the workers by address; wait until there is a worker."""
        if not client.nthreads():
            print(f"{self.address} has no worker yet: waiting for the first", file=sys.stderr)
            client.wait_for_workers(1)
        answers = client.run(versions, self.code, on_error="return")
        workers = client.scheduler_info(n_workers=-1)["workers"]
        wrong: dict[str, list[str]] = {}
        answers = {address: answer for address, answer in answers.items() if not isinstance(answer, OSError)}
        if not answers:  # all workers have left, or the scheduler cannot reach them
            self.refusals += 1
            if self.refusals > REFUSALS:
                raise ValueError(f"{self.address} reaches none of its workers: start them again")
            raise _Lost
        for address, answer in answers.items():
            if isinstance(answer, Exception):
                what = [f"no dplangevin like this one can be imported ({answer})"]
            else:
                pairs = {key: (answer.get(key), own) for key, own in self.versions.items()}
                what = [f"{key} {their}, here {own}" for key, (their, own) in pairs.items() if their != own]
            if address in workers and (threads := workers[address]["nthreads"]) != 1:
                what.append(
                    f"{threads} threads: start it with --nthreads 1, and with --nworkers for more processes"
                )
            if what:
                wrong.setdefault("; ".join(what), []).append(address)
        if wrong:
            lines = [
                f"{', '.join(who[:3])}{f' and {len(who) - 3} more' if len(who) > 3 else ''}: {what}"
                for what, who in wrong.items()
            ]
            raise ValueError("workers are refused, since numbers would depend on them:\n" + "\n".join(lines))
        print(f"{self.address}: {len(answers)} workers; dashboard {client.dashboard_link}", file=sys.stderr)
        return {address: workers[address]["resources"] if address in workers else {} for address in answers}

    def requested(self, offered: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Return the resources to request for a call: those that it needs and that a worker declares."""
        declared = {name for each in offered.values() for name in each}
        kind = os.environ.get("DPL_DEVICE") or "auto"
        if kind not in ("auto", "cpu", "cuda"):  # which of its GPUs a worker uses is the worker's affair
            raise ValueError(f"DPL_DEVICE = {kind!r} must be auto, cpu or cuda on a cluster")
        if self.resources.gpu and kind == "cuda" and "GPU" not in declared:
            raise ValueError(
                f"DPL_DEVICE = 'cuda', but no worker declares a GPU: --resources GPU=1 ({self.address})"
            )
        needed = {"GPU": self.resources.gpu if kind != "cpu" else 0, "MEMORY": self.resources.memory}
        request = {name: value for name, value in needed.items() if value and name in declared}
        if not any(
            all(each.get(name, 0) >= value for name, value in request.items()) for each in offered.values()
        ):
            raise ValueError(f"no worker of {self.address} has {request}: declare more with --resources")
        if os.environ.get("DPL_RANDOM") == "device" and (there := _device(request)) != pick().type:
            raise ValueError(
                f"DPL_RANDOM = 'device' means {there} on workers, but {pick().type} here, which keys state: unset it"
            )
        return request


def _device(resources: Mapping[str, float]) -> str:
    """Return the device of a call that asks for these resources."""
    return "cuda" if "GPU" in resources else "cpu"


def _called(name: str, variables: Mapping[str, str | None], index: int, argument: Any) -> Done[Any]:
    """Return the outcome of a call, made in a worker process.

    `variables` are the values of environment variables that affect numbers; None for one that is not set.
    """
    job = _loaded(get_worker().plugins[name].job)  # type: ignore[attr-defined]
    for variable, value in variables.items():
        os.environ.pop(variable, None)
        if value is not None:
            os.environ[variable] = value
    with pinned():
        return attempted(job.function, index, argument)


@lru_cache(maxsize=1)
def _loaded(content: bytes) -> Job:
    """Return the job, or raise `Refused` if this worker has other versions."""
    job: Job = cloudpickle.loads(content)
    if versions(job.code) != job.versions:
        raise Refused
    return job
