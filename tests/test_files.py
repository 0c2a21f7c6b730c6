import errno
import pickle
from pathlib import Path

import pytest

from dplangevin.files import Checkpoint, ExistingFile, atomic_path


def test_a_file_that_is_here_is_its_content_elsewhere(tmp_path: Path) -> None:
    """Until nobody needs it: the rows of a table of one's own are nowhere left."""
    (tmp_path / "rows.npz").write_bytes(b"rows")
    file = pickle.loads(pickle.dumps(ExistingFile(tmp_path / "rows.npz")))
    (tmp_path / "rows.npz").unlink()
    copy = file()
    assert copy.read_bytes() == b"rows"
    del file
    assert not copy.parent.exists()


def test_state_of_another_computation_is_not_picked_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pt"
    assert Checkpoint(path, "key").load() is None
    Checkpoint(path, "key").save(lambda: {"step": 1}, force=True)
    assert Checkpoint(path, "other").load() is None
    assert capsys.readouterr().err == ""


def test_written_only_when_time_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("dplangevin.files.time.monotonic", lambda: now)
    checkpoint = Checkpoint(tmp_path / "a.pt", "key", every=30)
    checkpoint.save(lambda: {"step": 1})
    assert not checkpoint.path.exists()
    now = 130.0
    checkpoint.save(lambda: {"step": 2})
    now = 159.0
    checkpoint.save(lambda: {"step": 3})
    assert checkpoint.load() == {"step": 2}
    checkpoint.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "named"), [(errno.ENOSPC, True), (errno.EACCES, False)])
def test_advice_keeps_the_error_that_it_is_for(tmp_path: Path, number: int, named: bool) -> None:
    first = OSError(number, "no")
    with pytest.raises(OSError, match="no") as found, atomic_path(tmp_path / "a"):
        raise first
    assert found.value.__cause__ is (first if named else None)
    assert ("free some space" in str(found.value)) is named
