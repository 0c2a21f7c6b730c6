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

from filelock import FileLock
from stage import LOG

from dplangevin.papers.claims import tally
from dplangevin.pipeline import config, lock
from dplangevin.pipeline.cache import RECOMPUTE
from dplangevin.pipeline.config import ConfigError

EXHIBITS, CLAIMS = Path("results/exhibits"), Path("results/claims.csv")
PAGES = {"claims": CLAIMS, "report": Path("results/report/README.md")}  # by stage
NOTHING_RAN = """No stage ran, because nothing that results/ depends on has changed. In a fresh
clone its files are the committed ones.
One figure from raw data, compared with the committed numbers, in two minutes:
  make exhibit ID=wang2015_fig1b FORCE=1"""
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
        exhibits = [config.one_of(exhibits, args.exhibit, "exhibit")]
        targets = [f"render@{args.exhibit}"]
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
        dvc = subprocess.Popen(command, env={**env, LOG: str(log)}, process_group=0)  # no Ctrl-C reaches it
        try:
            status = dvc.wait()
        except KeyboardInterrupt:
            end(dvc)
            raise
        if status and not any((at / ".git").exists() for at in (Path.cwd(), *Path.cwd().parents)):
            print("To run DVC without git: dvc config --local core.no_scm true", file=sys.stderr)
        return report(log, status, exhibits)


def report(path: Path, status: int, exhibits: Sequence[str]) -> int:
    """Print the summary of a run whose stages wrote `path` and whose DVC ended with `status`; return 0 or 1."""
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    ended = {entry["stage"]: entry["status"] for entry in entries if "status" in entry}
    failed = [stage for stage, code in ended.items() if code]
    if status and not failed:
        print(f"DVC failed with exit status {status}; its message is above.", file=sys.stderr)
        return 1
    made = [name for name in exhibits if ended.get(f"render@{name}") == 0]
    lines, claims = [""], tally.read(CLAIMS)
    if shown := made or (exhibits if len(exhibits) == 1 and not failed else []):
        lines += [*tally.LEGEND, "", "Exhibits"]
        for name in shown:
            lines.append(f"  {name}: {EXHIBITS / name / f'{name}.png'}")
            marks = tally.marks(claim for claim in claims if name in tally.shown_by(claim))
            lines += [f"    {marks}"] * bool(marks)
    lines += [f"{page}: made" for stage, page in PAGES.items() if ended.get(stage) == 0]
    if failed:
        why = {entry["stage"]: entry["why"].replace("\n", "\n    ") for entry in entries if "why" in entry}
        lines += ["", "Failed", *(f"  {stage}: {why.get(stage, 'it was killed')}" for stage in failed)]
        lines.append("What needs these stays as it was; DVC names it above.")
    if moved := [f"  {entry['moved']}" for entry in entries if "moved" in entry]:
        lines += ["", "Computed again and compared with the committed numbers", *moved]
    last = "To see what differs from the committed results: git status results" if ended else NOTHING_RAN
    print("\n".join([*lines, "", f"Exhibits: {len(made)} of {len(exhibits)} made now.", last]))
    return int(status > 0)


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
