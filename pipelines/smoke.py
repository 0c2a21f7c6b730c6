"""Smoke test: `make repro` at scale=smoke in a copy of the working tree without results and data."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copy2


def copy_tree(source: Path, target: Path, leave_out: tuple[str, ...] = ()) -> None:
    """Copy the files that git tracks or does not ignore, except names that begin with one of `leave_out`."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=source, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, names.split("\0")):
        if not name.startswith(leave_out) and (source / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(source / name, target / name)


if __name__ == "__main__":
    env = {"DPL_WORKERS": "1", "OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": "src"}
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(Path(), Path(folder), ("results/", "data/manifest/", "dvc.lock", "params.yaml"))
        Path(folder, ".dvc/config.local").write_text("[core]\n    no_scm = true\n")
        sys.exit(subprocess.call([sys.executable, "pipelines/repro.py", "scale=smoke"], cwd=folder, env=env))
