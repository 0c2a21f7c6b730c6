"""Check committed results: python pipelines/verify.py [NAME ...] [--quick | [--units N] [--within MOVE] [--renew]].

With `--quick`, minutes: of every run all prices are computed from their plans, without training, and the first steps
of one long chain of each method; of every short analysis one task. Where data cannot be had, it says so and goes on.
Else N tasks (default: one) of every method of a run are computed, with the tasks that are always computed with them,
and every task of an analysis; with `--only` some methods, or numbers of tasks, alone.

The rows are compared with those in results/. The largest change is relative to the standard error over the seeds, or to
the value where there are none. The exit status is 1 if it is more than `--within`; with `--quick`, than 1e-6 of a price
or 1e-3 of a norm or task. If a check is interrupted, its finished tasks are kept for the next one.

`--renew` is for an edit that changes no number: if no task that was computed again changed by more than `--within`, all
trainings of a result get the key of the current code, and `*.units.json` says so; `run.py` then computes their prices.
Other tasks, as of an analysis, get the key of their rows. Without a name, and if nothing else changed, manifests of
data/manifest get new keys, too, and no file is made again.
"""

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import analyse
import pandas as pd
from omegaconf import DictConfig, OmegaConf
from run import RUNS, inputs
from stage import stage

from dplangevin.data import DataError
from dplangevin.data.fetch import DataUnavailable
from dplangevin.files import Checkpoint, Noted, write
from dplangevin.papers import analyses
from dplangevin.pipeline import config, manifest
from dplangevin.pipeline.cache import Rows, Store, beside, csv_bytes, listed, listing
from dplangevin.pipeline.environment import Move, largest, moved, pinned
from dplangevin.pipeline.sweep import SweepTasks, sweep, tables

CLOSE_PRICE, CLOSE_TASK = 1e-6, 1e-3  # the largest moves of `--quick`, relative to the value
WITHIN = "the largest move that passes, in standard errors over the seeds or else as a share of the value (0)"
LONG = re.compile("brackets|coverage|li2019_fig.|ops_distance|wang2015_fig2")
ANALYSES, KEPT = Path("results/analyses"), Path("data/units/verify")


class Result(NamedTuple):
    """The tables of an entry of conf/pipeline.

    - `kinds`: For each task, the group that N tasks are taken from, such as a method.
    - `compute`: Computes the tasks that a store lacks; returns the keys of all tasks.
    - `work`: The sweep of a run.
    """

    paths: list[Path]
    kinds: list[str]
    compute: Callable[[Store], list[str]]
    work: SweepTasks | None = None


class PartialStore(Store):
    """A store that lacks some tasks and counts all others as finished; it reads nothing from results/."""

    def __init__(self, paths: Sequence[Path], folder: Path, lacks: Sequence[str] = ()) -> None:
        super().__init__(paths, folder)
        self.listed, self.lacks = [{} for _ in self.paths], set(lacks)

    def find(self, key: str) -> list[Rows] | None:
        return super().find(key) if key in self.lacks else [Rows("", "")]


class Comparison(NamedTuple):
    """What `check` finds.

    - `keys`: of all tasks, with the current code.
    - `again`: of each task that was computed again, key -> computing environment.
    - `moves`: how far these tasks moved, for each table.
    - `trained`: for each of `keys`, the key of the task's training, "" where there is none.
    """

    keys: list[str]
    again: dict[str, str]
    moves: list[Move]
    trained: list[str]

    @property
    def move(self) -> float:
        """The largest change, see `Move.largest`."""
        return max(move.farthest for move in self.moves)

    @property
    def same(self) -> bool:
        return all(move.same == move.tasks for move in self.moves)

    def __str__(self) -> str:
        came = "the same bytes" if self.same else f"moved by at most {self.move:.3g}"
        return f"{len(self.again)} of {len(self.keys)} tasks computed again, {came}"


def result(cfg: DictConfig, name: str) -> Result:
    """Return the result of a run or an analysis."""
    if name in cfg.analysis:
        spec, path = analyse.described(cfg, name), ANALYSES / f"{name}.csv"
        each = [str(i) for i in range(len(listed(path)))]  # each task is a kind of its own
        return Result([path], each, lambda store: analyses.run(spec, cfg.seed, store))
    run = cfg.pipeline.runs[name]
    files_read = inputs(cfg, run.experiment, run.dataset)
    work = SweepTasks(cfg, run.experiment, run.dataset, files_read, KEPT / name)
    paths = [RUNS / run.experiment / run.dataset / f"{table}.csv" for table in tables(work.spec)]
    return Result(paths, [task.run.name for task in work.tasks], lambda store: sweep(work, store), work)


def check(of: Result, folder: Path, count: int, only: Sequence[str] = ()) -> Comparison:
    """Compute `count` tasks of each kind, or of `only` some, again; raise ValueError for incomplete results."""
    before = [listed(path) for path in of.paths]
    keys = of.compute(PartialStore(of.paths, folder))
    if len({(*table,) for table in before}) > 1 or {len(keys), len(of.kinds)} != {len(before[0])}:
        whole = f"the {len(keys)} tasks of its plan, whole"
        raise ValueError(f"{of.paths[0]} does not have {whole}: run it again")
    kinds = {
        kind: own for kind, own in pd.Series(range(len(keys))).groupby(of.kinds) if not only or kind in only
    }
    if of.kinds and not kinds:
        raise ValueError(f"no {' or '.join(only)}: there are {', '.join(dict.fromkeys(of.kinds))}")
    some = {i for own in kinds.values() for i in spaced(own.tolist(), count)}
    groups = of.work.groups(range(len(keys))) if of.work and not only else []
    indices = sorted(some.union(*(group for group in groups if some & {*group})))
    store = PartialStore(of.paths, folder, [keys[i] for i in indices])
    of.compute(store)
    after = {keys[i]: store.find(keys[i]) or [] for i in indices}
    trained = [of.work.trained_key(i) if of.work else "" for i in range(len(keys))]
    moves = []
    for number, (path, table) in enumerate(zip(of.paths, before, strict=True)):
        was, now = dict(zip(keys, table.values(), strict=True)), {}
        for key in after:
            # runs.csv has prices and settings, which `run.py` writes anew for a training that is kept
            if not (path.stem == "runs" and trained[keys.index(key)]):
                rows, names = after[key][number], was[key].header
                fewer = set(rows.header.split(",")) <= set(names.split(","))
                now[key] = rows.under(names) if fewer else rows
        moves.append(moved(was, now))
    return Comparison(keys, {key: rows[0].made for key, rows in after.items()}, moves, trained)


def prices(work: SweepTasks, path: Path) -> Move:
    """Compare prices and settings of all rows with those of their plans, without attacks, conditions and training."""
    table, before, after, at = pd.read_csv(path, keep_default_na=False), {}, {}, 0
    for i, key in enumerate(work.keys):
        now = pd.DataFrame(work.prices(i)).assign(settings=work.tasks[i].settings)
        own, at = table.iloc[at : at + len(now)], at + len(now)
        was = own[[name for name in now if name in own and name != "violated"]]
        before[key], after[key] = (Rows.of(csv_bytes(each).decode()) for each in (was, now[[*was]]))
    return moved(before, after)


def first_steps(work: SweepTasks, path: Path) -> Move:
    """Compare the norms after the first steps of one long chain of each method with those noted of the whole run."""
    rows_of = zip(work.tasks, listed(path).values(), strict=True)
    noted = {task.run.name: (i, rows.begun) for i, (task, rows) in enumerate(rows_of) if rows.begun}
    before, after = {}, {}
    for i, begun in noted.values():
        Checkpoint.noted.clear()
        with suppress(Noted):
            work.compute(work.job([i]))
        now = [f"{norm:.10g}" for norms in Checkpoint.noted.values() for norm in norms]
        before[work.keys[i]] = Rows("norm", begun.replace(" ", "\n"))
        after[work.keys[i]] = Rows("norm", "\n".join(now))
    return moved(before, after)


def spaced(indices: Sequence[int], count: int) -> list[int]:
    """Return `count` of these, or all, with even gaps.

    >>> spaced(range(9), 1), spaced(range(9), 3), spaced(range(2), 3)
    ([4], [1, 4, 7], [0, 1])
    """
    count = min(count, len(indices))
    return [indices[(2 * i + 1) * len(indices) // (2 * count)] for i in range(count)]


def renew(of: Result, comparison: Comparison) -> int:
    """Give all tasks of a result the keys of the current code; return how many have rows that earlier code made.

    `*.units.json` adds this to what it says of their computation, with the largest move of all renewals since.
    """
    count = 0
    for path in of.paths:
        pieces, keys = [], []
        tasks = zip(listed(path).items(), comparison.keys, comparison.trained, strict=True)
        for (old, rows), key, trained in tasks:
            rows = rows._replace(scores=trained)
            keys.append(old if trained else key)
            if comparison.same and key in comparison.again:
                rows = rows._replace(made=comparison.again[key], renewed="")
            elif key != old or rows.renewed:
                earlier = largest(rows.renewed)
                more = f"; before, at most {earlier:.2g}" if earlier > comparison.move else ""
                rows = rows._replace(renewed=f"code changed since; {comparison}{more}")
                count += path == of.paths[0]
            pieces.append(rows)
        write(path.parent, {beside(path).name: listing(keys, pieces).encode()})
    return count


def is_close(cfg: DictConfig, name: str) -> bool:
    """Print what a short check of an entry finds; return whether it moved no farther than it may."""
    of = result(cfg, name)
    if of.work is None:
        one_kind = of._replace(kinds=[name] * len(of.kinds))
        found = [("one task", check(one_kind, KEPT / name, 1).moves[0], CLOSE_TASK)]
    else:
        dataset = of.work.dataset
        if dataset in cfg.features and not manifest.path_of("features", dataset).exists():
            raise DataUnavailable("its features are not made here")
        of.work.spec = OmegaConf.merge(of.work.spec, {"attack": None})
        Checkpoint.stops = True
        steps = first_steps(of.work, of.paths[0])
        found = [("prices", prices(of.work, of.paths[0]), CLOSE_PRICE)]
        found += [("first steps", steps, CLOSE_TASK)] * bool(steps.tasks)
    print(f"{name}: {'; '.join(f'{what}: {move}' for what, move, _ in found)}", flush=True)
    return all(move.farthest <= most for _, move, most in found)


def is_within(cfg: DictConfig, name: str, args: argparse.Namespace) -> bool:
    """Print how far tasks of an entry moved; return whether within `--within`, and then renew what is asked for."""
    comparison = check(of := result(cfg, name), KEPT / name, args.units, args.only)
    moves = zip(of.paths, comparison.moves, strict=True)
    lines = [f"  {path}: {move}" for path, move in moves if move.same < move.tasks]
    print("\n".join([f"{name}: {comparison}", *lines]), flush=True)
    fine = comparison.move <= args.within
    if fine and args.renew and (count := renew(of, comparison)):
        print(f"  {count} tasks of earlier code have new keys", flush=True)
    return fine


@stage
def main(cfg: DictConfig, *words: str) -> None:
    """Check the entries that the command line names, or all."""
    names = [str(name) for name in (*cfg.pipeline.runs, *cfg.pipeline.analyses)]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of conf/pipeline: a run, or an analysis")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--quick", action="store_true", help="prices and short tasks alone")
    kind.add_argument("--renew", action="store_true", help="give tasks the keys of the current code")
    parser.add_argument("--units", type=int, default=1, metavar="N", help="how many tasks of each method (1)")
    parser.add_argument("--only", nargs="+", default=(), metavar="RUN", help="of these methods")
    parser.add_argument("--within", type=float, default=0.0, metavar="MOVE", help=WITHIN)
    args = parser.parse_args(words)
    for name in args.names:
        config.one_of(names, name, "run or analysis")
    if args.units < 1:
        parser.error(f"--units must be at least 1, not {args.units}")
    wrong = []
    for name in args.names or [name for name in names if not (args.quick and LONG.fullmatch(name))]:
        try:
            with pinned():
                fine = is_close(cfg, name) if args.quick else is_within(cfg, name, args)
            shutil.rmtree(KEPT / name, ignore_errors=True)
        except (ValueError, OSError, DataError) as error:
            why = str(error).partition("\n")[0] if args.quick else error
            print(f"{name}: not checked: {why}", flush=True)
            fine = args.quick and isinstance(error, DataUnavailable)
        wrong += [name] * (not fine)
    if args.renew and not (args.names or wrong):
        manifests = [(kind, name) for kind in manifest.PLACES for name in manifest.known(cfg, kind)]
        count = sum(manifest.renew(cfg, *each) for each in manifests)
        print(f"{count} of {len(manifests)} manifests have new keys; no file was made again", flush=True)
    if wrong:
        raise ValueError(f"not the same, or not checked: {', '.join(wrong)}")


if __name__ == "__main__":
    sys.exit(main())
