"""Check committed results: python pipelines/verify.py [NAME ...] [--quick | [--units N] [--within MOVE] [--renew]].

Computes N tasks (1) of every method of a run, with those that run together with them, and N (all) of an analysis. With
`--quick`, minutes: all prices, the first steps of one long chain of each method, and one task of each short analysis.

`--renew` is for an edit that changes no number: if no task moved by more than `--within`, all trainings of a result get
the key of the current code, and `*.units.json` says so; `run.py` then computes their prices. Other tasks, as of an
analysis, get the key of their rows; without a name, manifests get new keys, too.
"""

import argparse
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import analyse
import pandas as pd
from omegaconf import DictConfig, OmegaConf
from run import tasks_of
from stage import stage

from dplangevin.data import DataError
from dplangevin.data.fetch import DataUnavailable
from dplangevin.files import Checkpoint, Noted, write
from dplangevin.papers import analyses
from dplangevin.pipeline import config, manifest
from dplangevin.pipeline.cache import Rows, Store, beside, csv_bytes, listed, listing
from dplangevin.pipeline.environment import Move, largest, moved, pinned
from dplangevin.pipeline.sweep import SweepTasks, sweep

CLOSE_PRICE, CLOSE_TASK = 1e-6, 1e-3  # the largest moves of `--quick`, relative to the value
LONG = re.compile("brackets|coverage|li2019_fig.|ops_distance|wang2015_fig2")
KEPT = Path("data/units/verify")


class Result(NamedTuple):
    """The tables of an entry of conf/pipeline; `kinds` has for each task the method that N tasks are taken of."""

    paths: list[Path]
    kinds: list[str]
    compute: Callable[[Store], list[str]]
    work: SweepTasks | None = None


class PartialStore(Store):
    """A store that lacks some tasks and counts all others as finished; it reads nothing from results/."""

    def __init__(self, paths: Sequence[Path], folder: Path, lacks: Sequence[str] = ()) -> None:
        super().__init__(paths, folder)
        self.listed, self.lacks = {}, set(lacks)

    def find(self, key: str) -> list[Rows] | None:
        return super().find(key) if key in self.lacks else [Rows("", "")]


class Comparison(NamedTuple):
    """The keys of all tasks and of their trainings, and what was computed again: its environment, and its move.

    `move` counts a task once for each table.
    """

    keys: list[str]
    again: dict[str, str]
    move: Move
    trained: list[str]

    def __str__(self) -> str:
        move, farthest = self.move, f"moved by at most {self.move.farthest:.3g}"
        came = farthest if move.same < move.tasks else "the same bytes"
        return f"{len(self.again)} of {len(self.keys)} tasks computed again, {came}"


def result(cfg: DictConfig, name: str) -> Result:
    """Return the result of a run or an analysis."""
    if name in cfg.analysis:
        spec, path = analyse.described(cfg, name), Path(f"results/analyses/{name}.csv")
        return Result([path], [name] * len(listed(path)), partial(analyses.run, spec, cfg.seed))
    work, paths = tasks_of(cfg, cfg.pipeline.runs[name], KEPT / name)
    return Result(paths, [task.run.name for task in work.tasks], partial(sweep, work), work)


def check(of: Result, folder: Path, count: int, only: Sequence[str] = ()) -> Comparison:
    """Compute `count` tasks of each kind, or of `only` some, again; raise ValueError for incomplete results."""
    before = [[*listed(path).values()] for path in of.paths]
    keys = of.compute(PartialStore(of.paths, folder))
    if {len(of.kinds), *map(len, before)} != {len(keys)}:
        raise ValueError(f"{of.paths[0]} does not have the {len(keys)} tasks of its plan: run it again")
    some: set[int] = set()
    for kind in only or dict.fromkeys(of.kinds):
        own = [i for i, each in enumerate(of.kinds) if each == kind]
        n = min(count, len(own))
        some |= {own[(2 * i + 1) * len(own) // (2 * n)] for i in range(n)}  # with even gaps
    if not some:  # nothing would be shown of what --renew says
        raise ValueError(f"no task to compute; there are {', '.join(dict.fromkeys(of.kinds))}")
    groups = of.work.groups(range(len(keys))) if of.work and not only else []
    indices = sorted(some.union(*(group for group in groups if some & {*group})))
    store = PartialStore(of.paths, folder, [keys[i] for i in indices])
    of.compute(store)
    after = {i: store.find(keys[i]) or [] for i in indices}
    trained = [of.work.trained_key(i) if of.work else "" for i in range(len(keys))]
    pairs = []
    for number, table in enumerate(before):
        # runs.csv, the first, has prices and settings, which `run.py` writes anew for a training that is kept
        for i in [i for i in indices if number or not trained[i]]:
            was, now = table[i], after[i][number]
            new = {*now.header.split(",")} - {*was.header.split(",")}
            pairs.append((was, now if new else now.under(was.header)))
    return Comparison(keys, {keys[i]: rows[0].made for i, rows in after.items()}, moved(pairs), trained)


def prices(work: SweepTasks, path: Path) -> Move:
    """Compare prices and settings of all rows with those of their plans, without attacks, conditions and training."""
    table, pairs, at = pd.read_csv(path, keep_default_na=False), [], 0
    for i, task in enumerate(work.tasks):
        now = pd.DataFrame(work.prices(i)).assign(settings=task.settings)
        own, at = table.iloc[at : at + len(now)], at + len(now)
        was = own[[name for name in now if name in own and name != "violated"]]
        pairs.append((Rows.of(csv_bytes(was).decode()), Rows.of(csv_bytes(now[[*was]]).decode())))
    return moved(pairs)


def first_steps(work: SweepTasks, path: Path) -> Move:
    """Compare the norms after the first steps of one long chain of each method with those noted of the whole run."""
    tasks, pairs = enumerate(zip(work.tasks, listed(path).values(), strict=True)), []
    last = {task.run.name: (i, rows.begun) for i, (task, rows) in tasks if rows.begun}
    for i, begun in last.values():
        Checkpoint.noted.clear()
        with suppress(Noted):
            work.compute(work.job([i]))
        now = [f"{norm:.10g}" for norms in Checkpoint.noted.values() for norm in norms]
        pairs.append((Rows("norm", begun.replace(" ", "\n")), Rows("norm", "\n".join(now))))
    return moved(pairs)


def renew(of: Result, comparison: Comparison) -> int:
    """Give all tasks of a result the keys of the current code; return how many have rows that earlier code made.

    `*.units.json` adds this to what it says of their computation, with the largest move of all renewals since.
    """
    same, most = comparison.move.same == comparison.move.tasks, comparison.move.farthest
    for path in of.paths:
        pieces, keys = [], []
        tasks = zip(listed(path).items(), comparison.keys, comparison.trained, strict=True)
        for (old, rows), key, trained in tasks:
            keys.append(old if trained else key)
            if same and key in comparison.again:
                rows = rows._replace(made=comparison.again[key], renewed="")
            elif key != old or rows.renewed:
                earlier = largest(rows.renewed)
                more = f"; before, at most {earlier:.2g}" if earlier > most else ""
                rows = rows._replace(renewed=f"code changed since; {comparison}{more}")
            pieces.append(rows._replace(scores=trained))
        write(path.parent, {beside(path).name: listing(keys, pieces).encode()})
    return sum(bool(rows.renewed) for rows in pieces)


def passes(cfg: DictConfig, name: str, args: argparse.Namespace) -> bool:
    """Print how far an entry moved; return whether no farther than it may, and then renew what is asked for."""
    of = result(cfg, name)
    if args.quick and of.work:
        dataset = of.work.dataset
        if dataset in cfg.features and not manifest.path_of("features", dataset).exists():
            raise DataUnavailable("its features are not made here")
        of.work.spec = OmegaConf.merge(of.work.spec, {"attack": None})
        Checkpoint.stops = True
        steps, priced = first_steps(of.work, of.paths[0]), prices(of.work, of.paths[0])
        print(f"{name}: " + f"first steps: {steps}; " * (steps.tasks > 0) + f"prices: {priced}", flush=True)
        return steps.farthest <= CLOSE_TASK and priced.farthest <= CLOSE_PRICE
    every = 0 if of.work or args.quick else len(of.kinds)
    comparison = check(of, KEPT / name, args.units or every or 1, args.only)
    move, within = comparison.move, CLOSE_TASK if args.quick else args.within
    sizes = (f"{column} {size:.3g}" for column, size in move.largest.items())
    print(f"{name}: {comparison}", *sizes, sep="\n  ", flush=True)
    if args.renew and move.farthest <= within:
        print(f"  {renew(of, comparison)} tasks of earlier code have the new keys", flush=True)
    return move.farthest <= within


@stage
def main(cfg: DictConfig, *words: str) -> None:
    """Check the entries that the command line names, or all."""
    names = [str(name) for name in (*cfg.pipeline.runs, *cfg.pipeline.analyses)]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--quick", action="store_true", help="prices and short tasks alone")
    parser.add_argument("--units", type=int, default=0, help="how many tasks of each method")
    parser.add_argument("--only", nargs="+", default=(), help="these methods")
    parser.add_argument("--within", type=float, default=0.0, help="the largest move that passes")
    way.add_argument("--renew", action="store_true", help="give tasks the keys of the current code")
    args, wrong = parser.parse_args(words), []
    for name in args.names or [name for name in names if not (args.quick and LONG.fullmatch(name))]:
        try:
            config.one_of(names, name, "run or analysis")
            with pinned():
                fine = passes(cfg, name, args)
            shutil.rmtree(KEPT / name, ignore_errors=True)
        except (ValueError, OSError, DataError) as error:
            print(f"{name}: not checked: {error}", flush=True)
            fine = args.quick and isinstance(error, DataUnavailable)
        wrong += [name] * (not fine)
    if args.renew and not (args.names or wrong):
        known = [(kind, name) for kind in manifest.PLACES for name in manifest.known(cfg, kind)]
        count = sum(manifest.renew(cfg, *each) for each in known)
        print(f"{count} manifests have new keys; no file was made again", flush=True)
    if wrong:
        raise ValueError(f"not the same, or not checked: {', '.join(wrong)}")
