"""What the tests of the command line share."""

import errno
import os
from pathlib import Path

import pytest


def full(*_: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file can be written."""
    monkeypatch.setattr("dplangevin.files.os.replace", full)
