"""The fault trials.  `make faults` runs the tests marked with their names and ends with a table of the outcomes."""

from collections.abc import Sequence

import pytest

# Trial -> what must be
TRIALS = {
    "two runs in one checkout": "the second is refused with pid and time; results are those of their parameters",
    "two runs of different exhibits": "refused, or both right",
    "the driver is killed": "its stages end with their next task; only the run that holds the lock replaces results",
    "a damaged unit": "found by sha256 and size, said in one line, computed again",
    "a damaged checkpoint": "the same",
    "a full disk or a wrong file": "exit 1 with cause and fix; only what no source has is excused",
    "two processes fetch one file": "names of their own; what is renamed is what was checked",
    "a slow or endless mirror": "stops at the stated size and at a deadline; the next source",
    "a broken config file": "exit 2 with file, line and what",
    "a wrong value": "refused when composed, with key, value and domain; in data with line and column",
    "a table of one's own": "the rows and columns that another reader finds, or one line; never a traceback",
    "bombs for decoders": "sha256 before any decoder; named",
    "hostile environment": "works, or one clear line",
    "threads": "the same numbers, whatever the environment says of threads",
    "an unpriced path": "attacks on random neighbours, by law and by precision, show less than the price",
    "200 audits of a right learner": "at most 5 % of them accuse it",
    "the sweep of the docs": "the commands of docs/pipeline.md work in a fresh clone",
    "a worker is lost": "every unit is there, the same bytes, computed once but for those in hand",
}


def table(reports: Sequence[pytest.TestReport]) -> str:
    """The outcome of every trial, of the reports of its tests."""
    rows = [("trial", "must be", "outcome", "seconds")]
    for trial, wanted in TRIALS.items():
        own = [report for report in reports if trial in [value for _, value in report.user_properties]]
        failed = [report.nodeid.partition("::")[2] for report in own if report.failed]
        passed = sum(report.passed and report.when == "call" for report in own)
        skipped = sum(report.skipped for report in own)
        outcome = f"holds ({passed} tests, {skipped} skipped)" if passed else f"not tried ({skipped} skipped)"
        if failed:
            outcome = f"FAILS: {', '.join(failed)}"
        rows.append((trial, wanted, outcome, f"{sum(report.duration for report in own):.1f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    rule = "| " + " | ".join("-" * width for width in widths) + " |"
    return "\n".join([lines[0], rule, *lines[1:]])
