import json
import os
import subprocess
import sys
from pathlib import Path

import locks
import pytest


def entry(pid: int) -> dict[str, object]:
    return {"pid": pid, "cmd": "dvc repro"}


@pytest.fixture
def ended() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_only_stale_locks_are_cleared(tmp_path: Path, ended: int) -> None:
    table = tmp_path / "rwlock"
    mine, gone = entry(os.getpid()), entry(ended)
    table.write_text(json.dumps({"write": {"a": mine, "b": gone}, "read": {"c": [mine, gone], "d": [gone]}}))
    locks.clear_stale(tmp_path)
    assert json.loads(table.read_text()) == {"write": {"a": mine}, "read": {"c": [mine]}}


def test_lock_of_a_process_number_given_out_again(tmp_path: Path) -> None:
    table = tmp_path / "rwlock"
    table.write_text(json.dumps({"write": {"a": entry(os.getpid())}, "read": {}}))
    os.utime(table, (1e9, 1e9))  # long before this process began
    locks.clear_stale(tmp_path)
    assert json.loads(table.read_text()) == {"write": {}, "read": {}}


def test_lock_table_cut_short(tmp_path: Path) -> None:
    (tmp_path / "rwlock").write_text('{"write": {"a": {"pi')
    locks.clear_stale(tmp_path)
    assert not (tmp_path / "rwlock").exists()
