"""`make repro` when nothing has changed."""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from measure import Options, Row, seconds, verdict

REQUIRED = 10  # seconds
NEEDED = ("params.yaml", "dvc.lock", ".venv/installed")


def rows(options: Options) -> list[Row]:
    reason = obstacle() or warm_up()
    what, required = "make repro with nothing to do", f"< {REQUIRED} s"
    if reason:
        return [Row(what, "skipped", "-", "-", required, "-", "-", reason)]
    took = median(seconds(make_repro) for _ in range(options.runs))
    how = f"wall time, median of {options.runs}, after one warm-up"
    return [
        Row(what, f"{took:.1f} s", "-", "-", required, verdict(took < REQUIRED), str(options.threads), how)
    ]


def obstacle() -> str:
    """Why `make repro` would do work, "" if it would not; nothing is run or changed to find out."""
    if absent := [name for name in NEEDED if not Path(name).exists()]:
        return f"{' and '.join(absent)} absent: run make repro first"
    if command("make", "-q", NEEDED[-1]).returncode:
        return "the environment is older than requirements.lock: run make setup first"
    python = ".venv/bin/python"
    if command(python, "-m", "dplangevin.pipeline.config", "--check").returncode:
        return "params.yaml is out of step with conf/: run make repro first"
    dry = command(python, "-m", "dvc", "repro", "--dry", "--allow-missing")
    if dry.returncode or "Running stage" in dry.stdout:
        return "results are out of date: run make repro first"
    return ""


def warm_up() -> str:
    """Run it once; why that was not a run with nothing to do, "" if it was."""
    run = make_repro()
    if run.returncode:
        return last_line(run.stderr)
    return "" if "Running stage" not in run.stdout else "the first run made something: try again"


def make_repro() -> subprocess.CompletedProcess[str]:
    return command("make", "repro")


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run to the end in a clean make environment, output captured."""
    env = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    }
    return subprocess.run(words, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def last_line(text: str) -> str:
    lines = text.strip().splitlines() or [f"failed without a message under {sys.executable}"]
    return lines[-1]
