"""Compose conf/, run `dvc repro --keep-going` and print a summary: this is `make repro`.

A run that is interrupted also ends DVC and its stages. The stage of one that is killed ends with its next task.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dplangevin.papers.claims import tally
from dplangevin.pipeline import config, lock
from dplangevin.pipeline.cache import RECOMPUTE

EXHIBITS, CLAIMS = Path("results/exhibits"), Path("results/claims.csv")


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--exhibit", metavar="ID", help="only this exhibit and what it needs")
    parser.add_argument("--force", action="store_true", help="run all stages, also those that are up to date")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. pipeline=svhn")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with lock.run(f"make exhibit ID={args.exhibit}" if args.exhibit else "make repro"):
            return config.main(args.overrides) or reproduce(args)
    except (config.ConfigError, lock.LockError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted. Finished tasks are kept; the next run continues from there.", file=sys.stderr)
        return 130


def reproduce(args: argparse.Namespace) -> int:
    """Run `dvc repro` and print the summary; return the exit status of DVC."""
    command, started = [sys.executable, "-m", "dvc", "repro", "--keep-going"], time.time()
    env = {**os.environ, "DPL_PYTHON": sys.executable, config.SET: shlex.join(args.overrides)}
    exhibits = list(config.load().pipeline.exhibits)
    if args.exhibit is not None:
        exhibits = [config.one_of(exhibits, args.exhibit, "exhibit")]
        command.append(f"render@{args.exhibit}")
    env |= {RECOMPUTE: "1"} if args.force else {}
    command += ["--force"] * args.force
    dvc = subprocess.Popen(command, env=env, process_group=0)  # no Ctrl-C reaches it
    try:
        status = dvc.wait()
    except KeyboardInterrupt:
        os.killpg(dvc.pid, signal.SIGTERM)
        dvc.wait()
        raise
    end = "DVC names above what failed." if status else "Nothing failed."
    print(*summary(exhibits, started), end, sep="\n")
    return status


def summary(exhibits: Sequence[str], started: float) -> list[str]:
    """Return the exhibits that were made since, with the verdicts of the claims that they show."""
    claims, lines = tally.read(CLAIMS), ["", *tally.LEGEND, ""]
    figures = {name: EXHIBITS / name / f"{name}.png" for name in exhibits}
    made = {name: path for name, path in figures.items() if path.exists() and path.stat().st_mtime > started}
    for name, path in (made or figures if len(figures) == 1 else made).items():
        lines.append(f"{path}: {tally.marks(each for each in claims if name in tally.shown_by(each))}")
    return [*lines, f"Exhibits: {len(made)} of {len(figures)} made now. What differs: git status results"]


if __name__ == "__main__":
    sys.exit(main())
