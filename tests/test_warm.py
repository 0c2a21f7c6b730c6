"""A stage that is forked does what the same command does as a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm
from dvc.stage import run as dvc_run
from dvc.stage.exceptions import StageCmdFailedError

SCRIPT = """
import atexit, json, os, signal, sys
atexit.register(lambda: Path(sys.argv[1] + ".ended").touch())
from pathlib import Path
import helper
Path(sys.argv[1]).write_text(json.dumps([sys.argv, __name__, helper.VALUE, os.environ["MARK"], os.getcwd()]))
if sys.argv[2:] == ["text"]:
    sys.exit("no such thing")
if sys.argv[2:] == ["interrupt"]:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    os.kill(os.getpid(), 2)
if sys.argv[2:] == ["kill"]:
    os.kill(os.getpid(), 9)
if sys.argv[2:] == ["error"]:
    raise ValueError("wrong")
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else None)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[warm.Server]:
    """A server without large libraries would not show that they do no harm; this one has them."""
    server = warm.Server()
    deadline = time.monotonic() + 120
    while not server.is_ready():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield server
    os.close(server.requests)
    assert server.process.wait(timeout=20) == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "pipelines/script.py").write_text(SCRIPT)
    (tmp_path / "src/helper.py").write_text(f"VALUE = {str(tmp_path)!r}")
    return tmp_path


@pytest.mark.parametrize("argument", ["", "0", "3", "69", "text", "interrupt", "kill", "error"])
def test_status_and_surroundings_are_those_of_a_process(
    server: warm.Server, folder: Path, argument: str
) -> None:
    env = {**os.environ, "MARK": argument, "PYTHONPATH": "src"}
    arguments = [argument] if argument else []
    alone = subprocess.run(
        [sys.executable, "pipelines/script.py", "alone", *arguments],
        cwd=folder,
        env=env,
        stderr=subprocess.DEVNULL,
    )
    status = server.run("pipelines/script.py", ["forked", *arguments], env, str(folder))
    expected = {-2: 130}.get(alone.returncode, alone.returncode)  # DVC's word for an interrupt is either
    assert status == expected
    assert (folder / "forked.ended").exists() == (folder / "alone.ended").exists() == (argument != "kill")
    assert (folder / "forked").read_text() == (folder / "alone").read_text().replace("alone", "forked")


def test_other_commands_and_the_first_run_as_ever(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    seen: list[str] = []

    def original(executable: str, cmd: str, **kwargs: object) -> None:
        seen.append(cmd)

    class Fake:
        def is_ready(self) -> bool:
            return True

        def run(self, script: str, argv: list[str], env: dict[str, str], cwd: str) -> int:
            return int(argv[0])

    monkeypatch.setattr(dvc_run, "_run", original)
    monkeypatch.setattr(warm, "Server", Fake)
    warm.install()
    stage = "PYTHONPATH=src python pipelines/run.py {}"
    for _ in range(warm.AFTER):
        dvc_run._run("/bin/sh", stage.format(0), env={}, cwd=folder)
    dvc_run._run("/bin/sh", "PYTHONPATH=src python -m dplangevin.config", env={}, cwd=folder)
    dvc_run._run("/bin/sh", stage.format(0), env={}, cwd=folder)
    assert seen == [stage.format(0)] * warm.AFTER + ["PYTHONPATH=src python -m dplangevin.config"]
    with pytest.raises(StageCmdFailedError) as failed:
        dvc_run._run("/bin/sh", stage.format(69), env={}, cwd=folder)
    assert str(failed.value).endswith("with 69")
