"""Complete grids on Adult, through `dplangevin.pipeline.sweep.sweep`, with the seconds and the memory of each method.

The grids are those of Figure 1c of wang2015 and of Figure 3 of li2019.
"""

import io
import os
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import adult
import pandas as pd
from measure import Options, Row, end_workers, isolated, verdict
from omegaconf import OmegaConf

from dplangevin.data import Dataset
from dplangevin.files import File
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.config import content
from dplangevin.pipeline.manifest import posteriors
from dplangevin.pipeline.reference import save
from dplangevin.pipeline.sweep import Inputs, sweep, tables
from dplangevin.samplers.posterior import R_HAT

TO_BYTES = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in


class Grid(NamedTuple):
    """experiment, and the exhibit whose methods are run; what is allowed; mixed: R-hat must stay below 1.05."""

    title: str
    experiment: str
    exhibit: str
    minutes: float
    gigabytes: float
    mixed: bool


GRIDS = (
    Grid("Figure 1c", "wang2015", "wang2015_fig1c", 6, 6, True),
    Grid("Figure 3", "li2019_fig3", "li2019_fig3", 15, 8, False),
)


class Cost(NamedTuple):
    """seconds: of the whole process, imports included; gigabytes: its peak and those of its workers; r_hat: the worst,
    None without chains."""

    seconds: float
    gigabytes: float
    r_hat: float | None


def rows(options: Options) -> list[Row]:
    return [row for grid in GRIDS for row in measured(grid, options)]


def measured(grid: Grid, options: Options) -> list[Row]:
    """One row per method, the reference posterior among them where the grid needs it, and one for all."""
    cfg = adult.config(options.scale)
    spec = cfg.experiment[grid.experiment]
    compared = spec.get("compared", False)
    costs: dict[str, Cost] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        data, posterior = adult.prepare(cfg, folder), folder / "posterior.npz"
        for method in [*(["reference"] if compared else []), *content("exhibit", grid.exhibit, cfg)["runs"]]:
            start = time.perf_counter()
            if method == "reference":
                memory, r_hat = isolated(options.threads, reference, options.scale, data, posterior)
            else:
                os.environ["DPL_WORKERS"] = str(options.threads)
                args = grid.experiment, method, options.scale, data, folder / "units"
                memory, r_hat = isolated(options.threads, one, *args, posterior if compared else None)
            costs[method] = Cost(time.perf_counter() - start, memory, r_hat)
    size = f"{len(spec.epsilons[adult.KEY])} budgets x {spec.get('seeds', cfg.repeats)} repeats"
    return [*each(grid, costs, size, options), total(grid, costs, options)]


def each(grid: Grid, costs: dict[str, Cost], size: str, options: Options) -> list[Row]:
    return [
        Row(
            f"{grid.title}, {method}",
            f"{cost.seconds:.1f} s, {cost.gigabytes:.2f} GB",
            "-",
            "-" if cost.r_hat is None else f"worst R-hat {cost.r_hat:.3f}",
            "-" if cost.r_hat is None or not grid.mixed else f"R-hat < {R_HAT}",
            "-" if cost.r_hat is None or not grid.mixed else verdict(cost.r_hat < R_HAT),
            str(options.threads),
            f"run once, units side by side on {options.threads} processes, "
            + ("once" if method in ("nonprivate", "sgld", "reference") else size),
        )
        for method, cost in costs.items()
    ]


def total(grid: Grid, costs: dict[str, Cost], options: Options) -> Row:
    mixed = all(cost.r_hat is None or cost.r_hat < R_HAT for cost in costs.values())
    seconds, peak = sum(c.seconds for c in costs.values()), max(c.gigabytes for c in costs.values())
    met = seconds < 60 * grid.minutes and peak < grid.gigabytes and (mixed or not grid.mixed)
    return Row(
        f"{grid.title}, all",
        f"{seconds:.0f} s, {peak:.2f} GB",
        "-",
        f"{seconds / 60:.1f} minutes"
        + ((", all mixed" if mixed else ", not all mixed") if grid.mixed else ""),
        f"< {grid.minutes} minutes, < {grid.gigabytes} GB" + (f", R-hat < {R_HAT}" if grid.mixed else ""),
        verdict(met),
        str(options.threads),
        "sum of seconds, largest memory; one method after the other",
    )


def one(
    experiment: str, method: str, scale: str, data: Path, units: Path, posterior: Path | None
) -> tuple[float, float | None]:
    """Run one method; peak memory in GB (1e9 bytes) and the worst R-hat, None without chains."""
    cfg = adult.config(scale)
    spec = cfg.experiment[experiment]
    alone = {name: run for name, run in (spec.get("runs") or {}).items() if name == method}
    for name, value in {"methods": [method], "runs": alone}.items():
        OmegaConf.update(spec, name, value, merge=False, force_add=True)
    store = Store([units / f"absent/{table}.csv" for table in tables(spec)], units, digits=17)
    exact = None if posterior is None else File.at(posterior)
    keys = sweep(cfg, experiment, adult.KEY, Inputs(File.at(data), exact), store)
    frame = pd.read_csv(io.StringIO(store.tables(keys)[1]))
    r_hat = frame.loc[frame.metric == "r_hat", "value"]
    return peak_memory(), None if r_hat.empty else float(r_hat.max())


def reference(scale: str, data: Path, posterior: Path) -> tuple[float, float | None]:
    """Sample the exact posterior, as the stage does."""
    found = posteriors(adult.config(scale), adult.KEY, Dataset.load(data))
    save(posterior, found)
    return peak_memory(), float(max(exact.r_hat.max() for exact in found.values()))


def peak_memory() -> float:
    """Of this process, and as often as it has workers of its largest child."""
    end_workers()
    own, child = (
        resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return (own + int(os.environ.get("DPL_WORKERS", 1)) * child) * TO_BYTES / 1e9
