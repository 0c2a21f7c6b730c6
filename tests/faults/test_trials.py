"""The script behind `make faults`, on a report of tests that were not run."""

import re
from pathlib import Path

import pytest
from faults import trials

REPORT = """<testsuites><testsuite>
<testcase name="whole" time="1.5"><properties><property name="trial" value="a damaged unit"/></properties></testcase>
<testcase name="also" time="2"><properties><property name="trial" value="a damaged unit"/></properties></testcase>
<testcase name="both" time="1"><properties><property name="trial" value="threads"/>
<property name="trial" value="a wrong value"/></properties><failure message="1 != 2">...</failure></testcase>
<testcase name="root" time="0"><properties><property name="trial" value="hostile environment"/></properties>
<skipped message="not as root"/></testcase>
<testcase name="early" time="0"><properties><property name="trial" value="a damaged checkpoint"/></properties>
<error message="fixture"/></testcase>
<testcase name="no trial" time="9"/>
</testsuite></testsuites>"""


def test_the_table_says_what_came_of_every_trial(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    found = trials.outcomes(trials.read(tmp_path / "report.xml"))
    assert list(found) == list(trials.TRIALS)
    assert found["a damaged unit"] == trials.Outcome("holds (2 tests)", True, 3.5)
    assert found["threads"] == found["a wrong value"] == trials.Outcome("FAILS: both", False, 1.0)
    assert found["hostile environment"] == trials.Outcome("not tried: skipped root", False, 0.0)
    assert found["a damaged checkpoint"].text == "FAILS: early"
    assert found["a full disk or a wrong file"].text == "not tried: no test"
    lines = trials.table(found).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[2].startswith("| two runs in one checkout ")
    assert sum("| holds (" in line for line in lines) == 1


def test_a_trial_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert trials.main(["thread"]) == 2
    assert "no trial thread: there are two runs in one checkout" in capsys.readouterr().err


def test_every_trial_has_a_test_that_make_faults_finds() -> None:
    tests = "\n".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert set(re.findall(r'mark\.trial\("([^"]+)"\)', tests)) == set(trials.TRIALS)
