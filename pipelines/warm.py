"""Stages as forks of a process that has the large libraries imported, which took most of a short stage's time.

`install` makes DVC hand commands of the form `PYTHONPATH=src python pipelines/NAME.py ARGUMENTS` to a server that forks
a process for each; any other command runs as ever.  The server imports libraries and nothing of this project.  It is
started once a few stages have run, in the background: a run with little to do never has one.
"""

import atexit
import importlib
import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

PREFIX = ["PYTHONPATH=src", "python"]
AFTER = 3  # stages that run as ever before a server is worth its start
LIBRARIES = (
    "torch",
    "pandas",
    "hydra.utils",
    "scipy.stats",
    "scipy.optimize",
    "dp_accounting",
    "joblib",
    "arviz",
)


class Server:
    """The client's side: a process that forks stages, once it has said that it is ready."""

    def __init__(self) -> None:
        theirs, self.requests = os.pipe()
        self.answers, answer = os.pipe()
        command = [sys.executable, __file__, str(theirs), str(answer)]
        self.process = subprocess.Popen(command, pass_fds=(theirs, answer))
        for end in (theirs, answer):
            os.close(end)
        os.set_blocking(self.answers, False)
        self.ready = False

    def is_ready(self) -> bool:
        if not self.ready:
            try:
                self.ready = bool(os.read(self.answers, 1))
            except BlockingIOError:
                return False
            os.set_blocking(self.answers, True)
        return self.ready and self.process.poll() is None

    def run(self, script: str, argv: list[str], env: dict[str, str], cwd: str) -> int:
        """Exit status of a script; that of a signal is negative."""
        request = {"script": script, "argv": argv, "env": env, "cwd": cwd}
        os.write(self.requests, f"{len(text := json.dumps(request).encode())}\n".encode() + text)
        status = b""
        while not status.endswith(b"\n"):
            if not (read := os.read(self.answers, 64)):
                raise RuntimeError("the process that runs stages has died: run again")
            status += read
        return int(status)


def install() -> None:
    """Replace DVC's runner of commands, in this process."""
    from dvc.stage import run as dvc_run
    from dvc.stage.exceptions import StageCmdFailedError

    original, started = dvc_run._run, []
    server: Server | None = None

    def run(executable: str, cmd: str, **kwargs: Any) -> None:
        nonlocal server
        words = shlex.split(cmd)
        started.append(cmd)
        if words[:2] != PREFIX or len(words) < 3 or not words[2].endswith(".py"):
            return original(executable, cmd, **kwargs)
        if server is None and len(started) > AFTER:
            server = Server()
        if server is None or not server.is_ready():
            return original(executable, cmd, **kwargs)
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the stage's to answer
        try:
            env = {**kwargs["env"], "PYTHONPATH": "src"}
            status = server.run(words[2], words[3:], env, str(kwargs["cwd"]))
        finally:
            signal.signal(signal.SIGINT, handler)
        if status:
            raise StageCmdFailedError(cmd, status)

    dvc_run._run = run


def serve(requests: int, answers: int) -> None:
    """Import the libraries, then fork for each request until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in LIBRARIES:
        importlib.import_module(name)
    yaml: Any = importlib.import_module("yaml")
    if yaml.__with_libyaml__:  # OmegaConf derives its loader from this one; Python's takes half a second
        yaml.SafeLoader = yaml.CSafeLoader
    os.write(answers, b"\n")
    stream = os.fdopen(requests, "rb")
    while size := stream.readline():
        request = json.loads(stream.read(int(size)))
        child = os.fork()
        if not child:
            leave(stage(**request))
        os.write(answers, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())


def leave(status: int) -> NoReturn:
    """End a fork as multiprocessing does: what the stage has registered for its end runs, nothing is torn down."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def stage(script: str, argv: list[str], env: dict[str, str], cwd: str) -> int:
    """Run a script in this process as `python script argv` would; its exit status."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = [script, *argv]
    sys.path[:1] = [str(Path(script).parent.resolve()), str(Path("src").resolve())]
    status = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as done:
        if isinstance(done.code, str):
            print(done.code, file=sys.stderr)
        status = done.code if isinstance(done.code, int) else int(done.code is not None)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
        status = 1
    return status


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
