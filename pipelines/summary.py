"""Summary of `dvc repro --keep-going`: the exhibits that were made, with path and verdicts, and what failed.

Stages tell it in the file of DPL_LOG how they ended. dvc.lock lists what a stage needs.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dplangevin.papers.claims import tally
from dplangevin.pipeline.config import values

LOG = "DPL_LOG"  # environment variable: the file where stages write for the summary
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


def log(**entry: Any) -> None:
    """Write a line about this stage: its `status`, `why` it failed, or how far numbers `moved`."""
    if path := os.environ.get(LOG):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"stage": os.environ.get("DVC_STAGE", "stage"), **entry}) + "\n")


def report(path: Path, status: int, exhibits: Sequence[str], strict: bool = False) -> int:
    """Print the summary of a run whose stages wrote `path` and whose DVC ended with `status`; return the exit status.

    It is 1 if DVC or a stage failed, else 0. A stage whose data no source has counts as failed only with `strict`.
    """
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    ended = {entry["stage"]: entry["status"] for entry in entries if "status" in entry}
    failed = [stage for stage, code in ended.items() if code]
    if status and not failed:
        print(f"DVC failed with exit status {status}; its message is above.", file=sys.stderr)
        return 1
    needs = needs_of(Path("dvc.lock"))

    def state(stage: str) -> str:
        """Return "made", "up to date", or which stages failed that it needs, directly or indirectly."""
        above, todo = {stage}, [stage]
        while todo:
            todo += (new := needs.get(todo.pop(), set()) - above)
            above |= new
        why = ", ".join(name for name in failed if name in above)
        return f"not made: {why} failed" if why else "made" if stage in ended else "up to date"

    states = {name: state(f"render@{name}") for name in exhibits}
    lines = shown(
        {name: state for name, state in states.items() if state != "up to date" or len(states) == 1}
    )
    lines += [f"{path}: {state(stage)}" for stage, path in (("claims", CLAIMS), ("report", PAGE))]
    if failed:
        why = {entry["stage"]: entry["why"].replace("\n", "\n    ") for entry in entries if "why" in entry}
        lines += ["", "Failed", *(f"  {stage}: {why.get(stage, 'it was killed')}" for stage in failed)]
    if moved := [entry["moved"] for entry in entries if "moved" in entry]:
        lines += [
            "",
            "Computed again and compared with the committed numbers",
            *(f"  {line}" for line in moved),
        ]
    counts = Counter(state.partition(":")[0] for state in states.values())
    made = f"{counts['up to date']} up to date, {counts['made']} made now, {counts['not made']} not made"
    last = ["To see what differs from the committed results: git status results"]
    print("\n".join(["", *lines, "", f"Exhibits: {made}.", *(last if ended else NOTHING_RAN)]))
    return int(any(strict or ended[stage] != UNAVAILABLE for stage in failed))


def shown(states: Mapping[str, str]) -> list[str]:
    """Return the lines of exhibits: state, figure, and the verdicts of the claims that it shows."""
    claims, lines = tally.read(CLAIMS), []
    for name, state in states.items():
        lines.append(f"  {name}: {state}")
        figure = EXHIBITS / name / f"{name}.png"
        if figure.exists():
            lines.append(f"    {figure}{' (the earlier one)' * state.startswith('not made')}")
        if marks := tally.marks(claim for claim in claims if name in tally.shown_by(claim)):
            lines.append(f"    {marks}")
    return [*tally.LEGEND, "", "Exhibits", *lines, ""] if lines else []


def needs_of(lock: Path) -> dict[str, set[str]]:
    """Return stage -> the stages that make what it reads."""
    stages = values(lock).get("stages", {}) if lock.exists() else {}
    makers = [(f"{out['path']}/", name) for name, stage in stages.items() for out in stage.get("outs", [])]
    needs = {}
    for name, stage in stages.items():
        read = [
            f"{path}/" for path in (*(dep["path"] for dep in stage.get("deps", [])), *stage.get("params", {}))
        ]
        within = {maker for out, maker in makers if any(out.startswith(p) or p.startswith(out) for p in read)}
        needs[name] = within - {name}
    return needs
