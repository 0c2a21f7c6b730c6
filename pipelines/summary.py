"""Summary of `dvc repro --keep-going`: the exhibits that were made, with path and verdicts, and what failed.

In the folder of DPL_LOG, pipelines/python.sh writes which stages ran and how they ended, and pipelines/stage.py
which data no source has. dvc.lock lists what a stage needs.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dplangevin.papers.claims import tally
from dplangevin.pipeline.config import values

LOG = "DPL_LOG"  # environment variable: the folder where stages write for the summary
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h: no source has the data of a stage
EXHIBITS = Path("results/exhibits")
CLAIMS = Path("results/claims.csv")
PAGE = Path("results/report/README.md")
NOTHING_RAN = (
    "No stage ran, because nothing that results/ depends on has changed. In a fresh",
    "clone its files are the committed ones.",
    "One figure from raw data, compared with the committed numbers, in two minutes:",
    "  make exhibit ID=wang2015_fig1b FORCE=1",
)


@dataclass(frozen=True)
class Run:
    """One run of DVC.

    - `ended`: Stage that ran -> its exit status.
    - `needs`: Stage -> the stages that make what it reads.
    - `missing`: Stage -> why no source has its data.
    - `moved`: How far numbers changed that were computed again.
    """

    ended: Mapping[str, int]
    needs: Mapping[str, set[str]]
    missing: Mapping[str, str]
    moved: Sequence[str] = ()

    @property
    def failed(self) -> list[str]:
        return [stage for stage, status in self.ended.items() if status]

    def state(self, stage: str) -> str:
        """Return "made", "up to date", or which stages failed that it needs, directly or indirectly."""
        above, todo = {stage}, [stage]
        while todo:
            todo += (new := self.needs.get(todo.pop(), set()) - above)
            above |= new
        if failed := [name for name in self.failed if name in above]:
            return f"not made: {', '.join(failed)} failed"
        return "made" if stage in self.ended else "up to date"

    def text(self, exhibits: Sequence[str]) -> str:
        """Return the summary: what was made and what failed; of several exhibits, those up to date are counted."""
        states = {name: self.state(f"render@{name}") for name in exhibits}
        claims, lines = tally.read(CLAIMS), []
        for name, state in states.items():
            if state == "up to date" and len(exhibits) > 1:
                continue
            lines.append(f"  {name}: {state}")
            figure = EXHIBITS / name / f"{name}.png"
            if figure.exists():
                lines.append(f"    {figure}{' (the earlier one)' * state.startswith('not made')}")
            if marks := tally.marks(claim for claim in claims if name in tally.shown_by(claim)):
                lines.append(f"    {marks}")
        if lines:
            lines = [*tally.LEGEND, "", "Exhibits", *lines, ""]
        lines += [f"{path}: {self.state(stage)}" for stage, path in (("claims", CLAIMS), ("report", PAGE))]
        if self.failed:
            lines += ["", "Failed"]
            lines += [f"  {stage}: {self.missing.get(stage, 'see above')}" for stage in self.failed]
        if self.moved:
            lines += ["", "Computed again and compared with the committed numbers"]
            lines += [f"  {line}" for line in self.moved]
        counts = Counter(state.partition(":")[0] for state in states.values())
        shown = f"{counts['up to date']} up to date, {counts['made']} made now, {counts['not made']} not made"
        last = ["To see what differs from the committed results: git status results"]
        return "\n".join(["", *lines, "", f"Exhibits: {shown}.", *(last if self.ended else NOTHING_RAN)])


def read(log: Path, lock: Path = Path("dvc.lock")) -> Run:
    """Return the run that a folder of logs describes."""
    stages = log / "stages"
    words = [line.split() for line in stages.read_text().splitlines()] if stages.exists() else []
    missing = {
        path.stem: path.read_text("utf-8").strip().replace("\n", "\n    ") for path in log.glob("*.txt")
    }
    moved = [line for path in sorted(log.glob("*.moved")) for line in path.read_text("utf-8").splitlines()]
    return Run({stage: int(status) for stage, status in words}, needs_of(lock), missing, moved)


def needs_of(lock: Path) -> dict[str, set[str]]:
    """Return stage -> the stages that make what it reads."""
    stages = values(lock).get("stages", {}) if lock.exists() else {}
    makers = {out["path"]: name for name, stage in stages.items() for out in stage.get("outs", [])}
    needs = {}
    for name, stage in stages.items():
        paths = [*(dep["path"] for dep in stage.get("deps", [])), *stage.get("params", {})]
        found = {maker for out, maker in makers.items() if any(_within(out, path) for path in paths)}
        needs[name] = found - {name}
    return needs


def _within(out: str, path: str) -> bool:
    """Return whether the paths are equal or one contains the other."""
    return f"{out}/".startswith(f"{path}/") or f"{path}/".startswith(f"{out}/")


def report(log: Path, status: int, exhibits: Sequence[str], strict: bool = False) -> int:
    """Print the summary of a run in which DVC ended with `status`; return 1 if DVC or a stage failed, else 0.

    A stage whose data no source has counts as failed only with `strict`.
    """
    run = read(log)
    if status and not run.failed:
        print(f"DVC failed with exit status {status}; its message is above.", file=sys.stderr)
        return 1
    print(run.text(exhibits))
    if any(strict or run.ended[stage] != UNAVAILABLE for stage in run.failed):
        return 1
    return 0 if run.failed else min(status, 1)
