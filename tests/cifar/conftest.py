"""Small CIFAR files in the official format."""

from pathlib import Path

import miniature
import pytest


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five training batches of 60 images and 100 test images, and the same in CIFAR-100's files."""
    folder = tmp_path_factory.mktemp("mirror")
    miniature.write(folder)
    return folder


@pytest.fixture
def ten(mirror: Path, tmp_path: Path) -> Path:
    """A copy of the small CIFAR-10, to damage."""
    (tmp_path / "cifar10").mkdir()
    for path in (mirror / "cifar10").iterdir():
        (tmp_path / "cifar10" / path.name).write_bytes(path.read_bytes())
    return tmp_path / "cifar10"
