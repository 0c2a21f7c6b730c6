"""The complete grid of Figure 1c, Adult, through `dplangevin.experiment.sweep`: seconds and memory of each method."""

import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import adult
from measure import Options, Row, isolated, verdict

from dplangevin.experiment import sweep
from dplangevin.posterior import R_HAT

EXHIBIT = "wang2015_fig1c"
MINUTES, GIGABYTES = 6, 6
TO_BYTES = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in


class Cost(NamedTuple):
    """seconds: of the whole process, imports included; gigabytes: its peak; r_hat: the worst, None without chains."""

    seconds: float
    gigabytes: float
    r_hat: float | None


def rows(options: Options) -> list[Row]:
    cfg = adult.config(options.scale)
    costs: dict[str, Cost] = {}
    with TemporaryDirectory() as folder:
        data = adult.prepare(cfg, Path(folder))
        for method in cfg.exhibit[EXHIBIT].files:
            start = time.perf_counter()
            memory, r_hat = isolated(
                options.threads, one, method, options.scale, data, Path(folder) / "units"
            )
            costs[method] = Cost(time.perf_counter() - start, memory, r_hat)
    size = f"{len(adult.budgets(cfg))} budgets x {cfg.repeats} repeats"
    found = [
        Row(
            f"Figure 1c, {method}",
            f"{cost.seconds:.1f} s, {cost.gigabytes:.2f} GB",
            "-",
            "-" if cost.r_hat is None else f"worst R-hat {cost.r_hat:.3f}",
            "-" if cost.r_hat is None else f"R-hat < {R_HAT}",
            "-" if cost.r_hat is None else verdict(cost.r_hat < R_HAT),
            str(options.threads),
            f"one process, run once, {'one fit' if method == 'nonprivate' else size}",
        )
        for method, cost in costs.items()
    ]
    mixed = all(cost.r_hat is None or cost.r_hat < R_HAT for cost in costs.values())
    total, peak = sum(c.seconds for c in costs.values()), max(c.gigabytes for c in costs.values())
    found.append(
        Row(
            f"Figure 1c, all {len(costs)} methods",
            f"{total:.0f} s, {peak:.2f} GB",
            "-",
            f"{total / 60:.1f} minutes, {'all mixed' if mixed else 'not all mixed'}",
            f"< {MINUTES} minutes, < {GIGABYTES} GB, R-hat < {R_HAT}",
            verdict(mixed and total < 60 * MINUTES and peak < GIGABYTES),
            str(options.threads),
            "sum of seconds, largest memory; one process after the other",
        )
    )
    return found


def one(method: str, scale: str, data: Path, units: Path) -> tuple[float, float | None]:
    """Run one method; peak memory of this process in GB (1e9 bytes) and the worst R-hat, None without chains."""
    frame = sweep(adult.config(scale), adult.EXPERIMENT, adult.KEY, method, data, units)
    r_hat = frame.loc[frame.metric == "r_hat", "value"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * TO_BYTES / 1e9
    return memory, None if r_hat.empty else float(r_hat.max())
