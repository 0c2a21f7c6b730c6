"""Summary of `dvc repro --keep-going`: each exhibit with its state, path and verdicts, or why it is not made.

In the folder of DPL_LOG, pipelines/python.sh writes which stages ran and how they ended, and pipelines/stage.py
which data no source has. dvc.lock lists what a stage needs.
"""

import sys
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

    def above(self, stage: str) -> set[str]:
        """Return all stages that a stage needs, directly or indirectly."""
        seen: set[str] = set()
        todo = [stage]
        while todo:
            todo += (new := self.needs.get(todo.pop(), set()) - seen)
            seen |= new
        return seen

    def cause(self, stage: str) -> str:
        """Return why a stage was not made: its own failure and those of stages that it needs; "" if none."""
        above = self.above(stage) | {stage}
        texts = [self.missing.get(name, f"{name} failed") for name in self.failed if name in above]
        return "\n      ".join(text.strip().replace("\n", "\n      ") for text in texts)

    def state(self, stage: str) -> str:
        if cause := self.cause(stage):
            return f"not made: {cause}"
        return "made" if stage in self.ended else "up to date"

    def text(self, exhibits: Sequence[str]) -> str:
        """Return the summary as text."""
        claims = tally.read(CLAIMS)
        lines = ["", *tally.LEGEND, "", "Exhibits"]
        for name in exhibits:
            figure = EXHIBITS / name / f"{name}.png"
            state = self.state(f"render@{name}")
            lines.append(f"  {name}: {state}")
            note = " (the earlier one)" if state.startswith("not made") else ""
            lines.append(f"    {figure}{note}" if figure.exists() else "    no figure yet")
            if marks := tally.marks(claim for claim in claims if name in tally.shown_by(claim)):
                lines.append(f"    {marks}")
        for stage, path in (("claims", CLAIMS), ("report", PAGE)):
            lines += ["", f"{path}: {self.state(stage)}"]
        shown = {f"render@{name}" for name in exhibits} | {"claims", "report"}
        reached = shown.union(*map(self.above, shown))
        if others := [stage for stage in self.failed if stage not in reached]:
            lines += ["", "Not made"]
            lines += [
                f"  {stage}: {self.missing.get(stage, 'failed, see above')}".rstrip() for stage in others
            ]
        if self.moved:
            lines += ["", "Computed again and compared with the committed numbers"]
            lines += [f"  {line}" for line in self.moved]
        return "\n".join([*lines, "", *self.last(exhibits)])

    def last(self, exhibits: Sequence[str]) -> list[str]:
        """Return the last lines: what is committed, and how to compute one figure again."""
        figures = [f"render@{name}" for name in exhibits]
        drawn = sum(name in self.ended and not self.ended[name] for name in figures)
        failed = sum(bool(self.cause(name)) for name in figures)
        counts = [f"{len(figures) - drawn - failed} up to date", f"{drawn} made now", f"{failed} not made"]
        last = ["To see what differs from the committed results: git status results"]
        return [f"Exhibits: {', '.join(counts)}.", *(last if self.ended else NOTHING_RAN)]


def read(log: Path, lock: Path = Path("dvc.lock")) -> Run:
    """Return the run that a folder of logs describes."""
    stages = log / "stages"
    words = [line.split() for line in stages.read_text().splitlines()] if stages.exists() else []
    missing = {path.stem: path.read_text(encoding="utf-8").strip() for path in log.glob("*.txt")}
    moved = [line for path in sorted(log.glob("*.moved")) for line in path.read_text("utf-8").splitlines()]
    return Run({stage: int(status) for stage, status in words}, needs_of(lock), missing, moved)


def needs_of(lock: Path) -> dict[str, set[str]]:
    """Return stage -> the stages that make what it reads."""
    if not lock.exists():
        return {}
    stages = values(lock).get("stages", {})
    makers = {out["path"]: name for name, stage in stages.items() for out in stage.get("outs", [])}
    needs = {}
    for name, stage in stages.items():
        read = [dep["path"] for dep in stage.get("deps", [])]
        read += [path for path in stage.get("params", {}) if path != "params.yaml"]
        needs[name] = {maker for out, maker in makers.items() if any(_within(out, path) for path in read)} - {
            name
        }
    return needs


def _within(out: str, path: str) -> bool:
    """Return whether the paths are equal or one contains the other."""
    return out == path or out.startswith(f"{path}/") or path.startswith(f"{out}/")


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
