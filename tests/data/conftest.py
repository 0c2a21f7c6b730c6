"""Small raw files in the official formats."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dplangevin import files
from dplangevin.data import miniature


@pytest.fixture(scope="session")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every data set that is not bundled: of CIFAR-10 five training batches of 60 images and 100 test images."""
    folder = tmp_path_factory.mktemp("mirror")
    for group in miniature.MAKERS:
        files.write(folder / group, miniature.files(group))
    return folder


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Where the files of a data set "toy" are to be."""
    return tmp_path / "raw" / "toy"


@pytest.fixture
def copied(mirror: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of the small files of a data set."""
    return lambda key: Path(shutil.copytree(mirror / key, tmp_path / key))
