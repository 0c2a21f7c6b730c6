"""Computation of new prices for trained networks, from the settings in their rows; no score changes.

Run `python pipelines/reprice.py` after a change of an accountant. For the experiments with `apart`, it prices
the runs in results/runs at the noise that they were trained with. It prints the largest relative change in
each folder, fills columns that a row lacks, and gives each task the key of the current code. So no network
is trained again.

It checks that batch, steps and noise of a plan are those of its row, and that a row still costs at most its
budget. It cannot check that the training code is unchanged: that is up to the user. `dvc commit` then records
the files.
"""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig
from run import RUNS, UNITS, inputs
from stage import stage

from dplangevin.files import write
from dplangevin.methods import refuse
from dplangevin.methods.prices import spent
from dplangevin.pipeline import config, manifest, units
from dplangevin.pipeline.plan import Unit
from dplangevin.pipeline.sweep import Work, tables
from dplangevin.pipeline.units import beside, listing
from dplangevin.privacy import Budget
from dplangevin.problems import Facts

SAME = (
    "noise_multiplier",
    "noise_std",
    "clip",
    "step_size",
    "batch",
    "epochs",
    "steps",
)  # a plan that differs from its row in one of these is another run
TAKEN = "priced again, scores taken over"  # note in the list of tasks


class Rows(Work):
    """A sweep whose problems are known only by their facts, from the manifest."""

    facts: Facts

    def problem(self, unit: Unit) -> Any:
        return self


def reprice(cfg: DictConfig, experiment: str, dataset: str, root: Path = RUNS) -> float:
    """Rewrite the prices of an experiment on a data set; return the largest relative change of a price.

    Raise ValueError for a row that does not fit its plan or that exceeds its budget.
    """
    paths = [root / experiment / dataset / f"{name}.csv" for name in tables(cfg.experiment[experiment])]
    frames = {path.stem: pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths}
    work = Rows(cfg, experiment, dataset, inputs(cfg, experiment, dataset), UNITS / experiment / dataset)
    sizes = manifest.read(cfg, "dataset", dataset)
    n = int(sizes["rows"]["train"])
    work.facts = Facts(n, d=0, classes=int(sizes["classes"]), public=int(sizes["rows"]["test"]))
    moved, texts = 0.0, {name: [""] * len(work.keys) for name in frames}
    if any(len(unit.epsilons) > 1 for unit in work.units):
        raise config.ConfigError(
            f"{experiment} has units of several budgets, which are not priced again: run it"
        )
    for i, unit in enumerate(work.units):
        (epsilon,) = unit.epsilons
        mine = {
            name: part[part.run.eq(unit.run.name) & part.epsilon.eq(text(epsilon))].copy()
            for name, part in frames.items()
        }
        row = mine["runs"].iloc[0]
        given = stated(unit.config, row)
        plan = instantiate(given).plan(work.facts, Budget(epsilon, work.delta))
        refuse(
            unit.run.name,
            plan._replace(stated=given == unit.config and plan.stated),
            Budget(epsilon, work.delta),
        )
        price = work.prices(i, [plan]).iloc[0].to_dict()
        for name in SAME:
            if row[name] and not math.isclose(float(row[name]), price.get(name, 0.0), rel_tol=1e-6):
                raise ValueError(
                    f"{unit.run.name} has {name} = {row[name]}, its plan {price.get(name)}: another run"
                )
        moved = max(moved, put(mine["runs"], mine["runs"].index, price))
        for at, seen in mine["curve"].iterrows() if "curve" in mine else ():
            steps = round(float(seen.epoch) * n / plan.work.sampling.size(n))
            moved = max(moved, put(mine["curve"], [at], spent(plan, work.facts, steps, work.delta)))
        for name, part in mine.items():
            texts[name][i] = part.to_csv(index=False, header=False, lineterminator="\n")
    for path in paths:
        parts = texts[path.stem]
        header = ",".join(frames[path.stem].columns)
        made = [unit.get("made", "") for unit in json.loads(beside(path).read_bytes())]
        pieces = [units.Rows(header, part, how, TAKEN) for part, how in zip(parts, made, strict=True)]
        listed = listing(work.keys, pieces)
        both = {path.name: header + "\n" + "".join(parts), beside(path).name: listed}
        write(path.parent, {name: each.encode() for name, each in both.items()})
    return moved


def stated(settings: Mapping[str, Any], row: pd.Series) -> dict[str, Any]:
    """Return the config of a method with the noise of a row, whatever it was calibrated to."""
    if (
        float(row.noise_multiplier or 0) == 0
        or not settings.get("calibrated", True)
        or settings.get("noise_multiplier")
    ):
        return dict(settings)
    if "calibrated" in settings:
        own = {"step": float(row.step_size), "clip": float(row["clip"])}
        return {**settings, "calibrated": None, "unit": "absolute", **own}
    return {**settings, "noise_multiplier": float(row.noise_multiplier)}


def put(frame: pd.DataFrame, rows: Any, values: Mapping[Any, Any]) -> float:
    """Write prices into rows, and other values into empty cells.

    Return the largest relative change of a price.
    """
    moved = 0.0
    for name, value in values.items():
        old = frame.loc[rows, name].iloc[0] if name in frame else "-"
        if name.startswith("epsilon") and old not in ("", text(value)):
            moved = max(moved, abs(value / float(old) - 1))
        if (old == "" and name != "calibration") or name.startswith(("epsilon", "accountant")):
            frame.loc[rows, name] = text(value)
    return moved


def text(value: Any) -> str:
    """Return a value as a result file contains it."""
    return value if isinstance(value, str) else "" if math.isnan(value) else f"{value:.10g}"


@stage
def main() -> None:
    """Price every experiment with `apart` that has results."""
    cfg = config.load()
    for experiment, spec in cfg.experiment.items():
        for dataset in spec.datasets if spec.get("apart") else ():
            if (RUNS / str(experiment) / dataset).exists():
                try:
                    moved = reprice(cfg, str(experiment), dataset)
                except config.ConfigError as error:
                    print(error)
                else:
                    print(f"{experiment} on {dataset}: prices moved by at most {moved:.2g}")
    print("Scores were taken over as they are: run this only where nothing that trains has changed.")


if __name__ == "__main__":
    sys.exit(main())
