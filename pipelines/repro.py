"""Compose conf/, run `dvc repro --keep-going` and print a summary: this is `make repro`.

python pipelines/repro.py [--exhibit ID] [--force] [OVERRIDE ...]

A checkout has one run at a time. A run that is interrupted also ends DVC and its stages. The stage of a run that is
killed ends when the next task is finished. Finished tasks are kept.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shutil import copy2

import summary
from filelock import FileLock

from dplangevin.pipeline import config, lock
from dplangevin.pipeline.cache import RECOMPUTE
from dplangevin.pipeline.config import ConfigError
from dplangevin.text import meant

LOCK = Path("dvc.lock")
COPY = Path(".dvc/tmp/dvc.lock")  # dvc.lock as it was before the last run
DEMO = "ryffel2022_counterexample"  # of which the first run of a clone computes a task again
HELD, GUARD = Path(".dvc/tmp/rwlock"), Path(".dvc/tmp/rwlock.lock")  # DVC: who reads or writes which file


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--exhibit", metavar="ID", help="only this exhibit and what it needs")
    parser.add_argument("--force", action="store_true", help="run all stages, also those that are up to date")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. pipeline=svhn")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    name = f"make exhibit ID={args.exhibit}" if args.exhibit else "make repro"
    try:
        with lock.run(name):
            return config.main(args.overrides) or reproduce(args)
    except (ConfigError, lock.LockError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        print("Interrupted. Finished tasks are kept; the next run continues from there.", file=sys.stderr)
        return 130


def reproduce(args: argparse.Namespace) -> int:
    """Run `dvc repro` and print the summary; return the exit status."""
    pipeline = config.values(config.PARAMS)["pipeline"]
    exhibits, targets = list(pipeline["exhibits"]), []
    if args.exhibit is not None:
        if args.exhibit not in exhibits:
            name = (
                f"no exhibit {args.exhibit!r}" if args.exhibit else "name one: make exhibit ID=wang2015_fig1c"
            )
            raise ConfigError(f"{name}{meant(args.exhibit, exhibits)}; there are {', '.join(exhibits)}")
        exhibits, targets = [args.exhibit], [f"render@{args.exhibit}"]
    first = not (COPY.exists() or args.force or targets or args.overrides)  # of a clone
    if first and DEMO in pipeline.get("analyses", ()):
        print("A task of the committed results is computed again:", flush=True)
        subprocess.run([sys.executable, "pipelines/verify.py", "--quick", DEMO], check=False)
    mend()
    env = {**os.environ, "DPL_PYTHON": sys.executable, config.SET: shlex.join(args.overrides)}
    if args.force:
        env[RECOMPUTE] = "1"
    command = [sys.executable, "-m", "dvc", "repro", "--keep-going", *["--force"] * args.force, *targets]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        dvc = subprocess.Popen(
            command, env={**env, summary.LOG: str(log)}, process_group=0
        )  # no Ctrl-C reaches it
        try:
            status = dvc.wait()
        except KeyboardInterrupt:
            end(dvc)
            raise
        if status and not any((folder / ".git").exists() for folder in (Path.cwd(), *Path.cwd().parents)):
            print("To run DVC without git: dvc config --local core.no_scm true", file=sys.stderr)
        return summary.report(log, status, exhibits)


def end(dvc: subprocess.Popen[bytes]) -> None:
    """End DVC and its stages; `mend` mends what DVC was writing."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(dvc.pid, number)
        with suppress(subprocess.TimeoutExpired):
            dvc.wait(5)
            return


def mend() -> None:
    """Mend the files that DVC writes in place if it was killed: its list of files in use, and dvc.lock, from a copy."""
    with suppress(OSError), FileLock(GUARD, timeout=20):  # DVC holds this lock while it writes the list
        try:
            json.loads(HELD.read_text("utf-8"))
        except ValueError:
            HELD.unlink()
            print(f"{HELD} was left by a run that was killed; it is removed.", file=sys.stderr)
    if not LOCK.exists():
        return
    with suppress(ConfigError):
        if "stages" in config.values(LOCK):
            copy2(LOCK, COPY)
            return
    if not COPY.exists():
        raise ConfigError(f"{LOCK} is cut short: `git restore --staged --worktree {LOCK}` brings it back")
    copy2(COPY, LOCK)
    print(f"{LOCK} was cut short by a run that was killed; its copy is taken back.", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
