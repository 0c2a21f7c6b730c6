"""What `make faults` runs: every fault trial, by the tests that are marked with its name, and a table of the outcomes.

    python tests/faults/trials.py            all trials
    python tests/faults/trials.py threads    some of them, by name

Exit status 1 if a trial fails or has no test.
"""

import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

FOLDER = Path(__file__).parent
# Trial -> what must be
TRIALS = {
    "two runs in one checkout": "the second is refused with pid and time; results are those of their parameters",
    "two runs of different exhibits": "refused, or both right",
    "the driver is killed": "its children die with it; only the run that holds the lock replaces results",
    "a damaged unit": "found by sha256 and size, said in one line, computed again",
    "a damaged checkpoint": "the same",
    "a full disk or a wrong file": "exit 1 with cause and fix; only what no source has is excused",
    "two processes fetch one file": "names of their own; what is renamed is what was checked",
    "a slow or endless mirror": "stops at the stated size and at a deadline; the next source",
    "a queue worker is killed": "the documented way back works",
    "a broken config file": "exit 2 with file, line and what",
    "a wrong value": "refused when composed, with key, value and domain; in data with line and column",
    "a table of one's own": "the rows and columns that another reader finds, or one line; never a traceback",
    "bombs for decoders": "sha256 before any decoder; bounded, named",
    "hostile environment": "works, or one clear line",
    "threads": "the same numbers, whatever the environment says of threads",
    "an unpriced path": "attacks on precision and on others' votes, and random neighbours, show less than the price",
    "a worker or a connection is lost": "every unit is there, the same bytes, computed once but for those in hand",
}


class Case(NamedTuple):
    """One test.  fault: why it did not pass, "" if it did; skipped: why it was not run."""

    trial: str
    name: str
    seconds: float
    fault: str
    skipped: str


class Outcome(NamedTuple):
    text: str
    holds: bool
    seconds: float


def run(names: Sequence[str] = ()) -> list[Case]:
    """The trials of these names, or all, as tests in a process of their own on all cores."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-n", "logical", "--dist", "loadfile", "--junitxml", str(report), "-p", "no:cacheprovider"]
        command = [
            sys.executable,
            "-m",
            "pytest",
            str(FOLDER.parent),
            "-m",
            "trial",
            *words,
            *(f"--trial={name}" for name in names),
        ]
        done = subprocess.run(command, cwd=FOLDER.parents[1], check=False)
        if not report.exists():
            sys.exit(done.returncode)
        return read(report)


def read(report: Path) -> list[Case]:
    """The tests of a report in JUnit's format that are of a trial."""
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        told = {kind: case.find(kind) for kind in ("failure", "error", "skipped")}
        said = {kind: each.get("message", kind) for kind, each in told.items() if each is not None}
        fault = said.get("failure") or said.get("error") or ""
        name, seconds = case.get("name", ""), float(case.get("time", 0))
        for each in case.iter("property"):
            if each.get("name") == "trial":
                trial = each.get("value", "")
                found.append(Case(trial, name, seconds, fault, said.get("skipped", "")))
    return found


def outcomes(cases: Sequence[Case]) -> Mapping[str, Outcome]:
    """What came of every trial."""
    found = {}
    for trial in TRIALS:
        own = [case for case in cases if case.trial == trial]
        faults = [case.name for case in own if case.fault]
        skipped = [case.name for case in own if case.skipped]
        if faults:
            text = f"FAILS: {', '.join(faults)}"
        elif len(own) == len(skipped):
            text = "not tried: " + ("no test" if not own else f"skipped {', '.join(skipped)}")
        else:
            text = f"holds ({len(own) - len(skipped)} tests)" + (
                f", {len(skipped)} skipped" if skipped else ""
            )
        holds = not faults and len(own) > len(skipped)
        found[trial] = Outcome(text, holds, sum(case.seconds for case in own))
    return found


def table(found: Mapping[str, Outcome]) -> str:
    rows = [("trial", "must be", "outcome", "seconds")]
    rows += [(name, TRIALS[name], each.text, f"{each.seconds:.1f}") for name, each in found.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]])


def main(names: Sequence[str]) -> int:
    if unknown := [name for name in names if name not in TRIALS]:
        print(f"no trial {', '.join(unknown)}: there are {', '.join(TRIALS)}", file=sys.stderr)
        return 2
    started = time.monotonic()
    found = outcomes(run(names))
    found = {name: each for name, each in found.items() if not names or name in names}
    print(table(found))
    held = sum(each.holds for each in found.values())
    print(f"{held} of {len(found)} hold, after {time.monotonic() - started:.0f} s.")
    return 0 if held == len(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
