"""Fault trials: real processes, real signals, damaged files.  A report says what a test is a trial of, see `trials`."""

import pytest
from faults.trials import TRIALS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--trial", action="append", default=[], help="run the tests of this trial alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted, kept = config.getoption("--trial", default=[]), []
    for item in items:
        names = [mark.args[0] for mark in item.iter_markers("trial")]
        if unknown := set(names) - set(TRIALS):
            raise pytest.UsageError(f"{item.nodeid}: no trial {unknown}: there are {', '.join(TRIALS)}")
        item.user_properties += [("trial", name) for name in names]
        if not wanted or set(names) & set(wanted):
            kept.append(item)
    items[:] = kept
