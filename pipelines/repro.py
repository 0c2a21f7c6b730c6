"""The driver behind `make repro` and `make exhibit`: compose conf/, run what changed, say what came of it.

It is `dvc repro --keep-going` with two differences. A stage whose inputs and outputs are in step with
dvc.lock is left alone even if its data are not on this machine (as with `--allow-missing`), and the data of
a stage that did change are fetched and prepared for it, no others. Exit status: 0; 1 when a stage failed,
except, without --strict, for the reason that no source of a data set could be reached; 2 for a config that
cannot be used or an unknown exhibit; 130 on Ctrl-C.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import locks
import networkx as nx
import quick_dvc
import summary
import warm
from dvc.exceptions import DvcException, ReproductionError
from dvc.repo import Repo
from dvc.repo.reproduce import _reproduce_stage
from dvc.stage import Stage
from dvc.stage.exceptions import StageCmdFailedError

from dplangevin import config

FORCED = Path("data/units/forced.txt")  # stages that an interrupted --force run has finished


class Runner:
    """Reproduces one stage at a time for `Repo.reproduce` and keeps what came of each, by stage name."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.graph = nx.DiGraph()  # DVC's: an edge from each stage to those it depends on
        self.made: set[str] = set()
        self.forced = set(FORCED.read_text(encoding="utf-8").split()) if FORCED.exists() else set()
        self.failed: dict[str, Exception] = {}

    def __call__(
        self, stage: Stage, upstream: Sequence[Stage], force: bool = False, **kwargs: Any
    ) -> Stage | None:
        if not self.graph:  # DVC drops it when a stage has run, and building it takes a second
            self.graph = self.repo.index.graph
        again = force and stage.addressing not in self.forced
        if not again and not self.out_of_step(stage, upstream):
            return None
        for producer in self.producers_of_missing(stage, upstream):
            self.run(producer, upstream=self.upstream(producer), **kwargs)
        return self.run(stage, upstream=upstream, force=force, **kwargs)

    def upstream(self, stage: Stage) -> list[Stage]:
        return list(self.graph.successors(stage))

    def out_of_step(self, stage: Stage, upstream: Sequence[Stage]) -> bool:
        """Absent data are in step if dvc.lock says so; an absent result never is."""
        absent_result = any(not out.use_cache and not out.exists for out in stage.outs)
        return absent_result or stage.changed(allow_missing=True, upstream=upstream)

    def producers_of_missing(self, stage: Stage, upstream: Sequence[Stage]) -> list[Stage]:
        """The stages that make the inputs of `stage` that are not on this machine, in running order."""
        missing = {dep.fs_path for dep in stage.deps if not dep.exists}
        found: list[Stage] = []
        for producer in upstream:
            if missing & {out.fs_path for out in producer.outs}:
                earlier = self.producers_of_missing(producer, self.upstream(producer))
                found += [s for s in [*earlier, producer] if s not in found]
        return found

    def run(self, stage: Stage, **kwargs: Any) -> Stage | None:
        name = stage.addressing
        if name in self.failed:
            raise DvcException(f"{name} failed before")
        if marker := summary.marker(name):
            marker.unlink(missing_ok=True)
        try:
            result = _reproduce_stage(stage, **kwargs)
        except Exception as error:
            if isinstance(error, StageCmdFailedError) and str(error).endswith(("with -2", "with 130")):
                raise KeyboardInterrupt from error
            self.failed[name] = error
            raise
        if result:
            self.made.add(name)
        if kwargs.get("force"):
            FORCED.parent.mkdir(parents=True, exist_ok=True)
            with FORCED.open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")
        return result


def reproduce(repo: Repo, targets: Sequence[str], force: bool) -> Runner:
    """Run what changed among `targets` (all stages if empty) and what they need."""
    runner = Runner(repo)
    try:
        repo.reproduce(list(targets) or None, on_error="keep-going", force=force, repro_fn=runner)
    except ReproductionError:
        if not runner.failed:
            raise
    return runner


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make repro", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--exhibit", help="only this exhibit and what it needs, e.g. wang2015_fig1c")
    parser.add_argument("--force", action="store_true", help="run every stage again, changed or not")
    parser.add_argument("--strict", action="store_true", help="data that cannot be had are a failure too")
    args = parser.parse_args(argv)
    try:
        cfg = config.compose()
    except config.ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    if args.exhibit and args.exhibit not in cfg.exhibit:
        print(f"no exhibit {args.exhibit!r}; there are: {', '.join(cfg.exhibit)}", file=sys.stderr)
        return 2
    if config.write(cfg):
        print(f"{config.PARAMS} written from {config.CONF}/")
    if args.force and FORCED.exists():
        print("Going on with an earlier --force run that was interrupted; remove data/units to start over.")
    # stages find this interpreter under the name `python`
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    locks.clear_stale(Path(".dvc/tmp"))
    quick_dvc.install()
    warm.install()
    exhibits = [args.exhibit] if args.exhibit else list(cfg.exhibit)
    targets = [f"render@{args.exhibit}"] if args.exhibit else []
    try:
        with Repo(config=None if Path(".git").exists() else {"core": {"no_scm": True}}) as repo:
            runner = reproduce(repo, targets, args.force)
            report = summary.Summary(runner.graph, runner.made, runner.failed)
        if args.force:
            FORCED.unlink(missing_ok=True)
    except KeyboardInterrupt:
        print(
            "\nInterrupted. What is finished is kept; the next `make repro` goes on from there.",
            file=sys.stderr,
        )
        return 130
    except DvcException as error:
        print(f"dvc: {error}", file=sys.stderr)
        return 1
    print(report.text(exhibits))
    return int(bool(report.unexcused) or (args.strict and bool(runner.failed)))


if __name__ == "__main__":
    sys.exit(main())
