"""Run every stage at scale=smoke in a temporary copy of the working tree, from no results and no data."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import copy2

import miniature
from omegaconf import OmegaConf

RESULTS = ("results/", "dvc.lock", "params.yaml")


def copy_tree(source: Path, target: Path, leave_out: Sequence[str] = ()) -> None:
    """Copy what git tracks or does not ignore, except names that begin with one of `leave_out`."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=source, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if not name.startswith(tuple(leave_out)) and (source / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(source / name, target / name)


def set_scale(path: Path, scale: str) -> None:
    """Choose a file of conf/scale/ in the defaults list of conf/config.yaml."""
    cfg = OmegaConf.load(path)
    for entry in cfg.defaults:
        if "scale" in entry:
            entry.scale = scale
    OmegaConf.save(cfg, path)


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="smoke-") as name:
        copy_tree(Path.cwd(), Path(name), RESULTS)
        set_scale(Path(name) / "conf/config.yaml", "smoke")
        miniature.write(mirror := Path(name) / "data/miniature")  # what conf/scale/smoke.yaml names
        command = [sys.executable, "pipelines/repro.py", "--strict"]
        # a second worker would take longer to start than to do its work
        env = {"DPL_WORKERS": "1", **os.environ, "DATA_MIRROR": str(mirror)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # else each stage would compile the package again
        code = subprocess.run(command, cwd=name, env=env).returncode
    print(f"Smoke run {'failed' if code else 'finished'} after {time.monotonic() - started:.0f} s.")
    return code


if __name__ == "__main__":
    sys.exit(main())
