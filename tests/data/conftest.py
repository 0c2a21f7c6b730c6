"""Where raw files are to be."""

from pathlib import Path

import pytest


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Where the files of a data set "toy" are to be."""
    return tmp_path / "raw" / "toy"
