"""What `dvc repro --keep-going` came to: every exhibit with its state, path and verdicts, and why one is not made.

python pipelines/summary.py --log FOLDER --status N [--strict]. FOLDER is that of DPL_LOG:
pipelines/python.sh wrote there which stages ran and how they ended, pipelines/stage.py what no source has. What a
stage needs says dvc.lock. Exit status: 0; 1 when a stage failed, except, without --strict, for the reason that no
source of its data could be reached.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dplangevin.claims import tally

LOG = "DPL_LOG"  # environment: the folder where stages leave what is said here
UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h: no source has the data of a stage
EXHIBITS = Path("results/exhibits")
CLAIMS = Path("results/claims.csv")
PAGE = Path("results/report/index.html")


class Run:
    """Of one run of DVC: exit status of each stage that ran, what each needs, what no source has, and how far numbers
    moved that were computed again."""

    def __init__(
        self,
        ended: Mapping[str, int],
        needs: Mapping[str, set[str]],
        missing: Mapping[str, str],
        moved: Sequence[str] = (),
    ):
        self.ended, self.needs, self.missing = dict(ended), dict(needs), dict(missing)
        self.moved = list(moved)

    @property
    def failed(self) -> list[str]:
        return [stage for stage, status in self.ended.items() if status]

    @property
    def unexcused(self) -> list[str]:
        """Stages that failed for another reason than that no source had their data."""
        return [stage for stage in self.failed if self.ended[stage] != UNAVAILABLE]

    def above(self, stage: str) -> set[str]:
        """All that a stage needs, directly or not."""
        seen: set[str] = set()
        todo = [stage]
        while todo:
            todo += (new := self.needs.get(todo.pop(), set()) - seen)
            seen |= new
        return seen

    def cause(self, stage: str) -> str:
        """Why a stage was not made: what failed among itself and all that it needs; "" if nothing did."""
        above = self.above(stage) | {stage}
        texts = [self.missing.get(name, f"{name} failed") for name in self.failed if name in above]
        return "\n      ".join(text.strip().replace("\n", "\n      ") for text in texts)

    def state(self, stage: str) -> str:
        if cause := self.cause(stage):
            return f"not made: {cause}"
        return "made" if stage in self.ended else "up to date"

    def text(self, exhibits: Iterable[str]) -> str:
        verdicts = tally.by_exhibit(tally.read(CLAIMS))
        lines = ["", "Exhibits"]
        for name in exhibits:
            figure = EXHIBITS / name / f"{name}.png"
            state = self.state(f"render@{name}")
            lines.append(f"  {name}: {state}")
            kept = " (the earlier one)" if state.startswith("not made") else ""
            lines.append(f"    {figure}{kept}" if figure.exists() else "    no figure yet")
            if name in verdicts:
                counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts[name].most_common())
                lines.append(f"    claims: {counts}")
        for stage, path in (("claims", CLAIMS), ("report", PAGE)):
            lines += ["", f"{path}: {self.state(stage)}"]
        shown = {f"render@{name}" for name in exhibits} | {"claims", "report"}
        others = [stage for stage in self.failed if not any(stage in self.above(name) for name in shown)]
        if others := [stage for stage in others if stage not in shown]:
            lines += ["", "Not made"]
            lines += [
                f"  {stage}: {self.missing.get(stage, 'failed, see above')}".rstrip() for stage in others
            ]
        if self.moved:
            lines += ["", "Computed again", *(f"  {line}" for line in self.moved)]
        return "\n".join(lines)


def read(log: Path, lock: Path = Path("dvc.lock")) -> Run:
    """What a run wrote into its log."""
    stages = log / "stages"
    words = [line.split() for line in stages.read_text().splitlines()] if stages.exists() else []
    missing = {path.stem: path.read_text(encoding="utf-8").strip() for path in log.glob("*.txt")}
    moved = [line for path in sorted(log.glob("*.moved")) for line in path.read_text("utf-8").splitlines()]
    return Run({stage: int(status) for stage, status in words}, needs_of(lock), missing, moved)


def needs_of(lock: Path) -> dict[str, set[str]]:
    """Stage -> the stages that make what it reads."""
    if not lock.exists():
        return {}
    stages = loaded(lock).get("stages", {})
    makers = {out["path"]: name for name, stage in stages.items() for out in stage.get("outs", [])}
    found = {}
    for name, stage in stages.items():
        read = [dep["path"] for dep in stage.get("deps", [])]
        read += [path for path in stage.get("params", {}) if path != "params.yaml"]
        found[name] = {maker for out, maker in makers.items() if any(_within(out, path) for path in read)} - {
            name
        }
    return found


def _within(out: str, path: str) -> bool:
    """Whether one is the other, or a folder around it."""
    return out == path or out.startswith(f"{path}/") or path.startswith(f"{out}/")


def loaded(path: Path) -> dict[str, Any]:
    """A YAML file, by the fast reader where there is one."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    return found


def told(log: Path, status: int, exhibits: Iterable[str], strict: bool = False) -> int:
    """Print the summary of a run whose DVC ended with a status; the exit status of the run."""
    run = read(log)
    if status and not run.failed:
        print(f"DVC did not get through, for the reason above: its exit status is {status}", file=sys.stderr)
        return 1
    print(run.text(exhibits))
    if run.unexcused or (strict and run.failed):
        return 1
    return 0 if run.failed else min(status, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--log", type=Path, required=True, help="the folder of DPL_LOG")
    parser.add_argument("--status", type=int, default=0, help="exit status of dvc repro")
    parser.add_argument("--strict", action="store_true", help="data that cannot be had are a failure too")
    args = parser.parse_args()
    exhibits = list(loaded(Path("params.yaml"))["pipeline"]["exhibits"])
    return told(args.log, args.status, exhibits, args.strict)


if __name__ == "__main__":
    sys.exit(main())
