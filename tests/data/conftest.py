"""Small raw files in the official formats."""

from pathlib import Path

import pytest

from dplangevin.data import miniature


@pytest.fixture(scope="session")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every data set that is not bundled: of CIFAR-10 five training batches of 60 images and 100 test images."""
    folder = tmp_path_factory.mktemp("mirror")
    miniature.write(folder)
    return folder


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to a server of the test's own go to it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Where the files of a data set "toy" are to be."""
    return tmp_path / "raw" / "toy"
