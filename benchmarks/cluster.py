"""What a unit costs beside its own time, here, on processes and on a Dask cluster, and what that makes of sweeps.

Measured are analyses of units of a known length, from their keys to their rows on the disk.  A simulation with the
costs of a unit in the driver, the scheduler and a worker is held against these, and then says how long sweeps take on
more cores than this machine has.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from measure import ROOT, seconds

from dplangevin import analyses
from dplangevin.cache import Store

COUNTS = (10, 100, 1_000, 10_000)
LENGTH = 1e-3  # seconds of a unit, asleep
WORKERS = 2


@dataclass(frozen=True)
class Sleeps:
    """An analysis of so many units of a known length."""

    count: int
    length: float

    def units(self) -> list[str]:
        return [str(i) for i in range(self.count)]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        time.sleep(self.length)
        return [{"unit": unit, "seed": seed, "metric": "accuracy", "value": 0.5}]


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, dict[str, psutil.Process]]]:
    """The address of a scheduler with workers on this machine, and their processes."""
    with TemporaryDirectory() as name:
        file = Path(name, "scheduler.json")
        path = os.pathsep.join(str(ROOT / folder) for folder in ("src", "benchmarks"))
        where = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file))
        commands: dict[str, tuple[str, ...]] = {"scheduler": ("scheduler", "--port", "0")}
        more = ("--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--local-directory", name)
        commands |= {f"worker {i}": ("worker", *more) for i in range(workers)}
        started: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for who, words in commands.items():
                started[who] = subprocess.Popen(
                    [sys.executable, "-m", "dask", *words, *where],
                    env={**os.environ, "PYTHONPATH": path},
                    cwd=name,
                    stderr=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
                while not file.exists():
                    time.sleep(0.05)
            from distributed import Client

            with Client(scheduler_file=str(file), set_as_default=False) as client:
                client.wait_for_workers(workers)
            yield str(file), {who: psutil.Process(each.pid) for who, each in started.items()}
        finally:
            for each in started.values():
                each.kill()
                each.wait()


def took(count: int, length: float) -> float:
    """Seconds of a sweep, whose units are then deleted."""
    with TemporaryDirectory() as name:
        store = Store(Path(name, "rows.csv"), Path(name, "units"))
        spec = {"_target_": f"{Sleeps.__module__}.Sleeps", "count": count, "length": length}
        return seconds(lambda: store.write(analyses.run(spec, 0, store)))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import cluster as me

    os.environ["DPL_WORKERS"] = "1"
    for n in (10, 100, 1000):
        c0 = psutil.Process().cpu_times()
        t = me.took(n, LENGTH)
        c1 = psutil.Process().cpu_times()
        print(
            "here",
            n,
            t,
            (t / n - LENGTH) * 1e3,
            "ms cpu",
            (c1.user + c1.system - c0.user - c0.system) / n * 1e3,
        )
    os.environ["DPL_WORKERS"] = "2"
    for n in (2, 10, 100, 1000):
        t = me.took(n, LENGTH)
        print("loky", n, t, (t / n - LENGTH / 2) * 1e3)
    with me.cluster(2) as (address, processes):
        os.environ["DPL_CLUSTER"] = address
        me.took(4, LENGTH)
        for n, L in ((10, LENGTH), (100, LENGTH), (1000, LENGTH), (1000, 0.02), (1000, 0.0)):
            ps = {**processes, "driver": psutil.Process()}
            c0 = {k: sum(p.cpu_times()[:2]) for k, p in ps.items()}
            t = me.took(n, L)
            c1 = {k: sum(p.cpu_times()[:2]) for k, p in ps.items()}
            print(
                "dask", n, L, t, (t / n - L / 2) * 1e3, {k: round((c1[k] - c0[k]) / n * 1e3, 2) for k in ps}
            )
