"""Summary of `dvc repro --keep-going`: the exhibits that were made, with path and verdicts, and what failed.

Stages tell it in the file of DPL_LOG how they ended.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dplangevin.papers.claims import tally

LOG = "DPL_LOG"  # environment variable: the file where stages write for the summary
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


def report(path: Path, status: int, exhibits: Sequence[str]) -> int:
    """Print the summary of a run whose stages wrote `path` and whose DVC ended with `status`; return 0 or 1."""
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    ended = {entry["stage"]: entry["status"] for entry in entries if "status" in entry}
    failed = [stage for stage, code in ended.items() if code]
    if status and not failed:
        print(f"DVC failed with exit status {status}; its message is above.", file=sys.stderr)
        return 1
    made = [name for name in exhibits if ended.get(f"render@{name}") == 0]
    lines = shown(made or (exhibits if len(exhibits) == 1 and not failed else []))
    lines += [
        f"{page}: made" for stage, page in (("claims", CLAIMS), ("report", PAGE)) if ended.get(stage) == 0
    ]
    if failed:
        why = {entry["stage"]: entry["why"].replace("\n", "\n    ") for entry in entries if "why" in entry}
        lines += ["", "Failed", *(f"  {stage}: {why.get(stage, 'it was killed')}" for stage in failed)]
        lines.append("What needs these stays as it was; DVC names it above.")
    if moved := [f"  {entry['moved']}" for entry in entries if "moved" in entry]:
        lines += ["", "Computed again and compared with the committed numbers", *moved]
    last = ["To see what differs from the committed results: git status results"] if ended else NOTHING_RAN
    print("\n".join(["", *lines, "", f"Exhibits: {len(made)} of {len(exhibits)} made now.", *last]))
    return int(status > 0)


def shown(exhibits: Sequence[str]) -> list[str]:
    """Return the lines of exhibits: the figure, and the verdicts of the claims that it shows."""
    claims, lines = tally.read(CLAIMS), []
    for name in exhibits:
        lines.append(f"  {name}: {EXHIBITS / name / f'{name}.png'}")
        if marks := tally.marks(claim for claim in claims if name in tally.shown_by(claim)):
            lines.append(f"    {marks}")
    return [*tally.LEGEND, "", "Exhibits", *lines, ""] if lines else []
