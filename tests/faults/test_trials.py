"""The table of `make faults`."""

import re
from pathlib import Path

from faults.trials import TRIALS


def test_every_trial_has_a_test_and_every_mark_a_trial() -> None:
    tests = "\n".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert set(re.findall(r'mark\.trial\("([^"]+)"\)', tests)) == set(TRIALS)
