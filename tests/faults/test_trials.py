"""The table of `make faults`."""

import re
from pathlib import Path
from typing import Any

import pytest
from faults.trials import TRIALS, table


def test_the_table_says_what_came_of_every_trial() -> None:
    def report(outcome: Any, *trials: str, when: Any = "call") -> pytest.TestReport:
        properties = [("trial", trial) for trial in trials]
        return pytest.TestReport(
            "a.py::name", ("a.py", 1, ""), {}, outcome, None, when, user_properties=properties, duration=1.5
        )

    unit = [report("passed", "a damaged unit", when=when) for when in ("setup", "call")]
    failed = report("failed", "threads", "a wrong value")
    rows = table([*unit, failed, report("skipped", "hostile environment"), report("passed")]).splitlines()
    found = {row.split("|")[1].strip(): [cell.strip() for cell in row.split("|")[3:5]] for row in rows}
    assert list(found)[2:] == list(TRIALS)
    assert found["a damaged unit"] == ["holds (1 tests, 0 skipped)", "3.0"]
    assert found["threads"] == found["a wrong value"] == ["FAILS: name", "1.5"]
    assert found["hostile environment"] == ["not tried (1 skipped)", "1.5"]
    assert found["a damaged checkpoint"] == ["not tried (0 skipped)", "0.0"]
    assert len({len(row) for row in rows}) == 1


def test_every_trial_has_a_test_and_every_mark_a_trial() -> None:
    tests = "\n".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert set(re.findall(r'mark\.trial\("([^"]+)"\)', tests)) == set(TRIALS)
