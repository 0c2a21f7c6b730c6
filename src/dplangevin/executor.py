"""Where units of work are computed: in this process, on the cores of this machine, or on a Dask cluster.

A piece of work is a picklable function of one argument.  `computed` calls it for many, wherever that is, and gives back
what came of each: the rows are the same everywhere, and who asked for them keeps them.  One worker is this process,
several are joblib's; where the environment variable DPL_CLUSTER names a scheduler, the workers are Dask's.

On a cluster each call is a future, since joblib's backend for Dask knows neither resources nor a lost connection.  The
function travels once, as the argument of a task whose result the calls share, so that the scheduler can send it to
workers that join later.  Some calls wait beside each worker, the others in this process: what is lost with a worker,
Dask computes again; what is lost with the connection is asked for again, by the same name, under which a call that is
at work on the cluster is found.  Every worker process computes on one thread, one call at a time.
"""

import os
import sys
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch

from dplangevin.arithmetic import described, pinned
from dplangevin.cache import PACKAGE, code_hash, package_hash, reachable
from dplangevin.device import KINDS, pick

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
R = TypeVar("R")

CLUSTER = "DPL_CLUSTER"  # environment: tcp://HOST:PORT, tls://HOST:PORT, or the path of a scheduler file
PROTOCOLS = ("tcp://", "tls://", "ws://", "wss://", "ucx://")
PATIENCE = 600.0  # seconds in which a scheduler that was there must be there again
FIRST = 30.0  # seconds in which one must answer at first
WAITING = 2  # calls at or beside each worker
SEEN = 5.0  # seconds between two looks at which workers there are
STATED = ("torch", "numpy", "scipy", "pandas")  # libraries that workers must have the same version of


class Need(NamedTuple):
    """What a call needs beside the one thread of its worker.  memory: bytes, estimated; gpu: how many are of use to
    it."""

    memory: float = 0.0
    gpu: int = 0


class Done(NamedTuple, Generic[R]):
    """What came of the argument at a place: value, or the error why there is none; made: the arithmetic of it."""

    place: int
    value: R | None
    error: Exception | None
    made: str


def computed(
    function: Callable[[T], R],
    arguments: Sequence[T],
    need: Need = Need(),  # noqa: B008
    code: Sequence[str] = (),
    apart: bool = True,
) -> Iterator[Done[R]]:
    """What comes of `function` for every argument, as it is finished; an Exception of one stops no other.

    need: of each call.  code: what is not of this package among what it calls, by name, which workers must have the
    same of.  apart: calls run side by side on this machine; else one after the other, where no cluster is named.
    ValueError where the scheduler cannot be reached or its workers are refused: then nothing is computed.
    """
    if not arguments:
        return
    if cluster := os.environ.get(CLUSTER):
        yield from _Cluster(cluster, need, code).computed(function, arguments)
        return
    jobs = min(workers(), len(arguments)) if apart else 1
    if jobs == 1 or (need.gpu and pick().type == "cuda"):  # one process has the GPU
        for each in enumerate(arguments):
            yield _attempted(function, *each)
        return
    from joblib import Parallel, delayed

    calls = (delayed(_attempted)(function, *each) for each in enumerate(arguments))
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)


def workers() -> int:
    """Processes of this machine: DPL_WORKERS, or the cores there are.  ValueError for anything but a positive
    integer."""
    from joblib import cpu_count

    given = os.environ.get("DPL_WORKERS", "")
    if given and not (given.isdecimal() and int(given) > 0):
        raise ValueError(f"DPL_WORKERS = {given!r} must be a positive integer; unset it to use every core")
    return int(given) if given else cpu_count()


def _attempted(function: Callable[[T], R], index: int, argument: T) -> Done[R]:
    """The call, in the process that it is for."""
    try:
        return Done(index, function(argument), None, _arithmetic(torch.get_num_threads(), pick()))
    except Exception as error:
        return Done(index, None, _portable(error), "")


def _portable(error: Exception) -> Exception:
    """The error with its traceback as a note, as one that can be sent to another process."""
    import pickle

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


# On a cluster


class Job(NamedTuple):
    """What all calls share: the function, and what a worker must have the same of."""

    function: Callable[[Any], Any]
    code: Sequence[str]
    versions: Mapping[str, str]


class Refused(Exception):
    """A worker has not the versions of the process that asks."""


class _Lost(Exception):
    """The connection to the scheduler is lost."""


def versions(code: Sequence[str]) -> dict[str, str]:
    """What decides numbers, of this process: Python, libraries, the code of this package and of others.

    A build, as in 2.13.0+cpu, is left out: that of a worker with a GPU is another, and is listed with its rows.
    """
    found = {name: version(name).partition("+")[0] for name in STATED}
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = [name for name in code if name.partition(".")[0] != PACKAGE]
    return {"Python": here, **found, PACKAGE: _package(), **{name: _code(name) for name in sorted(own)}}


@cache
def _package() -> str:
    """Hash of the code as it was when this process first asked."""
    return package_hash()[:12]


@cache
def _code(name: str) -> str:
    return code_hash(name)[:12] if reachable([name]) else "is not on PYTHONPATH"


class _Cluster:
    """The workers of a scheduler.

    ValueError for an address that is none, and without Dask.
    """

    def __init__(self, address: str, need: Need, code: Sequence[str]) -> None:
        if not address.startswith(PROTOCOLS) and not Path(address).is_file():
            raise ValueError(
                f"{CLUSTER} = {address!r} is neither an address, such as tcp://HOST:8786, nor a scheduler file"
            )
        try:
            import distributed  # noqa: F401
        except ImportError as error:
            raise ValueError(f"{CLUSTER} needs Dask: pip install 'dplangevin[cluster]' ({error})") from error
        self.address, self.need, self.code = address, need, code
        self.versions = versions(code)

    def computed(self, function: Callable[[T], R], arguments: Sequence[T]) -> Iterator[Done[R]]:
        import cloudpickle

        job = cloudpickle.dumps(Job(function, self.code, self.versions))
        left, name, patience = dict(enumerate(arguments)), f"{PACKAGE}-{uuid.uuid4().hex}", FIRST
        while left:
            try:
                with self.connected(patience) as client:
                    patience = PATIENCE
                    for done in self.gathered(client, job, left, name):
                        del left[done.place]
                        yield done
            except _Lost:
                print(
                    f"The connection to {self.address} is lost: {len(left)} of {len(arguments)} are asked for again",
                    file=sys.stderr,
                )
                time.sleep(1)

    @contextmanager
    def connected(self, patience: float) -> Iterator["Client"]:
        from distributed import Client
        from distributed.client import ClosedClientError

        place = {"address" if self.address.startswith(PROTOCOLS) else "scheduler_file": self.address}
        try:
            client = Client(**place, timeout=patience, set_as_default=False, name="dplangevin")
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(
                f"no scheduler answers at {CLUSTER} = {self.address} for {patience:.0f} s ({error}): start one with "
                "`dask scheduler`; units that were finished are kept"
            ) from error
        try:
            yield client
        except (OSError, CancelledError, ClosedClientError) as error:
            raise _Lost from error
        finally:
            client.close(timeout=5)

    def gathered(
        self, client: "Client", job: bytes, left: Mapping[int, Any], name: str
    ) -> Iterator[Done[Any]]:
        """What comes of what is left.  _Lost, or OSError, with the connection."""
        import dask
        from distributed import as_completed, fire_and_forget

        offered = self.accepted(client)
        resources = self.asked(offered)
        device = "cuda" if "GPU" in resources else "cpu"
        todo, running = deque(left.items()), dict["Future", int]()
        finished, slots, looked = (
            as_completed(loop=client.loop),
            len(offered),
            time.monotonic(),
        )
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):  # a user's table
            shared = client.submit(_same, job, key=name, pure=False)

        def fill() -> None:
            while todo and len(running) < WAITING * slots:
                index, argument = todo.popleft()
                call = shared, device, os.environ.get("DPL_MEMORY"), index, argument
                future = client.submit(_called, *call, key=f"{name}-{index}", resources=resources, pure=False)
                fire_and_forget(future)  # goes on where the connection is lost, and is found by its key
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
                    yield Done(running.pop(future), None, self.told(client, future.exception()), "")
                if time.monotonic() - looked > SEEN:
                    slots, looked = max(1, len(client.nthreads())), time.monotonic()
                fill()
        finally:
            if running and client.status == "running":
                client.cancel([*running], force=True)

    def told(self, client: "Client", error: Exception) -> Exception:
        """The error of a call that no worker finished.  ValueError where one refuses it, that joined later."""
        from distributed import KilledWorker

        if isinstance(error, Refused):
            self.accepted(client)
            raise _Lost  # it has left again
        if isinstance(error, KilledWorker):
            return ValueError(
                f"{error.allowed_failures + 1} workers ended while they computed this, the last at "
                f"{error.last_worker.address}: see their logs, and give them more memory (--memory-limit)"
            )
        return error

    def accepted(self, client: "Client") -> dict[str, Mapping[str, float]]:
        """The resources of the workers by address, waited for until there is one.

        ValueError, with what is another, where one has not the versions of this process or several threads.
        """
        if not client.nthreads():
            print(f"{self.address} has no worker yet: waiting for the first", file=sys.stderr)
            client.wait_for_workers(1)
        found = client.run(versions, self.code, on_error="return")
        stated = client.scheduler_info(n_workers=-1)["workers"]
        wrong: dict[str, list[str]] = {}
        for address, theirs in found.items():
            if isinstance(theirs, Exception):
                what = [f"no dplangevin like this one can be imported ({theirs})"]
            else:
                pairs = {key: (theirs.get(key), own) for key, own in self.versions.items()}
                what = [f"{key} {their}, here {own}" for key, (their, own) in pairs.items() if their != own]
            if address in stated and (threads := stated[address]["nthreads"]) != 1:
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
        print(f"{self.address}: {len(found)} workers; dashboard {client.dashboard_link}", file=sys.stderr)
        return {address: stated[address]["resources"] if address in stated else {} for address in found}

    def asked(self, offered: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """The resources that a call asks for: those that it needs and that workers declare.

        ValueError where no worker has enough, for which a call would wait for ever.
        """
        declared = {name for each in offered.values() for name in each}
        kind = os.environ.get("DPL_DEVICE") or "auto"
        if kind not in KINDS:
            raise ValueError(f"DPL_DEVICE = {kind!r} must be one of {', '.join(KINDS)}")
        if self.need.gpu and kind == "cuda" and "GPU" not in declared:
            raise ValueError(
                f"DPL_DEVICE = 'cuda', but no worker declares a GPU: --resources GPU=1 ({self.address})"
            )
        needed = {"GPU": self.need.gpu if kind != "cpu" else 0, "MEMORY": self.need.memory}
        found = {name: value for name, value in needed.items() if value and name in declared}
        if not any(
            all(each.get(name, 0) >= value for name, value in found.items()) for each in offered.values()
        ):
            raise ValueError(f"no worker of {self.address} has {found}: declare more with --resources")
        return found


def _same(content: bytes) -> bytes:
    return content


def _called(content: bytes, device: str, memory: str | None, index: int, argument: Any) -> Done[Any]:
    """A call, in the process of a worker.  device, memory: DPL_DEVICE and DPL_MEMORY, which decide numbers."""
    job = _loaded(content)
    os.environ |= {"DPL_DEVICE": device, **({"DPL_MEMORY": memory} if memory else {})}
    with pinned():
        return _attempted(job.function, index, argument)


@lru_cache(maxsize=1)
def _loaded(content: bytes) -> Job:
    import cloudpickle

    job: Job = cloudpickle.loads(content)
    if versions(job.code) != job.versions:
        raise Refused
    return job
