"""What a unit costs beside its own time, here, on processes and on a Dask cluster, and what that makes of sweeps.

Measured are analyses of units of a known length, asleep, from their keys to their rows on the disk, and the processor
time that a unit takes of the driver, the scheduler and a worker.  A simulation with these costs is held against the
measured times, and then says how long sweeps take on more cores than this machine has.
"""

import heapq
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd
import psutil
from hydra.utils import instantiate
from measure import ROOT, Options, Row, seconds
from omegaconf import DictConfig
from scipy.optimize import brentq

from dplangevin.methods import ChainMethod
from dplangevin.papers import analyses
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.cluster import WAITING
from dplangevin.pipeline.config import compose
from dplangevin.pipeline.executor import CLUSTER
from dplangevin.pipeline.plan import runs, tasks_of
from dplangevin.pipeline.sweep import TOGETHER

COUNTS = (10, 100, 1_000, 10_000)
LENGTH, LONGER = 1e-3, 20e-3  # seconds of a unit
MANY = 10_000  # units that Dask is timed with once: 118 s
CORES = (10, 100, 1_000)
TIMES = 10  # the grids of the papers, so many times over
SWEEP = 100_000  # units

# Seconds that other files of benchmarks/ and docs/speed.md state, of one core
HEAD = 0.25  # a run and seed of softmax regression on features, all runs at once
NETWORKS = {  # a run and seed, on average: docs/speed.md has the minutes
    "li2019_tab1": 129 * 60 / 67,
    "li2019_gan": 101 * 60 / 72,
    "ryffel2022_tab3": 3600 / 38,
    "ryffel2022_tab3_resnet18": 3600 / 38,
}
CHAIN_STEP = 7.7e-6  # of DP-SGLD on Adult at batch 512, as 110 chains take it
STEPS, REPEATS = 1_908, 10  # its 30 epochs
PLAN = (
    4.5e-3  # key and plan of a unit in the driver, before the first is sent: dp_sgld on 4 features, 200 units
)
NETWORK_DELAY = 1e-3  # seconds of a message between machines


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


class Costs(NamedTuple):
    """Seconds of a processor that a unit takes of each, beside its own length; delay: of a message."""

    driver: float
    scheduler: float
    worker: float
    delay: float = 0.0

    def slowed(self, by: float) -> "Costs":
        """Where all of these share too few cores with one another and with other programs."""
        return Costs(by * self.driver, by * self.scheduler, by * self.worker, self.delay)


def simulated(lengths: Sequence[float], workers: int, costs: Costs) -> float:
    """Seconds until the last unit is kept.

    The driver sends a unit (a quarter of its cost), the scheduler passes it on (half), a worker computes it, the
    scheduler hears of it (half), the driver keeps it and sends another, so that `WAITING` a worker are under way.  Each
    does one thing at a time, in order.
    """
    driver, scheduler, worker, _ = costs
    services = [driver / 4, scheduler / 2, worker, scheduler / 2, driver * 3 / 4]
    free: dict[Any, float] = defaultdict(float)
    load = [0] * workers
    idle = [(0, i) for i in range(workers)]
    first = min(len(lengths), WAITING * workers)
    events = [(0.0, i, 0, 0) for i in range(first)]
    sent, end = first, 0.0
    while events:
        at, unit, phase, who = heapq.heappop(events)
        if phase == 2:
            while idle[0][0] != load[idle[0][1]]:
                heapq.heappop(idle)
            who = heapq.heappop(idle)[1]
            load[who] += 1
            heapq.heappush(idle, (load[who], who))
        server = ("driver", "scheduler", who, "scheduler", "driver")[phase]
        done = max(at, free[server]) + services[phase] + (lengths[unit] if phase == 2 else 0.0)
        free[server] = end = done
        if phase < 4:
            heapq.heappush(events, (done + costs.delay, unit, phase + 1, who))
        elif sent < len(lengths):
            heapq.heappush(events, (done, sent, 0, 0))
            sent += 1
        if phase == 3:
            load[who] -= 1
            heapq.heappush(idle, (load[who], who))
    return end


# Measured


@contextmanager
def cluster(workers: int) -> Iterator[list[psutil.Process]]:
    """Run a scheduler and workers on this machine; their processes, the scheduler's first."""
    with TemporaryDirectory() as name:
        file = Path(name, "scheduler.json")
        path = os.pathsep.join(str(ROOT / folder) for folder in ("src", "benchmarks"))
        own = ("--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--local-directory", name)
        commands = [("scheduler", "--port", "0"), *[("worker", *own)] * workers]
        started: list[subprocess.Popen[bytes]] = []
        try:
            for words in commands:
                where = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file))
                command = [sys.executable, "-m", "dask", *words, *where]
                env, nothing = {**os.environ, "PYTHONPATH": path}, subprocess.DEVNULL
                started.append(subprocess.Popen(command, env=env, cwd=name, stderr=nothing, stdout=nothing))
                while not file.exists():
                    time.sleep(0.05)
            from distributed import Client

            with Client(scheduler_file=str(file), set_as_default=False) as client:
                client.wait_for_workers(workers)
            os.environ[CLUSTER] = str(file)
            took(2 * workers, LENGTH)  # which imports what is needed
            yield [psutil.Process(each.pid) for each in started]
        finally:
            os.environ.pop(CLUSTER, None)
            for each in started:
                each.kill()
                each.wait()


def took(count: int, length: float) -> float:
    """Seconds of a sweep, whose units are then deleted."""
    with TemporaryDirectory() as name, redirect_stderr(StringIO()):
        store = Store(Path(name, "rows.csv"), Path(name, "units"))
        spec = {"_target_": f"{Sleeps.__module__}.{Sleeps.__name__}", "count": count, "length": length}
        return seconds(lambda: store.write(analyses.run(spec, 0, store)))


def local(workers: int, count: int, again: int) -> list[float]:
    """Seconds of sweeps in this process, or on processes, after one that starts them and imports what is needed."""
    os.environ["DPL_WORKERS"] = str(workers)
    took(2 * workers, LENGTH)
    return [took(count, LENGTH) for _ in range(again)]


def processor(processes: Sequence[psutil.Process]) -> list[float]:
    return [sum(each.cpu_times()[:2]) for each in processes]


def measured(counts: Sequence[int], again: int) -> list[Row]:
    """Overhead by count and by where units run; of Dask against the simulation."""
    found, kept = [], 0.0
    for title, workers in (("in this process", 1), ("2 processes", 2)):
        for count in counts:
            (before,), these = processor([psutil.Process()]), local(workers, count, again)
            if (workers, count) == (1, 1_000):
                kept = (processor([psutil.Process()])[0] - before) / (again * count)
            found.append(
                row(f"{count:,} units of 1 ms, {title}", median(these), count, LENGTH / workers, again)
            )
    times: dict[tuple[int, int, float], float] = {}
    with cluster(2) as processes:
        start, n, all_of = took(1, LENGTH), 1_000, [psutil.Process(), *processes]
        earlier = processor(all_of)
        times[2, n, LENGTH] = median(took(n, LENGTH) for _ in range(again))
        driver, scheduler, *own = (b - a for a, b in zip(earlier, processor(all_of), strict=True))
        costs = Costs(*(spent / (again * n) for spent in (driver, scheduler, sum(own))))
        times[2, n, LONGER] = median(took(n, LONGER) for _ in range(again))
        for count in {*counts} - {n}:
            times[2, count, LENGTH] = median(took(count, LENGTH) for _ in range(often(count, again)))
    with cluster(4) as processes:
        times[4, n, LONGER] = median(took(n, LONGER) for _ in range(again))
    given = times[2, n, LENGTH]

    def beyond(slower: float) -> float:
        return start + simulated([LENGTH] * n, 2, costs.slowed(slower)) - given

    slower = float(brentq(beyond, 0.01, 100.0, xtol=1e-3))
    for (workers, count, length), seconds_ in sorted(times.items()):
        expected = start + simulated([length] * count, workers, costs.slowed(slower))
        what = f"{count:,} units of {length * 1e3:g} ms, Dask, {workers} workers"
        checks = (count, length) != (n, LENGTH)
        found.append(row(what, seconds_, count, length / workers, often(count, again), expected, checks))
    each = f"driver {costs.driver * 1e3:.1f} ms, scheduler {costs.scheduler * 1e3:.1f}, worker {costs.worker * 1e3:.1f}"
    how = f"processor time over 1,000 units of 1 ms; on this machine all that took {slower:.1f} times as long"
    found.append(Row("a unit on Dask, beside its own time", each, "-", "-", "-", "-", "1", how))
    return [*found, *predicted(costs._replace(delay=NETWORK_DELAY), start, kept)]


def often(count: int, again: int) -> int:
    """How many sweeps of that many units Dask is timed with."""
    return 1 if count >= MANY else again


def row(
    what: str,
    took: float,
    count: int,
    ideal: float,
    runs: int,
    expected: float | None = None,
    checks: bool = True,
) -> Row:
    each = f"{(took - count * ideal) / count * 1e3:.2f} ms a unit"
    how = "run once" if runs == 1 else f"median of {runs}"
    if expected is None:
        return Row(what, f"{took:.2f} s", "-", each, "-", "-", "1", f"{how}; beside the units' own time")
    how += "; against the simulation" if checks else "; what the simulation was given"
    return Row(what, f"{took:.2f} s", f"simulated {expected:.2f} s", each, "-", "-", "1", how)


# Predicted


def tasks(cfg: DictConfig, experiment: str, dataset: str, table: pd.Series) -> list[float]:
    """Seconds of each task of an experiment, `TIMES` over: chains that are run together, or a unit."""
    spec, found = cfg.experiment[experiment], list[float]()
    chains: dict[Any, list[tuple[int, float]]] = defaultdict(list)
    for run in runs(cfg, experiment, dataset):
        method = instantiate(run.config)
        together = isinstance(method, ChainMethod) and type(method).kernel is ChainMethod.kernel
        each = table.get((dataset, run.method), 30 * HEAD) / 30  # of a table: 3 budgets, 10 repeats
        if apart(spec):
            each = NETWORKS[experiment]
        for task in tasks_of(cfg, experiment, run, dataset):
            fits = len(task.epsilons) * run.seeds
            if together and not apart(spec):
                chains[task.scaling, run.seeds, run.stream] += [(fits, fits * each)] * TIMES
            else:
                found += [fits * each] * TIMES
    for pieces in chains.values():
        room = 0
        for fits, length in pieces:
            if fits > room:
                found.append(0.0)
                room = TOGETHER
            found[-1] += length
            room -= fits
    return found


def apart(spec: DictConfig) -> bool:
    """Whether an experiment is of networks."""
    return bool(spec.get("one_budget_per_task") or spec.get("curve"))


def predicted(costs: Costs, start: float, kept: float) -> list[Row]:
    """The papers' grids, `TIMES` over, and sweeps of `SWEEP` units, on more cores.  kept: seconds of the driver for
    each further unit of a task."""
    cfg = compose()
    timed = pd.read_csv(ROOT / "benchmarks/methods.csv")
    table = timed[timed.experiment.eq("compare")].set_index(["dataset", "method"]).seconds
    stages = {
        (str(name), dataset): tasks(cfg, str(name), dataset, table)
        for name, spec in cfg.experiment.items()
        for dataset in spec.datasets
    }
    linear = [lengths for (name, _), lengths in stages.items() if not apart(cfg.experiment[name])]
    networks = [lengths for (name, _), lengths in stages.items() if apart(cfg.experiment[name])]
    of_adult = table["adult"]
    sweeps: dict[str, list[list[float]]] = {
        f"linear models of the papers, {TIMES} times over": linear,
        f"networks of the papers, {TIMES} times over": networks,
        f"sweep of {SWEEP:,} units of objpert on Adult": [[of_adult["objpert"] / 3] * SWEEP],
        f"sweep of {SWEEP:,} units of ops on Adult": [[of_adult["ops"] / 3] * SWEEP],
        f"sweep of {SWEEP:,} units of dp_sgld on Adult": [
            [TOGETHER * STEPS * CHAIN_STEP] * (SWEEP * REPEATS // TOGETHER)
        ],
    }
    found = []
    for title, parts in sweeps.items():
        total, longest, count = sum(map(sum, parts)), max(map(max, parts)), sum(map(len, parts))
        own = SWEEP if "sweep" in title else count
        each = costs._replace(driver=costs.driver + kept * (own / count - 1))
        for cores in CORES:
            took = sum(start + simulated(lengths, cores, each) for lengths in parts) + PLAN * own
            how = f"{count:,} tasks in {len(parts)} stages, "
            how += f"{hours(total)} of one core, the longest {hours(longest)}"
            busy = f"{100 * total / (took * cores):.0f} % of the cores"
            found.append(
                Row(f"{title}, {cores:,} cores", hours(took), "-", busy, "-", "-", "1", f"simulated; {how}")
            )
    for length in (0.1, 1.0, 10.0, 100.0):
        most = int(length / max(costs.driver, costs.scheduler))
        how = "more wait for the driver or the scheduler"
        found.append(Row(f"units of {length:g} s", f"up to {most:,} cores", "-", "-", "-", "-", "1", how))
    return found


def hours(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def rows(options: Options) -> list[Row]:
    return measured(COUNTS if options.full or options.scale == "laptop" else COUNTS[:3], options.runs)
