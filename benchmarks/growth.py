"""How the cost of a chain-step grows with chains, rows and features, beside what the machine's arithmetic and memory
allow; with --write also to benchmarks/growth.csv and, drawn, growth.png.

A step of C = 10 E chains at d features and batches of B rows multiplies 4 B d C numbers (two products of matrices) and
gathers B d numbers for each of the ten seeds.  Its least time is the first by the measured rate of a product of large
matrices, and the second by the measured rate of a copy.  Timed are steps inside a run, from just after the
random numbers of 64 steps are drawn to just after another such time; the column "once_us" is what comes before the
first step, for all chains (rows are laid out in cache lines, and the random numbers of 64 steps drawn).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pandas as pd
import torch
from machine import describe
from measure import ROOT, Options, Row, isolated
from roofline import Machine

from dplangevin import random
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Descent, Glm
from dplangevin.problems.losses import LOGISTIC
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import AT_ONCE, run

SEEDS, BATCH = 10, 512
CHAINS = (1, 10, 110, 1_000, 10_000)
ROWS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
FEATURES = (10, 30, 109, 300, 1_000, 3_000, 10_000)
USUAL = {"chains": 110, "rows": 32_561, "features": 109}
OF_ROWS = 20  # features where rows are many
WORK = 4e9  # multiplications of a run, about


def least(machine: Machine, chains: int, features: int, batch: int, seeds: int) -> tuple[float, float]:
    """Return the least seconds of the products of a step of all chains, and of its gathering."""
    gathered = 2 * 4 * seeds * batch * features
    return 4 * batch * features * chains / machine.flops, gathered / machine.bytes


@dataclass(frozen=True)
class Timed(Glm):
    """began: when each step of the last run did, in seconds."""

    began: list[float] = field(default_factory=list)

    def descent(self, chains: Sequence[Chain]) -> Descent:
        step = super().descent(chains)
        assert step is not None  # only chains on all rows have none
        self.began.clear()

        def timed(*args: Any) -> None:
            self.began.append(time.perf_counter())
            step(*args)

        return timed


def rows(options: Options) -> list[Row]:
    found, text = [], describe(options.threads, options.scale)
    few = {"chains": CHAINS, "rows": ROWS, "features": FEATURES}
    for axis, values in few.items():
        for value in values if options.scale == "laptop" else values[:2]:
            found.append(isolated(options.threads, point, axis, value, options.runs))
    table = pd.DataFrame(found).assign(cpu=text.split("\n")[0].split(",")[0], threads=options.threads)
    if options.write:
        folder = ROOT / "benchmarks"
        table.to_csv(folder / "growth.csv", index=False, float_format="%.4g")
        figure(table).savefig(folder / "growth.png", dpi=150)
    rates = f"{table.gflops.median():.0f} GFLOP/s, {table.gbytes.median():.1f} GB/s"
    machine = Row(
        "product of 2048 x 2048 matrices, float32; copy of 2^26 numbers, read and written",
        *(rates, "-", "-", "-", "-", str(options.threads)),
        f"medians over {len(table)} processes of medians of {options.runs}",
    )
    return [machine, *(row(each, options) for each in found)]


def row(found: dict[str, Any], options: Options) -> Row:
    least = found["products_us"] + found["gathering_us"]
    return Row(
        f"one chain-step, {found['chains']:,} chains, {found['rows']:,} rows, {found['features']:,} features",
        f"{found['us']:.2f} us",
        f"least: products {found['products_us']:.2f}, gathering {found['gathering_us']:.2f} us",
        f"{found['us'] / least:.1f} times the least",
        *("-", "-", str(options.threads)),
        f"median of {options.runs}, {found['steps']} steps, batch {found['batch']}; "
        f"once a run: {found['once_us'] / 1e6:.2f} s",
    )


def point(axis: str, value: int, runs: int) -> dict[str, Any]:
    """One measured number of microseconds a chain-step."""
    of = {**USUAL, **({"features": OF_ROWS} if axis == "rows" else {}), axis: value}
    chains, rows, features = of["chains"], of["rows"], of["features"]
    batch, seeds = min(BATCH, rows // 2), min(SEEDS, chains)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(1, rows, features, generator=rng).mul_(features**-0.5 / 2)
    y = torch.where(torch.rand(1, rows, generator=rng) < 0.5, -1.0, 1.0)
    problem = Timed(x, y, LOGISTIC, row_bound=1.0)
    steps = AT_ONCE[True] * max(1, min(16, int(WORK / (4 * AT_ONCE[True] * batch * features * chains))))
    size = torch.full((steps + 2 * AT_ONCE[True],), 1e-3, dtype=torch.float64)
    sampling = Sampling("poisson", batch, (len(size) + 0.5) * batch / rows)
    chain = Chain(size, torch.ones_like(size), sampling, 1.0, l2=1e-3)
    times = []
    for _ in range(runs + 1):  # the first warms up
        start = time.perf_counter()
        run(problem, [chain] * (chains // seeds), seeds, random.generator(0, "bench/growth"))
        first, last = (problem.began[at] for at in (AT_ONCE[True], AT_ONCE[True] + steps))
        times.append((problem.began[0] - start, (last - first) / steps))
    once, taken = (median(each) for each in zip(*times[1:], strict=True))
    machine, each = Machine.measured(runs), 1e6 / chains
    products, gathering = least(machine, chains, features, batch, seeds)
    found = {"us": each * taken, "products_us": each * products, "gathering_us": each * gathering}
    found |= {"once_us": 1e6 * once, "gflops": machine.flops / 1e9, "gbytes": machine.bytes / 1e9}
    return {"axis": axis, **of, "batch": batch, "steps": steps, **found}


def figure(table: pd.DataFrame) -> Any:
    """A panel an axis: measured, and the limits that the machine's rates set."""
    import matplotlib.pyplot as plt

    limits = (
        f"products at {table.gflops.median():.0f} GFLOP/s",
        f"gathering at {table.gbytes.median():.0f} GB/s",
    )
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.9), sharey=True, layout="constrained")
    for panel, (axis, rows) in zip(panels, table.groupby("axis", sort=False), strict=True):
        panel.loglog(rows[axis], rows.us, "o-", label="measured")
        panel.loglog(rows[axis], rows.products_us, "--", color="0.3", label=limits[0])
        panel.loglog(rows[axis], rows.gathering_us, ":", color="0.3", label=limits[1])
        fixed = {name: rows[name].iloc[0] for name in USUAL if name != axis}
        panel.set_xlabel(f"{axis}\n({', '.join(f'{value:,} {name}' for name, value in fixed.items())})")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("µs a chain-step")
    panels[0].legend(frameon=False)
    figure.suptitle("DP-SGD on a linear model, Poisson batches of 512, clipped", fontsize=11)
    return figure
